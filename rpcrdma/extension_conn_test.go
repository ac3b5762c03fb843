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

// TestReplyPosted checks that a program finds the ExtensionConn of a call's
// connection, and by it its own handler. Data that it posts in Reply.Posted
// goes behind the reply, in any form of the reply.
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
			theirs, told := new(side), 0
			program := service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				l := ExtensionConnOf(req.Peer)
				assert.Same(t, l, l.Handler().(*sideLink).l)
				rep.Posted = func() {
					told++
					assert.NoError(t, l.PostImmediate(wordOf(7), nil, 0))
				}
				null(ctx, req, rep)
				return tt.serve(rep)
			})
			serve(t, &Server{Handler: program, Extensions: theirs.config(4)}, func(t *testing.T, r *rig) {
				p := dialRawLink(t, r.listen, linked(4))
				require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{msgHeader(5), rpcCall(5, "")}}))
				got := p.news()
				require.Len(t, got, tt.replies+1)
				assert.True(t, got[tt.replies].WithImmediate, "it is the last")
				assert.Equal(t, 1, told)
			})
		})
	}
	t.Run("connection lost", func(t *testing.T) {
		theirs, told, g := new(side), new(atomic.Int64), &gate{open: nil}
		serve(t, &Server{Extensions: theirs.config(4), Handler: service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
			rep.Posted = func() { told.Add(1) }
			return g.Serve(ctx, req, rep)
		})}, func(t *testing.T, r *rig) {
			g.open = make(chan struct{})
			p := dialRawLink(t, r.listen, linked(4))
			require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{msgHeader(5), rpcCall(5, "")}}))
			require.Equal(t, 1, g.count())
			p.Abort(nil)
			synctest.Wait()
			close(g.open)
			synctest.Wait()
			assert.EqualValues(t, 1, told.Load())
		})
	})
}

// TestLinkOf checks that calls of other peers have no ExtensionConn.
func TestLinkOf(t *testing.T) {
	assert.Nil(t, ExtensionConnOf(&oncrpc.Peer{}))
	links := make(chan *ExtensionConn, 1)
	serve(t, &Server{Extensions: new(side).config(1), Handler: service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		links <- ExtensionConnOf(req.Peer)
		return null(ctx, req, rep)
	})}, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		q.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
		q.answer()
		assert.Nil(t, <-links)
	})
}

// TestLinkAbort checks that a program can end a connection by its
// ExtensionConn, and that Closed is called once at both ends, after all work
// under way has completed.
func TestLinkAbort(t *testing.T) {
	links(t, 2, 2, func(t *testing.T, _ *rig, c *ClientConn, theirs, ours *side) {
		cause := errors.New("violates the rules")
		theirs.link(t).Abort(cause)
		for _, s := range []*side{theirs, ours} {
			require.Len(t, s.ends(), 1)
			assert.ErrorIs(t, s.ends()[0], cause)
		}
	})
	links(t, 2, 2, func(t *testing.T, _ *rig, c *ClientConn, theirs, ours *side) {
		require.NoError(t, c.Close())
		assert.ErrorIs(t, theirs.ends()[0], io.EOF)
	})
}

// An ordeal records the results of many operations, and checks that they come
// before the end.
type ordeal struct {
	t    *testing.T
	mu   sync.Mutex
	told map[uint64]error
	over bool
}

func (o *ordeal) Complete(c rdma.Completion) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, twice := o.told[c.ID]
	assert.False(o.t, twice, "operation %d", c.ID)
	assert.False(o.t, o.over, "notified after the end")
	if c.Err == nil {
		assert.Equal(o.t, c.ID, c.Original, "in the order of posting")
	} else {
		assert.ErrorIs(o.t, c.Err, rdma.ErrFlushed)
	}
	o.told[c.ID] = c.Err
}

