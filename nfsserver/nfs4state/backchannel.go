package nfs4state

import (
	"context"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// maxBackSlots bounds a session's callbacks in flight.
const maxBackSlots = 8

// A BackSlot permits one callback (RFC 8881, Section 2.10.6.1). A callback
// whose outcome is unknown is sent again with the same Sequence.
type BackSlot struct {
	Slot, Sequence, Highest uint32
}

// initBackSlots creates a new session's back slots.
func (s *Session) initBackSlots() {
	n := min(s.Back.MaxRequests, maxBackSlots)
	s.backSlots, s.backTarget = make(chan BackSlot, n), n
	for i := range n {
		s.backSlots <- BackSlot{Slot: i, Sequence: 1, Highest: n - 1}
	}
}

// AcquireBackSlot waits for a back slot. The caller must call ReleaseBackSlot.
func (s *Session) AcquireBackSlot(ctx context.Context) (BackSlot, error) {
	for {
		select {
		case b := <-s.backSlots:
			if s.mayUseBackSlot(b) {
				return b, nil
			}
		case <-ctx.Done():
			return BackSlot{}, context.Cause(ctx)
		}
	}
}

// mayUseBackSlot reports whether a back slot is within the client's target, and
// otherwise adds it to idleBackSlots.
func (s *Session) mayUseBackSlot(b BackSlot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Slot > s.backTarget {
		s.idleBackSlots = append(s.idleBackSlots, b)
		return false
	}
	return true
}

// ReleaseBackSlot returns a back slot. used says that the client has executed the
// callback: the slot's next callback has a new sequence ID. Slots above target,
// which comes from the client's reply, are not used until a later reply raises
// the target (RFC 8881, Section 20.9.3).
func (s *Session) ReleaseBackSlot(b BackSlot, used bool, target uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idleBackSlots = append(s.idleBackSlots, b)
	if used {
		s.idleBackSlots[len(s.idleBackSlots)-1].Sequence++
		s.backTarget = target
	}
	s.idleBackSlots = slices.DeleteFunc(s.idleBackSlots, func(b BackSlot) bool {
		usable := b.Slot <= s.backTarget
		if usable {
			s.backSlots <- b // has capacity for all
		}
		return usable
	})
}

// Renew renews the client's lease after a reply to a callback.
func (s *Session) Renew() {
	now := s.state.config.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewedAt = max(s.renewedAt, now)
}

// A BackPath is a connection for callbacks to a client. It is bound to a
// session or, in NFSv4.0, opened by the server.
type BackPath struct {
	Callback  Callback  // NFSv4.0 only, like Principal: Session is nil
	Principal Principal // the client ID's

	Session *Session
	Conn    any // passed to Bind
	Minor   uint32
	Program uint32
	Parms   nfs4.SecParms
	Context BackContext // nil: callbacks use a credential from Parms
}

// A BackContext is a security context that a client has offered for callbacks (RFC
// 8881, Section 2.10.8.2).
type BackContext interface {
	// Left returns the time until the context expires. It has expired if that is 0
	// or less.
	Left() time.Duration
}

// maxContexts bounds a session's contexts. Further contexts replace the oldest ones.
const maxContexts = 16

// addContexts adds contexts and removes expired ones. The caller holds s.mu, unless s
// is not yet shared.
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

// Contexts returns the contexts that the client has offered for callbacks.
func (s *Session) Contexts() []BackContext {
	if contexts := s.contexts.Load(); contexts != nil {
		return *contexts
	}
	return nil
}

// longestContext returns the context that expires last, and the time until then. It returns
// nil if all have expired.
func (s *Session) longestContext() (best BackContext, left time.Duration) {
	for _, c := range s.Contexts() {
		if l := c.Left(); l > left {
			best, left = c, l
		}
	}
	return best, left
}

// BackPaths returns the paths to a client, grouped by session.
func (s *State) BackPaths(id uint64) (paths []BackPath) {
	var sessions []*Session
	s.mu.Lock()
	switch c := s.clients[id]; {
	case c == nil:
	case c.v40 != nil:
		if c.v40.callback.Addr.IsValid() {
			paths = append(paths, BackPath{Callback: c.v40.callback, Principal: c.principal})
		}
	default:
		sessions = slices.Clone(c.sessions)
	}
	s.mu.Unlock()
	for _, session := range sessions {
		paths = session.appendPaths(paths)
	}
	return paths
}

func (s *Session) appendPaths(paths []BackPath) []BackPath {
	s.mu.Lock()
	defer s.mu.Unlock()
	by, _ := s.longestContext()
	if !s.canCallBack(by) {
		return paths
	}
	for conn, dir := range s.conns {
		if dir&nfs4.BindBack != 0 {
			paths = append(paths, BackPath{Session: s, Conn: conn, Minor: s.client.minor, Program: s.cbProgram, Parms: s.secParms, Context: by})
		}
	}
	return paths
}

// canCallBack reports whether the server may use the session's backchannel with a
// context or a credential that the client has offered. The caller holds s.mu.
func (s *Session) canCallBack(by BackContext) bool {
	return !s.dead && !s.fault.Load() && (by != nil || s.secParms.Sys || s.secParms.None)
}

// hasBackchannel reports whether the server can call the client back over one of the session's
// connections. The caller holds s.mu.
func (s *Session) hasBackchannel() bool {
	by, _ := s.longestContext()
	return s.backConns.Load() > 0 && s.canCallBack(by)
}

// canCallBack reports whether c can be called back.
func (c *client) canCallBack() bool {
	if c.v40 != nil {
		return c.v40.callbackWorks
	}
	return c.backPaths.Load() > 0 && slices.ContainsFunc(c.sessions, func(s *Session) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.hasBackchannel()
	})
}

// MayCallBack reports whether a session's client can be called back.
func (s *State) MayCallBack(session *Session) bool {
	var h hold
	s.lockClient(session.client, &h, false)
	defer s.unlock(&h)
	return session.client.canCallBack()
}

// HasClient reports whether a client with the ID exists.
func (s *State) HasClient(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[id] != nil
}

// MarkBackFault records an invalid callback reply from which the session's
// backchannel cannot recover. The client must create another session (RFC 8881,
// Section 2.10.10.1.3.2).
func (s *Session) MarkBackFault() { s.fault.Store(true) }
