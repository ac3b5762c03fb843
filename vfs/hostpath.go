package vfs

// A PathFinder is an FS whose objects have paths on the host.
type PathFinder interface {
	// HostPath returns the path on the host of h's object. If removed is set, the object had this
	// path, and exists only because it is open. The error is ESTALE if no path is known. HostPath
	// checks no rights, so the path must not reach a client. It waits for the storage, except for
	// the root's path.
	HostPath(h Handle) (path string, removed bool, err error)
}
