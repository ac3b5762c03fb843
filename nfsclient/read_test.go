package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// small is a Config for which tests need no large files.
var small = Config{ReadSize: 4096, WriteSize: 4096, Depth: 4, Window: 8 * 4096}

// changeArgs changes a procedure's arguments before the server sees them.
func (w *fakeConn) changeArgs(proc uint32, change func(x *oncrpc.Exchange)) {
	w.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Prog == nfs3.Program && x.Proc == proc {
			change(x)
		}
		return nil, nil
	}
}

// limitReads makes the server read at most n bytes at a time.
func (w *fakeConn) limitReads(n uint32) {
	w.changeArgs(nfs3.ProcRead, func(x *oncrpc.Exchange) {
		var a nfs3.ReadArgs
		r := xdr.NewReader(x.Args)
		a.Decode(&r)
		a.Count = min(a.Count, n)
		x.Args = a.AppendTo(nil)
	})
}

func TestReadAt(t *testing.T) {
	onBoth(t, small, func(t *testing.T, g *testServer) {
		const size = 10*4096 + 100
		data := sampleData(size)
		f := g.putFile("f", data)
		for _, short := range []uint32{1 << 20, 1000} {
			g.limitReads(short)
			for _, off := range []int{0, 1, 4095, 4096, 3*4096 + 17, size - 4096, size - 1, size, size + 1, size + 1<<20} {
				for _, n := range []int{0, 1, 100, 4095, 4096, 4097, 8192, 3 * 4096, size, size + 8192} {
					p := make([]byte, n)
					want := data[min(off, size):min(off+n, size)]
					got, err := f.ReadAt(t.Context(), p, int64(off))
					require.Equal(t, len(want), got, "%d at %d", n, off)
					require.True(t, bytes.Equal(want, p[:got]))
					if got < n {
						assert.Equal(t, io.EOF, err)
					} else {
						assert.NoError(t, err)
					}
				}
			}
		}
		_, err := f.ReadAt(t.Context(), nil, -1)
		assert.ErrorIs(t, err, syscall.EINVAL)
	})
}

// TestDepth checks that with a slow server, every transfer has exactly
// Config.Depth calls in flight.
func TestDepth(t *testing.T) {
	const size = 40 * 4096
	for name, transfer := range map[string]func(ctx context.Context, f *File) error{
		"ReadAt": func(ctx context.Context, f *File) error {
			_, err := f.ReadAt(ctx, make([]byte, size), 0)
			return err
		},
		"CopyTo": func(ctx context.Context, f *File) error {
			_, err := f.CopyTo(ctx, io.Discard, 0)
			return err
		},
		"WriteAt": func(ctx context.Context, f *File) error {
			_, err := f.WriteAt(ctx, make([]byte, size), 0)
			return err
		},
		"CopyFrom": func(ctx context.Context, f *File) error {
			_, err := f.CopyFrom(ctx, bytes.NewReader(make([]byte, size)), 0)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newTestServer(t, small, true)
			f := g.putFile("f", make([]byte, size))
			g.maxInFlight = 0
			g.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) {
				time.Sleep(time.Millisecond)
				return nil, nil
			}
			assert.NoError(t, transfer(t.Context(), f))
			want := small.Depth
			if name == "CopyFrom" {
				want++ // the COMMIT of earlier data
			}
			assert.Equal(t, want, g.maxInFlight, name)
		})
	}
}

// TestReadAtCalls checks that a transfer that fits into one call makes one
// call.
func TestReadAtCalls(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", sampleData(5*4096))
	for _, tt := range []struct{ n, calls int }{{1, 1}, {4096, 1}, {4097, 2}, {5 * 4096, 5}} {
		before := g.callCount(nfs3.ProcRead)
		_, err := f.ReadAt(t.Context(), make([]byte, tt.n), 0)
		assert.NoError(t, err)
		assert.Equal(t, tt.calls, g.callCount(nfs3.ProcRead)-before)
	}
}

