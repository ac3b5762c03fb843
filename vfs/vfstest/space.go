package vfstest

import (
	"math"
	"strings"
	"syscall"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// unit is a multiple of the block size of every file system under test.
const unit = 64 << 10

// eachWay runs a test on parts by handle, and on parts of open files. make
// returns a file with the parts for reading and for writing.
func (r *testFS) eachWay(run func(make func(name, data string) (h vfs.Handle, read, write vfs.Part))) {
	for way, open := range map[string]bool{"handle": false, "open": true} {
		run(func(name, data string) (h vfs.Handle, read, write vfs.Part) {
			h = r.createFile(r.root, way+name, data)
			read, write = vfs.Part{Handle: h}, vfs.Part{Handle: h}
			if open {
				o := r.openFile(h, openBoth)
				read.File, write.File = o.Read, o.Write
			}
			return h, read, write
		})
	}
}

// partFrom returns p with another offset.
func partFrom(p vfs.Part, off uint64) vfs.Part {
	p.Offset = off
	return p
}

func testSpace(r *testFS) {
	s, ok := r.fs.(vfs.Spacer)
	if !ok {
		r.Log("does not apply: the file system knows nothing of storage")
		return
	}
	r.eachWay(func(file func(name, data string) (vfs.Handle, vfs.Part, vfs.Part)) {
		h, read, write := file("holes", strings.Repeat("x", unit))
		r.writeFile(h, "end", 3*unit)
		seek := func(off uint64, hole bool, want uint64, atEnd bool) {
			r.Helper()
			got, eof, err := s.Seek(r.ctx, r.c, partFrom(read, off), hole)
			require.NoError(r, err)
			assert.Equal(r, want, got, "from %d", off)
			assert.Equal(r, atEnd, eof, "from %d", off)
		}
		seek(0, false, 0, false)
		seek(0, true, unit, false)
		seek(unit, false, 3*unit, false)
		seek(unit+5, true, unit+5, false)
		seek(3*unit, true, 3*unit+3, true)
		_, _, err := s.Seek(r.ctx, r.c, partFrom(read, 3*unit+3), true)
		require.ErrorIs(r, err, syscall.ENXIO)
		_, _, err = s.Seek(r.ctx, r.c, partFrom(read, math.MaxUint64), false)
		require.ErrorIs(r, err, syscall.ENXIO)

		before := r.getAttr(h)
		require.NoError(r, s.Allocate(r.ctx, r.c, partFrom(write, unit), unit))
		after := r.getAttr(h)
		assert.Equal(r, before.Size, after.Size)
		assert.GreaterOrEqual(r, after.Used, before.Used+unit)
		assert.NotEqual(r, before.Change, after.Change)
		require.NoError(r, s.Allocate(r.ctx, r.c, partFrom(write, 3*unit), unit))
		assert.EqualValues(r, 4*unit, r.getAttr(h).Size)
		require.ErrorIs(r, s.Allocate(r.ctx, r.c, write, 0), syscall.EINVAL)
		require.ErrorIs(r, s.Allocate(r.ctx, r.c, partFrom(write, 1), math.MaxInt64), errTooBig)
		require.ErrorIs(r, s.Allocate(r.ctx, r.c, partFrom(write, math.MaxUint64), 5), errTooBig)
		want := strings.Repeat("x", unit) + strings.Repeat("\x00", 2*unit) + "end"
		assert.Equal(r, want, strings.TrimRight(r.readWhole(h), "\x00"))

		before = r.getAttr(h)
		require.NoError(r, s.Deallocate(r.ctx, r.c, partFrom(write, 5), 3*unit))
		after = r.getAttr(h)
		assert.Equal(r, before.Size, after.Size)
		assert.Less(r, after.Used, before.Used)
		assert.NotEqual(r, before.Change, after.Change)
		assert.Equal(r, "xxxxx", strings.TrimRight(r.readWhole(h)[:3*unit+5], "\x00"), "the end was in the range")
		for _, p := range []uint64{3*unit + 1, 1 << 40, math.MaxInt64} {
			require.NoError(r, s.Deallocate(r.ctx, r.c, partFrom(write, p), math.MaxUint64), "beyond the end")
		}
		require.ErrorIs(r, s.Deallocate(r.ctx, r.c, write, 0), syscall.EINVAL)
		assert.EqualValues(r, 4*unit, r.getAttr(h).Size)
		seek(unit, false, 3*unit, false)

		for a := vfs.AdviseNormal; a <= vfs.AdviseNoReuse; a++ {
			if err := s.Advise(r.ctx, r.c, read, 0, a); err != nil {
				require.ErrorIs(r, err, syscall.EOPNOTSUPP)
			}
		}
		if read.File != nil {
			assert.ErrorIs(r, s.Allocate(r.ctx, r.c, read, 5), syscall.EBADF)
			_, _, err := s.Seek(r.ctx, r.c, write, true)
			assert.ErrorIs(r, err, syscall.EBADF)
		}
	})
	dir := vfs.Part{Handle: r.root}
	assert.ErrorIs(r, s.Allocate(r.ctx, r.c, dir, 5), errInval)
	assert.ErrorIs(r, s.Deallocate(r.ctx, r.c, dir, 5), errInval)
	_, _, err := s.Seek(r.ctx, r.c, dir, true)
	assert.ErrorIs(r, err, errInval)
}

// readWhole returns all of a file of up to 1 MiB.
func (r *testFS) readWhole(h vfs.Handle) string {
	r.Helper()
	p := make([]byte, 1<<20)
	n, eof, _, err := r.fs.Read(r.ctx, r.c, h, p, 0)
	require.NoError(r, err)
	require.True(r, eof)
	return string(p[:n])
}

func testSpaceRights(r *testFS) {
	s, ok := r.fs.(vfs.Spacer)
	if !ok {
		r.Log("does not apply: the file system knows nothing of storage")
		return
	}
	h := r.createFile(r.root, "f", "data")
	other := r.asCaller(vfs.Cred{UID: 70001, GID: 70001})
	p := vfs.Part{Handle: h}
	assert.ErrorIs(r, s.Allocate(other.ctx, other.c, p, 10), errAccess)
	assert.ErrorIs(r, s.Deallocate(other.ctx, other.c, p, 10), errAccess)
	_, _, err := s.Seek(other.ctx, other.c, p, true)
	require.NoError(r, err, "everyone may read")
	r.setAttr(h, modeAttr(0o600))
	_, _, err = s.Seek(other.ctx, other.c, p, true)
	assert.ErrorIs(r, err, errAccess)
	o := r.openFile(h, openBoth)
	p.File = o.Write
	assert.NoError(r, s.Allocate(other.ctx, other.c, p, 10), "the rights of an open file are its opener's")
	assert.Equal(r, "data\x00\x00\x00\x00\x00\x00", r.readFile(h))
}

func testCopy(r *testFS) {
	s, ok := r.fs.(vfs.Copier)
	if !ok {
		r.Log("does not apply: the file system copies nothing")
		return
	}
	r.eachWay(func(file func(name, data string) (vfs.Handle, vfs.Part, vfs.Part)) {
		_, source, _ := file("source", "0123456789")
		h, _, target := file("target", "abc")
		copied := func(src, dst uint64, n uint64) (sum uint64) {
			for n > 0 {
				got, err := s.CopyRange(r.ctx, r.c, partFrom(source, src+sum), partFrom(target, dst+sum), n)
				require.NoError(r, err)
				if got == 0 {
					break
				}
				sum, n = sum+got, n-got
			}
			return sum
		}
		before := r.getAttr(h)
		assert.EqualValues(r, 4, copied(2, 1, 4))
		assert.NotEqual(r, before.Change, r.getAttr(h).Change)
		assert.Equal(r, "a2345", r.readFile(h))
		assert.EqualValues(r, 2, copied(8, 6, 100), "up to the source's end")
		assert.Equal(r, "a2345\x0089", r.readFile(h))
		assert.Zero(r, copied(10, 0, 5))
		assert.Zero(r, copied(math.MaxInt64, 0, 5))
		_, err := s.CopyRange(r.ctx, r.c, source, partFrom(target, math.MaxInt64), 5)
		require.ErrorIs(r, err, errTooBig)

		switch err := s.CloneRange(r.ctx, r.c, source, target, 10); s.CloneAlign() {
		case 0:
			assert.ErrorIs(r, err, syscall.EOPNOTSUPP)
		default:
			require.NoError(r, err)
			assert.Equal(r, "0123456789", r.readFile(h))
			assert.ErrorIs(r, s.CloneRange(r.ctx, r.c, source, partFrom(target, 1), 5), errInval)
			assert.ErrorIs(r, s.CloneRange(r.ctx, r.c, source, target, 11), errInval)
		}
	})
	p := vfs.Part{Handle: r.createFile(r.root, "file", "x")}
	_, err := s.CopyRange(r.ctx, r.c, vfs.Part{Handle: r.root}, p, 1)
	assert.ErrorIs(r, err, errInval)
	_, err = s.CopyRange(r.ctx, r.c, p, vfs.Part{Handle: r.root}, 1)
	assert.ErrorIs(r, err, errInval)
}
