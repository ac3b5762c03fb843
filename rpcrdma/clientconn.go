package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A ClientConnConfig is how a requester behaves. The zero value is right for most.
type ClientConnConfig struct {
	// Inline is the length of the longest message sent or received without
	// chunks, in octets; 0 means 4096. It is rounded down to a multiple of
	// 1024; below 1024 or above 262144 is an error.
	Inline int

	// Credits is the number of calls that may be under way; 0 means 128;
	// below 0 or above 4096 is an error. The server may grant fewer.
	Credits int

	// NoPrivateData leaves out the message of RFC 8797: both thresholds
	// are 1024 octets then.
	NoPrivateData bool

	// Machine is the name that AUTH_SYS credentials carry; "" means the
	// host's.
	Machine string

	// Backchannel answers the calls that the server makes over the same
	// connection (RFC 8167); nil drops them. The context that it gets ends
	// with the connection, which Close waits for. What lets the server know
	// that it may call is up to the programs.
	Backchannel oncrpc.Service

	// BackchannelCredits is the number of such calls that may be under way;
	// 0 means 16; below 0 or above 4096 is an error.
	BackchannelCredits int

	// Extensions is what to offer to a server of this project; nil, or
	// without private data: nothing.
	Extensions *ExtensionConfig
}

func (c *ClientConnConfig) fill() error {
	c.Inline = orDefault(c.Inline, defaultInline) &^ 1023
	c.Credits = orDefault(c.Credits, defaultCredits)
	if c.Machine == "" {
		c.Machine, _ = os.Hostname() // a server decides nothing by it
	}
	switch {
	case c.Inline < cmpriv.MinSize || c.Inline > cmpriv.MaxSize:
		return fmt.Errorf("rpcrdma: inline size %d is not between %d and %d octets", c.Inline, cmpriv.MinSize, cmpriv.MaxSize)
	case c.Credits < 1 || c.Credits > maxCredits:
		return fmt.Errorf("rpcrdma: %d credits are not between 1 and %d", c.Credits, maxCredits)
	case c.NoPrivateData:
		c.Inline, c.Extensions = cmpriv.MinSize, nil
	}
	return c.fillReverse()
}

// A ClientConn is a requester: it makes the calls of any ONC RPC program over one
// RDMA connection, and ends with it. That the server is there but silent, it does
// not notice; a Client does. It implements oncrpc.Caller.
type ClientConn struct {
	cfg      ClientConnConfig
	conn     rdma.Conn
	sendSize int // longest message to the server, in octets
	recvSize int // longest message from it
	peer     cmpriv.Message
	hasPeer  bool
	hdr      wire.Header // of the reply that is being received
	xids     *xids
	received atomic.Uint64 // messages

	line    *Client        // or nil
	link    *ExtensionConn // or nil
	reverse *reverseServer // or nil
	short   bool           // calls have no chunks: they go in the reverse direction

	mu      sync.Mutex
	calls   map[uint32]*clientCall // that hold a credit, by XID
	granted int                    // credits
	waiting []*clientCall          // for a credit, in order
	idle    []*clientCall          // ended, for later
	nudge   *time.Timer            // until the first reply
	err     error                  // why the connection ended
	over    chan struct{}
	ending  sync.WaitGroup // forsaken calls that were answered; grows until over
}

var _ oncrpc.Caller = (*ClientConn)(nil)

// DialConn connects to a responder. The address is host and port.
func DialConn(ctx context.Context, d rdma.Dialer, addr string, cfg ClientConnConfig) (*ClientConn, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	return dial(ctx, d, addr, cfg, newXIDs(), nil)
}

// dial is DialConn with a configuration that is filled in, the XIDs to use, and the
// line, or nil, that the connection is for.
func dial(ctx context.Context, d rdma.Dialer, addr string, cfg ClientConnConfig, ids *xids, line *Client) (*ClientConn, error) {
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

func newClient(cfg ClientConnConfig, ids *xids) *ClientConn {
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
// follows its MPA Reply at once in the socket, until more comes: it waits a
// moment, and a timer sends something that does no harm.
func (c *ClientConn) settleIn(ctx context.Context) {
	select {
	case <-time.After(firstDelay):
	case <-ctx.Done():
	case <-c.over:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nudge = time.AfterFunc(nudgeAfter, func() {
		_ = c.conn.Post(rdma.WR{Op: rdma.OpWrite}) // zero octets, to nowhere
	})
	c.nudge.Stop() // until the first call
}

// Conn returns the connection below.
func (c *ClientConn) Conn() rdma.Conn { return c.conn }

// Peer returns what the server said of itself by RFC 8797; false where it said
// nothing, and the standard's assumptions stand.
func (c *ClientConn) Peer() (cmpriv.Message, bool) { return c.peer, c.hasPeer }

// Thresholds returns the lengths of the longest messages to and from the
// server, in octets.
func (c *ClientConn) Thresholds() (send, recv int) { return c.sendSize, c.recvSize }

// Credits returns how many calls the server lets be under way at the moment.
func (c *ClientConn) Credits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted
}

// Done is closed when the connection has ended.
func (c *ClientConn) Done() <-chan struct{} { return c.over }

// cause returns why the connection has ended, where it has.
func (c *ClientConn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection. Calls under way fail. It may be called twice.
func (c *ClientConn) Close() error {
	err := c.conn.Close()
	<-c.over
	c.ending.Wait()
	c.reverse.wait()
	return err
}

// ExtensionConn returns what the ends have beside calls; nil where they are not both of
// this project.
func (c *ClientConn) ExtensionConn() *ExtensionConn {
	if c.link == nil || !c.link.ours {
		return nil
	}
	return c.link
}

// clientHandler takes the connection's events.
type clientHandler ClientConn

// Receive hands a reply to the call that it is for. What cannot be decoded, or
// is for no call, is dropped (RFC 8166, Section 4.5); the receive that it took
// belongs to a call that still waits.
//
// Which memory the message has invalidated is not looked at: a call takes all of
// its own back by itself, and a server that invalidates another call's has only
// itself to blame when it cannot reach that any more.
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
		c.ending.Go(o.end) // it waits for what the server reads, and this is the reader
	default:
		o.got <- o.accept(&c.hdr, body, m.Buf)
	}
}

// takeCall finds the call that a reply is for, and gives back its credit. What was
// not sent yet cannot be answered: XIDs are easy to guess.
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
	// A grant of 0 would let no call go, ever (Section 3.3.1). An RDMA_ERROR does
	// not tell its direction (RFC 8167, Section 4.1).
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
