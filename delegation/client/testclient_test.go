package client

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const lease = 12 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// A testClient is a Set with some lines to a fakeServer, in a synctest bubble.
type testClient struct {
	*Set
	t           *testing.T
	server      *fakeServer
	listen      *rdmatest.Listener
	lines       []*rpcrdma.Client
	clockOffset atomic.Int64 // nanoseconds by which the clock is ahead of the bubble's

	mu      sync.Mutex
	conns   []*rdmatest.Conn // client side
	dropped []*Object
	hold    chan struct{} // if not nil, drops are not done before hold is closed
}

// runTest runs f with one line, and checks that nothing is left afterwards: a
// leftover goroutine fails the bubble.
func runTest(t *testing.T, f func(t *testing.T, r *testClient)) { runLines(t, 1, f) }

func runLines(t *testing.T, lines int, f func(t *testing.T, r *testClient)) {
	t.Helper()
	runWith(t, func(*fakeServer) {}, lines, f)
}

func runWith(t *testing.T, set func(*fakeServer), lines int, f func(t *testing.T, r *testClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		r := &testClient{t: t, listen: rdmatest.Listen(t)}
		began := time.Now().Add(-time.Hour)
		clock := func() time.Duration { return time.Since(began) }
		r.server = newFakeServer(t, clock, lease)
		set(r.server)
		r.Set = New(Config{Drop: r.dropObject, Now: func() time.Duration { return clock() + time.Duration(r.clockOffset.Load()) }, Log: quiet})
		mux := &oncrpc.Mux{Log: quiet}
		mux.Register(delegation.Program, delegation.Version, r.server)
		srv := &rpcrdma.Server{Handler: mux, Extensions: r.server.newExtension()}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(r.listen) }()
		defer func() {
			r.closeAll()
			r.server.stopServer()
			assert.NoError(t, srv.Shutdown(t.Context()))
			assert.NoError(t, <-served)
			synctest.Wait()
			assert.Equal(t, before, buf.Default.Out(), "buffers lent")
		}()
		for range lines {
			r.connectLine()
		}
		f(t, r)
	})
}

// connectLine adds a line.
func (r *testClient) connectLine() {
	l, err := rpcrdma.Dial(r.t.Context(), r, "", rpcrdma.ClientConfig{
		Conn: rpcrdma.ClientConnConfig{Extensions: r.NewAttachment().Extension()}, Log: quiet,
	})
	require.NoError(r.t, err)
	r.lines = append(r.lines, l)
	require.NoError(r.t, r.callNull(len(r.lines)-1))
}

// closeAll closes all lines, and checks that nothing is held without connections.
func (r *testClient) closeAll() {
	for _, l := range r.lines {
		assert.NoError(r.t, l.Close())
	}
	r.Set.Close()
	assert.Zero(r.t, r.Stats().Held)
}

// Dial connects to the server (rdma.Dialer).
func (r *testClient) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	c, err := r.listen.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
	return c, nil
}

// lastConn returns the latest connection's client side.
func (r *testClient) lastConn() *rdmatest.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns[len(r.conns)-1]
}

// callNull sends a call over a line, which connects first if necessary.
func (r *testClient) callNull(line int) error {
	x := &oncrpc.Exchange{Prog: delegation.Program, Vers: delegation.Version}
	defer x.Release()
	return r.lines[line].Call(context.Background(), x)
}

func (r *testClient) dropObject(o *Object, done func()) {
	r.mu.Lock()
	r.dropped = append(r.dropped, o)
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	done()
}

// takeDropped returns the objects dropped since the last call.
func (r *testClient) takeDropped() []*Object {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.dropped
	r.dropped = nil
	return d
}

func (r *testClient) newObject(fh string) *Object {
	o := new(Object)
	r.Init(o, []byte(fh), fh)
	return o
}

// acquireObject acquires an object.
func (r *testClient) acquireObject(o *Object) AcquireResult {
	r.t.Helper()
	g, err := r.Acquire(r.t.Context(), o, delegation.FileData, rpcmsg.Cred{})
	require.NoError(r.t, err)
	return g
}

// heldObject returns a held object with one user.
func (r *testClient) heldObject(fh string) *Object {
	r.t.Helper()
	o := r.newObject(fh)
	require.NotZero(r.t, r.acquireObject(o).Types)
	require.True(r.t, o.Trust() > 0)
	return o
}

// isReclaimable reports whether the server can reclaim the object silently: a change
// need not wait, and the object counts as reclaimed.
func (r *testClient) isReclaimable(fh string) bool {
	synctest.Wait()
	before := r.server.grantor.Stats()
	assert.Zero(r.t, r.server.changeObject(fh, func() {}))
	return r.server.grantor.Stats().Reclaimed == before.Reclaimed+1
}
