//go:build linux

package posix

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

const openBoth = vfs.OpenRead | vfs.OpenWrite

func (w *testFS) openFile(h vfs.Handle, access vfs.OpenAccess) vfs.Opened {
	w.Helper()
	o, err := w.f.OpenFile(w.Context(), &w.c, h, access)
	require.NoError(w, err)
	return o
}

// TestOpenBudget opens more files than the cache may keep descriptors of: the
// rest are not kept open.
func TestOpenBudget(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		checkCleanup(t)
		o.MaxFiles = minMaxFiles
		s := newExportedDir(t, "", o)
		w := &testFS{t, s, s.open(t), user()}
		var all []vfs.Opened
		var handles []vfs.Handle
		kept := 0
		for i := range 3 * minMaxFiles {
			m, opened, err := w.f.CreateFile(t.Context(), &w.c, w.f.Root(), fmt.Sprint(i), vfs.CreateHow{Mode: vfs.Guarded}, openBoth)
			require.NoError(t, err)
			all, handles = append(all, opened), append(handles, m.Handle)
			for _, f := range []vfs.File{opened.Read, opened.Write} {
				if f != nil {
					kept++
				}
			}
		}
		assert.Equal(t, minMaxFiles/2/3*2+1, kept, "three descriptors to read and to write, and two to read")
		assert.EqualValues(t, minMaxFiles/2, w.f.cache.opened.Load())
		assert.LessOrEqual(t, w.f.cache.fds.Load(), int64(minMaxFiles+3))
		for i := range all {
			all[i].Close()
		}
		assert.Zero(t, w.f.cache.opened.Load())
		for range idleTicks {
			w.f.cache.sweepAll()
		}
		for _, h := range handles {
			assert.False(t, w.f.cache.hasObject(h), "nothing of a closed file is kept")
		}
		o2 := w.openFile(handles[0], openBoth)
		assert.NotNil(t, o2.Read, "there is space again")
		o2.Close()
	})
}

// TestOpenDescriptors checks that Files count for the descriptors that they keep open, no more and no
// fewer, however they share them.
func TestOpenDescriptors(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		checkCleanup(t)
		s := newExportedDir(t, "", o)
		w := &testFS{t, s, s.open(t), user()}
		var handles []vfs.Handle
		for i := range 3 {
			m, opened, err := w.f.CreateFile(t.Context(), &w.c, w.f.Root(), fmt.Sprint(i), vfs.CreateHow{Mode: vfs.Guarded, Attr: vfs.SetAttr{Mode: new(uint32(0o666))}}, openBoth)
			require.NoError(t, err)
			opened.Close()
			handles = append(handles, m.Handle)
		}
		w.f.cache.max = 0 // nothing else stays open
		closeIdle := func() {
			for range 2 * idleTicks {
				w.f.cache.sweepAll()
			}
		}
		closeIdle()
		held, fds := heldFDs.Load(), openFDs(t)
		w.f.cache.max = 1 << 10
		other := vfs.Cred{UID: 1000, GID: 1000}
		var all []vfs.Opened
		for step, each := range []struct {
			handle int
			cred   *vfs.Cred
			access vfs.OpenAccess
			cost   int64
		}{
			{0, &w.c, vfs.OpenRead, 2},
			{0, &w.c, vfs.OpenRead, 0},
			{0, &w.c, openBoth, 1},
			{1, &w.c, openBoth, 3},
			{1, &other, vfs.OpenRead, 1},
			{2, &w.c, vfs.OpenWrite, 2},
		} {
			before := heldFDs.Load()
			opened, err := w.f.OpenFile(t.Context(), each.cred, handles[each.handle], each.access)
			require.NoError(t, err)
			all = append(all, opened)
			assert.Equal(t, each.cost, heldFDs.Load()-before, "step %d", step)
		}
		for i := range all {
			closeIdle()
			assert.EqualValues(t, openFDs(t)-fds, heldFDs.Load()-held, "%d are closed", i)
			all[i].Close()
		}
		assert.Equal(t, held, heldFDs.Load())
		assert.Zero(t, w.f.cache.opened.Load())
	})
}

