package rpcrdma

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
)

// An extensionRecorder records the events on one end's links.
type extensionRecorder struct {
	onAttach func(*ExtensionConn)
	on       func(l *ExtensionConn, word [8]byte)
	onClosed func(*ExtensionConn)

	mu     sync.Mutex
	conns  []*ExtensionConn
	got    [][8]byte
	closed []error
}

func (s *extensionRecorder) attachConn(l *ExtensionConn) ExtensionHandler {
	s.mu.Lock()
	s.conns = append(s.conns, l)
	s.mu.Unlock()
	if s.onAttach != nil {
		s.onAttach(l)
	}
	return &recordingHandler{s, l}
}

func (s *extensionRecorder) newConfig(recvs int) *ExtensionConfig {
	return &ExtensionConfig{ImmediateRecvs: recvs, Atomics: true, Attach: s.attachConn}
}

// onlyExtConn returns the only link, ready for use.
func (s *extensionRecorder) onlyExtConn(t *testing.T) *ExtensionConn {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.conns, 1)
	return s.conns[0]
}

// closeErrors returns the Closed errors.
func (s *extensionRecorder) closeErrors() []error {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// newWords returns the Immediate Data since the last time.
func (s *extensionRecorder) newWords() [][8]byte { return takeNew(&s.mu, &s.got) }

type recordingHandler struct {
	s *extensionRecorder
	l *ExtensionConn
}

func (k *recordingHandler) Immediate(word [8]byte) {
	k.s.mu.Lock()
	k.s.got = append(k.s.got, word)
	on := k.s.on
	k.s.mu.Unlock()
	if on != nil {
		on(k.l, word)
	}
}

func (k *recordingHandler) Closed(err error) {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	k.s.closed = append(k.s.closed, err)
	if k.s.onClosed != nil {
		k.s.onClosed(k.l)
	}
}

func wordOf(n int) (b [8]byte) {
	binary.BigEndian.PutUint64(b[:], uint64(n))
	return b
}

// withExtensions runs f with both ends of a connection, both ours, and checks that Closed is called
// once at each end.
func withExtensions(t *testing.T, server, client int, f func(t *testing.T, r *testServer, c *ClientConn, server, client *extensionRecorder)) {
	t.Helper()
	theirs, ours := new(extensionRecorder), new(extensionRecorder)
	withServer(t, &Server{Handler: null, Extensions: theirs.newConfig(server)}, func(t *testing.T, r *testServer) {
		c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Extensions: ours.newConfig(client)})
		require.NoError(t, err)
		synctest.Wait()
		f(t, r, c, theirs, ours)
		require.NoError(t, c.Close())
		assert.Len(t, ours.closeErrors(), 1)
		assert.Len(t, theirs.closeErrors(), 1)
	})
}

// TestImmediate checks that the number of unanswered questions is limited by
// the lower of both ends' receives, that each answer makes room for a question,
// and that no answer is possible without a question.
func TestImmediate(t *testing.T) {
	for _, recvs := range [][2]int{{3, 9}, {9, 3}, {3, 3}, {1, 1}} {
		withExtensions(t, recvs[0], recvs[1], func(t *testing.T, _ *testServer, c *ClientConn, theirs, ours *extensionRecorder) {
			limit := min(recvs[0], recvs[1])
			server, client := theirs.onlyExtConn(t), ours.onlyExtConn(t)
			assert.Same(t, client, c.ExtensionConn())
			assert.Equal(t, limit, server.Extensions().Immediate)
			require.ErrorIs(t, client.PostImmediate(wordOf(1), nil, 0), errUnasked)
			for round := range 5 {
				sent := make(completionChan, limit)
				for i := range limit {
					require.NoError(t, server.PostImmediate(wordOf(round+i), sent, uint64(i)))
				}
				require.ErrorIs(t, server.PostImmediate(wordOf(9), nil, 0), ErrUnanswered)
				for i, got := range ours.newWords() {
					assert.Equal(t, wordOf(round+i), got)
					done := <-sent
					assert.Equal(t, rdma.Completion{ID: uint64(i), Op: rdma.OpImmediate}, done)
				}
				for i := range limit {
					require.NoError(t, client.PostImmediate(wordOf(100+i), nil, 0))
				}
				require.ErrorIs(t, client.PostImmediate(wordOf(9), nil, 0), errUnasked)
				assert.Len(t, theirs.newWords(), limit)
			}
		})
	}
}

