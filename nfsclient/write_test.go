package nfsclient

import (
	"bytes"
	"context"
	"io"
	"math"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// limitWrites makes the server accept at most n bytes at a time.
func (w *fakeConn) limitWrites(n int) {
	w.changeArgs(nfs3.ProcWrite, func(x *oncrpc.Exchange) {
		r := xdr.NewReader(x.Args)
		r.SetMoved(x.Item)
		var a nfs3.WriteArgs
		a.Decode(&r)
		a.Data = a.Data[:min(len(a.Data), n)]
		x.Args, x.Item = a.AppendTo(nil), a.Data
	})
}

func TestWriteAt(t *testing.T) {
	onBoth(t, small, func(t *testing.T, g *testServer) {
		for _, short := range []int{1 << 20, 1000} {
			g.limitWrites(short)
			for _, off := range []int{0, 1, 4096, 5000} {
				for _, n := range []int{0, 1, 4095, 4096, 4097, 3 * 4096, 9*4096 + 5} {
					f := g.putFile("f", nil)
					p := sampleData(n)
					got, err := f.WriteAt(t.Context(), p, int64(off))
					require.NoError(t, err)
					require.Equal(t, n, got)
					want := append(make([]byte, off), p...)
					if n == 0 {
						want = nil
					}
					data, stable := g.fileContent(f)
					require.True(t, bytes.Equal(want, data))
					require.True(t, bytes.Equal(want, stable))
				}
			}
		}
		_, err := g.putFile("f", nil).WriteAt(t.Context(), nil, -1)
		assert.ErrorIs(t, err, syscall.EINVAL)
	})
}

// TestWriteAtCalls checks that one stable call is made if one suffices, and no
// COMMIT if the server replies to every WRITE as stable.
func TestWriteAtCalls(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", nil)
	for _, tt := range []struct {
		n, writes, commits int
		always             bool
	}{{0, 0, 0, false}, {4096, 1, 0, false}, {4097, 2, 1, false}, {20 * 4096, 20, 1, false}, {20 * 4096, 20, 0, true}} {
		g.mem.always = tt.always
		writes, commits := g.callCount(nfs3.ProcWrite), g.callCount(nfs3.ProcCommit)
		_, err := f.WriteAt(t.Context(), make([]byte, tt.n), 0)
		assert.NoError(t, err)
		assert.Equal(t, tt.writes, g.callCount(nfs3.ProcWrite)-writes)
		assert.Equal(t, tt.commits, g.callCount(nfs3.ProcCommit)-commits)
	}
}

// restartAtCall restarts the server before the calls to proc with these
// numbers, counted from 1.
func (g *testServer) restartAtCall(proc uint32, numbers ...int) {
	var mu sync.Mutex
	n := 0
	g.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Prog != nfs3.Program || x.Proc != proc {
			return nil, nil
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		for _, at := range numbers {
			if n == at {
				g.mem.loseUnstable()
			}
		}
		return nil, nil
	}
}

// TestWriteAtRestart checks that data that the server loses between WRITE and
// COMMIT, or between two WRITEs, are written again.
func TestWriteAtRestart(t *testing.T) {
	for name, at := range map[string]struct {
		proc    uint32
		numbers []int
	}{
		"before COMMIT":         {nfs3.ProcCommit, []int{1}},
		"between two WRITEs":    {nfs3.ProcWrite, []int{5}},
		"twice between WRITEs":  {nfs3.ProcWrite, []int{2, 8}},
		"and at the second try": {nfs3.ProcWrite, []int{5, 12}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestServer(t, small, true)
			f := g.putFile("f", nil)
			data := sampleData(10*4096 + 7)
			g.restartAtCall(at.proc, at.numbers...)
			n, err := f.WriteAt(t.Context(), data, 3)
			require.NoError(t, err)
			assert.Equal(t, len(data), n)
			assert.Greater(t, g.callCount(nfs3.ProcWrite), 11, "the lost data was sent again")
			_, stable := g.fileContent(f)
			assert.True(t, bytes.Equal(append(make([]byte, 3), data...), stable))
		})
	}
}

// TestWriteRestartWithinPiece checks a restart of the server while it accepts
// one piece in several steps.
func TestWriteRestartWithinPiece(t *testing.T) {
	g := newTestServer(t, Config{WriteSize: 4096, Depth: 1}, true)
	f := g.putFile("f", nil)
	n := 0
	g.limitWrites(1000)
	cut := g.before
	g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if n++; n == 3 {
			g.mem.loseUnstable()
		}
		return cut(ctx, x)
	}
	data := sampleData(2 * 4096)
	_, err := f.WriteAt(t.Context(), data, 0)
	require.NoError(t, err)
	_, stable := g.fileContent(f)
	assert.True(t, bytes.Equal(data, stable))
}