// TestOpenKept checks that neither a tick nor an eviction closes an open file.
func TestOpenKept(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostFile("f")
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(w.s.path("f"), int(w.c.UID), int(w.c.GID)))
	}
	o := w.openFile(w.walk("f"), openBoth)
	fds := openFDs(t)
	w.f.cache.max = 0
	w.f.cache.closeExcess(false)
	for range 2 * idleTicks {
		w.f.cache.sweepAll()
	}
	assert.LessOrEqual(t, openFDs(t), fds)
	require.NoError(t, os.Remove(w.s.path("f")))
	_, err := w.f.GetAttr(t.Context(), &w.c, w.f.Root())
	require.NoError(t, err)
	_, _, err = o.Write.Write(t.Context(), []byte("data"), 0, vfs.Unstable)
	require.NoError(t, err)
	p := make([]byte, 4)
	_, _, err = o.Read.Read(t.Context(), p, 0)
	require.NoError(t, err)
	assert.Equal(t, "data", string(p))
	o.Close()
	w.f.cache.sweepAll()
	assert.Less(t, openFDs(t), fds, "the storage is free as soon as the last File is closed")
}

// TestOpenRemovedMeanwhile removes a file between the lookup and the open of one
// call: its handle is good as long as the file is open.
func TestOpenRemovedMeanwhile(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostFile("f")
	h := w.walk("f")
	o, err := w.f.getObject(h)
	require.NoError(t, err)
	fl, err := w.f.openAs(o, &vfs.Cred{}, accRead)
	require.NoError(t, err)
	require.NoError(t, os.Remove(w.s.path("f")))
	require.Equal(t, unix.ESTALE, w.getattr(h))
	file := w.f.newOpenFile(t.Context(), o, fl, &w.c)
	w.f.putObject(o)
	assert.NoError(t, w.getattr(h))
	_, _, err = file.Read(t.Context(), make([]byte, 1), 0)
	assert.NoError(t, err)
	file.Close()
	assert.Equal(t, unix.ESTALE, w.getattr(h))
}

// TestOpenLoss checks that a failure to write data back shows to each Commit by a
// caller that may have lost data, also to data of another writer, and that Close
// does not hide the failure.
func TestOpenLoss(t *testing.T) {
	w, tp := syncTestFS(t)
	h := w.walk("f")
	one, two := w.openFile(h, vfs.OpenWrite), w.openFile(h, vfs.OpenWrite)
	write := func(f vfs.File) {
		_, _, err := f.Write(t.Context(), []byte("data"), 0, vfs.Unstable)
		require.NoError(t, err)
	}
	failure := func(string, int) error { return unix.EIO }

	write(one.Write)
	tp.answer = failure
	v := w.f.WriteVerifier()
	assert.ErrorIs(t, one.Write.Commit(t.Context(), 0, 0), unix.EIO)
	assert.NotEqual(t, v, w.f.WriteVerifier())
	tp.answer = nil

	// A call of version 3 loses the data of the open.
	write(one.Write)
	tp.answer = failure
	v = w.f.WriteVerifier()
	_, err := w.f.Commit(t.Context(), &w.c, h, 0, 0)
	assert.Error(t, err)
	tp.answer = nil
	assert.NoError(t, two.Write.Commit(t.Context(), 0, 0))
	assert.NotEqual(t, v, w.f.WriteVerifier(), "the next COMMIT must show the loss")

	// The data are lost after the close.
	write(two.Write)
	two.Close()
	v = w.f.WriteVerifier()
	tp.answer = failure
	one.Close()
	for range idleTicks + 1 {
		w.f.cache.sweepAll()
	}
	assert.NotEqual(t, v, w.f.WriteVerifier())
	tp.answer = nil
	_, _, err = w.openAndWrite(h, vfs.FileSync)
	require.NoError(t, err)
	tp.answer = failure
	_, _, err = w.openAndWrite(h, vfs.FileSync)
	assert.ErrorIs(t, err, unix.EIO)
	_, _, err = w.openAndWrite(h, vfs.DataSync)
	assert.ErrorIs(t, err, unix.EIO)
}

