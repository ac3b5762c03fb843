package client

import (
	"errors"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// An Attachment represents one of the mount's rpcrdma.Clients. An Attachment
// has one connection at a time.
type Attachment struct {
	set  *Set
	now  atomic.Pointer[conn] // nil: no connection with delegation counters
	last atomic.Uint64        // id of the latest connection
}

// NewAttachment adds an Attachment. The caller must make the mount's
// Attachments in the order of the Caller's lines, and before any Object.
func (s *Set) NewAttachment() *Attachment {
	l := &Attachment{set: s}
	s.lines = append(s.lines, l)
	return l
}

// Extension returns the configuration that the Attachment offers to its server.
func (l *Attachment) Extension() *rpcrdma.ExtensionConfig {
	return &rpcrdma.ExtensionConfig{ImmediateRecvs: window, Atomics: true, Delegation: true, Attach: l.attach}
}

// present returns the connection, or nil if there is no connection on which a
// delegation may be held.
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

// unasked handles a connection whose server has no delegation counters. Such a
// server must not send Immediate Data, so unasked aborts the connection if any
// arrives.
type unasked struct{ link *rpcrdma.ExtensionConn }

func (u unasked) Immediate([8]byte) { u.link.Abort(errUnasked) }
func (u unasked) Closed(error)      {}

var errUnasked = errors.New("delegation: Immediate Data from a server without delegation counters")