// failAt makes calls to proc fail with status at the given offsets.
func (w *fakeConn) failAt(proc uint32, status nfs3.Status, offsets ...uint64) {
	w.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Prog != nfs3.Program || x.Proc != proc {
			return nil, nil
		}
		r := xdr.NewReader(x.Args)
		r.Opaque(nfs3.FHSize)
		at := r.Uint64()
		for _, off := range offsets {
			if at == off {
				return failingCaller(proc, status), nil
			}
		}
		return nil, nil
	}
}

func TestReadAtError(t *testing.T) {
	g := newTestServer(t, small, true)
	data := sampleData(8 * 4096)
	f := g.putFile("f", data)
	g.failAt(nfs3.ProcRead, nfs3.ErrIO, 3*4096, 5*4096)
	p := make([]byte, len(data))
	n, err := f.ReadAt(t.Context(), p, 0)
	assert.ErrorIs(t, err, nfs3.ErrIO)
	assert.Equal(t, 3*4096, n, "the data before the first failure")
	assert.Equal(t, data[:n], p[:n])
}

// waitUntilIdle replies to every call to proc with the given results, which
// transfer no bytes.
func (w *fakeConn) waitUntilIdle(proc uint32, results []byte) {
	w.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Prog == nfs3.Program && x.Proc == proc {
			return results, nil
		}
		return nil, nil
	}
}

func TestReadAtNoProgress(t *testing.T) {
	g := newTestServer(t, small, false)
	f := g.putFile("f", sampleData(100))
	g.waitUntilIdle(nfs3.ProcRead, (&nfs3.ReadRes{}).AppendTo(nil))
	_, err := f.ReadAt(t.Context(), make([]byte, 200), 0)
	assert.ErrorIs(t, err, errNoProgress)
	_, err = f.CopyTo(t.Context(), io.Discard, 0)
	assert.ErrorIs(t, err, errNoProgress)
}

func TestReadAtCancelled(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", sampleData(8*4096))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	_, err := f.ReadAt(ctx, make([]byte, 8*4096), 0)
	assert.ErrorIs(t, err, why)
	_, err = f.CopyTo(ctx, io.Discard, 0)
	assert.ErrorIs(t, err, why)
}

func TestCopyTo(t *testing.T) {
	onBoth(t, small, func(t *testing.T, g *testServer) {
		for _, size := range []int{0, 1, 4095, 4096, 4097, 20*4096 - 1, 20 * 4096} {
			data := sampleData(size)
			f := g.putFile("f", data)
			for _, off := range []int{0, 1, 4096, size} {
				var out bytes.Buffer
				n, err := f.CopyTo(t.Context(), &out, int64(off))
				require.NoError(t, err)
				want := data[min(off, size):]
				require.EqualValues(t, len(want), n)
				require.True(t, bytes.Equal(want, out.Bytes()))
			}
		}
		_, err := g.putFile("f", nil).CopyTo(t.Context(), io.Discard, -1)
		assert.ErrorIs(t, err, syscall.EINVAL)
	})
}

// TestCopyToShortFile checks that a short file is not read ahead.
func TestCopyToShortFile(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", sampleData(4095))
	n, err := f.CopyTo(t.Context(), io.Discard, 0)
	assert.NoError(t, err)
	assert.EqualValues(t, 4095, n)
	assert.Equal(t, 1, g.callCount(nfs3.ProcRead))
}

func TestCopyToWriterFails(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", sampleData(40*4096))
	n, err := f.CopyTo(t.Context(), &fakeLimitedWriter{left: 5*4096 + 10}, 0)
	assert.ErrorIs(t, err, errFull)
	assert.EqualValues(t, 5*4096+10, n)
	n, err = f.CopyTo(t.Context(), iotest.TruncateWriter(io.Discard, 0), 0)
	assert.NoError(t, err)
	assert.EqualValues(t, 40*4096, n)
}

