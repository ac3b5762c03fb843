package nfs4state

// eachStep is the number of Opens that EachOpen visits while it holds a mutex:
// other clients may have very many.
const eachStep = 256

// EachOpen calls fn for each Open that a session's client, or any client if session is nil, has
// for an object, until fn returns false. fn is called with mutexes held. EachOpen finds every
// Open that exists throughout the call; fn may get one of these twice.
func (s *State) EachOpen(session *Session, key []byte, fn func(o *Open) bool) {
	for at := -1; at != 0; {
		at = s.eachOpenStep(session, key, at, fn)
	}
}

// eachOpenStep visits the eachStep Opens below index at in the file's opens, or
// the last ones if at is -1. It returns the index for the next call. When an Open
// is closed between two calls, the last Open takes its index: it has been visited,
// or is now below at.
func (s *State) eachOpenStep(session *Session, key []byte, at int, fn func(o *Open) bool) int {
	var h hold
	sh := s.shardOf(string(key))
	s.lockShard(sh, &h, false)
	defer s.unlock(&h)
	f := sh.files[string(key)]
	if f == nil {
		return 0
	}
	if at < 0 || at > len(f.opens) {
		at = len(f.opens)
	}
	next := max(at-eachStep, 0)
	for at--; at >= next; at-- {
		h.part.countEntry()
		if o := f.opens[at]; (session == nil || o.client == session.client) && !fn(o) {
			return 0
		}
	}
	return next
}
