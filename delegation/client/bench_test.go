package client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// newBenchObject returns a held object with one user, in real time.
func newBenchObject(b testing.TB) *Object {
	k := newFakeServer(b, newBootClock().now, 0)
	listen := rdmatest.Listen(b)
	r := &testClient{listen: listen}
	r.Set = New(Config{Drop: func(_ *Object, done func()) { done() }})
	mux := new(oncrpc.Mux)
	mux.Register(delegation.Program, delegation.Version, k)
	srv := &rpcrdma.Server{Handler: mux, Extensions: k.newExtension()}
	go func() { _ = srv.Serve(listen) }()
	line, err := rpcrdma.Dial(context.Background(), r, "", rpcrdma.ClientConfig{
		Conn: rpcrdma.ClientConnConfig{Extensions: r.NewAttachment().Extension()},
	})
	require.NoError(b, err)
	b.Cleanup(func() {
		assert.NoError(b, line.Close())
		r.Set.Close()
		k.stopServer()
		assert.NoError(b, srv.Shutdown(context.Background()))
	})
	o := r.newObject("file")
	g, err := r.Acquire(context.Background(), o, delegation.FileData, nobody)
	require.NoError(b, err)
	require.NotZero(b, g.Types)
	return o
}

// BenchmarkOpenTrusted opens an object already in use.
func BenchmarkOpenTrusted(b *testing.B) {
	o, ctx := newBenchObject(b), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if !o.Open(ctx) {
			b.Fatal("not trusted")
		}
		o.Close()
	}
}

// BenchmarkOpenAtomic opens an unused object over an in-memory transport: two
// atomic operations, the first of them awaited.
func BenchmarkOpenAtomic(b *testing.B) {
	o, ctx := newBenchObject(b), context.Background()
	o.Close()
	b.ReportAllocs()
	for b.Loop() {
		if !o.Open(ctx) {
			b.Fatal("not good")
		}
		o.Close()
	}
}

// BenchmarkTrusted checks trust without a lock.
func BenchmarkTrusted(b *testing.B) {
	o := newBenchObject(b)
	for b.Loop() {
		if o.Trust() == 0 {
			b.Fatal("not trusted")
		}
	}
}

// TestUseAllocs checks that a use without an atomic operation allocates
// nothing.
func TestUseAllocs(t *testing.T) {
	o, ctx := newBenchObject(t), context.Background()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if o.Open(ctx) {
			o.Close()
		}
	}))
}
