package rpcrdma

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
)

// TestReplyPosted checks that a program finds the ExtensionConn for a call's
// connection, and by it its own handler. Data that it posts in Reply.Posted
// goes behind the reply, in any reply form.
func TestReplyPosted(t *testing.T) {
	for name, tt := range map[string]struct {
		serve   func(rep *oncrpc.Reply) bool
		replies int
	}{
		"answered":  {func(*oncrpc.Reply) bool { return true }, 1},
		"too long":  {func(rep *oncrpc.Reply) bool { rep.Tail = make([]byte, 8192); return true }, 1},
		"no answer": {func(*oncrpc.Reply) bool { return false }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			theirs, told := new(extensionRecorder), 0
			program := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				l := ExtensionConnOf(req.Peer)
				assert.Same(t, l, l.Handler().(*recordingHandler).l)
				rep.Posted = func() {
					told++
					assert.NoError(t, l.PostImmediate(wordOf(7), nil, 0))
				}
				null(ctx, req, rep)
				return tt.serve(rep)
			})
			withServer(t, &Server{Handler: program, Extensions: theirs.newConfig(4)}, func(t *testing.T, r *testServer) {
				p := dialRawExtPeer(t, r.listen, extensionPrivateData(4))
				require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{msgHeader(5), rpcCall(5, "")}}))
				got := p.newRecvs()
				require.Len(t, got, tt.replies+1)
				assert.True(t, got[tt.replies].WithImmediate, "it is the last")
				assert.Equal(t, 1, told)
			})
		})
	}
	t.Run("connection lost", func(t *testing.T) {
		theirs, told, g := new(extensionRecorder), new(atomic.Int64), &gate{open: nil}
		withServer(t, &Server{Extensions: theirs.newConfig(4), Handler: serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
			rep.Posted = func() { told.Add(1) }
			return g.Serve(ctx, req, rep)
		})}, func(t *testing.T, r *testServer) {
			g.open = make(chan struct{})
			p := dialRawExtPeer(t, r.listen, extensionPrivateData(4))
			require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{msgHeader(5), rpcCall(5, "")}}))
			require.Equal(t, 1, g.servingCount())
			p.Abort(nil)
			synctest.Wait()
			close(g.open)
			synctest.Wait()
			assert.EqualValues(t, 1, told.Load())
		})
	})
}

// TestLinkOf checks that other peers' calls have no ExtensionConn.
func TestLinkOf(t *testing.T) {
	assert.Nil(t, ExtensionConnOf(&oncrpc.Peer{}))
	links := make(chan *ExtensionConn, 1)
	withServer(t, &Server{Extensions: new(extensionRecorder).newConfig(1), Handler: serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		links <- ExtensionConnOf(req.Peer)
		return null(ctx, req, rep)
	})}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		q.onlyAnswer()
		assert.Nil(t, <-links)
	})
}

// TestLinkAbort checks that a program can end a connection by its
// ExtensionConn, and that Closed is called once at both ends, after all work
// in flight has completed.
func TestLinkAbort(t *testing.T) {
	withExtensions(t, 2, 2, func(t *testing.T, _ *testServer, c *ClientConn, theirs, ours *extensionRecorder) {
		cause := errors.New("violates the rules")
		theirs.onlyExtConn(t).Abort(cause)
		for _, s := range []*extensionRecorder{theirs, ours} {
			require.Len(t, s.closeErrors(), 1)
			assert.ErrorIs(t, s.closeErrors()[0], cause)
		}
	})
	withExtensions(t, 2, 2, func(t *testing.T, _ *testServer, c *ClientConn, theirs, ours *extensionRecorder) {
		require.NoError(t, c.Close())
		assert.ErrorIs(t, theirs.closeErrors()[0], io.EOF)
	})
}

// An operationLog records many operations' results, and checks that they come before the end.
type operationLog struct {
	t       *testing.T
	mu      sync.Mutex
	results map[uint64]error
	ended   bool
}

func (o *operationLog) Complete(c rdma.Completion) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, twice := o.results[c.ID]
	assert.False(o.t, twice, "operation %d", c.ID)
	assert.False(o.t, o.ended, "notified after the end")
	if c.Err == nil {
		assert.Equal(o.t, c.ID, c.Original, "in the order of posting")
	} else {
		assert.ErrorIs(o.t, c.Err, rdma.ErrFlushed)
	}
	o.results[c.ID] = c.Err
}

