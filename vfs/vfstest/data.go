package vfstest

import (
	"bytes"
	"math/rand/v2"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// testReadWrite compares a file with a slice after random reads and writes.
func testReadWrite(r *testFS) {
	const size = 300_000
	rnd := rand.New(rand.NewPCG(1, 2))
	want := make([]byte, 0, size)
	f := r.createFile(r.root, "f", "")
	for range 200 {
		off, n := rnd.IntN(size/2), rnd.IntN(20_000)
		if rnd.IntN(2) == 0 {
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			got, done, _, err := r.fs.Write(r.ctx, r.c, f, p, uint64(off), vfs.Stable(rnd.IntN(3)))
			require.NoError(r, err)
			require.Equal(r, n, got)
			require.LessOrEqual(r, done, vfs.FileSync)
			if n > 0 {
				want = append(want, make([]byte, max(0, off+n-len(want)))...)
				copy(want[off:], p)
			}
			continue
		}
		p := make([]byte, n)
		got, eof, a, err := r.fs.Read(r.ctx, r.c, f, p, uint64(off))
		require.NoError(r, err)
		expect := want[min(off, len(want)):min(off+n, len(want))]
		require.True(r, bytes.Equal(expect, p[:got]))
		require.Equal(r, off+got >= len(want), eof)
		require.True(r, a.OK)
		require.EqualValues(r, len(want), a.Size)
	}
}

func testReadEnd(r *testFS) {
	f := r.createFile(r.root, "f", "0123456789")
	for _, tt := range []struct {
		off  uint64
		n    int
		want string
		eof  bool
	}{
		{0, 5, "01234", false},
		{5, 5, "56789", true}, // RFC 1813, Section 3.3.6: the read ended at the end
		{5, 100, "56789", true},
		{9, 0, "", false},
		{10, 0, "", true},
		{10, 5, "", true},
		{1 << 40, 5, "", true},
		{1<<63 - 1, 5, "", true},
		{1 << 63, 5, "", true},
		{1<<64 - 1, 5, "", true},
	} {
		p := bytes.Repeat([]byte{'-'}, tt.n)
		n, eof, a, err := r.fs.Read(r.ctx, r.c, f, p, tt.off)
		require.NoError(r, err)
		assert.Equal(r, tt.want, string(p[:n]))
		assert.Equal(r, tt.eof, eof, "%d bytes at %d", tt.n, tt.off)
		assert.EqualValues(r, 10, a.Size)
	}
	_, eof, _, err := r.fs.Read(r.ctx, r.c, r.createFile(r.root, "empty", ""), make([]byte, 1), 0)
	require.NoError(r, err)
	assert.True(r, eof)

	before := r.getAttr(f)
	n, _, _, err := r.fs.Write(r.ctx, r.c, f, nil, 100, vfs.FileSync)
	require.NoError(r, err)
	assert.Zero(r, n)
	assert.Equal(r, before, r.getAttr(f), "an empty WRITE changes nothing") // RFC 1813, Section 3.3.7
}

func testSparse(r *testFS) {
	const far = 1 << 40
	f := r.createFile(r.root, "f", "")
	r.writeFile(f, "end", far)
	a := r.getAttr(f)
	assert.EqualValues(r, far+3, a.Size)
	assert.Less(r, a.Used, uint64(1<<20), "holes use no storage")
	p := bytes.Repeat([]byte{'-'}, 10)
	n, eof, _, err := r.fs.Read(r.ctx, r.c, f, p, far-7)
	require.NoError(r, err)
	assert.Equal(r, "\x00\x00\x00\x00\x00\x00\x00end", string(p[:n]))
	assert.True(r, eof)
	n, eof, _, err = r.fs.Read(r.ctx, r.c, f, p, far/2)
	require.NoError(r, err)
	assert.Equal(r, make([]byte, 10), p[:n])
	assert.False(r, eof)
}

func testOffsets(r *testFS) {
	f := r.createFile(r.root, "f", "x")
	for _, off := range []uint64{1<<63 - 2, 1<<63 - 1, 1 << 63, 1<<64 - 4, 1<<64 - 1} {
		n, _, w, err := r.fs.Write(r.ctx, r.c, f, []byte("data"), off, vfs.Unstable)
		assert.ErrorIs(r, err, errTooBig, "at %#x", off)
		assert.Zero(r, n)
		assert.True(r, w.After.OK)
	}
	assert.Equal(r, "x", r.readFile(f))
}

func testStability(r *testFS) {
	f := r.createFile(r.root, "f", "")
	for _, how := range []vfs.Stable{vfs.Unstable, vfs.DataSync, vfs.FileSync} {
		_, done, _, err := r.fs.Write(r.ctx, r.c, f, []byte("data"), 0, how)
		require.NoError(r, err)
		assert.GreaterOrEqual(r, done, how)
	}
	v := r.fs.WriteVerifier()
	for _, rng := range []struct {
		off   uint64
		count uint32
	}{{0, 0}, {0, 4}, {2, 1}, {1 << 50, 1 << 31}, {1<<64 - 1, 1<<32 - 1}} {
		w, err := r.fs.Commit(r.ctx, r.c, f, rng.off, rng.count)
		require.NoError(r, err)
		assert.True(r, w.After.OK)
	}
	assert.Equal(r, v, r.fs.WriteVerifier())
}

func testVerifier(r *testFS) {
	seen := map[uint64]bool{r.fs.WriteVerifier(): true}
	for i := range 3 {
		r.useFS(r.b.Restart(r.T, r.fs, i%2 == 0))
		seen[r.fs.WriteVerifier()] = true
	}
	assert.Len(r, seen, 4)
}
