package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A ClientConnConfig configures a requester. The zero value suits most callers.
type ClientConnConfig struct {
	// Inline is the maximum length, in bytes, of a message sent or received
	// without chunks; 0 means 4096. It is rounded down to a multiple of 1024;
	// below 1024 or above 262144 is an error.
	Inline int

	// Credits is the number of calls that may be in flight; 0 means 128; below
	// 0 or above 4096 is an error. The server may grant fewer.
	Credits int

	// NoPrivateData omits the RFC 8797 message. Both thresholds are then 1024
	// bytes.
	NoPrivateData bool

	// Machine is the machine name in AUTH_SYS credentials; "" means the host's.
	Machine string

	// Backchannel serves the calls that the server sends over the same
	// connection (RFC 8167); nil drops them. The context passed to it ends with
	// the connection, and Close waits for Backchannel. The upper-layer programs
	// must tell the server that it may call.
	Backchannel oncrpc.Service

	// BackchannelCredits is the number of such calls that may be in flight; 0
	// means 16; below 0 or above 4096 is an error.
	BackchannelCredits int

	// Extensions are the offers to a server from this project; nil offers
	// nothing, and so does NoPrivateData.
	Extensions *ExtensionConfig
}

func (c *ClientConnConfig) fillAndCheck() error {
	c.Inline = orDefault(c.Inline, defaultInline) &^ 1023
	c.Credits = orDefault(c.Credits, defaultCredits)
	if c.Machine == "" {
		c.Machine, _ = os.Hostname() // no server depends on the name
	}
	switch {
	case c.Inline < cmpriv.MinSize || c.Inline > cmpriv.MaxSize:
		return fmt.Errorf("rpcrdma: inline size %d is not between %d and %d bytes", c.Inline, cmpriv.MinSize, cmpriv.MaxSize)
	case c.Credits < 1 || c.Credits > maxCredits:
		return fmt.Errorf("rpcrdma: %d credits are not between 1 and %d", c.Credits, maxCredits)
	case c.NoPrivateData:
		c.Inline, c.Extensions = cmpriv.MinSize, nil
	}
	return c.fillReverse()
}

// A ClientConn is a requester: it sends calls for any ONC RPC program over one
// RDMA connection, and ends with the connection. A ClientConn does not detect a
// server that is connected but silent; a Client does. ClientConn implements
// oncrpc.Caller.
type ClientConn struct {
	cfg      ClientConnConfig
	conn     rdma.Conn
	sendSize int // maximum message length to the server, in bytes
	recvSize int // maximum message length from the server, in bytes
	peer     cmpriv.Message
	hasPeer  bool
	hdr      wire.Header // header of the reply that is being received
	xids     *oncrpc.XIDs
	received atomic.Uint64 // messages

	line     *oncrpc.Line   // or nil
	extConn  *ExtensionConn // or nil
	reverse  *reverseServer // or nil
	noChunks bool           // calls have no chunks, because they are reverse calls

	mu             sync.Mutex
	calls          map[uint32]*clientCall // calls that hold a credit, by XID
	checks         int                    // number of checks for overdue replies
	granted        int                    // number of credits
	waiting        []*clientCall          // calls waiting for a credit, in order
	freeCalls      []*clientCall          // completed calls, kept for reuse
	nudgeTimer     *time.Timer            // runs until the first reply
	err            error                  // why the connection ended
	done           chan struct{}
	abandonedCalls sync.WaitGroup // abandoned calls that were answered; grows until done is closed
}

var _ oncrpc.Caller = (*ClientConn)(nil)

// DialConn connects to a responder. The address is host and port.
func DialConn(ctx context.Context, d rdma.Dialer, addr string, cfg ClientConnConfig) (*ClientConn, error) {
	if err := cfg.fillAndCheck(); err != nil {
		return nil, err
	}
	return dialConn(ctx, d, addr, cfg, oncrpc.NewXIDs(rand.Uint32()), nil)
}

// dialConn is like DialConn, but with a complete configuration and the XIDs to
// use. line belongs to the Client that owns the connection, or is nil.
func dialConn(ctx context.Context, d rdma.Dialer, addr string, cfg ClientConnConfig, ids *oncrpc.XIDs, line *oncrpc.Line) (*ClientConn, error) {
	c := newClient(cfg, ids)
	c.line = line
	cc := rdma.ConnConfig{Handler: (*clientHandler)(c), PrivateData: c.privateData(), RecvSize: cfg.Inline}
	c.extConn = cfg.Extensions.offerAsRequester(c, &cc)
	conn, err := d.Dial(ctx, addr, cc)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	c.peer, c.hasPeer = cmpriv.Parse(conn.PrivateData())
	c.sendSize = min(cfg.Inline, c.peer.RecvSize) // RFC 8166, Section 3.3.2
	c.recvSize = min(cfg.Inline, c.peer.SendSize)
	c.startReverse()
	c.extConn.startExtensions(conn)
	c.allowReverse()
	c.workAroundSiw(ctx)
	return c, nil
}

func newClient(cfg ClientConnConfig, ids *oncrpc.XIDs) *ClientConn {
	return &ClientConn{
		cfg: cfg, xids: ids, granted: 1, // RFC 8166, Section 3.3.3
		done:  make(chan struct{}),
		calls: make(map[uint32]*clientCall),
	}
}

