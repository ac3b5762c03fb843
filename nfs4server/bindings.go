package nfs4server

import (
	"context"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// bindings are the connections that sessions are bound to, so that the end of a
// connection is told to its sessions.
type bindings struct {
	mu    sync.Mutex
	conns map[*oncrpc.Peer]*binding
}

// A binding is the sessions of one connection. Sessions that have ended stay in
// it until they are half of it.
type binding struct {
	sessions map[*nfs4state.Session]struct{}
	prune    int // the number of sessions at which to look for ended ones
}

// minPrune is the smallest number of sessions at which a binding is pruned: few
// clients have more on one connection.
const minPrune = 16

// follow unbinds a session from the call's connection when the connection ends:
// ctx is the connection's.
func (x *compound) follow(ctx context.Context, s *nfs4state.Session) {
	b, peer := &x.server.bound, x.call.Peer
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.conns[peer]
	if c == nil {
		c = &binding{sessions: make(map[*nfs4state.Session]struct{}), prune: minPrune}
		if b.conns == nil {
			b.conns = make(map[*oncrpc.Peer]*binding)
		}
		b.conns[peer] = c
		context.AfterFunc(ctx, func() { b.unbind(peer) })
	}
	c.sessions[s] = struct{}{}
	if len(c.sessions) < c.prune {
		return
	}
	for s := range c.sessions {
		if s.Ended() {
			delete(c.sessions, s)
		}
	}
	c.prune = max(minPrune, 2*len(c.sessions))
}

// unbind tells the sessions of a connection that it has ended.
func (b *bindings) unbind(peer *oncrpc.Peer) {
	b.mu.Lock()
	c := b.conns[peer]
	delete(b.conns, peer)
	b.mu.Unlock()
	for s := range c.sessions {
		s.Unbind(peer)
	}
}
