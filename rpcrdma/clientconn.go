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

// A ClientConnConfig configures a requester. The zero value is right for most.
type ClientConnConfig struct {
	// Inline is the length of the longest message sent or received without
	// chunks, in bytes; 0 means 4096. It is rounded down to a multiple of 1024;
	// below 1024 or above 262144 is an error.
	Inline int

	// Credits is the number of calls that may be under way; 0 means 128;
	// below 0 or above 4096 is an error. The server may grant fewer.
	Credits int

	// NoPrivateData omits the message of RFC 8797. Both thresholds are then
	// 1024 bytes.
	NoPrivateData bool

	// Machine is the name that AUTH_SYS credentials carry; "" means the
	// host's.
	Machine string

	// Backchannel answers the calls that the server makes over the same
	// connection (RFC 8167); nil drops them. The context passed to it ends with
	// the connection, and Close waits for Backchannel. The programs must let
	// the server know that it may call.
	Backchannel oncrpc.Service

	// BackchannelCredits is the number of such calls that may be under way;
	// 0 means 16; below 0 or above 4096 is an error.
	BackchannelCredits int

	// Extensions are the offers to a server of this project; nil offers
	// nothing, and so does NoPrivateData.
	Extensions *ExtensionConfig
}

func (c *ClientConnConfig) fill() error {
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

// A ClientConn is a requester: it makes the calls of any ONC RPC program over
// one RDMA connection, and ends with the connection. A ClientConn does not
// notice a server that is connected but silent; a Client does. ClientConn
// implements oncrpc.Caller.
type ClientConn struct {
	cfg      ClientConnConfig
	conn     rdma.Conn
	sendSize int // longest message to the server, in bytes
	recvSize int // longest message from the server
	peer     cmpriv.Message
	hasPeer  bool
	hdr      wire.Header // of the reply that is being received
	xids     *oncrpc.XIDs
	received atomic.Uint64 // messages

	line    *oncrpc.Line   // or nil
	link    *ExtensionConn // or nil
	reverse *reverseServer // or nil
	short   bool           // calls have no chunks, because they go in the reverse direction

	mu      sync.Mutex
	calls   map[uint32]*clientCall // that hold a credit, by XID
	checks  int                    // for overdue replies, so far
	granted int                    // credits
	waiting []*clientCall          // for a credit, in order
	idle    []*clientCall          // ended, kept for reuse
	nudge   *time.Timer            // until the first reply
	err     error                  // why the connection ended
	over    chan struct{}
	ending  sync.WaitGroup // abandoned calls that were answered; grows until over
}

var _ oncrpc.Caller = (*ClientConn)(nil)

// DialConn connects to a responder. The address is host and port.
func DialConn(ctx context.Context, d rdma.Dialer, addr string, cfg ClientConnConfig) (*ClientConn, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	return dial(ctx, d, addr, cfg, oncrpc.NewXIDs(rand.Uint32()), nil)
}

// dial is DialConn with a complete configuration and the XIDs to use. line is
// that of the Client that owns the connection, or nil.
func dial(ctx context.Context, d rdma.Dialer, addr string, cfg ClientConnConfig, ids *oncrpc.XIDs, line *oncrpc.Line) (*ClientConn, error) {
	c := newClient(cfg, ids)
	c.line = line
	cc := rdma.ConnConfig{Handler: (*clientHandler)(c), PrivateData: c.privateData(), RecvSize: cfg.Inline}
	c.link = cfg.Extensions.request(c, &cc)
	conn, err := d.Dial(ctx, addr, cc)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	c.peer, c.hasPeer = cmpriv.Parse(conn.PrivateData())
	c.sendSize = min(cfg.Inline, c.peer.RecvSize) // RFC 8166, Section 3.3.2
	c.recvSize = min(cfg.Inline, c.peer.SendSize)
	c.startReverse()
	c.link.start(conn)
	c.letReverse()
	c.settleIn(ctx)
	return c, nil
}

func newClient(cfg ClientConnConfig, ids *oncrpc.XIDs) *ClientConn {
	return &ClientConn{
		cfg: cfg, xids: ids, granted: 1, // RFC 8166, Section 3.3.3
		over:  make(chan struct{}),
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

// settleIn works around Linux's siw, which may leave a first message that
// closely follows the MPA Reply in the socket until more data arrives. It waits
// a moment, and prepares a timer that sends a harmless message.
func (c *ClientConn) settleIn(ctx context.Context) {
	select {
	case <-time.After(firstDelay):
	case <-ctx.Done():
	case <-c.over:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nudge = time.AfterFunc(nudgeAfter, func() {
		_ = c.conn.Post(rdma.WR{Op: rdma.OpWrite}) // zero bytes, no destination
	})
	c.nudge.Stop() // until the first call
}

// Conn returns the connection below.
func (c *ClientConn) Conn() rdma.Conn { return c.conn }

// Peer returns the server's parameters of RFC 8797. It returns false if the
// server sent none; the standard's defaults then apply.
func (c *ClientConn) Peer() (cmpriv.Message, bool) { return c.peer, c.hasPeer }

// Thresholds returns the lengths of the longest messages to and from the
// server, in bytes.
func (c *ClientConn) Thresholds() (send, recv int) { return c.sendSize, c.recvSize }

// Credits returns how many calls the server currently allows under way.
func (c *ClientConn) Credits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted
}

// Done is closed when the connection has ended.
func (c *ClientConn) Done() <-chan struct{} { return c.over }

// cause returns why the connection has ended, or nil.
func (c *ClientConn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection. Calls under way fail. Close may be called twice.
func (c *ClientConn) Close() error {
	err := c.conn.Close()
	<-c.over
	c.ending.Wait()
	c.reverse.wait()
	return err
}

// ExtensionConn returns the extensions of the connection, or nil unless both
// ends are of this project.
func (c *ClientConn) ExtensionConn() *ExtensionConn {
	if c.link == nil || !c.link.ours {
		return nil
	}
	return c.link
}

// A clientHandler handles the connection's events.
type clientHandler ClientConn

// Receive hands a reply to its call. A message that cannot be decoded, or
// matches no call, is dropped (RFC 8166, Section 4.5); its receive is posted
// again, because it belongs to a call that still waits.
//
// Receive ignores which memory the message has invalidated: a call deregisters
// all its memory anyway. A server that invalidates another call's memory can no
// longer reach it, and harms only itself.
func (h *clientHandler) Receive(m rdma.Recv) {
	c := (*ClientConn)(h)
	c.received.Add(1)
	if m.WithImmediate {
		c.takeImmediate(m.Immediate)
		return
	}
	body, err := c.hdr.ParseReply(m.Buf.B)
	if isReverse(&c.hdr, body, err, m.Buf.B) {
		c.takeReverse(body, err, m.Buf)
		return
	}
	var o *clientCall
	if err == nil {
		o = c.takeCall(&c.hdr)
	}
	switch {
	case o == nil:
		m.Buf.Release()
		_ = c.conn.PostRecv(1) // an error means that the connection ends
	case o.abandoned:
		m.Buf.Release()
		c.ending.Go(o.end) // may wait for the server's reads, which the reader must not do
	default:
		o.got <- o.accept(&c.hdr, body, m.Buf)
	}
}

// takeCall finds the call of a reply, and releases the call's credit. A call
// that was not sent yet cannot be answered: XIDs are easy to guess.
func (c *ClientConn) takeCall(h *wire.Header) *clientCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.calls[h.XID]
	if o == nil || !o.sent {
		return nil
	}
	if c.nudge != nil {
		c.nudge.Stop()
		c.nudge = nil
	}
	// A grant of 0 would block all calls for ever (Section 3.3.1). An
	// RDMA_ERROR does not name its direction (RFC 8167, Section 4.1).
	if h.Proc != wire.Error {
		c.granted = int(min(max(1, h.Credit), uint32(c.cfg.Credits)))
	}
	c.leaveLocked(o)
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
	if c.nudge != nil {
		c.nudge.Stop()
	}
	c.mu.Unlock()
	for _, o := range calls {
		if o.abandoned {
			o.end()
		} else {
			o.got <- outcome{err: c.err}
		}
	}
	for _, o := range waiting {
		o.turn <- struct{}{}
	}
	c.link.closed(err)
	reverse.closed(err)
	close(c.over)
}