// A completionChan receives completions.
type completionChan chan rdma.Completion

func (b completionChan) Complete(c rdma.Completion) { b <- c }

// TestImmediateFromWithin answers from within Immediate, and asks from within
// an answer: no lock may be held.
func TestImmediateFromWithin(t *testing.T) {
	const rounds = 1000
	withExtensions(t, 2, 2, func(t *testing.T, _ *testServer, _ *ClientConn, theirs, ours *extensionRecorder) {
		server, n := theirs.onlyExtConn(t), 0
		ours.on = func(l *ExtensionConn, b [8]byte) { assert.NoError(t, l.PostImmediate(b, nil, 0)) }
		theirs.on = func(l *ExtensionConn, b [8]byte) {
			if n++; n < rounds {
				assert.NoError(t, l.PostImmediate(b, nil, 0))
			}
		}
		require.NoError(t, server.PostImmediate(wordOf(1), nil, 0))
		require.NoError(t, server.PostImmediate(wordOf(2), nil, 0))
		assert.Len(t, theirs.newWords(), rounds+1)
	})
}

// TestImmediateOrder checks that Immediate Data goes behind a reply that is
// still queued, with Solicited Event.
func TestImmediateOrder(t *testing.T) {
	s := new(extensionRecorder)
	withServer(t, &Server{Handler: null, Extensions: s.newConfig(4)}, func(t *testing.T, r *testServer) {
		p := dialRawExtPeer(t, r.listen, extensionPrivateData(4))
		resume := p.Pause()
		for xid := range uint32(40) { // more than fit on the connection
			require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{msgHeader(xid), rpcCall(xid, "")}}))
		}
		synctest.Wait()
		require.NoError(t, s.onlyExtConn(t).PostImmediate(wordOf(7), nil, 0))
		resume()
		got := p.newRecvs()
		require.Len(t, got, 41)
		last := got[40]
		assert.True(t, last.WithImmediate && last.Solicited)
		assert.Equal(t, wordOf(7), last.Immediate)
	})
}

// extensionPrivateData returns the private data that this project's peer has with the given number
// of receives.
func extensionPrivateData(recvs int) []byte {
	x := ExtensionConfig{ImmediateRecvs: recvs, Atomics: true}
	block := x.offerBlock()
	return block.AppendTo(linux.AppendTo(nil))
}

// A rawExtPeer is an end that sends arbitrary messages.
type rawExtPeer struct {
	*rdmatest.Conn
	mu    sync.Mutex
	got   []rdma.Recv
	ended error
}

func (p *rawExtPeer) Receive(m rdma.Recv) {
	if m.Buf != nil {
		m.Buf.Release()
		m.Buf = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, m)
}

func (p *rawExtPeer) Closed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = err
}

func (p *rawExtPeer) newRecvs() []rdma.Recv { return takeNew(&p.mu, &p.got) }

// closeError returns why the connection has ended, or nil.
func (p *rawExtPeer) closeError() error {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

func (p *rawExtPeer) sendWord(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, p.Post(rdma.WR{Op: rdma.OpImmediate, Immediate: wordOf(n)}))
	synctest.Wait()
}

func dialRawExtPeer(t *testing.T, l *rdmatest.Listener, private []byte) *rawExtPeer {
	t.Helper()
	p := new(rawExtPeer)
	c, err := l.Dial(t.Context(), rdma.ConnConfig{Handler: p, PrivateData: private, Recvs: 1 << 20, Immediate: true})
	require.NoError(t, err)
	p.Conn = c
	synctest.Wait()
	return p
}

