package nfs4server

import (
	"context"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// boundSessions are the sessions that are bound to one connection, and must be unbound when it
// closes. Sessions that have ended stay in the set until they make up half of it.
type boundSessions struct {
	mu       sync.Mutex
	isClosed bool // the connection has closed
	sessions map[*nfs4state.Session]struct{}
	pruneAt  int // number of sessions at which to remove ended ones
}

// minPrune is the smallest number of sessions at which the set is pruned: few clients have more
// on one connection.
const minPrune = 16

// unbindOnClose unbinds a session from the call's connection when the connection closes. ctx is
// the connection's.
func (x *compound) unbindOnClose(ctx context.Context, s *nfs4state.Session) {
	peer := x.call.Peer
	b := x.server.boundSessions.Load(peer)
	if b == nil {
		stored := false
		b, stored = x.server.boundSessions.LoadOrStore(peer, &boundSessions{sessions: make(map[*nfs4state.Session]struct{}), pruneAt: minPrune})
		if stored {
			context.AfterFunc(ctx, func() { b.unbindAll(peer) })
		}
	}
	if !b.addSession(s) {
		s.Unbind(peer)
	}
}

// addSession adds a session. It returns false if the connection has closed.
func (b *boundSessions) addSession(s *nfs4state.Session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isClosed {
		return false
	}
	b.sessions[s] = struct{}{}
	if len(b.sessions) < b.pruneAt {
		return true
	}
	for s := range b.sessions {
		if s.Ended() {
			delete(b.sessions, s)
		}
	}
	b.pruneAt = max(minPrune, 2*len(b.sessions))
	return true
}

// unbindAll unbinds all sessions from the connection to peer, which has closed.
func (b *boundSessions) unbindAll(peer *oncrpc.Peer) {
	b.mu.Lock()
	sessions := b.sessions
	b.isClosed, b.sessions = true, nil
	b.mu.Unlock()
	for s := range sessions {
		s.Unbind(peer)
	}
}
