package oncrpc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/internal/relief"
)

// A tcpConn is one connection of a Server. One goroutine at a time has the turn
// to read; see Run.
type tcpConn struct {
	server  *Server
	nc      net.Conn // below TLS, if line is that
	party   *tcpParty
	memory  tcpParts
	peer    Peer
	out     replyQueue
	records tcpWork     // with reserved memory, being received
	writes  tcpWork     // of replies
	lending atomic.Bool // the kernel reads from mappings, or is about to
	meter   keepalive.Meter
	leaving bool // has lost its place; guarded by the server's lock

	since    time.Time
	calls    atomic.Uint64 // whose first byte has arrived
	underWay atomic.Int64  // the calls that are not done
	open     atomic.Int64  // the calls whose replies are not in the reply queue
	moved    atomic.Int64  // time since Server.began when a call was done, or the first call arrived

	ctx     context.Context // of the calls; cancelled if no one waits for their replies
	cancel  context.CancelCauseFunc
	reading context.Context // derived from ctx; cancelled if no more calls are taken
	drained context.CancelFunc

	// slots has an element for each call that is being received, served or
	// answered, including the call that Run waits for. Calls that have stepped
	// aside have none.
	slots chan struct{}
	all   sync.WaitGroup // the received calls, and the reverse calls that are not written yet

	// set by the goroutine with the turn
	in      recordReader
	turn    relief.Reader
	kinds   relief.Kinds // one procedure each, or one Server.Kind of a procedure
	writing relief.Kind  // of a flush, in place of a call
	call    *tcpCall     // the call that reserve reserves memory for
	timed   bool         // there is a read deadline
	line    net.Conn     // carries the records: nc, or TLS
	caller  *Peer        // of the calls; another once the line is TLS
	reverse *tcpReverse

	security atomic.Pointer[Security] // of line, for status
	audited  bool                     // the Guard has heard that line is in clear

	deadline sync.Mutex // held while drain or the reader sets the read deadline
}

var (
	errConnEnd  = errors.New("oncrpc: connection ended")
	errRelieved = errors.New("oncrpc: another goroutine reads")
)

func newTCPConn(s *Server, nc net.Conn, party *tcpParty) *tcpConn {
	c := &tcpConn{since: time.Now(), server: s, nc: nc, party: party, peer: peerOf(nc), slots: make(chan struct{}, maxCalls)}
	c.peer.Cut = c.abort
	c.line, c.caller, c.reverse = nc, &c.peer, newReverse(c)
	c.peer.Reverse = c.reverse
	c.memory = party.Own.ofConn(s)
	c.out.conn, c.out.most = c, firstHeld
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.reading, c.drained = context.WithCancel(c.ctx)
	c.turn.Relieve = func() { s.tasks.Go(c) }
	c.in = recordReader{br: bufio.NewReaderSize(nc, readBuffer), max: s.maxRecord(), reserve: c.reserve}
	c.moves()
	keepalive.Watch(nc)
	return c
}

// peerOf returns the addresses of both ends.
func peerOf(nc net.Conn) Peer {
	return Peer{Network: "tcp", Addr: addrPort(nc.RemoteAddr()), Local: addrPort(nc.LocalAddr())}
}

// addrPort returns the address of an end. An IPv4-mapped address, as a listener
// for IPv6 reports it, becomes plain IPv4, because exports name clients so.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// Run receives calls, and serves short ones, until another goroutine gets the
// turn to read. Then it answers its last call.
func (c *tcpConn) Run() {
	if !c.flush() { // what the reader before has held back
		return
	}
	for {
		c.takeSlot()
		cl, err := c.receive()
		if err == errRelieved {
			<-c.slots
			return
		}
		if err != nil {
			c.end(err)
			return
		}
		if kept := c.handle(cl); !kept {
			return
		}
	}
}

// takeSlot waits for a slot for the next call. Replies that are held back have slots.
func (c *tcpConn) takeSlot() {
	select {
	case c.slots <- struct{}{}:
	default:
		c.out.flush()
		c.slots <- struct{}{}
	}
}

// receive waits for the next call. It hands over the replies to reverse calls
// that come before, and makes the line secure if the client asks for that.
func (c *tcpConn) receive() (*tcpCall, error) {
	for {
		cl, err := c.receiveOne()
		if err != nil {
			return nil, err
		}
		if asks, denial := c.asks(cl); denial != nil {
			c.deny(cl, denial)
			continue
		} else if asks {
			if err := c.secure(cl); err != nil {
				return nil, err
			}
			continue
		}
		if !isReply(cl.record.B) {
			c.audit()
			return cl, nil
		}
		record := cl.record
		cl.record = nil
		c.calls.Add(^uint64(0))
		c.open.Add(-1)
		c.underWay.Add(-1)
		cl.free()
		c.all.Done()
		c.reverse.take(record)
	}
}

