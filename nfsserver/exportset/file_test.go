package exportset

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeOpenFS counts its open files.
type fakeOpenFS struct {
	fakeRootFS
	open    int
	closed  bool
	closing func() // called by Close, if not nil
}

type fakeCountedFile struct {
	vfs.File
	fs *fakeOpenFS
}

func (f *fakeCountedFile) Close() {
	if f.fs.closing != nil {
		f.fs.closing()
	}
	f.fs.open--
	if f.fs.closed {
		panic("a file is closed after its file system")
	}
}

func (fs *fakeOpenFS) newCountedFile(want vfs.OpenAccess, bit vfs.OpenAccess) vfs.File {
	if want&bit == 0 {
		return nil
	}
	fs.open++
	return &fakeCountedFile{fs: fs}
}

func (fs *fakeOpenFS) OpenFile(_ context.Context, _ *vfs.Cred, _ vfs.Handle, want vfs.OpenAccess) (vfs.Opened, error) {
	return vfs.Opened{Read: fs.newCountedFile(want, vfs.OpenRead), Write: fs.newCountedFile(want, vfs.OpenWrite)}, nil
}

func (fs *fakeOpenFS) CreateFile(ctx context.Context, c *vfs.Cred, dir vfs.Handle, _ string, _ vfs.CreateHow, want vfs.OpenAccess) (vfs.Made, vfs.Opened, error) {
	o, err := fs.OpenFile(ctx, c, dir, want)
	return vfs.Made{}, o, err
}

const openBoth = vfs.OpenRead | vfs.OpenWrite

// newRunningCall returns a user's running call that uses the only export.
func newRunningCall(t *testing.T, s *Set, uid uint32) *Request {
	return newRunningCallIn(t, s, s.Snapshot().List()[0], uid)
}

// newRunningCallIn is opening for any export.
func newRunningCallIn(t *testing.T, s *Set, e *Exported, uid uint32) *Request {
	q := new(Request)
	q.Begin(s, &oncrpc.Peer{}, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: uid, GID: 100, GIDs: []uint32{7}}, new(oncrpc.Reply))
	require.NoError(t, q.EnterExport(e.ID))
	require.NoError(t, q.CheckObject(t.Context(), vfs.Handle{}))
	return q
}

func openRoot(t *testing.T, q *Request, access vfs.OpenAccess) *Open {
	o, err := q.OpenFile(t.Context(), vfs.Handle{}, access)
	require.NoError(t, err)
	return o
}

// TestFileUsers checks that a File goes with its end and its last user, and is
// its opener's alone.
func TestFileUsers(t *testing.T) {
	fs := new(fakeOpenFS)
	s := newTestSet(t, fs)
	q := newRunningCall(t, s, 1000)
	defer q.End()
	o := openRoot(t, q, openBoth)
	assert.Equal(t, 2, fs.open)
	other := newRunningCall(t, s, 1001)
	assert.Nil(t, other.FileOf(o, vfs.OpenRead), "another user")
	other.End()
	for _, groups := range [][]uint32{nil, {8}, {7, 8}} {
		regrouped := newRunningCall(t, s, 1000)
		regrouped.Cred.Groups = groups
		assert.Nil(t, regrouped.FileOf(o, vfs.OpenRead), "the same user with other groups")
		regrouped.End()
	}
	one, two := q.FileOf(o, vfs.OpenRead), q.FileOf(o, vfs.OpenRead)
	require.Same(t, one, two)
	one.Done()
	o.Close()
	assert.Equal(t, 1, fs.open, "a call uses one of them")
	assert.Nil(t, q.FileOf(o, vfs.OpenRead))
	two.Done()
	assert.Zero(t, fs.open)
	o.Close()
	assert.Zero(t, fs.open)
	assert.Empty(t, q.Export.files)
	assert.Zero(t, testing.AllocsPerRun(10, func() { q.FileOf(o, vfs.OpenRead) }))
}

// TestFileMerge checks which Files an Open takes over and gives up.
func TestFileMerge(t *testing.T) {
	fs := new(fakeOpenFS)
	s := newTestSet(t, fs)
	q := newRunningCall(t, s, 1000)
	defer q.End()
	o, more := openRoot(t, q, vfs.OpenRead), openRoot(t, q, openBoth)
	o.Merge(more)
	more.Close()
	assert.Equal(t, 2, fs.open)
	for _, access := range []vfs.OpenAccess{vfs.OpenRead, vfs.OpenWrite} {
		f := q.FileOf(o, access)
		require.NotNil(t, f)
		f.Done()
	}
	assert.Nil(t, o.Narrow(openBoth))
	rest := o.Narrow(vfs.OpenWrite)
	assert.Nil(t, q.FileOf(o, vfs.OpenRead))
	assert.Equal(t, 2, fs.open)
	rest.Close()
	assert.Equal(t, 1, fs.open)
	o.Close()
	assert.Zero(t, fs.open)
}

