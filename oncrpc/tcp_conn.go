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
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/keepalive"
)

// A tcpConn is one connection of a Server. One goroutine at a time has the
// turn to read it; see Run.
type tcpConn struct {
	server  *Server
	nc      net.Conn
	party   *tcpParty
	memory  tcpParts
	peer    Peer
	out     replyQueue
	work    tcpWork
	seen    fairshare.Sight // guarded by the server's lock, as is
	leaving bool            // it has lost its place

	since    time.Time
	calls    atomic.Uint64 // whose first octet has come,
	underWay atomic.Int64  // and of them those that are not done
	moved    atomic.Int64  // when a call was done, or came where there was none, since Server.began

	ctx     context.Context // of the calls; cancelled where nobody waits for their replies
	cancel  context.CancelCauseFunc
	reading context.Context // of ctx; cancelled when no more calls are to be taken
	drained context.CancelFunc

	// slots has an element for each call that is received, served or
	// answered, the one that Run waits for included, but for those that have
	// stepped aside.
	slots chan struct{}
	all   sync.WaitGroup // of the calls that have been received

	// of the goroutine that has the turn
	in    recordReader
	call  *tcpCall // what reserve reserves memory for
	timed bool     // there is a read deadline

	deadline sync.Mutex // held while drain or the reader sets the read deadline
}

var errConnEnd = errors.New("oncrpc: connection ended")

func newTCPConn(s *Server, nc net.Conn, party *tcpParty) *tcpConn {
	c := &tcpConn{since: time.Now(), server: s, nc: nc, party: party, peer: peerOf(nc), slots: make(chan struct{}, maxCalls)}
	c.peer.Cut = c.abort
	c.memory = party.Own.ofConn(s)
	c.out.conn = c
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.reading, c.drained = context.WithCancel(c.ctx)
	c.in = recordReader{br: bufio.NewReaderSize(nc, readBuffer), max: s.maxRecord(), reserve: c.reserve}
	c.moves()
	keepalive.Watch(nc)
	return c
}

// peerOf names both ends.
func peerOf(nc net.Conn) Peer {
	return Peer{Network: "tcp", Addr: addrPort(nc.RemoteAddr()), Local: addrPort(nc.LocalAddr())}
}

// addrPort is an end's address. One of IPv4 that a listener for IPv6 gives out in
// IPv6's clothes is one of IPv4: exports name it so.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// Run receives one call, passes the turn to read on to another goroutine, and
// answers the call. Where there are many calls already it keeps the turn meanwhile.
func (c *tcpConn) Run() {
	for {
		c.slots <- struct{}{}
		cl, err := c.receive()
		if err != nil {
			c.end(err)
			return
		}
		if cl.keeps = !cl.count(); !cl.keeps {
			c.server.tasks.Go(c)
		}
		if kept := c.answer(cl); !kept {
			return
		}
	}
}

// receive waits for the next call.
func (c *tcpConn) receive() (*tcpCall, error) {
	if err := c.reading.Err(); err != nil { // though one may be in the buffer
		return nil, err
	}
	if _, err := c.in.br.Peek(1); err != nil { // for as long as the peer likes
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
		c.work.end()
	}
	if c.timed {
		c.setReadDeadline(time.Time{})
	}
	if err != nil {
		c.call.free()
		return nil, err
	}
	c.call.record = record
	c.all.Add(1)
	return c.call, nil
}

// reserve waits until there is memory for n octets of the call's record. The
// time that this takes is not the peer's fault.
func (c *tcpConn) reserve(n int) error {
	weight := min(int64(buf.Size(n)), int64(max(partOfConn, c.in.max)))
	if err := c.memory.requests.Acquire(c.reading, weight); err != nil {
		return err
	}
	c.call.reserved = weight
	c.work.begin()
	if c.timed {
		c.setReadDeadline(time.Now().Add(recordTimeout))
	}
	return nil
}

// answer serves cl and leaves it to the replies to be written, if there is an
// answer. It tells whether the goroutine has kept the turn to read.
func (c *tcpConn) answer(cl *tcpCall) (kept bool) {
	cl.request.Msg = cl.record.B
	answer := c.server.Handler.Serve(c.ctx, &cl.request, &cl.reply)
	cl.freeRecord()
	kept = cl.keeps
	if answer {
		cl.releaseUnused()
		c.out.put(cl)
	} else {
		c.done(cl)
	}
	return kept
}

// done ends a call that was written or needs no answer.
func (c *tcpConn) done(cl *tcpCall) {
	aside := cl.aside
	cl.free()
	c.moves()
	c.underWay.Add(-1)
	if !aside {
		<-c.slots
	}
	c.all.Done()
}

// setReadDeadline does nothing once the connection is drained: the deadline
// has passed then.
func (c *tcpConn) setReadDeadline(t time.Time) {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	if c.reading.Err() == nil {
		_ = c.nc.SetReadDeadline(t) // fails only where reading fails
	}
}

// drain lets no more calls in.
func (c *tcpConn) drain() {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	c.drained()
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

// abort cuts the connection. The first cause counts.
func (c *tcpConn) abort(cause error) {
	c.cancel(cause)
	c.nc.Close()
}

// end closes the connection for the goroutine that has the turn to read, whose
// receive failed with err. A peer that has sent all its calls, or that is told
// to call no more, gets the answers that are due first.
func (c *tcpConn) end(err error) {
	draining := c.reading.Err() != nil
	if !draining && err != io.EOF {
		c.logEnd(err)
		c.abort(err)
	}
	c.all.Wait()
	if draining {
		c.linger()
	}
	c.abort(errConnEnd)
	c.server.removeConn(c)
}

// linger ends the stream to the peer and waits a little for it to end its own.
// To close with calls unread would reset the connection, and the last replies
// could be lost on the way.
func (c *tcpConn) linger() {
	t, ok := c.nc.(*net.TCPConn)
	if !ok || t.CloseWrite() != nil {
		return
	}
	c.deadline.Lock() // drain may have its own yet to set
	_ = t.SetReadDeadline(time.Now().Add(lingerTimeout))
	c.deadline.Unlock()
	_, _ = io.Copy(io.Discard, t)
}

// logEnd logs what a peer did wrong, and where the log wants it what the
// network did.
func (c *tcpConn) logEnd(err error) {
	if c.ctx.Err() != nil {
		return // whoever has cut it knows why
	}
	if errors.Is(err, errRecordLong) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errStalled) {
		c.server.log().Warn("RPC connection cut", "peer", &c.peer, "err", err)
		return
	}
	c.server.log().Debug("RPC connection lost", "peer", &c.peer, "err", err)
}