func (c *ClientConn) privateData() []byte {
	if c.cfg.NoPrivateData {
		return nil
	}
	m := cmpriv.Message{RemoteInvalidation: true, SendSize: c.cfg.Inline, RecvSize: c.cfg.Inline}
	return m.AppendTo(nil)
}

// workAroundSiw works around Linux's siw, which may leave a first message that
// closely follows the MPA Reply in the socket until more data arrives. It waits
// briefly, and prepares a timer that sends a harmless message.
func (c *ClientConn) workAroundSiw(ctx context.Context) {
	select {
	case <-time.After(firstDelay):
	case <-ctx.Done():
	case <-c.done:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nudgeTimer = time.AfterFunc(nudgeAfter, func() {
		_ = c.conn.Post(rdma.WR{Op: rdma.OpWrite}) // zero bytes, no destination
	})
	c.nudgeTimer.Stop() // until the first call
}

// Conn returns the connection below.
func (c *ClientConn) Conn() rdma.Conn { return c.conn }

// Peer returns the server's RFC 8797 parameters. It returns false if the server
// sent none; the standard's defaults then apply.
func (c *ClientConn) Peer() (cmpriv.Message, bool) { return c.peer, c.hasPeer }

// Thresholds returns the maximum message lengths to and from the server, in
// bytes.
func (c *ClientConn) Thresholds() (send, recv int) { return c.sendSize, c.recvSize }

// Credits returns the number of calls that the server currently allows in
// flight.
func (c *ClientConn) Credits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted
}

// Done is closed when the connection has ended.
func (c *ClientConn) Done() <-chan struct{} { return c.done }

// closeCause returns why the connection has ended, or nil.
func (c *ClientConn) closeCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close closes the connection. Calls in flight fail. Close may be called twice.
func (c *ClientConn) Close() error {
	err := c.conn.Close()
	<-c.done
	c.abandonedCalls.Wait()
	c.reverse.waitForCalls()
	return err
}

// ExtensionConn returns the connection's extensions, or nil unless both ends
// belong to this project.
func (c *ClientConn) ExtensionConn() *ExtensionConn {
	if c.extConn == nil || !c.extConn.peerIsOurs {
		return nil
	}
	return c.extConn
}

// A clientHandler handles the connection's events.
type clientHandler ClientConn

// Receive passes a reply to its call. A message that cannot be decoded, or
// matches no call, is dropped (RFC 8166, Section 4.5); its receive is posted
// again, because it belongs to a call that is still waiting.
//
// Receive ignores which memory the message has invalidated: a call deregisters
// all its memory anyway. A server that invalidates another call's memory can no
// longer access it, and harms only itself.
func (h *clientHandler) Receive(m rdma.Recv) {
	c := (*ClientConn)(h)
	c.received.Add(1)
	if m.WithImmediate {
		c.receiveImmediate(m.Immediate)
		return
	}
	body, err := c.hdr.ParseReply(m.Buf.B)
	if isReverse(&c.hdr, body, err, m.Buf.B) {
		c.receiveReverse(body, err, m.Buf)
		return
	}
	var o *clientCall
	if err == nil {
		o = c.takeCall(&c.hdr)
	}
	switch {
	case o == nil:
		m.Buf.Release()
		_ = c.conn.PostRecv(1) // an error means that the connection is closing
	case o.abandoned:
		m.Buf.Release()
		c.abandonedCalls.Go(o.releaseAll) // may wait for the server's reads, which the reader must not
	default:
		o.outcomes <- o.acceptReply(&c.hdr, body, m.Buf)
	}
}

// takeCall finds a reply's call, and releases the call's credit. It ignores
// replies to calls that were not sent yet, because XIDs are easy to guess.
func (c *ClientConn) takeCall(h *wire.Header) *clientCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.calls[h.XID]
	if o == nil || !o.sent {
		return nil
	}
	if c.nudgeTimer != nil {
		c.nudgeTimer.Stop()
		c.nudgeTimer = nil
	}
	// A grant of 0 would block all calls forever (Section 3.3.1). An RDMA_ERROR
	// does not identify its direction (RFC 8167, Section 4.1).
	if h.Proc != wire.Error {
		c.granted = int(min(max(1, h.Credit), uint32(c.cfg.Credits)))
	}
	c.removeLocked(o)
	return o
}

// Closed fails all calls.
func (h *clientHandler) Closed(err error) {
	c := (*ClientConn)(h)
	c.mu.Lock()
	if err == nil {
		err = errors.New("closed")
	}
	c.err = fmt.Errorf("rpcrdma: %w: %w", rdma.ErrClosed, err)
	calls, waiting, reverse := c.calls, c.waiting, c.reverse
	c.calls, c.waiting = nil, nil
	if c.nudgeTimer != nil {
		c.nudgeTimer.Stop()
	}
	c.mu.Unlock()
	for _, o := range calls {
		if o.abandoned {
			o.releaseAll()
		} else {
			o.outcomes <- outcome{err: c.err}
		}
	}
	for _, o := range waiting {
		o.wake <- struct{}{}
	}
	c.extConn.handleClosed(err)
	reverse.cancelCalls(err)
	close(c.done)
}
