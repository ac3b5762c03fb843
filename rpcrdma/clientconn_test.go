package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echoProgram is a program that answers with the requested number of bytes. Its
// arguments are the lengths that the results and their data item shall have,
// and a data item; the results repeat the arguments.
type echoProgram struct {
	mu         sync.Mutex
	running    int
	maxRunning int // running at once
	hold       chan struct{}
	onCall     func()
	requests   int
}

const echoProg = 0x20000001

func (e *echoProgram) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc == 0 { // a Client's NULL call
		return c.Args.Done()
	}
	e.mu.Lock()
	e.running++
	e.requests++
	e.maxRunning = max(e.maxRunning, e.running)
	hold, onCall := e.hold, e.onCall
	e.mu.Unlock()
	if onCall != nil {
		onCall()
	}
	defer func() {
		e.mu.Lock()
		e.running--
		e.mu.Unlock()
	}()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	results, item := int(c.Args.Uint32()), int(c.Args.Uint32())
	data := c.Args.Item(1 << 20)
	tail := c.Args.Uint32()
	if err := c.Args.Done(); err != nil {
		return err
	}
	r.Head = xdr.AppendOpaque(r.Head, rampBytes(results))
	r.Head = xdr.AppendUint32(r.Head, uint32(len(data)))
	r.Head = xdr.AppendUint32(r.Head, weightedSum(data))
	r.Head = xdr.AppendUint32(r.Head, uint32(item))
	copy(r.NewItem(item), rampBytes(item))
	r.Tail = xdr.AppendUint32(nil, tail)
	return nil
}

func rampBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func weightedSum(b []byte) (s uint32) {
	for i, v := range b {
		s += uint32(v) * uint32(i+1)
	}
	return s
}

// A memDialer is an rdma.Dialer to the in-memory listener.
type memDialer struct {
	l    *rdmatest.Listener
	last *rdmatest.Conn
}

func (d *memDialer) Dial(ctx context.Context, _ string, c rdma.ConnConfig) (rdma.Conn, error) {
	conn, err := d.l.Dial(ctx, c)
	d.last = conn
	return conn, err
}

// withClientConn runs f with a requester and a server with the echo program.
func withClientConn(t *testing.T, s *Server, cfg ClientConnConfig, f func(t *testing.T, c *ClientConn, e *echoProgram, d *memDialer)) {
	t.Helper()
	e, mux := new(echoProgram), new(oncrpc.Mux)
	mux.Register(echoProg, 1, e)
	s.Handler = mux
	withServer(t, s, func(t *testing.T, r *testServer) {
		d := &memDialer{l: r.listen}
		c, err := DialConn(t.Context(), d, "", cfg)
		require.NoError(t, err)
		f(t, c, e, d)
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
	})
}

// callEcho calls the echo program and checks the results.
func callEcho(ctx context.Context, c oncrpc.Caller, args, results, item int) error {
	x := &oncrpc.Exchange{Prog: echoProg, Vers: 1, Proc: 1, MaxResults: results + 24, Sink: make([]byte, item), Item: rampBytes(args)}
	x.Cred = rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1, GID: 2, GIDs: []uint32{3, 4, 5}}
	for _, v := range []int{results, item, args} {
		x.Args = xdr.AppendUint32(x.Args, uint32(v))
	}
	x.Tail = xdr.AppendUint32(nil, 77)
	if err := c.Call(ctx, x); err != nil {
		return err
	}
	defer x.Release()
	r := &x.Results
	gotResults := r.Opaque(1 << 20)
	gotLen, gotSum, gotItem, tail := r.Uint32(), r.Uint32(), r.Item(1<<20), r.Uint32()
	switch err := r.Done(); {
	case err != nil:
		return err
	case string(gotResults) != string(rampBytes(results)):
		return errors.New("wrong results")
	case int(gotLen) != args || gotSum != weightedSum(rampBytes(args)):
		return errors.New("the arguments arrived wrong")
	case string(gotItem) != string(rampBytes(item)):
		return errors.New("wrong data item")
	case tail != 77:
		return errors.New("wrong tail")
	}
	return nil
}

// TestClientForms makes calls and replies in every form, at small and large
// thresholds (R8166-4-2).
func TestClientForms(t *testing.T) {
	sizes := []int{0, 1, 3, 700, 1022, 4096, 4097, 70001}
	for _, inline := range []int{1024, 4096, 65536} {
		for _, private := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, private data %v", inline, private), func(t *testing.T) {
				withClientConn(t, &Server{Inline: inline}, ClientConnConfig{Inline: inline, NoPrivateData: !private}, func(t *testing.T, c *ClientConn, _ *echoProgram, _ *memDialer) {
					want := inline
					if !private { // R8166-3.3.3-5
						want = 1024
					}
					send, recv := c.Thresholds()
					assert.Equal(t, want, send)
					assert.Equal(t, want, recv)
					for _, args := range sizes {
						for _, results := range sizes {
							for _, item := range sizes {
								require.NoError(t, callEcho(t.Context(), c, args, results, item), "%d %d %d", args, results, item)
							}
						}
					}
				})
			})
		}
	}
}