func TestCopyToReadFails(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", sampleData(40*4096))
	g.failAt(nfs3.ProcRead, nfs3.ErrStale, 6*4096)
	n, err := f.CopyTo(t.Context(), io.Discard, 0)
	assert.ErrorIs(t, err, nfs3.ErrStale)
	assert.EqualValues(t, 6*4096, n)
}

// A fakeLimitedWriter accepts left bytes.
type fakeLimitedWriter struct{ left int }

var errFull = errors.New("disk full")

func (l *fakeLimitedWriter) Write(p []byte) (int, error) {
	n := min(l.left, len(p))
	l.left -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// TestCopyToWaits checks that no call is abandoned, because that can cost an
// RDMA connection.
func TestCopyToWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t, small, true)
		f := g.putFile("f", sampleData(9*4096))
		g.before = func(ctx context.Context, _ *oncrpc.Exchange) ([]byte, error) {
			time.Sleep(time.Second)
			assert.NoError(t, ctx.Err())
			return nil, nil
		}
		for _, w := range []io.Writer{io.Discard, &fakeLimitedWriter{left: 2 * 4096}} {
			_, _ = f.CopyTo(t.Context(), w, 0)
			assert.Zero(t, g.inFlight)
		}
	})
}

func TestFileAttributes(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", []byte("content"))
	require.NoError(t, f.Truncate(t.Context(), 3))
	require.NoError(t, f.SetAttr(t.Context(), modeAttr(0o444)))
	a, err := f.Stat(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 3, a.Size)
	assert.EqualValues(t, 0o444, a.Mode)
	assert.Same(t, &f.Handle()[0], &g.fs.File(f.Handle()).Handle()[0])
	g.failProc(nfs3.ProcSetAttr, nfs3.ErrROFS, 1)
	assert.ErrorIs(t, f.Truncate(t.Context(), 0), syscall.EROFS)
}

// TestInOrder checks that runInOrder makes all calls.
func TestInOrder(t *testing.T) {
	for _, depth := range []int{1, 2, 7, 100} {
		for _, n := range []int{0, 1, 2, 50} {
			done := make([]bool, n)
			failed, _, err := runInOrder(n, depth, func(i int) (int, error) {
				done[i] = true
				return i, nil
			})
			assert.NoError(t, err)
			assert.Equal(t, n, failed)
			assert.NotContains(t, done, false)
		}
	}
}

// TestInOrderFailures checks that the lowest failure counts, whichever comes
// first.
func TestInOrderFailures(t *testing.T) {
	bad := errors.New("bad")
	for _, first := range []int{0, 1} {
		var turn [2]chan struct{}
		turn[first], turn[1-first] = make(chan struct{}), make(chan struct{})
		close(turn[first])
		failed, got, err := runInOrder(2, 2, func(i int) (int, error) {
			<-turn[i]
			if i == first {
				time.AfterFunc(time.Millisecond, func() { close(turn[1-i]) })
			}
			return 10 + i, bad
		})
		assert.ErrorIs(t, err, bad)
		assert.Zero(t, failed)
		assert.Equal(t, 10, got)
	}
	for _, depth := range []int{1, 2, 7} {
		var begun atomic.Int64
		_, _, err := runInOrder(1e6, depth, func(int) (int, error) {
			begun.Add(1)
			return 0, bad
		})
		assert.ErrorIs(t, err, bad)
		assert.LessOrEqual(t, begun.Load(), int64(depth))
	}
	for _, depth := range []int{1, 2, 7, 100} {
		var done [50]bool
		failed, got, err := runInOrder(50, depth, func(i int) (int, error) {
			done[i] = true
			if i >= 20 && i%2 == 1 {
				return i * 10, bad
			}
			return 0, nil
		})
		assert.ErrorIs(t, err, bad)
		assert.Equal(t, 21, failed)
		assert.Equal(t, 210, got)
		assert.NotContains(t, done[:22], false)
	}
}
