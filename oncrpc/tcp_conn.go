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

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/internal/quickack"
	"github.com/nfsrdma/nfsrdma/internal/relief"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A tcpConn is one of a Server's connections. One goroutine at a time has the turn to
// read; see Run.
type tcpConn struct {
	server       *Server
	nc           net.Conn // below TLS, if stream is TLS
	party        *tcpParty
	memory       tcpParts
	peer         Peer
	out          replyQueue
	records      progressCounter // with reserved memory, being received
	writes       progressCounter // replies being written
	lending      atomic.Bool     // the kernel reads from mappings, or is about to
	waitsForDisk atomic.Bool     // a write waits for a disk without the socket, or for a slot to do so
	meter        keepalive.Meter
	leaving      bool // was replaced; guarded by the server's lock

	since        time.Time
	calls        atomic.Uint64 // calls whose first byte has arrived
	inFlight     atomic.Int64  // calls that are not finished
	unqueued     atomic.Int64  // calls whose replies are not in the reply queue
	lastProgress atomic.Int64  // time since Server.startTime when a call was done, or the first call arrived

	ctx         context.Context // for the calls; cancelled if no one waits for their replies
	cancel      context.CancelCauseFunc
	reading     context.Context // derived from ctx; cancelled if no more calls are accepted
	stopReading context.CancelFunc

	// slots has an element for each call that is being received, served or replied to,
	// including the call that Run waits for. Calls that have stepped aside have none.
	slots       chan struct{}
	activeCalls sync.WaitGroup // the received calls, and the reverse calls that are not written yet

	// set by the goroutine with the turn
	in          recordReader
	socket      *quickack.Reader // below in, unless stream is TLS
	turn        relief.Reader
	kinds       relief.Kinds // one for each procedure, or for each Server.Kind value of a procedure
	writing     relief.Kind  // for a flush, in place of a call's kind
	receiving   *tcpCall     // the call that reserveMemory reserves memory for
	hasDeadline bool         // there is a read deadline
	stream      net.Conn     // carries the records: nc, or TLS
	callPeer    *Peer        // the calls' Peer; a new one once stream is TLS
	reverse     *tcpReverse

	security         atomic.Pointer[Security] // stream.Security, for status
	unencryptedNoted bool                     // the Guard was told that stream is unencrypted

	deadlineMu sync.Mutex // held while drain or the reader sets the read deadline
}

var (
	errConnEnd  = errors.New("oncrpc: connection closed")
	errRelieved = errors.New("oncrpc: another goroutine reads")
)

func newTCPConn(s *Server, nc net.Conn, party *tcpParty) *tcpConn {
	c := &tcpConn{since: time.Now(), server: s, nc: nc, party: party, peer: peerOf(nc), slots: make(chan struct{}, maxCalls)}
	c.peer.Cut, c.peer.Conn = c.abort, NewConnection(c.isLost)
	c.stream, c.callPeer, c.reverse = nc, &c.peer, newReverse(c)
	c.peer.Reverse = c.reverse
	c.memory = party.Own.connParts(s)
	c.out.conn, c.out.maxHeld = c, initialHeldReplies
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.reading, c.stopReading = context.WithCancel(c.ctx)
	c.turn.Relieve = func() { s.tasks.Go(c) }
	c.socket = quickack.NewReader(nc)
	c.in = recordReader{br: bufio.NewReaderSize(c.socket, readBuffer), max: s.maxRecord(), reserve: c.reserveMemory}
	c.recordProgress()
	keepalive.Watch(nc)
	return c
}

// peerOf returns a Peer with both ends' addresses.
func peerOf(nc net.Conn) Peer {
	return Peer{Network: "tcp", Addr: addrPort(nc.RemoteAddr()), Local: addrPort(nc.LocalAddr())}
}

// addrPort converts a TCP address. An IPv4-mapped address, as an IPv6 listener reports
// it, becomes plain IPv4, because exports name clients so.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// Run receives calls, and serves short ones, until another goroutine gets the turn to
// read. Then it replies to its last call.
func (c *tcpConn) Run() {
	if !c.flushReplies() { // what the previous reader held back
		return
	}
	for {
		c.acquireSlot()
		cl, err := c.receiveCall()
		if err == errRelieved {
			<-c.slots
			return
		}
		if err != nil {
			c.closeGracefully(err)
			return
		}
		if keepsTurn := c.handleCall(cl); !keepsTurn {
			return
		}
	}
}

// acquireSlot waits for a slot for the next call. Replies that are held back occupy
// slots.
func (c *tcpConn) acquireSlot() {
	select {
	case c.slots <- struct{}{}:
	default:
		c.out.flush()
		c.slots <- struct{}{}
	}
}

// receiveCall waits for the next call. It delivers the replies to reverse calls that
// arrive before, and secures the stream if the client requests that.
func (c *tcpConn) receiveCall() (*tcpCall, error) {
	for {
		cl, err := c.receiveRecord()
		if err != nil {
			return nil, err
		}
		if asks, denial := c.checkProbe(cl); denial != nil {
			c.denyProbe(cl, denial)
			continue
		} else if asks {
			if err := c.secureConn(cl); err != nil {
				return nil, err
			}
			continue
		}
		if !isReply(cl.record.B) {
			c.noteUnencrypted()
			return cl, nil
		}
		record := cl.record
		cl.record = nil
		c.calls.Add(^uint64(0))
		c.unqueued.Add(-1)
		c.inFlight.Add(-1)
		cl.recycle()
		c.activeCalls.Done()
		c.reverse.deliverReply(record)
	}
}

