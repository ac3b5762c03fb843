package nfs4state

import (
	"context"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// maxBackSlots bounds the callbacks of a session that are under way.
const maxBackSlots = 8

// A BackSlot is the right to make one callback (RFC 8881, Section 2.10.6.1). A
// callback whose outcome is unknown is made again with the same Sequence.
type BackSlot struct {
	Slot, Sequence, Highest uint32
}

// openBack gives a new session its back slots.
func (s *Session) openBack() {
	n := min(s.Back.MaxRequests, maxBackSlots)
	s.backSlots, s.backTarget = make(chan BackSlot, n), n
	for i := range n {
		s.backSlots <- BackSlot{Slot: i, Sequence: 1, Highest: n - 1}
	}
}

// TakeBack waits for a back slot. GiveBack must follow.
func (s *Session) TakeBack(ctx context.Context) (BackSlot, error) {
	for {
		select {
		case b := <-s.backSlots:
			if s.mayUse(b) {
				return b, nil
			}
		case <-ctx.Done():
			return BackSlot{}, context.Cause(ctx)
		}
	}
}

// mayUse reports whether the client wants a back slot to be used, and otherwise
// puts it aside.
func (s *Session) mayUse(b BackSlot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Slot > s.backTarget {
		s.idleBack = append(s.idleBack, b)
		return false
	}
	return true
}

// GiveBack gives a back slot back. used says that the client has executed the
// callback: the next one has another sequence ID, and slots above target, as the
// client has answered, are not used any more until a later answer has a higher
// target (RFC 8881, Section 20.9.3).
func (s *Session) GiveBack(b BackSlot, used bool, target uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idleBack = append(s.idleBack, b)
	if used {
		s.idleBack[len(s.idleBack)-1].Sequence++
		s.backTarget = target
	}
	s.idleBack = slices.DeleteFunc(s.idleBack, func(b BackSlot) bool {
		usable := b.Slot <= s.backTarget
		if usable {
			s.backSlots <- b // has room for all
		}
		return usable
	})
}

// Renew renews the client's lease, because the client has answered a callback.
func (s *Session) Renew() {
	now := s.state.config.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = max(s.used, now)
}

// A BackPath is a connection for callbacks to a client: one that is bound to a
// session, or in version 4.0 one that the server makes.
type BackPath struct {
	Callback  Callback  // of version 4.0, as the next: Session is nil
	Principal Principal // that the client ID is of

	Session *Session
	Conn    any // as bound
	Minor   uint32
	Program uint32
	Parms   nfs4.SecParms
	Context BackContext // nil: the client is called with a credential of Parms
}

// A BackContext is a security context by which a client has offered to be called (RFC
// 8881, Section 2.10.8.2).
type BackContext interface {
	// Left returns for how long the context can be used: not at all if that is 0 or
	// less.
	Left() time.Duration
}

// maxContexts bounds the contexts of a session: a client that adds more loses the oldest.
const maxContexts = 16

// addContexts adds contexts in place of those that have ended. The caller holds s.mu,
// unless nobody else has s.
func (s *Session) addContexts(contexts []BackContext) {
	if len(contexts) == 0 {
		return
	}
	var all []BackContext
	if have := s.contexts.Load(); have != nil {
		all = slices.DeleteFunc(slices.Clone(*have), func(c BackContext) bool { return c.Left() <= 0 })
	}
	all = append(all, contexts...)
	all = all[max(0, len(all)-maxContexts):]
	s.contexts.Store(&all)
}

// Contexts returns the contexts by which the client has offered to be called.
func (s *Session) Contexts() []BackContext {
	if contexts := s.contexts.Load(); contexts != nil {
		return *contexts
	}
	return nil
}

// backContext returns the context that can be used for longest, and for how long: nil if
// none can be used.
func (s *Session) backContext() (best BackContext, left time.Duration) {
	for _, c := range s.Contexts() {
		if l := c.Left(); l > left {
			best, left = c, l
		}
	}
	return best, left
}

// BackPaths returns the paths to a client, all of one session together.
func (s *State) BackPaths(id uint64) (paths []BackPath) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := s.clients[id]; {
	case c == nil:
	case c.seq != nil:
		if c.seq.callback.Addr.IsValid() {
			paths = append(paths, BackPath{Callback: c.seq.callback, Principal: c.principal})
		}
	default:
		for _, session := range c.sessions {
			paths = session.appendPaths(paths)
		}
	}
	return paths
}

func (s *Session) appendPaths(paths []BackPath) []BackPath {
	s.mu.Lock()
	defer s.mu.Unlock()
	by, _ := s.backContext()
	if !s.callable(by) {
		return paths
	}
	for conn, dir := range s.conns {
		if dir&nfs4.BindBack != 0 {
			paths = append(paths, BackPath{Session: s, Conn: conn, Minor: s.client.minor, Program: s.cbProgram, Parms: s.secParms, Context: by})
		}
	}
	return paths
}

// callable reports whether the server may use the session's backchannel, by a context
// or a credential that the client has offered. The caller holds s.mu.
func (s *Session) callable(by BackContext) bool {
	return !s.dead && !s.fault.Load() && (by != nil || s.secParms.Sys || s.secParms.None)
}

// callable reports whether c can be called back.
func (c *client) callable() bool {
	if c.seq != nil {
		return c.seq.answers
	}
	return c.paths.Load() > 0 && slices.ContainsFunc(c.sessions, func(s *Session) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		by, _ := s.backContext()
		return s.backs.Load() > 0 && s.callable(by)
	})
}

// MayCallBack reports whether a session's client can be called back.
func (s *State) MayCallBack(session *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return session.client.callable()
}

// Known reports whether there is a client with an ID.
func (s *State) Known(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[id] != nil
}

// BackFault notes that the client answers callbacks of the session in a way that
// the backchannel cannot recover from: the client must make another session (RFC
// 8881, Section 2.10.10.1.3.2).
func (s *Session) BackFault() { s.fault.Store(true) }
