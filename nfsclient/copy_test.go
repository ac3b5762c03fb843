package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

func TestCopyFrom(t *testing.T) {
	onBoth(t, small, func(t *testing.T, g *testServer) {
		for _, size := range []int{0, 1, 4095, 4096, 4097, 4 * 4096, 4*4096 + 1, 8 * 4096, 33*4096 + 9} {
			data := sampleData(size)
			for name, r := range map[string]io.Reader{
				"whole":           bytes.NewReader(data),
				"halves":          iotest.HalfReader(bytes.NewReader(data)),
				"EOF with data":   iotest.DataErrReader(bytes.NewReader(data)),
				"now and then no": &fakeHesitantReader{r: bytes.NewReader(data)},
			} {
				f := g.putFile("f", nil)
				n, err := f.CopyFrom(t.Context(), r, 10)
				require.NoError(t, err, "%s, %d bytes", name, size)
				require.EqualValues(t, size, n)
				if size > 0 {
					got, stable := g.fileContent(f)
					require.True(t, bytes.Equal(data, got[10:]), "%s, %d bytes", name, size)
					require.True(t, bytes.Equal(data, stable[10:]))
				}
			}
		}
		_, err := g.putFile("f", nil).CopyFrom(t.Context(), &fakeHesitantReader{}, -1)
		assert.ErrorIs(t, err, syscall.EINVAL)
	})
}

// A fakeHesitantReader returns nothing at every second Read.
type fakeHesitantReader struct {
	r io.Reader
	n int
}

func (h *fakeHesitantReader) Read(p []byte) (int, error) {
	if h.n++; h.n%2 == 0 {
		return 0, nil
	}
	return h.r.Read(p)
}

func TestCopyFromCalls(t *testing.T) {
	for _, tt := range []struct{ size, writes, commits int }{
		{0, 0, 0},
		{4095, 1, 0}, // stable at once
		{4096, 1, 1}, // the end is not known yet
		{4*4096 + 100, 5, 1},
		{8*4096 + 100, 9, 2}, // the last stable at once
		{9*4096 + 100, 10, 3},
		{16 * 4096, 16, 4},
	} {
		g := newTestServer(t, small, true)
		f := g.putFile("f", nil)
		n, err := f.CopyFrom(t.Context(), bytes.NewReader(sampleData(tt.size)), 0)
		assert.NoError(t, err)
		assert.EqualValues(t, tt.size, n)
		assert.Equal(t, tt.writes, g.callCount(nfs3.ProcWrite), tt.size)
		assert.Equal(t, tt.commits, g.callCount(nfs3.ProcCommit), tt.size)
	}
}

// TestCopyFromRestarts checks that no data are lost, however often and whenever
// the server restarts.
func TestCopyFromRestarts(t *testing.T) {
	data := sampleData(60*4096 + 1)
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := newTestServer(t, small, seed%2 == 0)
			f := g.putFile("f", nil)
			random := rand.New(rand.NewPCG(seed, 0))
			at := make(map[int]bool)
			for range 10 {
				at[random.IntN(90)] = true
			}
			calls := 0
			g.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) {
				g.fakeConn.mu.Lock()
				defer g.fakeConn.mu.Unlock()
				if calls++; at[calls] {
					g.mem.loseUnstable()
				}
				return nil, nil
			}
			n, err := f.CopyFrom(t.Context(), bytes.NewReader(data), 0)
			require.NoError(t, err)
			assert.EqualValues(t, len(data), n)
			_, stable := g.fileContent(f)
			assert.True(t, bytes.Equal(data, stable))
		})
	}
}

// countLentBuffers records the highest number of buffers lent during any call.
func (g *testServer) countLentBuffers() *int {
	most := new(int)
	g.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) {
		g.fakeConn.mu.Lock()
		defer g.fakeConn.mu.Unlock()
		*most = max(*most, buf.Default.Out())
		return nil, nil
	}
	return most
}

