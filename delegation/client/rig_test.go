package client

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const lease = 12 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// A rig is a Set with some lines to a keeper, in a synctest bubble.
type rig struct {
	*Set
	t      *testing.T
	k      *keeper
	listen *rdmatest.Listener
	lines  []*rpcrdma.Client
	asleep atomic.Int64 // nanoseconds that the clock is ahead of the bubble's

	mu      sync.Mutex
	conns   []*rdmatest.Conn // client side
	dropped []*Object
	hold    chan struct{} // if not nil, drops are not done before hold is closed
}

// run runs f with one line, and checks that nothing is left afterwards: a
// leftover goroutine fails the bubble.
func run(t *testing.T, f func(t *testing.T, r *rig)) { runLines(t, 1, f) }

func runLines(t *testing.T, lines int, f func(t *testing.T, r *rig)) {
	t.Helper()
	runWith(t, func(*keeper) {}, lines, f)
}

func runWith(t *testing.T, set func(*keeper), lines int, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		r := &rig{t: t, listen: rdmatest.Listen(t)}
		began := time.Now().Add(-time.Hour)
		clock := func() time.Duration { return time.Since(began) }
		r.k = newKeeper(t, clock, lease)
		set(r.k)
		r.Set = New(Config{Drop: r.drop, Now: func() time.Duration { return clock() + time.Duration(r.asleep.Load()) }, Log: quiet})
		mux := &oncrpc.Mux{Log: quiet}
		mux.Register(delegation.Program, delegation.Version, r.k)
		srv := &rpcrdma.Server{Handler: mux, Extensions: r.k.extension()}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(r.listen) }()
		defer func() {
			r.close()
			r.k.stop()
			assert.NoError(t, srv.Shutdown(t.Context()))
			assert.NoError(t, <-served)
			synctest.Wait()
			assert.Equal(t, before, buf.Default.Out(), "buffers lent")
		}()
		for range lines {
			r.connect()
		}
		f(t, r)
	})
}

// connect adds a line.
func (r *rig) connect() {
	l, err := rpcrdma.Dial(r.t.Context(), r, "", rpcrdma.ClientConfig{
		Conn: rpcrdma.ClientConnConfig{Extensions: r.NewAttachment().Extension()}, Log: quiet,
	})
	require.NoError(r.t, err)
	r.lines = append(r.lines, l)
	require.NoError(r.t, r.null(len(r.lines)-1))
}

// close closes all lines, and checks that nothing is held without connections.
func (r *rig) close() {
	for _, l := range r.lines {
		assert.NoError(r.t, l.Close())
	}
	r.Set.Close()
	assert.Zero(r.t, r.Stats().Held)
}

// Dial connects to the server (rdma.Dialer).
func (r *rig) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	c, err := r.listen.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
	return c, nil
}

// conn returns the client side of the latest connection.
func (r *rig) conn() *rdmatest.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns[len(r.conns)-1]
}

// null makes a call over a line, which connects first if necessary.
func (r *rig) null(line int) error {
	x := &oncrpc.Exchange{Prog: delegation.Program, Vers: delegation.Version}
	defer x.Release()
	return r.lines[line].Call(context.Background(), x)
}

func (r *rig) drop(o *Object, done func()) {
	r.mu.Lock()
	r.dropped = append(r.dropped, o)
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	done()
}

// drops returns the objects dropped since the last call.
func (r *rig) drops() []*Object {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.dropped
	r.dropped = nil
	return d
}

func (r *rig) object(fh string) *Object {
	o := new(Object)
	r.Init(o, []byte(fh), fh)
	return o
}

// acquire asks for an object.
func (r *rig) acquire(o *Object) Granted {
	r.t.Helper()
	g, err := r.Acquire(r.t.Context(), o, delegation.FileData, rpcmsg.Cred{})
	require.NoError(r.t, err)
	return g
}

// holds returns a held object with one user.
func (r *rig) holds(fh string) *Object {
	r.t.Helper()
	o := r.object(fh)
	require.NotZero(r.t, r.acquire(o).Types)
	require.True(r.t, o.Trust() > 0)
	return o
}

// unused reports whether the server can reclaim the object silently: a change
// need not wait, and the object counts as reclaimed.
func (r *rig) unused(fh string) bool {
	synctest.Wait()
	before := r.k.g.Stats()
	assert.Zero(r.t, r.k.change(fh, func() {}))
	return r.k.g.Stats().Reclaimed == before.Reclaimed+1
}