// receiveRecord waits for the next record.
func (c *tcpConn) receiveRecord() (*tcpCall, error) {
	if err := c.reading.Err(); err != nil { // even if a call is buffered
		return nil, err
	}
	if !c.in.isNextReady() && !c.flushReplies() {
		return nil, errRelieved
	}
	if _, err := c.in.br.Peek(1); err != nil { // no time limit
		return nil, err
	}
	c.calls.Add(1)
	if c.inFlight.Add(1) == 1 {
		c.recordProgress()
	}
	if c.hasDeadline = !c.in.isRecordBuffered(); c.hasDeadline {
		c.setReadDeadline(time.Now().Add(recordTimeout))
	}
	c.socket.Within = c.hasDeadline
	c.receiving = c.newCall()
	record, err := c.in.readRecord()
	c.socket.Within = false
	if c.receiving.reserved > 0 {
		c.records.noteEnd()
	}
	if c.hasDeadline {
		c.setReadDeadline(time.Time{})
	}
	if err != nil {
		c.receiving.recycle()
		return nil, err
	}
	c.receiving.record = record
	c.unqueued.Add(1)
	c.activeCalls.Add(1)
	return c.receiving, nil
}

// reserveMemory waits for memory for a call record with n bytes. The wait does not
// count against the peer's deadline.
func (c *tcpConn) reserveMemory(n int) error {
	c.out.flush()
	weight := min(int64(buf.Size(n)), int64(max(connMemoryLimit, c.in.max)))
	if err := c.memory.requests.Acquire(c.reading, weight); err != nil {
		return err
	}
	c.receiving.reserved = weight
	c.records.noteStart()
	if c.hasDeadline {
		c.setReadDeadline(time.Now().Add(recordTimeout))
	}
	return nil
}

// finishCall finishes a call whose reply was written, or that needs no reply.
func (c *tcpConn) finishCall(cl *tcpCall) {
	if cl.reverse != nil {
		<-cl.reverse.unsent
		cl.recycle()
		c.activeCalls.Done()
		return
	}
	releasedSlot, written := cl.releasedSlot, cl.written
	cl.recycle()
	c.recordProgress()
	c.inFlight.Add(-1)
	if !releasedSlot {
		<-c.slots
	}
	c.activeCalls.Done()
	if written != nil {
		close(written)
	}
}

// setReadDeadline sets the socket's read deadline. After drain it does nothing: drain has set a
// deadline in the past, which must stay.
func (c *tcpConn) setReadDeadline(t time.Time) {
	c.deadlineMu.Lock()
	defer c.deadlineMu.Unlock()
	if c.reading.Err() == nil {
		_ = c.nc.SetReadDeadline(t) // fails only if reading fails
	}
}

// drain makes the connection stop receiving calls.
func (c *tcpConn) drain() {
	c.deadlineMu.Lock()
	defer c.deadlineMu.Unlock()
	c.stopReading()
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

// abort closes the connection at once. Only the first cause is kept. When a tenure is over, the
// connection is reset: unsent replies are discarded, and the client does not wait for a FIN.
func (c *tcpConn) abort(cause error) {
	c.peer.Conn.End()
	c.cancel(cause)
	if l, ok := c.nc.(interface{ SetLinger(seconds int) error }); ok && errors.Is(cause, tenure.ErrOver) {
		_ = l.SetLinger(0) // fails on a closed connection
	}
	c.closeSocket()
}

// closeGracefully closes the connection after receiveCall failed with err. The caller
// must have the turn to read. If the peer has sent all its calls, or the connection is
// drained, the outstanding replies are sent first.
func (c *tcpConn) closeGracefully(err error) {
	draining := c.reading.Err() != nil
	c.peer.Conn.End() // no further call arrives
	if !draining && err != io.EOF {
		c.logEnd(err)
		c.abort(err)
	}
	c.out.flush()
	c.reverse.failCalls(err)
	c.activeCalls.Wait()
	if draining {
		c.awaitPeerClose()
	}
	if c.stream != c.nc {
		_ = c.stream.Close() // the peer may have gone
	}
	c.abort(errConnEnd)
	c.server.removeConn(c)
}

// awaitPeerClose closes the stream to the peer and waits a short time for the peer to
// close its own. A close with unread calls would reset the connection, and the last
// replies could be lost.
func (c *tcpConn) awaitPeerClose() {
	if line, ok := c.stream.(interface{ CloseWrite() error }); ok && c.stream != c.nc {
		_ = line.CloseWrite() // sends close_notify inside TLS
	}
	t, ok := c.nc.(*net.TCPConn)
	if !ok || t.CloseWrite() != nil {
		return
	}
	c.deadlineMu.Lock() // drain may set its deadline concurrently
	_ = t.SetReadDeadline(time.Now().Add(lingerTimeout))
	c.deadlineMu.Unlock()
	_, _ = io.Copy(io.Discard, t)
}

// logEnd logs a protocol violation by the peer as a warning, and a network failure at
// debug level.
func (c *tcpConn) logEnd(err error) {
	if c.ctx.Err() != nil {
		return // aborted by this end, which knows the cause
	}
	if errors.Is(err, errRecordLong) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errStalled) {
		c.server.log().Warn("RPC connection closed, because the client violates the protocol or does not respond", "peer", &c.peer, "err", err)
		return
	}
	c.server.log().Debug("RPC connection lost", "peer", &c.peer, "err", err)
}
