package nfs4server

import (
	"context"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A binding is the sessions that are bound to one connection, so that the end
// of the connection is told to them. Sessions that have ended stay in it until
// they are half of it.
type binding struct {
	mu       sync.Mutex
	over     bool // the connection has ended
	sessions map[*nfs4state.Session]struct{}
	prune    int // the number of sessions at which to look for ended ones
}

// minPrune is the smallest number of sessions at which a binding is pruned: few
// clients have more on one connection.
const minPrune = 16

// follow unbinds a session from the call's connection when the connection ends:
// ctx is the connection's.
func (x *compound) follow(ctx context.Context, s *nfs4state.Session) {
	peer := x.call.Peer
	b := x.server.bound.Load(peer)
	if b == nil {
		stored := false
		b, stored = x.server.bound.LoadOrStore(peer, &binding{sessions: make(map[*nfs4state.Session]struct{}), prune: minPrune})
		if stored {
			context.AfterFunc(ctx, func() { b.unbind(peer) })
		}
	}
	if !b.add(s) {
		s.Unbind(peer)
	}
}

// add adds a session. It returns false if the connection has ended.
func (b *binding) add(s *nfs4state.Session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	b.sessions[s] = struct{}{}
	if len(b.sessions) < b.prune {
		return true
	}
	for s := range b.sessions {
		if s.Ended() {
			delete(b.sessions, s)
		}
	}
	b.prune = max(minPrune, 2*len(b.sessions))
	return true
}

// unbind tells the sessions that their connection, that of peer, has ended.
func (b *binding) unbind(peer *oncrpc.Peer) {
	b.mu.Lock()
	gone := b.sessions
	b.over, b.sessions = true, nil
	b.mu.Unlock()
	for s := range gone {
		s.Unbind(peer)
	}
}
