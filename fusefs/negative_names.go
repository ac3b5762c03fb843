package fusefs

// A negativeNames is the names that a directory does not have, as was seen under a grant of
// it. It is under the node's lock.
type negativeNames struct {
	grant uint64
	names map[string]struct{}
}

// grantOf returns the grant under which a name was seen in directory n, or 0. A call
// that began before a change of ours ended may have come before it at the server; that
// of a call which made the name may not, since the kernel makes and removes names in a
// directory one at a time.
func (n *node) grantOf(s sight) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.grantOfLocked(s)
}

func (n *node) grantOfLocked(s sight) uint64 {
	if s.began < n.grant || !s.made && s.began <= n.changed {
		return 0
	}
	return n.grant
}

// lacks notes that directory n does not have a name, as was seen, and returns under
// which grant.
func (n *node) lacks(name string, s sight) (grant uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	grant = n.grantOfLocked(s)
	if grant == 0 {
		return 0
	}
	a := &n.asDir().negative
	if a.grant != grant || len(a.names) >= maxAbsent {
		*a = negativeNames{grant: grant, names: make(map[string]struct{})}
	}
	a.names[name] = struct{}{}
	return grant
}

// mayHave notes that directory n may have a name: a change of ours makes it.
func (n *node) mayHave(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asDir().negative.names, name)
}

// lacking tells whether directory n does not have a name, as was seen under a grant.
func (n *node) lacking(name string, grant uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := &n.asDir().negative
	_, ok := a.names[name]
	return ok && grant != 0 && a.grant == grant
}
