package nfs4state

// EachOpen calls fn for each Open of an object by a session's client, until fn
// returns false. It does so with the State locked.
func (s *State) EachOpen(session *Session, key []byte, fn func(o *Open) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[string(key)]
	if f == nil {
		return
	}
	for _, o := range f.opens {
		if o.client == session.client && !fn(o) {
			return
		}
	}
}