func TestWriteAtError(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", nil)
	data := sampleData(10 * 4096)
	g.failAt(nfs3.ProcWrite, nfs3.ErrNoSpc, 4*4096, 7*4096)
	n, err := f.WriteAt(t.Context(), data, 0)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 4*4096, n)
	_, stable := g.fileContent(f)
	assert.Equal(t, data[:n], stable[:n], "data that WriteAt reports as written is stable")

	g.failProc(nfs3.ProcCommit, nfs3.ErrIO, 1)
	n, err = f.WriteAt(t.Context(), data, 0)
	assert.ErrorIs(t, err, nfs3.ErrIO)
	assert.Zero(t, n)

	g.restartAtCall(nfs3.ProcCommit, 1)
	restart := g.before
	g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Proc == nfs3.ProcWrite && stableOf(x) == nfs3.FileSync {
			return failingCaller(nfs3.ProcWrite, nfs3.ErrDQuot), nil
		}
		return restart(ctx, x)
	}
	n, err = f.WriteAt(t.Context(), data, 0)
	assert.ErrorIs(t, err, nfs3.ErrDQuot, "a repeated WRITE can fail too")
	assert.Zero(t, n)
}

// stableOf returns the stability that a WRITE requests.
func stableOf(x *oncrpc.Exchange) nfs3.Stable {
	var a nfs3.WriteArgs
	r := xdr.NewReader(x.Args)
	r.SetMoved(x.Item)
	a.Decode(&r)
	return a.Stable
}

func TestWriteAtServerBreaksItsWord(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", nil)
	g.after = func(x *oncrpc.Exchange, results []byte) []byte {
		if x.Proc != nfs3.ProcWrite {
			return results
		}
		var res nfs3.WriteRes
		r := xdr.NewReader(results)
		res.Decode(&r)
		res.Committed = nfs3.Unstable
		return res.AppendTo(nil)
	}
	_, err := f.WriteAt(t.Context(), []byte("x"), 0)
	assert.ErrorIs(t, err, errUnstable)
	_, err = f.CopyFrom(t.Context(), bytes.NewReader([]byte("x")), 0)
	assert.ErrorIs(t, err, errUnstable)
	g.waitUntilIdle(nfs3.ProcWrite, (&nfs3.WriteRes{}).AppendTo(nil))
	_, err = f.WriteAt(t.Context(), []byte("x"), 0)
	assert.ErrorIs(t, err, errNoProgress)
}

// TestCommitRange checks that COMMIT covers the pieces that are not stable, and
// reaches to the end of the file if the range is too long for count.
func TestCommitRange(t *testing.T) {
	var r fakeRecorder
	f := (&FS{c: New(&r, Config{})}).File(bigFH)
	for _, tt := range []struct {
		pieces []*piece
		want   *nfs3.CommitArgs
	}{
		{nil, nil},
		{[]*piece{{off: 10, data: make([]byte, 5), stable: true}}, nil},
		{[]*piece{{off: 10, data: make([]byte, 5)}, {off: 100, stable: true, data: make([]byte, 9)}}, &nfs3.CommitArgs{File: bigFH, Offset: 10, Count: 5}},
		{[]*piece{{off: 30, data: make([]byte, 5)}, {off: 10, data: make([]byte, 1)}}, &nfs3.CommitArgs{File: bigFH, Offset: 10, Count: 25}},
		{[]*piece{{off: 1, data: make([]byte, 1)}, {off: math.MaxUint32, data: make([]byte, 2)}}, &nfs3.CommitArgs{File: bigFH, Offset: 1}},
	} {
		r = fakeRecorder{}
		_, err := f.commitPieces(t.Context(), tt.pieces)
		if tt.want == nil {
			assert.NoError(t, err)
			assert.Nil(t, r.msg)
			continue
		}
		assert.ErrorIs(t, err, errRecorded)
		assert.Equal(t, tt.want.AppendTo(nil), r.x.Args)
	}
}

func TestSync(t *testing.T) {
	g := newTestServer(t, small, true)
	f := g.putFile("f", nil)
	_, err := g.c.Write(t.Context(), f.Handle(), 0, []byte("data"), nfs3.Unstable)
	require.NoError(t, err)
	_, stable := g.fileContent(f)
	assert.Empty(t, stable)
	require.NoError(t, f.Sync(t.Context()))
	_, stable = g.fileContent(f)
	assert.Equal(t, "data", string(stable))
	g.failProc(nfs3.ProcCommit, nfs3.ErrIO, 1)
	assert.ErrorIs(t, f.Sync(t.Context()), nfs3.ErrIO)
}

// TestManyWriters writes parts of one file from many goroutines, while the
// server restarts repeatedly.
func TestManyWriters(t *testing.T) {
	g := newTestServer(t, small, false)
	f := g.putFile("f", nil)
	g.restartAtCall(nfs3.ProcWrite, 10, 30, 50, 51, 90)
	const part = 5*4096 + 1
	data := sampleData(16 * part)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			p := data[i*part : (i+1)*part]
			if i%2 == 0 {
				_, err := f.WriteAt(t.Context(), p, int64(i*part))
				assert.NoError(t, err)
				return
			}
			n, err := f.CopyFrom(t.Context(), bytes.NewReader(p), int64(i*part))
			assert.NoError(t, err)
			assert.EqualValues(t, part, n)
		})
	}
	wg.Wait()
	_, stable := g.fileContent(f)
	assert.True(t, bytes.Equal(data, stable))
	p := make([]byte, len(data)+1)
	n, err := f.ReadAt(t.Context(), p, 0)
	assert.Equal(t, io.EOF, err)
	assert.True(t, bytes.Equal(data, p[:n]))
}