// withRawExtServer runs f with a requester that has the extensions x, and a server
// with the given private data.
func withRawExtServer(t *testing.T, private []byte, x *ExtensionConfig, f func(t *testing.T, c *ClientConn, p *rawExtPeer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, p := rdmatest.Listen(t), new(rawExtPeer)
		go func() {
			req, err := l.Accept(t.Context())
			require.NoError(t, err)
			c, err := req.Accept(rdma.ConnConfig{Handler: p, PrivateData: private, Recvs: 1 << 20, Immediate: true})
			require.NoError(t, err)
			p.Conn = c.(*rdmatest.Conn)
		}()
		c, err := DialConn(t.Context(), &memDialer{l: l}, "", ClientConnConfig{Extensions: x})
		require.NoError(t, err)
		synctest.Wait()
		f(t, c, p)
		require.NoError(t, c.Close())
	})
}

// TestImmediateMisuse checks that a peer that breaks the rules loses the
// connection.
func TestImmediateMisuse(t *testing.T) {
	t.Run("server asks too much", func(t *testing.T) {
		s := new(extensionRecorder)
		withRawExtServer(t, extensionPrivateData(3), s.newConfig(8), func(t *testing.T, c *ClientConn, p *rawExtPeer) {
			for i := range 3 {
				p.sendWord(t, i)
			}
			require.NoError(t, s.onlyExtConn(t).PostImmediate(wordOf(1), nil, 0))
			p.sendWord(t, 3)
			require.NoError(t, p.closeError())
			p.sendWord(t, 4)
			assert.ErrorIs(t, p.closeError(), errOverrun)
			assert.ErrorIs(t, s.closeErrors()[0], errOverrun)
			assert.Len(t, s.newWords(), 4)
		})
	})
	t.Run("client answers without a query", func(t *testing.T) {
		s := new(extensionRecorder)
		withServer(t, &Server{Handler: null, Extensions: s.newConfig(8)}, func(t *testing.T, r *testServer) {
			p := dialRawExtPeer(t, r.listen, extensionPrivateData(8))
			require.NoError(t, s.onlyExtConn(t).PostImmediate(wordOf(1), nil, 0))
			p.sendWord(t, 1)
			require.NoError(t, p.closeError())
			p.sendWord(t, 2)
			assert.ErrorIs(t, p.closeError(), errUnaskedFor)
			assert.Len(t, s.newWords(), 1)
		})
	})
	t.Run("not agreed, client offers", func(t *testing.T) {
		s := new(extensionRecorder)
		withRawExtServer(t, linux.AppendTo(nil), s.newConfig(8), func(t *testing.T, c *ClientConn, p *rawExtPeer) {
			require.NoError(t, c.conn.PostRecv(1))
			p.sendWord(t, 1)
			assert.ErrorIs(t, p.closeError(), errNotAgreed)
			assert.Empty(t, s.conns)
		})
	})
	t.Run("not agreed, client offers none", func(t *testing.T) {
		withRawExtServer(t, extensionPrivateData(8), nil, func(t *testing.T, c *ClientConn, p *rawExtPeer) {
			require.NoError(t, c.conn.PostRecv(1))
			p.sendWord(t, 1)
			assert.ErrorIs(t, p.closeError(), rdma.ErrUnsupportedOp, "as by an end without the extension")
		})
	})
	t.Run("not agreed, server offers", func(t *testing.T) {
		s := new(extensionRecorder)
		for _, private := range [][]byte{linux.AppendTo(nil), extensionPrivateData(0)} {
			withServer(t, &Server{Handler: null, Extensions: s.newConfig(8)}, func(t *testing.T, r *testServer) {
				p := dialRawExtPeer(t, r.listen, private)
				p.sendWord(t, 1)
				assert.ErrorIs(t, p.closeError(), rdma.ErrUnsupportedOp)
				assert.Empty(t, s.conns)
			})
		}
	})
}

