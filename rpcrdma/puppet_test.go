package rpcrdma

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fakeServer is a server that sends a requester arbitrary messages.
type fakeServer struct {
	*rdmatest.Conn
	t       *testing.T
	offered []byte // the requester's private data
	watched *watchedConn
	ready   chan struct{}

	mu    sync.Mutex
	got   []receivedCall
	ended bool
}

// A receivedCall is a message from the requester.
type receivedCall struct {
	wire.Header
	wire []byte
	body []byte
}

// knfsd is the private data that Linux's server sends.
var knfsd = []byte{0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3}

// withFakeServer runs f in a bubble, with a requester and a fakeServer, which
// has the given private data and posts receives. It checks that no resources
// leak.
func withFakeServer(t *testing.T, private []byte, cfg ClientConnConfig, f func(t *testing.T, c *ClientConn, p *fakeServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		l := rdmatest.Listen(t)
		p := &fakeServer{t: t, ready: make(chan struct{})}
		go p.acceptConn(l, private, 1<<20)
		c, err := DialConn(t.Context(), &memDialer{l: l}, "", cfg)
		require.NoError(t, err)
		<-p.ready
		p.watched = watchConn(c)
		f(t, c, p)
		require.NoError(t, c.Close())
		require.NoError(t, p.Close())
		synctest.Wait()
		assert.Equal(t, before, buf.Default.Out(), "buffers lent")
		assert.Empty(t, p.watched.live, "memory exposed to the server")
		assert.Empty(t, c.calls)
		assert.Empty(t, c.waiting)
	})
}

func (p *fakeServer) acceptConn(l *rdmatest.Listener, private []byte, recvs int) {
	defer close(p.ready)
	req, err := l.Accept(p.t.Context())
	if !assert.NoError(p.t, err) {
		return
	}
	p.offered = req.PrivateData()
	size := 1024 // RFC 8166, Section 3.3.3: more is an error without private data
	if len(private) == 8 {
		size = (int(private[7]) + 1) << 10
	}
	c, err := req.Accept(rdma.ConnConfig{Handler: p, PrivateData: private, RecvSize: size, Recvs: recvs})
	if assert.NoError(p.t, err) {
		p.Conn = c.(*rdmatest.Conn)
	}
}

// Receive records a message, which must follow the rules for all of a
// requester's messages.
func (p *fakeServer) Receive(m rdma.Recv) {
	defer m.Buf.Release()
	h := receivedCall{wire: append([]byte{}, m.Buf.B...)}
	var err error
	h.body, err = h.ParseCall(h.wire)
	assert.NoError(p.t, err, "R8166-4-1, R8166-4.2.4-3, R8166-4.6.1-1, R8166-4.6.2-1")
	assert.EqualValues(p.t, 1, binary.BigEndian.Uint32(h.wire[4:]), "R8166-4.2.2-1")
	assert.NotZero(p.t, h.Credit, "R8166-3.3.1-4")
	assert.False(p.t, h.Lists.HasReply && h.Lists.Writes() > 0, "NFSv3 needs only one of them")
	if h.Proc == wire.Msg {
		if assert.GreaterOrEqual(p.t, len(h.body), 8) {
			assert.Equal(p.t, h.XID, binary.BigEndian.Uint32(h.body), "R8166-4.2.1-1, R8166-3.2-1")
			assert.Zero(p.t, binary.BigEndian.Uint32(h.body[4:]), "R8166-3.2-2: msg_type CALL, no record mark")
		}
	} else {
		assert.Empty(p.t, h.body)
		assert.NotEmpty(p.t, h.Lists.Reads, "R8166-4.2.4-2")
	}
	for _, s := range h.Lists.Reads {
		assert.Zero(p.t, s.Position%4, "R8166-3.4.5-2")
		assert.Equal(p.t, h.Proc == wire.NoMsg, s.Position == 0, "R8166-3.5.3-2")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, h)
}

func (p *fakeServer) Closed(error) {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	go func() {
		<-p.ready
		p.Close()
	}()
}

// isLost reports whether the connection has ended.
func (p *fakeServer) isLost() bool {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// newCalls waits until the bubble is idle, and returns the messages since the last
// time.
func (p *fakeServer) newCalls() []receivedCall { return takeNew(&p.mu, &p.got) }

// onlyCall is newCalls for exactly one call.
func (p *fakeServer) onlyCall() receivedCall {
	p.t.Helper()
	got := p.newCalls()
	require.Len(p.t, got, 1)
	return got[0]
}

// sendRaw sends a message unchanged.
func (p *fakeServer) sendRaw(parts ...[]byte) {
	p.t.Helper()
	require.NoError(p.t, p.Post(rdma.WR{Op: rdma.OpSend, Data: parts}))
	synctest.Wait()
}

// sendReply sends a header, with a reply's fixed fields for h, and results
// behind an RPC reply header.
func (p *fakeServer) sendReply(h receivedCall, r wire.Header, results ...byte) {
	p.t.Helper()
	r.XID, r.Vers = h.XID, wire.Version
	if r.Credit == 0 {
		r.Credit = 32
	}
	if r.Proc == wire.Msg {
		p.sendRaw(r.AppendTo(nil), appendSuccess(nil, h.XID), results)
		return
	}
	p.sendRaw(r.AppendTo(nil))
}

// writeMemory writes to the requester's memory.
func (p *fakeServer) writeMemory(s chunks.Segment, data []byte) {
	p.t.Helper()
	at := rdma.Remote{STag: rdma.STag(s.Handle), TO: s.Offset}
	require.NoError(p.t, p.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{data}, Remote: at}))
	synctest.Wait()
}

// readMemory reads the requester's memory.
func (p *fakeServer) readMemory(s chunks.Segment) []byte {
	p.t.Helper()
	b := make([]byte, s.Length)
	at := rdma.Remote{STag: rdma.STag(s.Handle), TO: s.Offset}
	require.NoError(p.t, p.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{b}, Remote: at}))
	synctest.Wait()
	return b
}

// callError returns a call's error; the call must have ended.
func callError(t *testing.T, done <-chan error) error {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		return err
	default:
		require.FailNow(t, "the call has not ended")
		return nil
	}
}

// startCall makes a call.
func startCall(ctx context.Context, c oncrpc.Caller, x *oncrpc.Exchange) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.Call(ctx, x) }()
	return done
}

// requireSuccess makes a call, and checks that it succeeds.
func (p *fakeServer) requireSuccess(c oncrpc.Caller) {
	p.t.Helper()
	x := new(oncrpc.Exchange)
	done := startCall(p.t.Context(), c, x)
	p.sendReply(p.onlyCall(), wire.Header{})
	require.NoError(p.t, callError(p.t, done))
	x.Release()
}

// wholeMessage returns a call's RPC message, with its chunks in their places.
func (p *fakeServer) wholeMessage(h receivedCall) []byte {
	p.t.Helper()
	if h.Proc == wire.NoMsg {
		require.Len(p.t, h.Lists.Reads, 1)
		return p.readMemory(h.Lists.Reads[0].Segment)
	}
	if len(h.Lists.Reads) == 0 {
		return h.body
	}
	require.Len(p.t, h.Lists.Reads, 1)
	at := h.Lists.Reads[0].Position
	item := p.readMemory(h.Lists.Reads[0].Segment)
	message := append([]byte{}, h.body[:at]...)
	message = append(message, item...)
	message = append(message, padding(len(item))...)
	return append(message, h.body[at:]...)
}
