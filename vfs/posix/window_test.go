//go:build linux

package posix

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// A windowTest is an export with a file that spans two windows.
type windowTest struct {
	*testing.T
	s    *exportedDir
	f    *FS
	c    vfs.Cred
	h    vfs.Handle
	data []byte
}

func newWindowTest(t *testing.T) *windowTest {
	checkCleanup(t)
	r := &windowTest{T: t, s: newExportedDir(t, "/dev/shm", Options{TableHandles: true}), c: user()}
	r.data = make([]byte, windowLen+1<<20+5)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(r.data[:1<<20])
	_, _ = rng.Read(r.data[windowLen-1<<20:])
	require.NoError(t, os.WriteFile(r.s.path("f"), r.data, 0o644))
	r.f = r.s.open(t)
	var err error
	r.h, _, _, err = r.f.Lookup(context.Background(), &r.c, r.f.Root(), "f")
	require.NoError(t, err)
	return r
}

func (r *windowTest) mapped(off uint64, n int) (b *buf.Buf, eof bool) {
	r.Helper()
	b, eof, a, err := r.f.Map(context.Background(), &r.c, r.h, off, n)
	require.NoError(r, err)
	if b != nil {
		assert.True(r, a.OK)
		assert.EqualValues(r, len(r.data), a.Size)
	}
	return b, eof
}

// TestMapOutlivesClose checks that memory lent when the FS is closed stays
// until it is returned: it may be on its way to a client.
func TestMapOutlivesClose(t *testing.T) {
	r := newWindowTest(t)
	b, _ := r.mapped(0, 1<<20)
	require.NotNil(t, b)
	require.NoError(t, r.f.Close())
	assert.True(t, bytes.Equal(r.data[:1<<20], b.B))
	assert.Equal(t, 1, r.f.cache.windows.len())
	b.Release()
	assert.Zero(t, r.f.cache.windows.len())
}

// TestMap checks that the bytes from any offset are those of the file, up to
// its end.
func TestMap(t *testing.T) {
	r := newWindowTest(t)
	size := uint64(len(r.data))
	for _, c := range []struct {
		off uint64
		n   int
	}{
		{0, minMapped},
		{1, 1 << 20},
		{windowLen - 1<<20, 1 << 20},
		{windowLen, 1 << 20},
		{windowLen + 5, 1 << 20},     // to the end exactly
		{windowLen + 77777, 1 << 20}, // beyond it
	} {
		b, eof := r.mapped(c.off, c.n)
		require.NotNil(t, b, "%v", c)
		end := min(c.off+uint64(c.n), size)
		assert.True(t, bytes.Equal(r.data[c.off:end], b.B), "%v", c)
		assert.Equal(t, end == size, eof, "%v", c)
		b.Release()
	}
	assert.Equal(t, 2, windows(t))
	assert.Equal(t, 2, r.f.cache.windows.len())
	require.NoError(t, r.f.Close())
	assert.Zero(t, windows(t))
}

// windows counts the mappings of the file f.
func windows(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(b), "/f\n")
}

// TestMapNot checks that data better read is not lent.
func TestMapNot(t *testing.T) {
	r := newWindowTest(t)
	size := uint64(len(r.data))
	for name, c := range map[string]struct {
		off uint64
		n   int
	}{
		"few":                {0, minMapped - 1},
		"few before the end": {size - minMapped + 1, 1 << 20},
		"beyond the end":     {size, 1 << 20},
		"far beyond":         {1 << 62, 1 << 20},
		"across windows":     {windowLen - 1, 1 << 20},
		"too many":           {0, maxMapped*pageSize + 1},
	} {
		b, _ := r.mapped(c.off, c.n)
		assert.Nil(t, b, name)
	}
	require.NoError(t, os.Truncate(r.s.path("f"), 0))
	require.NoError(t, os.Truncate(r.s.path("f"), int64(size)))
	before := used(t, r.s.path("f"))
	b, _ := r.mapped(0, 1<<20)
	assert.Nil(t, b, "a hole, because a mapping would fill it")
	assert.Equal(t, before, used(t, r.s.path("f")))

	require.NoError(t, os.WriteFile(r.s.path("f"), r.data, 0o644))
	lent, _ := r.mapped(0, 1<<20)
	require.True(t, lent != nil)
	r.f.cache.windows.most = 1
	b, _ = r.mapped(windowLen, 1<<20)
	assert.True(t, b == nil, "too many windows, and all are lent")
	lent.Release()
	r.f.cache.windows.most = maxWindows
	assert.Zero(t, r.f.cache.objs[r.h].refs.Load(), "references released")
}

func used(t *testing.T, name string) int64 {
	var st unix.Stat_t
	require.NoError(t, unix.Stat(name, &st))
	return st.Blocks
}