// TestAtomicsCut checks that each operation completes once, whenever the
// connection ends (R7306-5.2.1-5).
func TestAtomicsCut(t *testing.T) {
	const many = 50
	for after := range 30 {
		theirs, ours := new(extensionRecorder), new(extensionRecorder)
		o := &operationLog{t: t, results: make(map[uint64]error)}
		ours.onClosed = func(*ExtensionConn) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.ended = true
		}
		withServer(t, &Server{Handler: null, Extensions: theirs.delegationConfig(2)}, func(t *testing.T, r *testServer) {
			d := &memDialer{l: r.listen}
			c, err := DialConn(t.Context(), d, "", ClientConnConfig{Extensions: ours.delegationConfig(0)})
			require.NoError(t, err)
			l := ours.onlyExtConn(t)
			if after%2 == 0 {
				c.Conn().(*rdmatest.Conn).CutAfter(after)
			} else {
				r.onlyServerConn().CutAfter(after)
			}
			posted := 0
			for id := range uint64(many) {
				err := l.Atomic(rdma.OpFetchAdd, l.Counter(0), rdma.Atomic{Operand: 1}, o, id)
				if err == nil {
					posted++
					continue
				}
				require.ErrorIs(t, err, rdma.ErrClosed)
			}
			require.Len(t, ours.closeErrors(), 1)
			require.ErrorIs(t, l.Atomic(rdma.OpFetchAdd, l.Counter(0), rdma.Atomic{}, o, 99), rdma.ErrClosed)
			assert.Len(t, o.results, posted)
			good := 0
			for _, err := range o.results {
				if err == nil {
					good++
				}
			}
			assert.LessOrEqual(t, good, after)
			require.NoError(t, c.Close())
		})
	}
}

// TestLinkCall checks that a call by an ExtensionConn is made over its
// connection alone; a Client connects again for other calls, with another
// ExtensionConn.
func TestLinkCall(t *testing.T) {
	ours := new(extensionRecorder)
	withClient(t, ClientConfig{Conn: ClientConnConfig{Extensions: ours.newConfig(1)}}, func(t *testing.T, l *Client, p *testAddress) {
		p.killServer()
		theirs := new(extensionRecorder)
		p.extensions = theirs.newConfig(1)
		p.startServer()
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		first := l.Conn().ExtensionConn()
		call := func(l *ExtensionConn) error {
			x := &oncrpc.Exchange{Prog: echoProg, Vers: 1}
			defer x.Release()
			return l.Call(t.Context(), x)
		}
		require.NoError(t, call(first))
		p.lastConn().Abort(rdmatest.ErrCut)
		synctest.Wait()
		require.ErrorIs(t, call(first), rdma.ErrClosed)
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		second := l.Conn().ExtensionConn()
		assert.NotSame(t, first, second)
		assert.NotSame(t, first.Handler(), second.Handler())
		require.NoError(t, call(second))
		require.ErrorIs(t, call(theirs.conns[1]), errNotAgreed)
	})
}

// TestLinkCallSilence checks that a silent server loses the connection for a
// call by an ExtensionConn too.
func TestLinkCallSilence(t *testing.T) {
	ours := new(extensionRecorder)
	withClient(t, ClientConfig{Silence: 8 * time.Second, Conn: ClientConnConfig{Extensions: ours.newConfig(1)}}, func(t *testing.T, l *Client, p *testAddress) {
		p.killServer()
		p.extensions = new(extensionRecorder).newConfig(1)
		p.startServer()
		require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
		defer p.lastServerConn().Pause()()
		began := time.Now()
		require.ErrorIs(t, l.Conn().ExtensionConn().Call(t.Context(), &oncrpc.Exchange{Prog: echoProg, Vers: 1}), oncrpc.ErrSilent)
		assert.Less(t, time.Since(began), 12*time.Second)
	})
}

// An idle connection completes atomic operations and Immediate Data at once.
type idleConn struct{ rdma.Conn }

func (idleConn) Post(wrs ...rdma.WR) error {
	for i := range wrs {
		if wr := &wrs[i]; wr.Done != nil {
			wr.Done.Complete(rdma.Completion{ID: wr.ID, Op: wr.Op})
		}
	}
	return nil
}
func (idleConn) PostRecv(int) error { return nil }

// completionCounter counts completions.
type completionCounter int

func (n *completionCounter) Complete(rdma.Completion) { *n++ }

// TestLinkAllocs checks that neither an atomic operation nor a question and its
// answer allocates.
func TestLinkAllocs(t *testing.T) {
	client := &ExtensionConn{client: new(ClientConn), conn: idleConn{}, agreed: Extensions{1, true, true}, handler: (*ignoringHandler)(nil)}
	server := &ExtensionConn{conn: idleConn{}, agreed: Extensions{1, true, true}, handler: (*ignoringHandler)(nil)}
	var done completionCounter
	once := func() {
		_ = client.Atomic(rdma.OpFetchAdd, client.Counter(1), rdma.Atomic{Operand: 1}, &done, 1)
		_ = server.PostImmediate(wordOf(1), &done, 1)
		_ = client.receiveImmediate(wordOf(1))
		_ = client.PostImmediate(wordOf(2), &done, 1)
		_ = server.receiveImmediate(wordOf(2))
	}
	once()
	assert.EqualValues(t, 3, done)
	assert.Less(t, testing.AllocsPerRun(1000, once), 1.0, "the pool may lose one to the collector")
}

// A ignoringHandler handler ignores Immediate Data.
type ignoringHandler struct{}

func (*ignoringHandler) Immediate([8]byte) {}
func (*ignoringHandler) Closed(error)      {}
