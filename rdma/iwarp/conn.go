package iwarp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/recorder"
)

// A Conn is a connected queue pair over one TCP connection. It implements
// rdma.Conn.
//
//	Post ──▶ sendQueue ──▶ the caller, if there is no writer ──writev──▶ peer
//	             ▲ responses
//	         reader ◀──readv── peer      one goroutine, which also closes the connection
//	           ├──▶ registered memory
//	           └──▶ Handler.Receive
type Conn struct {
	rnic             *rnic
	sock             *socket
	params           mpa.Params
	peer             mpa.Frame
	mulpdu           int // maximum ULPDU to send, in bytes
	handler          rdma.Handler
	recvSize         int
	acceptsImmediate bool

	tx      sendQueue
	rx      receiver
	regions regionSet
	domain  *ProtectionDomain  // or nil
	onEnd   func(*Conn, error) // or nil
	tenure  *tenure.Tenure     // or nil

	mu      sync.Mutex
	cause   error // why the connection ended; io.EOF after an orderly close
	ended   bool  // cause is set
	closing bool  // Close was called
	done    chan struct{}
}

var _ rdma.Conn = (*Conn)(nil)

// newConn returns a connection with the parameters that MPA's start-up
// negotiated.
func (d *Device) newConn(s *socket, p mpa.Params, peer mpa.Frame, cc rdma.ConnConfig, responder bool) *Conn {
	c := d.newUnboundConn(p, peer, cc, responder)
	c.bindSocket(s, nil)
	return c
}

// newUnboundConn returns a connection without a socket, with which memory can
// already be registered. A responder sends nothing before the peer's first
// FPDU.
func (d *Device) newUnboundConn(p mpa.Params, peer mpa.Frame, cc rdma.ConnConfig, responder bool) *Conn {
	c := &Conn{
		rnic: d.rnic, domain: d.domain, onEnd: d.cfg.Ended, tenure: d.cfg.Tenure,
		params: p, peer: peer,
		handler: cc.Handler, recvSize: cc.RecvSize, acceptsImmediate: cc.Immediate,
		done: make(chan struct{}),
	}
	if c.recvSize == 0 {
		c.recvSize = defaultRecvSize
	}
	c.regions.m = make(map[*region]struct{})
	c.tx.changed.L = &c.tx.mu
	c.tx.writeAndWait = func() { c.writeBatches(true) }
	c.tx.gated, c.tx.readable, c.tx.hasEnded = responder, makeReadable, c.cannotSend
	c.tx.watch.limit = lentTimeout
	c.tx.sinkSTag = rdma.STag(randomUint32() | 1)
	if p.SendMarkers {
		c.tx.perFPDU = mpa.MaxMarkers(mpa.MaxULPDU)
	}
	if d.cfg.sendsLongFPDUs(peer) {
		c.mulpdu = mpa.MaxULPDU
	}
	c.rx.init(c, cc.Recvs)
	return c
}

// bindSocket sets the connection's socket and its traffic recorder, which may
// be nil.
func (c *Conn) bindSocket(s *socket, record *recorder.Recorder) {
	c.sock, s.record, s.tenure = s, record, c.tenure
	if c.mulpdu == 0 {
		c.mulpdu = s.mulpdu(c.params.SendMarkers)
	}
}

// releaseUnbound releases a connection that never got a socket.
func (c *Conn) releaseUnbound() {
	c.rx.releaseMemory()
	c.revokeAll()
}

// startReader registers the connection and starts its reader.
func (c *Conn) startReader() {
	if l := c.sock.tcp; l != nil {
		l.reader = c
	}
	c.rnic.conns.addConn(c)
	go c.runReader(nil)
}

// PrivateData returns the private data of the peer's MPA start-up frame,
// without its enhanced header, if any.
func (c *Conn) PrivateData() []byte { return c.peer.PrivateData }

// LocalAddr returns the local TCP address.
func (c *Conn) LocalAddr() net.Addr { return c.sock.local }

// RemoteAddr returns the peer's TCP address.
func (c *Conn) RemoteAddr() net.Addr { return c.sock.remote }

// Peer returns the peer's start-up frame, with its offers (RFC 6581, Section
// 9.1).
func (c *Conn) Peer() mpa.Frame { return c.peer }

// Params returns the parameters that MPA's start-up negotiated.
func (c *Conn) Params() mpa.Params { return c.params }

// PostRecv allows the peer to send n more messages. A message gets a buffer
// only when its bytes arrive.
func (c *Conn) PostRecv(n int) error {
	if n < 0 {
		return fmt.Errorf("iwarp: %d receives posted", n)
	}
	c.rx.recvs.Add(int64(n))
	return nil
}

// setCause records why the connection ended, unless a cause is set, and reports
// whether it did.
func (c *Conn) setCause(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.ended, c.cause = true, cause
	return true
}

// hasEnded reports whether the connection has ended.
func (c *Conn) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// cannotSend reports whether the connection can no longer send.
func (c *Conn) cannotSend() bool {
	if l := c.sock.tcp; l != nil {
		return l.expired.Load()
	}
	return c.hasEnded()
}

// closedError returns the error for use after the connection has ended.
func (c *Conn) closedError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil || errors.Is(c.cause, io.EOF) {
		return fmt.Errorf("iwarp: %w", rdma.ErrClosed)
	}
	return fmt.Errorf("iwarp: %w: %w", rdma.ErrClosed, c.cause)
}

// Abort ends the connection immediately. If the network can signal the
// difference, the peer sees a lost connection, not a closed one.
func (c *Conn) Abort(cause error) {
	c.setCause(cause)
	c.sock.expire(longPast)
}

// Close sends the posted requests and a FIN, and waits for the peer's FIN and
// for all of c's goroutines. A peer that does not respond in time is
// disconnected.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.tx.stopPosting()
	lingerTimer := time.AfterFunc(lingerTimeout, func() { c.sock.expire(longPast) })
	defer lingerTimer.Stop()
	if c.tx.drainAndStop() {
		c.sock.closeWrite()
	}
	<-c.done
	return nil
}

// shutDown runs when the reader is done: it closes the connection as err
// requires, and informs the upper layer.
func (c *Conn) shutDown(err error) {
	var fault *Fault
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	isFault := errors.As(err, &fault)
	if werr := c.tx.writeError(); werr != nil && !isFault {
		err = werr
	}
	if closing && !isFault && (isTimeout(err) || isReset(err)) {
		err = io.EOF // the peer did not complete the orderly close
	}
	c.setCause(err)
	c.tx.stopPosting()
	c.sock.expire(time.Now().Add(lingerTimeout))
	switch {
	case isFault && !fault.Remote:
		if !c.tx.sendTerminate(c, fault) && c.tx.writeError() == nil {
			c.sock.closeWrite()
		}
		discard(c.sock.link, c.rx.scratchMemory()) // a reset would overtake the Terminate
		c.tx.waitForWriter()
	case isFault: // the peer has the reason and waits for the FIN
		c.sock.closeWrite()
	case errors.Is(err, io.EOF): // the peer half-closed: posted requests may still be sent
		c.tx.waitForWriter()
		c.sock.closeWrite()
	}
	c.sock.expire(longPast)
	c.tx.waitForWriter() // the writer fails now
	c.sock.close()
	c.rx.releaseMemory()
	c.tx.flushRequests(fmt.Errorf("iwarp: %w: %w", rdma.ErrFlushed, c.closedError()))
	c.revokeAll()
	c.rnic.conns.removeConn(c)
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	if c.onEnd != nil {
		c.onEnd(c, cause)
	}
	c.handler.Closed(cause)
	close(c.done)
}