// TestClientCredits checks that a client uses one credit until the first reply,
// and then at most the granted number (R8166-3.3.1-1, R8166-3.3.3-2,
// R8166-3.3.3-3).
func TestClientCredits(t *testing.T) {
	for _, tt := range []struct{ granted, asked, want int }{{1, 1024, 1}, {2, 128, 2}, {1024, 1024, 1024}, {128, 16, 16}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			withClientConn(t, &Server{Credits: tt.granted}, ClientConnConfig{Credits: tt.asked}, func(t *testing.T, c *ClientConn, e *echoProgram, _ *memDialer) {
				assert.Equal(t, 1, c.Credits())
				e.hold = make(chan struct{})
				var wg sync.WaitGroup
				start := func(n int) {
					for range n {
						wg.Go(func() { assert.NoError(t, callEcho(t.Context(), c, 5000, 5, 0)) })
					}
					synctest.Wait()
				}
				start(10)
				assert.Equal(t, 1, e.maxRunning)
				close(e.hold)
				wg.Wait()
				assert.Equal(t, tt.want, c.Credits())
				e.mu.Lock()
				e.hold, e.maxRunning = make(chan struct{}), 0
				e.mu.Unlock()
				start(tt.want + 7)
				assert.Equal(t, min(tt.want, maxServing), e.maxRunning)
				close(e.hold)
				wg.Wait()
			})
		})
	}
}

// TestClientCancel checks that a cancelled call returns at once, and that its
// credit returns with its reply.
func TestClientCancel(t *testing.T) {
	withClientConn(t, &Server{Credits: 1}, ClientConnConfig{}, func(t *testing.T, c *ClientConn, e *echoProgram, _ *memDialer) {
		require.NoError(t, callEcho(t.Context(), c, 0, 0, 0))
		e.hold = make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("no patience")
		done := make(chan error, 2)
		go func() { done <- callEcho(ctx, c, 0, 10, 0) }()
		synctest.Wait()
		go func() { done <- callEcho(ctx, c, 0, 10, 0) }() // waits for the credit
		synctest.Wait()
		cancel(cause)
		assert.ErrorIs(t, <-done, cause)
		assert.ErrorIs(t, <-done, cause)
		late := make(chan error, 1)
		go func() { late <- callEcho(t.Context(), c, 0, 0, 0) }()
		synctest.Wait()
		assert.Empty(t, late)
		close(e.hold)
		assert.NoError(t, <-late)
	})
}

// TestClientLoss checks that the connection's end fails the calls in flight and
// later calls.
func TestClientLoss(t *testing.T) {
	withClientConn(t, &Server{}, ClientConnConfig{}, func(t *testing.T, c *ClientConn, e *echoProgram, d *memDialer) {
		require.NoError(t, callEcho(t.Context(), c, 0, 0, 0))
		e.hold = make(chan struct{})
		done := make(chan error, 3)
		for range 3 {
			go func() { done <- callEcho(t.Context(), c, 9000, 10, 9000) }()
		}
		synctest.Wait()
		cause := errors.New("cable cut")
		d.last.Abort(cause)
		for range 3 {
			err := <-done
			assert.ErrorIs(t, err, rdma.ErrClosed)
			assert.ErrorIs(t, err, cause)
		}
		<-c.Done()
		assert.ErrorIs(t, callEcho(t.Context(), c, 0, 0, 0), rdma.ErrClosed)
	})
}

func TestClientRefused(t *testing.T) {
	withClientConn(t, &Server{MaxPayload: 4096}, ClientConnConfig{}, func(t *testing.T, c *ClientConn, _ *echoProgram, _ *memDialer) {
		err := c.Call(t.Context(), &oncrpc.Exchange{Prog: echoProg + 1, Vers: 1})
		assert.ErrorIs(t, err, oncrpc.ErrProgUnavail)
		var mismatch *oncrpc.ReplyError
		require.ErrorAs(t, c.Call(t.Context(), &oncrpc.Exchange{Prog: echoProg, Vers: 3}), &mismatch)
		assert.Equal(t, []uint32{1, 1}, []uint32{mismatch.Low, mismatch.High})
		assert.ErrorIs(t, c.Call(t.Context(), &oncrpc.Exchange{Prog: echoProg, Vers: 1, Proc: 1}), oncrpc.ErrGarbageArgs)
		// For chunks that the server does not take, the RDMA_ERROR is final
		// (R8166-4.5-7), and the connection lives.
		var remote *RemoteError
		require.ErrorAs(t, callEcho(t.Context(), c, 1<<20, 0, 0), &remote)
		assert.Equal(t, wire.ErrChunk, remote.Code)
		assert.NoError(t, callEcho(t.Context(), c, 5, 5, 5))
	})
}