// TestFileOfOtherExport checks that a File is for calls in its own export alone:
// another's may outlive it.
func TestFileOfOtherExport(t *testing.T) {
	one, two := new(fakeOpenFS), new(fakeOpenFS)
	s := newTestSet(t, one)
	q := newRunningCall(t, s, 1000)
	defer q.End()
	o := openRoot(t, q, openBoth)
	defer o.Close()
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: two}}))
	other := newRunningCall(t, s, 1000)
	defer other.End()
	assert.Nil(t, other.FileOf(o, vfs.OpenRead))
	assert.Nil(t, other.FileOf(nil, vfs.OpenRead))
}

// TestFileOfRemovedExport checks that files are closed after the last call, and
// before the file system is given back.
func TestFileOfRemovedExport(t *testing.T) {
	fs := new(fakeOpenFS)
	s := newTestSet(t, fs)
	released := make(chan struct{})
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: fs, Released: func() { fs.closed = true; assert.Zero(t, fs.open); close(released) }}}))
	q := newRunningCall(t, s, 1000)
	o := openRoot(t, q, openBoth)
	f := q.FileOf(o, vfs.OpenRead)
	require.NoError(t, s.SetExports(nil))
	assert.True(t, o.IsRemoved())
	assert.Equal(t, 2, fs.open, "a call runs")
	f.Done()
	q.End()
	<-released
	assert.Zero(t, fs.open)
	o.Close()
	assert.Zero(t, fs.open)
}

// TestFileMergeOtherExport opens one object in two exports, whose directories overlap: the Open
// in one export uses no File in the other, which may be removed before it.
func TestFileMergeOtherExport(t *testing.T) {
	one, two := new(fakeOpenFS), new(fakeOpenFS)
	s := newTestSet(t, one)
	require.NoError(t, s.SetExports([]Export{
		{Path: "/x", FS: one},
		{Path: "/y", FS: two, Released: func() { two.closed = true }},
	}))
	q := newRunningCall(t, s, 1000)
	defer q.End()
	o := openRoot(t, q, vfs.OpenRead)
	defer o.Close()
	other := newRunningCallIn(t, s, s.Snapshot().List()[1], 1000)
	more := openRoot(t, other, openBoth)
	o.Merge(more)
	more.Close()
	other.End()
	assert.Zero(t, two.open)
	assert.Nil(t, q.FileOf(o, vfs.OpenWrite), "it is another export's")
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: one}}))
	assert.True(t, two.closed)
}

// TestFileCloseKeepsExport checks that an export is released only after the files that no call
// closes, but for instance the client's end.
func TestFileCloseKeepsExport(t *testing.T) {
	fs := new(fakeOpenFS)
	s := newTestSet(t, fs)
	released := make(chan struct{})
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: fs, Released: func() { close(released) }}}))
	q := newRunningCall(t, s, 1000)
	o := openRoot(t, q, vfs.OpenRead)
	q.End()
	fs.closing = func() {
		require.NoError(t, s.SetExports(nil))
		select {
		case <-released:
			t.Error("the export is given back while a file of it is closed")
		default:
		}
	}
	o.Close()
	assert.Zero(t, fs.open)
	<-released
}

// TestFileClosedTwice checks that a file system is released after all files are closed, even if
// a client closes one of them after the export was removed.
func TestFileClosedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := new(fakeOpenFS)
		s := newTestSet(t, fs)
		released := false
		require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: fs, Released: func() { released = true }}}))
		q := newRunningCall(t, s, 1000)
		o := openRoot(t, q, openBoth)
		q.End()
		storage := make(chan struct{})
		fs.closing = func() { <-storage }
		require.NoError(t, s.SetExports(nil))
		synctest.Wait()
		o.Close()
		synctest.Wait()
		storage <- struct{}{}
		synctest.Wait()
		assert.False(t, released, "one of two files is open")
		storage <- struct{}{}
		synctest.Wait()
		assert.True(t, released)
		assert.Zero(t, fs.open)
	})
}

// TestFileHung checks that SetExports does not wait for the files in an export that it removes.
func TestFileHung(t *testing.T) {
	fs := new(fakeOpenFS)
	s := newTestSet(t, fs)
	released := make(chan struct{})
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: fs, Released: func() { close(released) }}}))
	q := newRunningCall(t, s, 1000)
	openRoot(t, q, vfs.OpenRead)
	q.End()
	answer, over := make(chan struct{}), make(chan struct{})
	fs.closing = func() { <-answer }
	go func() {
		assert.NoError(t, s.SetExports(nil))
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Error("SetExports waits for storage")
	}
	close(answer)
	<-released
	<-over
}
