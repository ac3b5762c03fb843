package fusefs

// A directory is what the nodes of directories have, and others do not.
type directory struct {
	names map[string]named // that the kernel may know; under the table's lock

	// Under the node's lock.
	sillyCount sillyCount
	negative   negativeNames
	loan       loan
}

// asDir returns what n has as a directory.
func (n *node) asDir() *directory {
	if d := n.directory.Load(); d != nil {
		return d
	}
	n.directory.CompareAndSwap(nil, new(directory))
	return n.directory.Load()
}