// TestReceives checks that the receives for calls, for replies, and for
// Immediate Data suffice when all arrive at once, in both directions, however
// long this lasts; none is lost and none is left over.
func TestReceives(t *testing.T) {
	const credits, reverse, immediate, rounds = 8, 4, 5, 50
	theirs, ours := new(extensionRecorder), new(extensionRecorder)
	ours.on = func(l *ExtensionConn, b [8]byte) { assert.NoError(t, l.PostImmediate(b, nil, 0)) }
	s := &Server{Handler: callbackService(repeater), Credits: credits, Extensions: theirs.newConfig(immediate)}
	withTappedServer(t, s, new(tapListener), func(t *testing.T, r *testServer) {
		d := &countingDialer{memDialer: memDialer{l: r.listen}}
		c, err := DialConn(t.Context(), d, "", ClientConnConfig{
			Credits: credits, Extensions: ours.newConfig(immediate),
			Backchannel: callbackService(repeater), BackchannelCredits: reverse,
		})
		require.NoError(t, err)
		server, back := theirs.onlyExtConn(t), &r.onlyConn().reverse
		var all sync.WaitGroup
		many := func(n int, f func() error) {
			for range n {
				all.Go(func() {
					for range rounds {
						assert.NoError(t, f())
					}
				})
			}
		}
		permits := make(chan struct{}, immediate)
		for range immediate {
			permits <- struct{}{}
		}
		theirs.on = func(*ExtensionConn, [8]byte) { permits <- struct{}{} }
		many(2*credits, func() error { return callBack(t.Context(), c, "forwards") })
		many(2*reverse, func() error { return callBack(t.Context(), back, "backward") })
		many(immediate, func() error {
			<-permits
			return server.PostImmediate(wordOf(1), nil, 0)
		})
		all.Wait()
		synctest.Wait()
		assert.Len(t, theirs.newWords(), immediate*rounds)
		assert.EqualValues(t, reverse+immediate, d.recvs.Load(), "R8167-4.3.1-1: beyond those for replies")
		r.tap.mu.Lock()
		assert.Zero(t, r.tap.used)
		r.tap.mu.Unlock()
		assert.Empty(t, ours.closeErrors())
		require.NoError(t, c.Close())
	})
}

// A countingDialer counts the receives that its connection has posted.
type countingDialer struct {
	memDialer
	recvs atomic.Int64
}

func (d *countingDialer) Dial(ctx context.Context, addr string, cc rdma.ConnConfig) (rdma.Conn, error) {
	cc.Handler = &countingHandler{cc.Handler, d}
	c, err := d.memDialer.Dial(ctx, addr, cc)
	return &countingConn{c, d}, err
}

type countingConn struct {
	rdma.Conn
	d *countingDialer
}

func (c *countingConn) PostRecv(n int) error {
	c.d.recvs.Add(int64(n))
	return c.Conn.PostRecv(n)
}

type countingHandler struct {
	rdma.Handler
	d *countingDialer
}

func (h *countingHandler) Receive(m rdma.Recv) {
	h.d.recvs.Add(-1)
	h.Handler.Receive(m)
}

// TestLinkClosed checks that the handler's Closed is called once, even if the
// end comes before the handler is attached.
func TestLinkClosed(t *testing.T) {
	cause := errors.New("cable cut")
	for _, end := range []string{"client", "server"} {
		theirs, ours := new(extensionRecorder), new(extensionRecorder)
		cut := func(l *ExtensionConn) {
			l.conn.Abort(cause)
			time.Sleep(time.Second) // it has ended by then
		}
		if end == "client" {
			ours.onAttach = cut
		} else {
			theirs.onAttach = cut
		}
		withServer(t, &Server{Handler: null, Extensions: theirs.newConfig(1)}, func(t *testing.T, r *testServer) {
			c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Extensions: ours.newConfig(1)})
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
			for _, s := range []*extensionRecorder{theirs, ours} {
				require.Len(t, s.closeErrors(), 1)
				assert.ErrorIs(t, s.closeErrors()[0], cause)
				assert.ErrorIs(t, s.onlyExtConn(t).PostImmediate(wordOf(1), nil, 0), map[bool]error{true: rdma.ErrClosed, false: errUnasked}[s == theirs])
			}
			require.NoError(t, c.Close())
		})
	}
}