// TestMapShares checks that a file with more windows than there may be leaves some to
// others: a window that is used again stays, and one that is lent too.
func TestMapShares(t *testing.T) {
	const most, other = 16, 64 << 10
	r := newWindowTest(t)
	r.f.cache.windows.most = most
	require.NoError(t, os.WriteFile(r.s.path("long"), nil, 0o644))
	require.NoError(t, os.Truncate(r.s.path("long"), 10*most*windowLen))
	require.NoError(t, os.WriteFile(r.s.path("other"), make([]byte, other), 0o644))
	lookup := func(name string) vfs.Handle {
		h, _, _, err := r.f.Lookup(t.Context(), &r.c, r.f.Root(), name)
		require.NoError(t, err)
		return h
	}
	mapped := func(h vfs.Handle, off uint64, n int) *buf.Buf {
		b, _, _, err := r.f.Map(t.Context(), &r.c, h, off, n)
		require.NoError(t, err)
		return b
	}
	long, small := lookup("long"), lookup("other")
	lent, _ := r.mapped(0, 1<<20)
	require.NotNil(t, lent)
	var kept *window
	for i := range uint64(10 * most) {
		require.True(t, mapped(long, i*windowLen, 1<<20) == nil, "a hole")
		assert.LessOrEqual(t, r.f.cache.windows.len(), most)
		if i < 2*most || i%4 > 0 {
			continue
		}
		b := mapped(small, 0, other)
		require.True(t, b != nil, "another file, after %d windows", i)
		b.Release()
		o := r.f.cache.getObject(small)
		require.Len(t, o.windows, 1)
		if kept == nil {
			kept = o.windows[0]
		}
		assert.True(t, kept == o.windows[0], "it is used again and again")
		r.f.putObject(o)
	}
	assert.Equal(t, most, r.f.cache.windows.len())
	assert.True(t, bytes.Equal(r.data[:1<<20], lent.B), "a window that is lent stays")
	lent.Release()
	require.NoError(t, r.f.Close())
	assert.Zero(t, r.f.cache.windows.len())
	assert.Zero(t, windows(t))
}

// TestMapPermission checks that only callers with read permission get data.
func TestMapPermission(t *testing.T) {
	vfstest.NeedRoot(t)
	r := newWindowTest(t)
	require.NoError(t, os.Chmod(r.s.path("f"), 0o600))
	require.NoError(t, os.Chown(r.s.path("f"), 1, 1))
	_, _, a, err := r.f.Map(context.Background(), &r.c, r.h, 0, 1<<20)
	assert.Equal(t, unix.EACCES, err)
	assert.True(t, a.OK)
}

// TestMapOthers checks that a file is not lent if the process can change
// neither the file nor its mode: the kernel reports all of it as resident then.
func TestMapOthers(t *testing.T) {
	vfstest.NeedRoot(t)
	r := newWindowTest(t)
	daemon := vfs.Cred{GID: r.f.gid}
	lent := func(uid uint32) (ok bool) {
		t.Helper()
		require.NoError(t, r.f.runAs(&vfs.Cred{UID: uid, GID: uid}, func() error {
			b, _, _, err := r.f.Map(context.Background(), &daemon, r.h, 0, 1<<20)
			if b != nil {
				ok = true
				b.Release()
			}
			return err
		}))
		return ok
	}
	const alice = 70001
	assert.True(t, lent(0))
	require.NoError(t, os.Chown(r.s.path("f"), 1, 1))
	assert.True(t, lent(0), "root has CAP_FOWNER")
	o := r.f.cache.getObject(r.h)
	o.residency = residency{} // as of another process
	r.f.putObject(o)
	assert.False(t, lent(alice), "a read-only caller")
	require.NoError(t, os.Chown(r.s.path("f"), alice, 1))
	assert.True(t, lent(alice), "the owner")
	require.NoError(t, os.Chown(r.s.path("f"), 1, alice))
	assert.False(t, lent(alice), "a group with read access")
	require.NoError(t, os.Chmod(r.s.path("f"), 0o664))
	assert.True(t, lent(alice), "a group with write access")
}

// TestMapCut checks that a file truncated while it is lent does not expose
// bytes from elsewhere: the kernel finds none. A file that has lost its name
// stays whole.
func TestMapCut(t *testing.T) {
	r := newWindowTest(t)
	b, _ := r.mapped(0, 1<<20)
	require.NotNil(t, b)
	require.NoError(t, os.Truncate(r.s.path("f"), int64(pageSize)))
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe2(pipe, unix.O_CLOEXEC))
	defer func() { closeFD(pipe[0]); closeFD(pipe[1]) }()
	n, err := unix.Write(pipe[1], b.B[:2*pageSize])
	assert.Equal(t, pageSize, n)
	assert.NoError(t, err)
	_, err = unix.Write(pipe[1], b.B[pageSize:])
	assert.Equal(t, unix.EFAULT, err)

	// Reread reports the present end, and reads data that is there again.
	p := make([]byte, pageSize)
	end, err := b.Reread(pageSize, p)
	assert.NoError(t, err)
	assert.Equal(t, pageSize, end)
	require.NoError(t, os.Truncate(r.s.path("f"), 100))
	end, err = b.Reread(pageSize, p)
	assert.NoError(t, err)
	assert.Equal(t, 100, end)
	require.NoError(t, os.WriteFile(r.s.path("f"), r.data, 0o644))
	end, err = b.Reread(pageSize, p)
	assert.NoError(t, err)
	assert.Equal(t, 2*pageSize, end)
	assert.True(t, bytes.Equal(r.data[pageSize:2*pageSize], p))
	late, _ := r.mapped(windowLen, 1<<20)
	require.NotNil(t, late)
	end, err = late.Reread(5, p)
	assert.NoError(t, err)
	assert.Equal(t, 5+pageSize, end)
	assert.True(t, bytes.Equal(r.data[windowLen+5:][:pageSize], p))
	late.Release()

	c, _ := r.mapped(0, 1<<20)
	require.NotNil(t, c)
	require.NoError(t, os.Remove(r.s.path("f")))
	_, err = r.f.GetAttr(context.Background(), &r.c, r.h)
	assert.Equal(t, unix.ESTALE, err)
	assert.True(t, bytes.Equal(r.data[:1<<20], c.B))
	b.Release()
	c.Release()
	assert.Zero(t, r.f.cache.windows.len(), "removed with the last reader")
}
