package fusefs

// A negativeNames is the set of names that a directory was seen to lack under a
// grant for the directory. The node's lock guards it.
type negativeNames struct {
	grant uint64
	names map[string]struct{}
}

// grantForName returns the grant under which a name was seen in directory n, or 0.
// A call that began before our change completed may have reached the server before
// that change. A call that itself created the name cannot have, since the kernel
// creates and removes names in a directory one at a time.
func (n *node) grantForName(s sighting) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.grantForNameLocked(s)
}

func (n *node) grantForNameLocked(s sighting) uint64 {
	if s.began < n.grant || !s.made && s.began <= n.changedAt {
		return 0
	}
	return n.grant
}

// recordAbsent records that directory n was seen to lack a name, and returns the grant
// under which it was seen, or 0.
func (n *node) recordAbsent(name string, s sighting) (grant uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	grant = n.grantForNameLocked(s)
	if grant == 0 {
		return 0
	}
	a := &n.directoryState().negative
	if a.grant != grant || len(a.names) >= maxAbsent {
		*a = negativeNames{grant: grant, names: make(map[string]struct{})}
	}
	a.names[name] = struct{}{}
	return grant
}

// forgetAbsent records that directory n may have a name, because one of our changes
// creates it.
func (n *node) forgetAbsent(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.directoryState().negative.names, name)
}

// isKnownAbsent reports whether directory n was seen to lack a name under the given
// grant.
func (n *node) isKnownAbsent(name string, grant uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := &n.directoryState().negative
	_, ok := a.names[name]
	return ok && grant != 0 && a.grant == grant
}
