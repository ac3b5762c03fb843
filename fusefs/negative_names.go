package fusefs

// A negativeNames is the set of names that a directory was seen to lack under a
// grant of the directory. The node's lock guards it.
type negativeNames struct {
	grant uint64
	names map[string]struct{}
}

// grantOf returns the grant under which a name was seen in directory n, or 0. A
// call that began before a change of ours ended may have reached the server
// before that change. A call that itself made the name cannot have, since the
// kernel makes and removes names in a directory one at a time.
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

// lacks records that directory n was seen to lack a name, and returns the grant
// under which it was seen, or 0.
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

// mayHave records that directory n may have a name, because a change of ours
// makes it.
func (n *node) mayHave(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asDir().negative.names, name)
}

// lacking reports whether directory n was seen to lack a name under the given
// grant.
func (n *node) lacking(name string, grant uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := &n.asDir().negative
	_, ok := a.names[name]
	return ok && grant != 0 && a.grant == grant
}