// TestAtomicsCut checks that each operation completes once, whenever the
// connection ends (R7306-5.2.1-5).
func TestAtomicsCut(t *testing.T) {
	const many = 50
	for after := range 30 {
		theirs, ours := new(side), new(side)
		o := &ordeal{t: t, told: make(map[uint64]error)}
		ours.onClosed = func(*ExtensionConn) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.over = true
		}
		serve(t, &Server{Handler: null, Extensions: theirs.delegating(2)}, func(t *testing.T, r *rig) {
			d := &dialer{l: r.listen}
			c, err := DialConn(t.Context(), d, "", ClientConnConfig{Extensions: ours.delegating(0)})
			require.NoError(t, err)
			l := ours.link(t)
			if after%2 == 0 {
				c.Conn().(*rdmatest.Conn).CutAfter(after)
			} else {
				r.only().CutAfter(after)
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
			require.Len(t, ours.ends(), 1)
			require.ErrorIs(t, l.Atomic(rdma.OpFetchAdd, l.Counter(0), rdma.Atomic{}, o, 99), rdma.ErrClosed)
			assert.Len(t, o.told, posted)
			good := 0
			for _, err := range o.told {
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
	ours := new(side)
	line(t, ClientConfig{Conn: ClientConnConfig{Extensions: ours.config(1)}}, func(t *testing.T, l *Client, p *place) {
		p.kill()
		theirs := new(side)
		p.extensions = theirs.config(1)
		p.open()
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		first := l.Conn().ExtensionConn()
		call := func(l *ExtensionConn) error {
			x := &oncrpc.Exchange{Prog: echoProg, Vers: 1}
			defer x.Release()
			return l.Call(t.Context(), x)
		}
		require.NoError(t, call(first))
		p.last().Abort(rdmatest.ErrCut)
		synctest.Wait()
		require.ErrorIs(t, call(first), rdma.ErrClosed)
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		second := l.Conn().ExtensionConn()
		assert.NotSame(t, first, second)
		assert.NotSame(t, first.Handler(), second.Handler())
		require.NoError(t, call(second))
		require.ErrorIs(t, call(theirs.links[1]), errNotAgreed)
	})
}

// TestLinkCallSilence checks that a silent server loses the connection for a
// call by an ExtensionConn too.
func TestLinkCallSilence(t *testing.T) {
	ours := new(side)
	line(t, ClientConfig{Silence: 8 * time.Second, Conn: ClientConnConfig{Extensions: ours.config(1)}}, func(t *testing.T, l *Client, p *place) {
		p.kill()
		p.extensions = new(side).config(1)
		p.open()
		require.NoError(t, ask(t.Context(), l, 0, 0, 0))
		defer p.lastTheirs().Pause()()
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

// counted counts completions.
type counted int

func (n *counted) Complete(rdma.Completion) { *n++ }

// TestLinkAllocs checks that neither an atomic operation nor a question and its
// answer allocates.
func TestLinkAllocs(t *testing.T) {
	client := &ExtensionConn{client: new(ClientConn), conn: idleConn{}, on: Extensions{1, true, true}, handler: (*careless)(nil)}
	server := &ExtensionConn{conn: idleConn{}, on: Extensions{1, true, true}, handler: (*careless)(nil)}
	var done counted
	once := func() {
		_ = client.Atomic(rdma.OpFetchAdd, client.Counter(1), rdma.Atomic{Operand: 1}, &done, 1)
		_ = server.PostImmediate(wordOf(1), &done, 1)
		_ = client.receive(wordOf(1))
		_ = client.PostImmediate(wordOf(2), &done, 1)
		_ = server.receive(wordOf(2))
	}
	once()
	assert.EqualValues(t, 3, done)
	assert.Less(t, testing.AllocsPerRun(1000, once), 1.0, "the pool may lose one to the collector")
}

// A careless handler ignores Immediate Data.
type careless struct{}

func (*careless) Immediate([8]byte) {}
func (*careless) Closed(error)      {}
