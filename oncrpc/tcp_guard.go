package oncrpc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A connection becomes secure between two calls: the probe's reply is the last that is
// sent unencrypted, and nothing learnt before is kept. The goroutine with the turn to
// read performs the handshake, so that nothing else is read during it:
//
//	turn ─▶ probe ─▶ reply queue ─▶ written ─▶ handshake ─▶ turn

// errProbe reports a probe that must not be replied to (RFC 9289, Section 5.1.1).
var errProbe = errors.New("oncrpc: a client requests TLS at a time when it must not")

// checkProbe reports whether a call requests a secure connection, and returns the denial
// if the request is invalid. On a connection that is already secure, a Mux denies such a
// call.
func (c *tcpConn) checkProbe(cl *tcpCall) (asks bool, denial error) {
	if c.server.Guard == nil || c.stream != c.nc {
		return false, nil
	}
	return c.server.Guard.Probe(cl.record.B)
}

// denyProbe replies to an invalid probe. The caller must have the turn to read, and keeps
// it.
func (c *tcpConn) denyProbe(cl *tcpCall, denial error) {
	stat := rpcmsg.AuthBadCred
	errors.As(denial, &stat)
	c.server.Guard.Refused(c.nc, fmt.Errorf("invalid TLS request: %w", denial))
	cl.reply.Head = rpcmsg.AppendAuthError(cl.reply.Head, binary.BigEndian.Uint32(cl.record.B), stat)
	cl.freeRecord()
	c.out.put(cl, false)
	c.slots <- struct{}{} // for the next call
}

// secureConn replies to a probe, and secures the connection unless the reply is a denial.
// The caller must have the turn to read, and keeps it.
func (c *tcpConn) secureConn(cl *tcpCall) error {
	if n := c.in.br.Buffered(); n > 0 {
		return c.rejectProbe(cl, fmt.Errorf("%w, %w: %d bytes", errProbe, ErrInjected, n))
	}
	if c.unqueued.Load() > 1 { // their replies would interleave with the handshake
		return c.rejectProbe(cl, fmt.Errorf("%w: other calls are in flight", errProbe))
	}
	cl.request.Msg = cl.record.B
	answer := c.server.Handler.Serve(c.ctx, &cl.request, &cl.reply)
	cl.freeRecord()
	ok := false
	if answer {
		cl.reply.Head, ok = c.server.Guard.Answer(cl.reply.Head)
	}
	if ok && !c.reverse.closeIfIdle(errProbe) || !answer {
		return c.rejectProbe(cl, fmt.Errorf("%w: reverse calls are in flight, or the program does not reply", errProbe))
	}
	written := make(chan struct{})
	cl.written = written
	c.out.put(cl, false) // after all other replies
	<-written
	c.slots <- struct{}{} // for the next call
	if !ok {
		return nil
	}
	return c.performHandshake()
}

// rejectProbe drops a probe that must not be replied to, and returns the cause.
func (c *tcpConn) rejectProbe(cl *tcpCall, cause error) error {
	c.finishCall(cl)
	c.server.Guard.Refused(c.nc, cause)
	return cause
}

// performHandshake replaces the stream, and the Peer, for which programs may have stored
// what it sent unencrypted.
func (c *tcpConn) performHandshake() error {
	if err := c.reading.Err(); err != nil {
		return err
	}
	line, err := c.server.Guard.Secure(c.reading, c.nc)
	if err != nil {
		return err
	}
	c.stream = line
	c.out.forgetDeadline()
	c.in.br.Reset(line)
	c.security.Store(line.Security())
	c.reverse = newReverse(c)
	c.callPeer = &Peer{
		Network: c.peer.Network, Addr: c.peer.Addr, Local: c.peer.Local,
		Conn: c.peer.Conn, Cut: c.peer.Cut, Reverse: c.reverse, Security: line.Security(),
	}
	return nil
}

// noteUnencrypted tells the Guard once that a connection is unencrypted, although it
// could be secure.
func (c *tcpConn) noteUnencrypted() {
	if c.unencryptedNoted || c.server.Guard == nil || c.stream != c.nc {
		return
	}
	c.unencryptedNoted = true
	c.server.Guard.NoteUnencrypted(c.nc)
}
