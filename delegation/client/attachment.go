package client

import (
	"errors"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// An Attachment represents one of the mount's rpcrdma.Clients. It has one
// connection at a time.
type Attachment struct {
	set     *Set
	current atomic.Pointer[conn] // nil if no connection has delegation counters
	lastID  atomic.Uint64        // the latest connection's id
}

// NewAttachment adds an Attachment. The caller must create the mount's
// Attachments in the order of the Caller's lines, and before any Object.
func (s *Set) NewAttachment() *Attachment {
	l := &Attachment{set: s}
	s.attachments = append(s.attachments, l)
	return l
}

// Extension returns the configuration that the Attachment offers to its server.
func (l *Attachment) Extension() *rpcrdma.ExtensionConfig {
	return &rpcrdma.ExtensionConfig{ImmediateRecvs: maxRecalls, Atomics: true, Delegation: true, Attach: l.attachConn}
}

// usableConn returns the connection, or nil if it cannot hold delegations.
func (l *Attachment) usableConn() *conn {
	if l.set.violated.Load() {
		return nil
	}
	return l.current.Load()
}

// attachConn returns the handler for a new connection.
func (l *Attachment) attachConn(link *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler {
	if !link.Extensions().Delegation {
		return unexpectedHandler{link}
	}
	c := newConn(l, link)
	l.current.Store(c)
	return c
}

// An unexpectedHandler handles a connection whose server has no delegation
// counters. Such a server must not send Immediate Data, so the handler aborts
// the connection if any arrives.
type unexpectedHandler struct{ link *rpcrdma.ExtensionConn }

func (u unexpectedHandler) Immediate([8]byte) { u.link.Abort(errUnexpectedImmediate) }
func (u unexpectedHandler) Closed(error)      {}

var errUnexpectedImmediate = errors.New("delegation: Immediate Data from a server without delegation counters")
