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

	// maxInFlight is the number of frames that may be in flight before the
	// sender waits for the peer, as for a full socket.
	maxInFlight = 16

	// closeTimeout is the time that Close waits for a peer that receives
	// nothing.
	closeTimeout = 5 * time.Second
)

// A Conn is one connection end. It implements rdma.Conn.
type Conn struct {
	cfg   rdma.ConnConfig
	peer  *Conn
	local net.Addr

	regions    regionSet
	in         chan frame    // from the peer
	ended      chan struct{} // closed when the connection ends
	done       chan struct{} // closed when this end's goroutines are done
	sender     sync.WaitGroup
	readerTurn atomic.Uint32 // incremented by HandOffReader while the reader delivers

	mu         sync.Mutex
	cond       sync.Cond // for the sender: a field below has changed
	unsent     []*workRequest
	pending    []*workRequest // not completed yet, in posting order
	responses  []frame
	sentFrames int // frames
	delivering bool
	byReader   bool  // the reader delivers
	handOffs   int   // number of times that the delivering reader was replaced
	closing    bool  // Close was called: nothing more is posted
	cause      error // why the connection ended, once ended is closed
	recvs      int

	cutAfter int // frames; negative: never
	delay    time.Duration
	pause    chan struct{} // not nil: the reader waits until it is closed
}

var (
	_ rdma.Conn          = (*Conn)(nil)
	_ rdma.ReaderHandoff = (*Conn)(nil)
)

// A workRequest is a posted work request.
type workRequest struct {
	rdma.WR
	done     bool
	original uint64 // an atomic operation's result, once done
}

// needsResponse reports whether r completes only with the peer's response.
func (r *workRequest) needsResponse() bool { return r.Op == rdma.OpRead || r.Op.Atomic() }

// readLen returns the number of bytes that an RDMA Read requests.
func (r *workRequest) readLen() int {
	if r.Sink != nil {
		return r.Sink.Len()
	}
	return len(r.Data[0])
}

// destination returns the memory for a response with n bytes.
func (r *workRequest) destination(n int) []byte {
	switch {
	case r.Sink == nil:
		return r.Data[0]
	case n == 0:
		return nil
	default:
		return r.Sink.Lend()
	}
}

// Pair returns the two ends of a connection that b has accepted. The connection
// is cut when the test ends, if it is still open.
func Pair(t testing.TB, a, b rdma.ConnConfig) (*Conn, *Conn) {
	t.Helper()
	ca, cb := newConn(a, 1), newConn(b, 2)
	if b.Prepare != nil {
		cb.cfg.PrivateData = b.Prepare(cb)
	}
	startPair(ca, cb)
	t.Cleanup(func() { breakPair(ca, cb) })
	return ca, cb
}

func newConn(cfg rdma.ConnConfig, host byte) *Conn {
	if cfg.RecvSize == 0 {
		cfg.RecvSize = defaultRecvSize
	}
	c := &Conn{
		cfg: cfg, recvs: cfg.Recvs, cutAfter: -1,
		local: &net.TCPAddr{IP: net.IPv4(192, 0, 2, host), Port: 20049},
		in:    make(chan frame, maxInFlight), ended: make(chan struct{}), done: make(chan struct{}),
	}
	c.cond.L = &c.mu
	return c
}

// startPair starts a connection.
func startPair(a, b *Conn) {
	a.peer, b.peer = b, a
	for _, c := range []*Conn{a, b} {
		go c.run()
	}
}

// breakPair aborts a connection with ErrCut and waits until its goroutines have returned.
func breakPair(a, b *Conn) {
	a.Abort(ErrCut)
	<-a.done
	<-b.done
}

// Register gives the peer access to b.
func (c *Conn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	return c.RegisterAt(b, access, c.regions.nextAddress())
}

// RegisterAt is like Register, but with an STag and first offset chosen by the
// caller, for messages that were recorded elsewhere.
func (c *Conn) RegisterAt(b []byte, access rdma.Access, at rdma.Remote) (rdma.Region, error) {
	select {
	case <-c.ended:
		return nil, c.closedError()
	default:
		return c.regions.addRegion(b, access, at)
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
		r := &workRequest{WR: wr}
		c.unsent, c.pending = append(c.unsent, r), append(c.pending, r)
	}
	c.cond.Signal()
	return nil
}

// PostRecv allows the peer to send n more messages.
func (c *Conn) PostRecv(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.closedErrorLocked()
	}
	c.recvs += n
	return nil
}

// PrivateData returns the private data in the peer's configuration.
func (c *Conn) PrivateData() []byte { return c.peer.cfg.PrivateData }

// LocalAddr returns a documentation address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.peer.local }

// Close sends the posted work and closes the connection.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.cond.Signal()
	c.mu.Unlock()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.Abort(io.EOF)
		<-c.done
	}
	return nil
}

// Abort closes the connection at both ends, and discards frames in flight.
func (c *Conn) Abort(cause error) {
	c.shutDown(cause)
	c.peer.shutDown(fmt.Errorf("%w by the peer: %w", ErrCut, cause))
}

// shutDown closes this end of the connection. The first cause is kept.
func (c *Conn) shutDown(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	if cause == nil {
		cause = io.EOF
	}
	c.cause = cause
	close(c.ended)
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
