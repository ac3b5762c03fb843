package client

import (
	"errors"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A Line stands for one of the mount's rpcrdma.Lines: it has one connection at a
// time.
type Line struct {
	set  *Set
	now  atomic.Pointer[conn] // nil: none with delegation counters
	last atomic.Uint64        // connection
}

// Line adds a line. The mount's lines are to be made in the order in which a
// Caller has them, and before any Object.
func (s *Set) Line() *Line {
	l := &Line{set: s}
	s.lines = append(s.lines, l)
	return l
}

// Extension returns what the line is to offer to its server.
func (l *Line) Extension() *rpcrdma.ExtensionConfig {
	return &rpcrdma.ExtensionConfig{ImmediateRecvs: window, Atomics: true, Delegation: true, Attach: l.attach}
}

// present returns the connection, if there is one on which something may be held.
func (l *Line) present() *conn {
	if l.set.spoilt.Load() {
		return nil
	}
	return l.now.Load()
}

// attach begins a connection.
func (l *Line) attach(link *rpcrdma.Link) rpcrdma.LinkHandler {
	if !link.Extensions().Delegation {
		return unasked{link}
	}
	c := newConn(l, link)
	l.now.Store(c)
	return c
}

// unasked takes the Immediate Data of a server without delegation counters: it has
// nothing to say.
type unasked struct{ link *rpcrdma.Link }

func (u unasked) Immediate([8]byte) { u.link.Abort(errUnasked) }
func (u unasked) Closed(error)      {}

var errUnasked = errors.New("delegation: Immediate Data from a server without delegation counters")