func (w *testFS) openAndWrite(h vfs.Handle, how vfs.Stable) (int, vfs.Stable, error) {
	o := w.openFile(h, vfs.OpenWrite)
	defer o.Close()
	return o.Write.Write(w.Context(), []byte("data"), 0, how)
}

// TestOpenSync checks that Commit syncs the data of all writers, and that a new
// size is on stable storage when SetSize returns.
func TestOpenSync(t *testing.T) {
	w, tp := syncTestFS(t)
	h := w.walk("f")
	o := w.openFile(h, vfs.OpenWrite)
	defer o.Close()
	other := vfs.Cred{UID: w.c.UID + 1, GID: w.c.GID}
	_, _, _, err := w.f.Write(t.Context(), &other, h, []byte("data"), 0, vfs.Unstable)
	require.NoError(t, err)
	_, _, err = o.Write.Write(t.Context(), []byte("data"), 0, vfs.Unstable)
	require.NoError(t, err)
	require.False(t, w.f.disk.IsIdle())
	tp.log = nil
	require.NoError(t, o.Write.Commit(t.Context(), 0, 0))
	assert.True(t, w.f.disk.IsIdle())
	writers := 1
	if w.f.switches { // otherwise all callers are one
		writers = 2
	}
	assert.Len(t, tp.log, writers)
	tp.log = nil
	require.NoError(t, o.Write.SetSize(t.Context(), 1))
	assert.Len(t, tp.log, 1)
}

// TestOpenLease checks that a file open for writing has no lease, that one open
// for reading may have one, and that opening for writing breaks it.
func TestOpenLease(t *testing.T) {
	w := newLeaseTest(t, "")
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(w.s.path("f"), int(w.c.UID), int(w.c.GID)))
	}
	reader, writer := w.openFile(w.h, vfs.OpenRead), w.openFile(w.h, vfs.OpenWrite)
	_, err := w.f.Lease(t.Context(), &w.c, w.h, vfs.LeaseData, func() {})
	assert.Equal(t, unix.EAGAIN, err)
	writer.Close()
	broken, release := w.lease()
	_, err = w.f.OpenFile(t.Context(), &w.c, w.h, vfs.OpenWrite)
	assert.Equal(t, unix.EAGAIN, err)
	select {
	case <-broken:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody was told of the writer")
	}
	release()
	writer = w.openFile(w.h, vfs.OpenWrite)
	writer.Close()
	reader.Close()
}

// TestOpenMap checks that lent memory outlives the File that lent it.
func TestOpenMap(t *testing.T) {
	w := newTestFS(t, tableKind())
	data := make([]byte, 2*minMapped)
	for i := range data {
		data[i] = byte(i / 7)
	}
	m, o, err := w.f.CreateFile(t.Context(), &w.c, w.f.Root(), "f", vfs.CreateHow{Mode: vfs.Guarded}, openBoth)
	require.NoError(t, err)
	_, _, err = o.Write.Write(t.Context(), data, 0, vfs.Unstable)
	require.NoError(t, err)
	b, eof, err := o.Read.Map(t.Context(), minMapped, 2*minMapped)
	require.NoError(t, err)
	require.NotNil(t, b, "the data are in memory")
	assert.True(t, eof)
	_, _, err = o.Write.Map(t.Context(), 0, minMapped)
	assert.Equal(t, unix.EBADF, err)
	o.Close()
	_, err = w.f.Remove(t.Context(), &w.c, w.f.Root(), "f")
	require.NoError(t, err)
	assert.Equal(t, data[minMapped:], b.B)
	b.Release()
	_, err = w.f.GetAttr(t.Context(), &w.c, m.Handle)
	assert.Equal(t, unix.ESTALE, err)
}

// TestOpenAllocs checks that reading and writing an open file allocates nothing.
func TestOpenAllocs(t *testing.T) {
	w := newTestFS(t, tableKind())
	_, o, err := w.f.CreateFile(t.Context(), &w.c, w.f.Root(), "f", vfs.CreateHow{Mode: vfs.Guarded}, openBoth)
	require.NoError(t, err)
	defer o.Close()
	ctx, p := t.Context(), make([]byte, 4096)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = o.Write.Write(ctx, p, 0, vfs.Unstable) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = o.Read.Read(ctx, p, 0) }))
}
