package nfs4state

// eachStep is how many Opens EachOpen looks at while the State is locked: other
// clients may have very many.
const eachStep = 256

// EachOpen calls fn for each Open of an object by a session's client, or by all
// clients if session is nil, until fn returns false. It does so with the State locked. EachOpen finds every Open that
// lasts as long as the call; fn may get one of these twice.
func (s *State) EachOpen(session *Session, key []byte, fn func(o *Open) bool) {
	for at := -1; at != 0; {
		at = s.someOpens(session, key, at, fn)
	}
}

// someOpens is EachOpen for the eachStep Opens below the index at in the file's
// opens, or for the last ones if at is -1. It returns the index for the next
// call. When an Open ends between two calls, the last Open takes its index: it
// has been looked at, or comes to lie below at.
func (s *State) someOpens(session *Session, key []byte, at int, fn func(o *Open) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[string(key)]
	if f == nil {
		return 0
	}
	if at < 0 || at > len(f.opens) {
		at = len(f.opens)
	}
	next := max(at-eachStep, 0)
	for at--; at >= next; at-- {
		if o := f.opens[at]; (session == nil || o.client == session.client) && !fn(o) {
			return 0
		}
	}
	return next
}
