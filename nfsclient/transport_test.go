package nfsclient

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// fakeDialer dials a listener in memory.
type fakeDialer struct{ l *rdmatest.Listener }

func (d fakeDialer) Dial(ctx context.Context, _ string, c rdma.ConnConfig) (rdma.Conn, error) {
	return d.l.Dial(ctx, c)
}

// overRDMA returns a connection to mux over RPC-over-RDMA.
func overRDMA(t *testing.T, mux *oncrpc.Mux, cfg rpcrdma.ClientConnConfig) oncrpc.Caller {
	t.Helper()
	l := rdmatest.Listen(t)
	srv := &rpcrdma.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	c, err := rpcrdma.DialConn(t.Context(), fakeDialer{l}, "", cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	return c
}

func overTCP(t *testing.T, mux *oncrpc.Mux) oncrpc.Caller {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &oncrpc.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	c, err := oncrpc.DialTCP(t.Context(), l.Addr().String(), oncrpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	return c
}

// TestTransports sends a variety of calls over each transport, with both inline
// sizes.
func TestTransports(t *testing.T) {
	for name, dial := range map[string]func(t *testing.T, mux *oncrpc.Mux) oncrpc.Caller{
		"TCP": overTCP,
		"RDMA": func(t *testing.T, mux *oncrpc.Mux) oncrpc.Caller {
			return overRDMA(t, mux, rpcrdma.ClientConnConfig{})
		},
		"RDMA, 1024 bytes inline, 2 credits": func(t *testing.T, mux *oncrpc.Mux) oncrpc.Caller {
			return overRDMA(t, mux, rpcrdma.ClientConnConfig{NoPrivateData: true, Credits: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { assert.Zero(t, buf.Default.Out(), "unreturned buffers") })
			mem := newMemFS()
			s, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{Path: "/x", FS: mem}}})
			require.NoError(t, err)
			mux := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
			s.Register(mux)
			useTransport(t, dial(t, mux))
		})
	}
}

func useTransport(t *testing.T, caller oncrpc.Caller) {
	t.Helper()
	ctx := t.Context()
	m := NewMount(caller, nil)
	exports, err := m.Exports(ctx)
	require.NoError(t, err)
	assert.Equal(t, []Export{{Path: "/x"}}, exports)
	root, err := m.Mnt(ctx, "/x")
	require.NoError(t, err)
	c := New(caller, Config{ReadSize: 64 << 10, WriteSize: 64 << 10})
	require.NoError(t, c.Null(ctx))
	f, err := c.FS(ctx, root, "/x")
	require.NoError(t, err)

	require.NoError(t, f.MkdirAll(ctx, "a/b", 0o755))
	long := string(bytes.Repeat([]byte("./"), nfs3.MaxPath/2-1)) + "b"
	require.NoError(t, f.Symlink(ctx, long, "a/long"))
	target, err := f.Readlink(ctx, "a/long")
	require.NoError(t, err)
	assert.Equal(t, long, target)

	for _, size := range []int{0, 1, 3, 1000, 5000, 64<<10 + 1, 1<<20 + 3} {
		data := sampleData(size)
		file, err := f.Create(ctx, "a/long/file", 0o644)
		require.NoError(t, err)
		n, err := file.CopyFrom(ctx, bytes.NewReader(data), 0)
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		p := make([]byte, size+10)
		got, err := file.ReadAt(ctx, p, 0)
		assert.Equal(t, io.EOF, err)
		require.True(t, bytes.Equal(data, p[:got]))
		var out bytes.Buffer
		_, err = file.CopyTo(ctx, &out, 0)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, out.Bytes()))
		_, err = file.WriteAt(ctx, []byte("tail"), int64(size))
		require.NoError(t, err)
	}
	for i := range 60 {
		_, err := f.CreateNew(ctx, "a/b/"+string(rune('A'+i)), 0o600)
		require.NoError(t, err)
	}
	count := 0
	for _, err := range f.ReadDir(ctx, "a/b") {
		require.NoError(t, err)
		count++
	}
	assert.Equal(t, 61, count)
	_, err = f.Stat(ctx, "a/none")
	assert.ErrorIs(t, err, nfs3.ErrNoEnt)
	require.NoError(t, f.RemoveAll(ctx, "a"))
	_, err = f.Stat(ctx, "a")
	assert.ErrorIs(t, err, nfs3.ErrNoEnt)
}
