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
	"github.com/nfsrdma/nfsrdma/xdr"
)

// shortWrites makes the server take at most n bytes at a time.
func (w *wire) shortWrites(n int) {
	w.reshape(nfs3.ProcWrite, func(x *oncrpc.Exchange) {
		r := xdr.NewReader(x.Args)
		r.SetMoved(x.Item)
		var a nfs3.WriteArgs
		a.Decode(&r)
		a.Data = a.Data[:min(len(a.Data), n)]
		x.Args, x.Item = a.AppendTo(nil), a.Data
	})
}

func TestWriteAt(t *testing.T) {
	onBoth(t, small, func(t *testing.T, g *rig) {
		for _, short := range []int{1 << 20, 1000} {
			g.shortWrites(short)
			for _, off := range []int{0, 1, 4096, 5000} {
				for _, n := range []int{0, 1, 4095, 4096, 4097, 3 * 4096, 9*4096 + 5} {
					f := g.put("f", nil)
					p := sample(n)
					got, err := f.WriteAt(t.Context(), p, int64(off))
					require.NoError(t, err)
					require.Equal(t, n, got)
					want := append(make([]byte, off), p...)
					if n == 0 {
						want = nil
					}
					data, stable := g.content(f)
					require.True(t, bytes.Equal(want, data))
					require.True(t, bytes.Equal(want, stable))
				}
			}
		}
		_, err := g.put("f", nil).WriteAt(t.Context(), nil, -1)
		assert.ErrorIs(t, err, syscall.EINVAL)
	})
}

// TestWriteAtCalls checks that one stable call is made if one suffices, and no
// COMMIT if the server answers every WRITE as stable.
func TestWriteAtCalls(t *testing.T) {
	g := newRig(t, small, true)
	f := g.put("f", nil)
	for _, tt := range []struct {
		n, writes, commits int
		always             bool
	}{{0, 0, 0, false}, {4096, 1, 0, false}, {4097, 2, 1, false}, {20 * 4096, 20, 1, false}, {20 * 4096, 20, 0, true}} {
		g.mem.always = tt.always
		writes, commits := g.calls(nfs3.ProcWrite), g.calls(nfs3.ProcCommit)
		_, err := f.WriteAt(t.Context(), make([]byte, tt.n), 0)
		assert.NoError(t, err)
		assert.Equal(t, tt.writes, g.calls(nfs3.ProcWrite)-writes)
		assert.Equal(t, tt.commits, g.calls(nfs3.ProcCommit)-commits)
	}
}

// restartAt restarts the server before the calls of proc with these numbers,
// counted from 1.
func (g *rig) restartAt(proc uint32, numbers ...int) {
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
				g.mem.restart()
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
			g := newRig(t, small, true)
			f := g.put("f", nil)
			data := sample(10*4096 + 7)
			g.restartAt(at.proc, at.numbers...)
			n, err := f.WriteAt(t.Context(), data, 3)
			require.NoError(t, err)
			assert.Equal(t, len(data), n)
			assert.Greater(t, g.calls(nfs3.ProcWrite), 11, "the lost data was sent again")
			_, stable := g.content(f)
			assert.True(t, bytes.Equal(append(make([]byte, 3), data...), stable))
		})
	}
}

// TestWriteRestartWithinPiece checks a restart of the server while it takes one
// piece in several steps.
func TestWriteRestartWithinPiece(t *testing.T) {
	g := newRig(t, Config{WriteSize: 4096, Depth: 1}, true)
	f := g.put("f", nil)
	n := 0
	g.shortWrites(1000)
	cut := g.before
	g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if n++; n == 3 {
			g.mem.restart()
		}
		return cut(ctx, x)
	}
	data := sample(2 * 4096)
	_, err := f.WriteAt(t.Context(), data, 0)
	require.NoError(t, err)
	_, stable := g.content(f)
	assert.True(t, bytes.Equal(data, stable))
}

func TestWriteAtError(t *testing.T) {
	g := newRig(t, small, true)
	f := g.put("f", nil)
	data := sample(10 * 4096)
	g.failAt(nfs3.ProcWrite, nfs3.ErrNoSpc, 4*4096, 7*4096)
	n, err := f.WriteAt(t.Context(), data, 0)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 4*4096, n)
	_, stable := g.content(f)
	assert.Equal(t, data[:n], stable[:n], "data that WriteAt reports as written is stable")

	g.refuse(nfs3.ProcCommit, nfs3.ErrIO, 1)
	n, err = f.WriteAt(t.Context(), data, 0)
	assert.ErrorIs(t, err, nfs3.ErrIO)
	assert.Zero(t, n)

	g.restartAt(nfs3.ProcCommit, 1)
	restart := g.before
	g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Proc == nfs3.ProcWrite && stableOf(x) == nfs3.FileSync {
			return failing(nfs3.ProcWrite, nfs3.ErrDQuot), nil
		}
		return restart(ctx, x)
	}
	n, err = f.WriteAt(t.Context(), data, 0)
	assert.ErrorIs(t, err, nfs3.ErrDQuot, "a repeated WRITE can fail too")
	assert.Zero(t, n)
}

// stableOf returns the stability that a WRITE asks for.
func stableOf(x *oncrpc.Exchange) nfs3.Stable {
	var a nfs3.WriteArgs
	r := xdr.NewReader(x.Args)
	r.SetMoved(x.Item)
	a.Decode(&r)
	return a.Stable
}

func TestWriteAtServerBreaksItsWord(t *testing.T) {
	g := newRig(t, small, true)
	f := g.put("f", nil)
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
	g.idle(nfs3.ProcWrite, (&nfs3.WriteRes{}).AppendTo(nil))
	_, err = f.WriteAt(t.Context(), []byte("x"), 0)
	assert.ErrorIs(t, err, errNoProgress)
}

// TestCommitRange checks that COMMIT covers the pieces that are not stable, and
// reaches to the end of the file if the range is too long for count.
func TestCommitRange(t *testing.T) {
	var r recorder
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
		r = recorder{}
		_, err := f.commit(t.Context(), tt.pieces)
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
	g := newRig(t, small, true)
	f := g.put("f", nil)
	_, err := g.c.Write(t.Context(), f.Handle(), 0, []byte("data"), nfs3.Unstable)
	require.NoError(t, err)
	_, stable := g.content(f)
	assert.Empty(t, stable)
	require.NoError(t, f.Sync(t.Context()))
	_, stable = g.content(f)
	assert.Equal(t, "data", string(stable))
	g.refuse(nfs3.ProcCommit, nfs3.ErrIO, 1)
	assert.ErrorIs(t, f.Sync(t.Context()), nfs3.ErrIO)
}

// TestManyWriters writes parts of one file from many goroutines, while the
// server restarts repeatedly.
func TestManyWriters(t *testing.T) {
	g := newRig(t, small, false)
	f := g.put("f", nil)
	g.restartAt(nfs3.ProcWrite, 10, 30, 50, 51, 90)
	const part = 5*4096 + 1
	data := sample(16 * part)
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
	_, stable := g.content(f)
	assert.True(t, bytes.Equal(data, stable))
	p := make([]byte, len(data)+1)
	n, err := f.ReadAt(t.Context(), p, 0)
	assert.Equal(t, io.EOF, err)
	assert.True(t, bytes.Equal(data, p[:n]))
}