// TestCopyFromWindow checks that a copy never has more in memory than its
// window.
func TestCopyFromWindow(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", nil)
	most := g.countLentBuffers()
	_, err := f.CopyFrom(t.Context(), bytes.NewReader(sampleData(200*4096)), 0)
	require.NoError(t, err)
	// Besides the window: a reply for each call in flight.
	assert.LessOrEqual(t, *most, small.Window/4096+small.Depth+1)
}

// TestCopyFromStable checks that a copy keeps nothing in memory and makes no
// COMMIT if the server replies to every WRITE as stable.
func TestCopyFromStable(t *testing.T) {
	g := newTestServer(t, Config{WriteSize: 4096, Depth: 4}, true)
	g.mem.always = true
	f := g.putFile("f", nil)
	most := g.countLentBuffers()
	n, err := f.CopyFrom(t.Context(), bytes.NewReader(sampleData(200*4096)), 0)
	assert.NoError(t, err)
	assert.EqualValues(t, 200*4096, n)
	assert.Zero(t, g.callCount(nfs3.ProcCommit))
	assert.LessOrEqual(t, *most, 2*4+2)
}

func TestCopyFromServerFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fail   func(g *testServer)
		stable int64
	}{
		{"first WRITE", func(g *testServer) { g.failAt(nfs3.ProcWrite, nfs3.ErrNoSpc, 0) }, 0},
		{"second batch", func(g *testServer) { g.failAt(nfs3.ProcWrite, nfs3.ErrNoSpc, 5*4096) }, 4 * 4096},
		{"first COMMIT", func(g *testServer) { g.failAt(nfs3.ProcCommit, nfs3.ErrNoSpc, 0) }, 0},
		{"third COMMIT", func(g *testServer) { g.failAt(nfs3.ProcCommit, nfs3.ErrNoSpc, 8*4096) }, 8 * 4096},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newTestServer(t, small, true)
			f := g.putFile("f", nil)
			tt.fail(g)
			src := bytes.NewReader(sampleData(1000 * 4096))
			n, err := f.CopyFrom(t.Context(), src, 0)
			assert.ErrorIs(t, err, syscall.ENOSPC)
			assert.Equal(t, tt.stable, n)
			assert.Greater(t, src.Len(), 900*4096, "a failed copy reads no further")
		})
	}
}

func TestCopyFromSourceFails(t *testing.T) {
	bad := errors.New("bad sector")
	for _, tt := range []struct {
		name string
		end  io.Reader
		want error
	}{
		{"error", iotest.ErrReader(bad), bad},
		{"cut short", iotest.ErrReader(io.ErrUnexpectedEOF), io.ErrUnexpectedEOF},
		{"idle", fakeIdleReader{}, io.ErrNoProgress},
	} {
		for _, size := range []int{0, 10, 4096, 4*4096 + 10, 21 * 4096} {
			g := newTestServer(t, small, true)
			f := g.putFile("f", nil)
			data := sampleData(size)
			n, err := f.CopyFrom(t.Context(), io.MultiReader(bytes.NewReader(data), tt.end), 0)
			assert.ErrorIs(t, err, tt.want, tt.name)
			assert.EqualValues(t, size, n, "earlier data is stable")
			_, stable := g.fileContent(f)
			assert.True(t, bytes.Equal(data, stable), tt.name)
		}
	}
}

// A fakeIdleReader returns nothing and never reaches its end.
type fakeIdleReader struct{}

func (fakeIdleReader) Read([]byte) (int, error) { return 0, nil }

func TestCopyFromCancelled(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	endless := readerFunc(func(p []byte) (int, error) {
		if g.callCount(nfs3.ProcWrite) > 30 {
			cancel(why)
		}
		return len(p), nil
	})
	_, err := f.CopyFrom(ctx, endless, 0)
	assert.ErrorIs(t, err, why)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
