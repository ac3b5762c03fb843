package rdmatest

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

const (
	defaultRecvSize = 4096

	// inFlight is how many frames may be on their way before the sender waits
	// for the peer, as for a full socket.
	inFlight = 16

	// linger is how long Close waits for a peer that takes nothing.
	linger = 5 * time.Second
)

// A Conn is one end of a connection. It implements rdma.Conn.
type Conn struct {
	cfg   rdma.ConnConfig
	peer  *Conn
	local net.Addr

	regions regions
	in      chan frame    // from the peer
	dead    chan struct{} // closed when the connection ends
	over    chan struct{} // closed when the goroutines of this end are done
	sender  sync.WaitGroup
	turn    atomic.Uint32 // changed by HandOffReader while the reader delivers

	mu         sync.Mutex
	cond       sync.Cond // the sender's: a field below has changed
	unsent     []*request
	pending    []*request // not completed yet, in the order of posting
	responses  []frame
	sent       int // frames
	delivering bool
	byReader   bool  // the reader delivers
	relieved   int   // how often the reader was relieved while delivering
	closing    bool  // Close was called: nothing more is posted
	cause      error // why the connection ended, when dead is closed
	recvs      int

	cutAfter int // frames; negative: never
	delay    time.Duration
	pause    chan struct{} // not nil: the reader waits until it is closed
}

var (
	_ rdma.Conn          = (*Conn)(nil)
	_ rdma.ReaderHandoff = (*Conn)(nil)
)

// A request is a posted work request.
type request struct {
	rdma.WR
	done     bool
	original uint64 // of an atomic operation that is done
}

// answered reports whether r is done only when the peer has answered.
func (r *request) answered() bool { return r.Op == rdma.OpRead || r.Op.Atomic() }

// readLen returns how many bytes an RDMA Read asks for.
func (r *request) readLen() int {
	if r.Sink != nil {
		return r.Sink.Len()
	}
	return len(r.Data[0])
}

// memory returns the destination of a response of n bytes.
func (r *request) memory(n int) []byte {
	switch {
	case r.Sink == nil:
		return r.Data[0]
	case n == 0:
		return nil
	default:
		return r.Sink.Lend()
	}
}

// Pair returns the two ends of a connection that b has accepted. The ends are
// cut when the test ends, if they have not ended before.
func Pair(t testing.TB, a, b rdma.ConnConfig) (*Conn, *Conn) {
	t.Helper()
	ca, cb := newConn(a, 1), newConn(b, 2)
	if b.Prepare != nil {
		cb.cfg.PrivateData = b.Prepare(cb)
	}
	join(ca, cb)
	t.Cleanup(func() { cut(ca, cb) })
	return ca, cb
}

func newConn(cfg rdma.ConnConfig, host byte) *Conn {
	if cfg.RecvSize == 0 {
		cfg.RecvSize = defaultRecvSize
	}
	c := &Conn{
		cfg: cfg, recvs: cfg.Recvs, cutAfter: -1,
		local: &net.TCPAddr{IP: net.IPv4(192, 0, 2, host), Port: 20049},
		in:    make(chan frame, inFlight), dead: make(chan struct{}), over: make(chan struct{}),
	}
	c.cond.L = &c.mu
	return c
}

// join starts a connection.
func join(a, b *Conn) {
	a.peer, b.peer = b, a
	for _, c := range []*Conn{a, b} {
		go c.run()
	}
}

// cut ends a connection and waits until its goroutines are done.
func cut(a, b *Conn) {
	a.Abort(ErrCut)
	<-a.over
	<-b.over
}

// Register lets the peer reach b.
func (c *Conn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	return c.RegisterAt(b, access, c.regions.next())
}

// RegisterAt is Register with the STag and the offset of the first byte chosen
// by the caller, for messages that were recorded elsewhere.
func (c *Conn) RegisterAt(b []byte, access rdma.Access, at rdma.Remote) (rdma.Region, error) {
	select {
	case <-c.dead:
		return nil, c.closedError()
	default:
		return c.regions.register(b, access, at)
	}
}

// Post queues work requests.
func (c *Conn) Post(wrs ...rdma.WR) error {
	for i := range wrs {
		op, n, sink := wrs[i].Op, len(wrs[i].Data), wrs[i].Sink != nil
		if op == rdma.OpRead && (n == 1) == sink || op > rdma.OpRead && n > 0 || op > rdma.OpImmediate || op != rdma.OpRead && sink {
			return fmt.Errorf("rdmatest: %v with %d data slices, sink: %v", op, n, sink)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.cause != nil {
		return c.closedErrorLocked()
	}
	for _, wr := range wrs {
		r := &request{WR: wr}
		c.unsent, c.pending = append(c.unsent, r), append(c.pending, r)
	}
	c.cond.Signal()
	return nil
}

// PostRecv lets the peer send n more messages.
func (c *Conn) PostRecv(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.closedErrorLocked()
	}
	c.recvs += n
	return nil
}

// PrivateData returns the private data of the peer's configuration.
func (c *Conn) PrivateData() []byte { return c.peer.cfg.PrivateData }

// LocalAddr returns an address of no network.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.peer.local }

// Close sends the posted work and ends the connection.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.cond.Signal()
	c.mu.Unlock()
	late := time.NewTimer(linger)
	defer late.Stop()
	select {
	case <-c.over:
	case <-late.C:
		c.Abort(io.EOF)
		<-c.over
	}
	return nil
}

// Abort ends the connection at both ends, and discards frames on their way.
func (c *Conn) Abort(cause error) {
	c.end(cause)
	c.peer.end(fmt.Errorf("%w by the peer: %w", ErrCut, cause))
}

// end ends this end of the connection. The first cause stays.
func (c *Conn) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	if cause == nil {
		cause = io.EOF
	}
	c.cause = cause
	close(c.dead)
	c.cond.Signal()
}

func (c *Conn) closedError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closedErrorLocked()
}

func (c *Conn) closedErrorLocked() error {
	if c.cause == nil {
		return fmt.Errorf("rdmatest: %w", rdma.ErrClosed)
	}
	return fmt.Errorf("rdmatest: %w: %w", rdma.ErrClosed, c.cause)
}