// TestLinkReconnect checks that each connection that a Client makes has its own
// ExtensionConn.
func TestLinkReconnect(t *testing.T) {
	ours := new(extensionRecorder)
	withClient(t, ClientConfig{Conn: ClientConnConfig{Extensions: ours.newConfig(1)}}, func(t *testing.T, l *Client, p *testAddress) {
		p.killServer()
		theirs := new(extensionRecorder)
		p.extensions = theirs.newConfig(1)
		p.startServer()
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		first := theirs.onlyExtConn(t)
		p.lastConn().Abort(rdmatest.ErrCut)
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		assert.ErrorIs(t, first.PostImmediate(wordOf(1), nil, 0), rdma.ErrClosed)
		require.Len(t, theirs.closeErrors(), 1)
		require.Len(t, ours.closeErrors(), 1)
		require.Len(t, theirs.conns, 2)
		require.NoError(t, theirs.conns[1].PostImmediate(wordOf(1), nil, 0))
		assert.Len(t, ours.newWords(), 1)
	})
	assert.Len(t, ours.closed, 2)
}

func TestLinkAtomics(t *testing.T) {
	withExtensions(t, 1, 1, func(t *testing.T, r *testServer, _ *ClientConn, theirs, ours *extensionRecorder) {
		memory := make([]byte, 16)
		region, err := r.onlyConn().rc.Register(memory, rdma.RemoteAtomic)
		require.NoError(t, err)
		word, err := rdma.Word(memory, 8)
		require.NoError(t, err)
		at := rdma.Remote{STag: region.STag(), TO: region.TO() + 8}
		client, box := ours.onlyExtConn(t), make(completionChan, 1)
		word.Store(7<<32 | 1)
		require.NoError(t, client.Atomic(rdma.OpFetchAdd, at, rdma.Atomic{Operand: 0xffffffff, OperandMask: 0x8000000080000000}, box, 5))
		assert.Equal(t, rdma.Completion{ID: 5, Op: rdma.OpFetchAdd, Original: 7<<32 | 1}, <-box)
		assert.EqualValues(t, 7<<32, word.Load())
		swap := rdma.Atomic{Compare: 7 << 32, CompareMask: rdma.AllBits, Operand: 8 << 32, OperandMask: rdma.AllBits}
		require.NoError(t, client.Atomic(rdma.OpCompareSwap, at, swap, box, 6))
		assert.EqualValues(t, 7<<32, (<-box).Original)
		assert.EqualValues(t, 8<<32, word.Load())
		assert.ErrorIs(t, client.Atomic(rdma.OpSend, at, swap, box, 7), errNotAgreed)
		assert.ErrorIs(t, theirs.onlyExtConn(t).Atomic(rdma.OpFetchAdd, at, swap, box, 7), errNotAgreed)
		region.Deregister()
	})
	x := &ExtensionConfig{}
	withServer(t, &Server{Handler: null, Extensions: x}, func(t *testing.T, r *testServer) {
		c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Extensions: x})
		require.NoError(t, err)
		assert.ErrorIs(t, c.ExtensionConn().Atomic(rdma.OpFetchAdd, rdma.Remote{}, rdma.Atomic{}, nil, 0), errNotAgreed)
		assert.ErrorIs(t, c.ExtensionConn().PostImmediate(wordOf(1), nil, 0), errNotAgreed)
		require.NoError(t, c.Close())
	})
}
