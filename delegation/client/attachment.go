package client

import (
	"errors"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// An Attachment stands for one of the mount's rpcrdma.Clients: it has one connection at a
// time.
type Attachment struct {
	set  *Set
	now  atomic.Pointer[conn] // nil: none with delegation counters
	last atomic.Uint64        // connection
}

// NewAttachment adds a line. The mount's lines are to be made in the order in which a
// Caller has them, and before any Object.
func (s *Set) NewAttachment() *Attachment {
	l := &Attachment{set: s}
	s.lines = append(s.lines, l)
	return l
}

// Extension returns what the line is to offer to its server.
func (l *Attachment) Extension() *rpcrdma.ExtensionConfig {
	return &rpcrdma.ExtensionConfig{ImmediateRecvs: window, Atomics: true, Delegation: true, Attach: l.attach}
}

// present returns the connection, if there is one on which something may be held.
func (l *Attachment) present() *conn {
	if l.set.spoilt.Load() {
		return nil
	}
	return l.now.Load()
}

// attach begins a connection.
func (l *Attachment) attach(link *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler {
	if !link.Extensions().Delegation {
		return unasked{link}
	}
	c := newConn(l, link)
	l.now.Store(c)
	return c
}

// unasked takes the Immediate Data of a server without delegation counters: it has
// nothing to say.
type unasked struct{ link *rpcrdma.ExtensionConn }

func (u unasked) Immediate([8]byte) { u.link.Abort(errUnasked) }
func (u unasked) Closed(error)      {}

var errUnasked = errors.New("delegation: Immediate Data from a server without delegation counters")
