package oncrpc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A connection becomes secure between two calls: the probe's reply is the last that
// leaves in clear, and nothing that was learnt in clear is kept. The goroutine with the
// turn to read makes the handshake, so that nothing is read meanwhile:
//
//	turn ─▶ probe ─▶ reply queue ─▶ written ─▶ handshake ─▶ turn

// errProbe reports a probe that must not be answered (RFC 9289, Section 5.1.1).
var errProbe = errors.New("oncrpc: a client asks for TLS at a moment when it must not")

// asks reports whether a call asks for a secure connection and can have it, or must be
// denied that. On a connection that is secure already, a Mux denies such a call.
func (c *tcpConn) asks(cl *tcpCall) (asks bool, denial error) {
	if c.server.Guard == nil || c.line != c.nc {
		return false, nil
	}
	return c.server.Guard.Probe(cl.record.B)
}

// deny answers a probe that asks in a wrong way. The caller must have the turn to
// read, and keeps it.
func (c *tcpConn) deny(cl *tcpCall, denial error) {
	stat := rpcmsg.AuthBadCred
	errors.As(denial, &stat)
	c.server.Guard.Refused(c.nc, fmt.Errorf("a client asks for TLS in a wrong way: %w", denial))
	cl.reply.Head = rpcmsg.AppendAuthError(cl.reply.Head, binary.BigEndian.Uint32(cl.record.B), stat)
	cl.freeRecord()
	c.out.put(cl, false)
	c.slots <- struct{}{} // for the next call
}

// secure answers a probe, and makes the connection secure unless the answer is a
// denial. The caller must have the turn to read, and keeps it.
func (c *tcpConn) secure(cl *tcpCall) error {
	if n := c.in.br.Buffered(); n > 0 {
		return c.refuse(cl, fmt.Errorf("%w, %w: %d bytes", errProbe, ErrInjected, n))
	}
	if c.open.Load() > 1 { // their replies would come into the handshake
		return c.refuse(cl, fmt.Errorf("%w: other calls are under way", errProbe))
	}
	cl.request.Msg = cl.record.B
	answer := c.server.Handler.Serve(c.ctx, &cl.request, &cl.reply)
	cl.freeRecord()
	ok := false
	if answer {
		cl.reply.Head, ok = c.server.Guard.Answer(cl.reply.Head)
	}
	if ok && !c.reverse.end(errProbe) || !answer {
		return c.refuse(cl, fmt.Errorf("%w: calls in the reverse direction are under way, or the program has no answer", errProbe))
	}
	written := make(chan struct{})
	cl.written = written
	c.out.put(cl, false) // behind all other replies
	<-written
	c.slots <- struct{}{} // for the next call
	if !ok {
		return nil
	}
	return c.handshake()
}

// refuse ends a probe that must not be answered, and returns the cause.
func (c *tcpConn) refuse(cl *tcpCall, cause error) error {
	c.done(cl)
	c.server.Guard.Refused(c.nc, cause)
	return cause
}

// handshake replaces the line, and the peer, about which programs may remember what it
// said in clear.
func (c *tcpConn) handshake() error {
	if err := c.reading.Err(); err != nil {
		return err
	}
	line, err := c.server.Guard.Secure(c.reading, c.nc)
	if err != nil {
		return err
	}
	c.line = line
	c.out.forgetDeadline()
	c.in.br.Reset(line)
	c.security.Store(line.Security())
	c.reverse = newReverse(c)
	c.caller = &Peer{
		Network: c.peer.Network, Addr: c.peer.Addr, Local: c.peer.Local,
		Cut: c.peer.Cut, Reverse: c.reverse, Security: line.Security(),
	}
	return nil
}

// audit tells the Guard once that a connection is in clear, although it could be secure.
func (c *tcpConn) audit() {
	if c.audited || c.server.Guard == nil || c.line != c.nc {
		return
	}
	c.audited = true
	c.server.Guard.InClear(c.nc)
}
