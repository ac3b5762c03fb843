package nfs4state

import (
	"context"

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
	s.backSlots = make(chan BackSlot, n)
	for i := range n {
		s.backSlots <- BackSlot{Slot: i, Sequence: 1, Highest: n - 1}
	}
}

// TakeBack waits for a back slot. GiveBack must follow.
func (s *Session) TakeBack(ctx context.Context) (BackSlot, error) {
	select {
	case b := <-s.backSlots:
		return b, nil
	case <-ctx.Done():
		return BackSlot{}, context.Cause(ctx)
	}
}

// GiveBack gives a back slot back. used says that the client has executed the
// callback: the next one has another sequence ID.
func (s *Session) GiveBack(b BackSlot, used bool) {
	if used {
		b.Sequence++
	}
	s.backSlots <- b
}

// A BackPath is a connection for callbacks to a client.
type BackPath struct {
	Session *Session
	Conn    any // as bound
	Minor   uint32
	Program uint32
	Parms   nfs4.SecParms
}

// BackPaths returns the paths to the client of a delegation, all of one session
// together.
func (s *State) BackPaths(d *Delegation) (paths []BackPath) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range d.client.sessions {
		paths = session.appendPaths(paths)
	}
	return paths
}

func (s *Session) appendPaths(paths []BackPath) []BackPath {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.fault.Load() {
		return paths
	}
	for conn, dir := range s.conns {
		if dir&nfs4.BindBack != 0 {
			paths = append(paths, BackPath{Session: s, Conn: conn, Minor: s.client.minor, Program: s.cbProgram, Parms: s.secParms})
		}
	}
	return paths
}

// BackFault notes that the client answers callbacks of the session in a way that
// the backchannel cannot recover from: the client must make another session (RFC
// 8881, Section 2.10.10.1.3.2).
func (s *Session) BackFault() { s.fault.Store(true) }
