package iwarp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/recorder"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Conn is a connected queue pair over one TCP connection. It implements
// rdma.Conn.
//
//	Post ──▶ sendQueue ──▶ the caller, if there is no writer ──writev──▶ peer
//	             ▲ responses
//	         reader ◀──readv── peer      one goroutine, which also ends the connection
//	           ├──▶ registered memory
//	           └──▶ Handler.Receive
type Conn struct {
	rnic     *rnic
	sock     *socket
	params   mpa.Params
	peer     mpa.Frame
	mulpdu   int // of the sent ULPDUs, in bytes
	handler  rdma.Handler
	recvSize int
	takesImm bool // Immediate Data

	tx      sendQueue
	rx      receiver
	regions regionSet
	domain  *ProtectionDomain  // or nil
	onEnd   func(*Conn, error) // or nil

	mu      sync.Mutex
	cause   error // why the connection ended; io.EOF for an orderly end
	ended   bool  // cause is set
	closing bool  // this end wants an orderly end
	over    chan struct{}
}

var _ rdma.Conn = (*Conn)(nil)

// newConn returns a connection with the parameters that MPA's start-up
// negotiated.
func (d *Device) newConn(s *socket, p mpa.Params, peer mpa.Frame, cc rdma.ConnConfig, responder bool) *Conn {
	c := d.unbound(p, peer, cc, responder)
	c.bind(s, nil)
	return c
}

// unbound returns a connection without a socket, with which memory can be
// registered. As responder the connection sends nothing before the peer's first
// FPDU.
func (d *Device) unbound(p mpa.Params, peer mpa.Frame, cc rdma.ConnConfig, responder bool) *Conn {
	c := &Conn{
		rnic: d.rnic, domain: d.domain, onEnd: d.cfg.Ended,
		params: p, peer: peer,
		handler: cc.Handler, recvSize: cc.RecvSize, takesImm: cc.Immediate,
		over: make(chan struct{}),
	}
	if c.recvSize == 0 {
		c.recvSize = defaultRecvSize
	}
	c.regions.m = make(map[*region]struct{})
	c.tx.idle.L = &c.tx.mu
	c.tx.await = func() { c.pump(true) }
	c.tx.gated = responder
	c.tx.watch.limit = lentTimeout
	c.tx.sinkSTag = rdma.STag(draw() | 1)
	if p.SendMarkers {
		c.tx.perFPDU = mpa.MaxMarkers(mpa.MaxULPDU)
	}
	if d.cfg.longFPDUs(peer) {
		c.mulpdu = mpa.MaxULPDU
	}
	c.rx.init(c, cc.Recvs)
	return c
}

// bind gives the connection its socket, and the recorder of its traffic, or
// nil.
func (c *Conn) bind(s *socket, record *recorder.Recorder) {
	c.sock, s.record = s, record
	if c.mulpdu == 0 {
		c.mulpdu = s.mulpdu(c.params.SendMarkers)
	}
}

// abandon releases a connection that has not been bound.
func (c *Conn) abandon() {
	c.rx.close()
	c.revokeAll()
}

// start registers the connection and starts its reader.
func (c *Conn) start() {
	if l := c.sock.tcp; l != nil {
		l.owner = c
	}
	c.rnic.conns.enter(c)
	go c.read(nil)
}

// PrivateData returns the private data of the peer's MPA start-up frame,
// without the enhanced header if the frame has such a header.
func (c *Conn) PrivateData() []byte { return c.peer.PrivateData }

// LocalAddr returns this end's TCP address.
func (c *Conn) LocalAddr() net.Addr { return c.sock.local }

// RemoteAddr returns the peer's TCP address.
func (c *Conn) RemoteAddr() net.Addr { return c.sock.remote }

// Peer returns the peer's start-up frame, with its offers (RFC 6581, Section
// 9.1).
func (c *Conn) Peer() mpa.Frame { return c.peer }

// Params returns the parameters that MPA's start-up negotiated.
func (c *Conn) Params() mpa.Params { return c.params }

// PostRecv lets the peer send n more messages. A message takes a buffer only
// when its bytes arrive.
func (c *Conn) PostRecv(n int) error {
	if n < 0 {
		return fmt.Errorf("iwarp: %d receives posted", n)
	}
	c.rx.recvs.Add(int64(n))
	return nil
}

// end records why the connection ended; the first cause stays. It reports
// whether this call was the first.
func (c *Conn) end(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.ended, c.cause = true, cause
	return true
}

// closedError returns the error for a use of an ended connection.
func (c *Conn) closedError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil || errors.Is(c.cause, io.EOF) {
		return fmt.Errorf("iwarp: %w", rdma.ErrClosed)
	}
	return fmt.Errorf("iwarp: %w: %w", rdma.ErrClosed, c.cause)
}

// Abort ends the connection at once. If the network can tell the difference,
// the peer sees a lost connection, not a closed connection.
func (c *Conn) Abort(cause error) {
	c.end(cause)
	c.sock.expire(longPast)
}

// Close sends the posted requests and a FIN, waits for the peer's FIN, and for
// the end of all goroutines of c. A peer that does not answer in time is
// disconnected.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.tx.close()
	late := time.AfterFunc(lingerTimeout, func() { c.sock.expire(longPast) })
	defer late.Stop()
	if c.tx.shut() {
		c.sock.closeWrite()
	}
	<-c.over
	return nil
}

// finish is the reader's last duty: it ends the connection in the manner that
// err demands, and informs the upper layer.
func (c *Conn) finish(err error) {
	var fault *Fault
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	isFault := errors.As(err, &fault)
	if werr := c.tx.writeError(); werr != nil && !isFault {
		err = werr
	}
	if closing && !isFault && (isTimeout(err) || isReset(err)) {
		err = io.EOF // the peer did not take part in the orderly end
	}
	c.end(err)
	c.tx.close()
	c.sock.expire(time.Now().Add(lingerTimeout))
	switch {
	case isFault && !fault.Remote:
		if !c.tx.sendTerminate(c, fault) && c.tx.writeError() == nil {
			c.sock.closeWrite()
		}
		discard(c.sock.link, c.rx.scratch()) // a reset would overtake the Terminate
		c.tx.drain()
	case isFault: // the peer has the reason and waits for the FIN
		c.sock.closeWrite()
	case errors.Is(err, io.EOF): // half-closed by the peer: posted requests may still be sent
		c.tx.drain()
		c.sock.closeWrite()
	}
	c.sock.expire(longPast)
	c.tx.drain() // the writer fails now
	c.sock.close()
	c.rx.close()
	c.tx.flush(fmt.Errorf("iwarp: %w: %w", rdma.ErrFlushed, c.closedError()))
	c.revokeAll()
	c.rnic.conns.leave(c)
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	if c.onEnd != nil {
		c.onEnd(c, cause)
	}
	c.handler.Closed(cause)
	close(c.over)
}