// receiveOne waits for the next record.
func (c *tcpConn) receiveOne() (*tcpCall, error) {
	if err := c.reading.Err(); err != nil { // even if a call is buffered
		return nil, err
	}
	if !c.in.soon() && !c.flush() {
		return nil, errRelieved
	}
	if _, err := c.in.br.Peek(1); err != nil { // no time limit
		return nil, err
	}
	c.calls.Add(1)
	if c.underWay.Add(1) == 1 {
		c.moves()
	}
	if c.timed = !c.in.buffered(); c.timed {
		c.setReadDeadline(time.Now().Add(recordTimeout))
	}
	c.call = c.newCall()
	record, err := c.in.next()
	if c.call.reserved > 0 {
		c.records.end()
	}
	if c.timed {
		c.setReadDeadline(time.Time{})
	}
	if err != nil {
		c.call.free()
		return nil, err
	}
	c.call.record = record
	c.open.Add(1)
	c.all.Add(1)
	return c.call, nil
}

// reserve waits for memory for n bytes of the call's record. The wait does not
// count against the peer's deadline.
func (c *tcpConn) reserve(n int) error {
	c.out.flush()
	weight := min(int64(buf.Size(n)), int64(max(partOfConn, c.in.max)))
	if err := c.memory.requests.Acquire(c.reading, weight); err != nil {
		return err
	}
	c.call.reserved = weight
	c.records.begin()
	if c.timed {
		c.setReadDeadline(time.Now().Add(recordTimeout))
	}
	return nil
}

// done ends a call whose reply was written, or that needs no reply.
func (c *tcpConn) done(cl *tcpCall) {
	if cl.reverse != nil {
		<-cl.reverse.unsent
		cl.free()
		c.all.Done()
		return
	}
	aside, written := cl.aside, cl.written
	cl.free()
	c.moves()
	c.underWay.Add(-1)
	if !aside {
		<-c.slots
	}
	c.all.Done()
	if written != nil {
		close(written)
	}
}

// setReadDeadline does nothing once the connection is drained, because its
// deadline has passed then.
func (c *tcpConn) setReadDeadline(t time.Time) {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	if c.reading.Err() == nil {
		_ = c.nc.SetReadDeadline(t) // fails only if reading fails
	}
}

// drain stops the receipt of further calls.
func (c *tcpConn) drain() {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	c.drained()
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

// abort cuts the connection. Only the first cause is kept.
func (c *tcpConn) abort(cause error) {
	c.cancel(cause)
	c.close()
}

// end closes the connection after receive failed with err. The caller must have
// the turn to read. If the peer has sent all its calls, or the connection is
// drained, the outstanding replies are sent first.
func (c *tcpConn) end(err error) {
	draining := c.reading.Err() != nil
	if !draining && err != io.EOF {
		c.logEnd(err)
		c.abort(err)
	}
	c.out.flush()
	c.reverse.close(err)
	c.all.Wait()
	if draining {
		c.linger()
	}
	if c.line != c.nc {
		_ = c.line.Close() // the peer may have gone
	}
	c.abort(errConnEnd)
	c.server.removeConn(c)
}

// linger ends the stream to the peer and waits a short time for the peer to end
// its own. A close with unread calls would reset the connection, and the last
// replies could be lost.
func (c *tcpConn) linger() {
	if line, ok := c.line.(interface{ CloseWrite() error }); ok && c.line != c.nc {
		_ = line.CloseWrite() // tells the peer inside of TLS
	}
	t, ok := c.nc.(*net.TCPConn)
	if !ok || t.CloseWrite() != nil {
		return
	}
	c.deadline.Lock() // drain may set its deadline concurrently
	_ = t.SetReadDeadline(time.Now().Add(lingerTimeout))
	c.deadline.Unlock()
	_, _ = io.Copy(io.Discard, t)
}

// logEnd logs a violation by the peer as a warning, and a failure of the
// network at debug level.
func (c *tcpConn) logEnd(err error) {
	if c.ctx.Err() != nil {
		return // cut by our side, which knows the cause
	}
	if errors.Is(err, errRecordLong) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errStalled) {
		c.server.log().Warn("RPC connection cut", "peer", &c.peer, "err", err)
		return
	}
	c.server.log().Debug("RPC connection lost", "peer", &c.peer, "err", err)
}
