package realm

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// An openFS counts its open files.
type openFS struct {
	rootFS
	open    int
	closed  bool
	closing func() // called by Close, if not nil
}

type countedFile struct {
	vfs.File
	fs *openFS
}

func (f *countedFile) Close() {
	if f.fs.closing != nil {
		f.fs.closing()
	}
	f.fs.open--
	if f.fs.closed {
		panic("a file is closed after its file system")
	}
}

func (fs *openFS) file(want vfs.OpenAccess, bit vfs.OpenAccess) vfs.File {
	if want&bit == 0 {
		return nil
	}
	fs.open++
	return &countedFile{fs: fs}
}

func (fs *openFS) OpenFile(_ context.Context, _ *vfs.Cred, _ vfs.Handle, want vfs.OpenAccess) (vfs.Opened, error) {
	return vfs.Opened{Read: fs.file(want, vfs.OpenRead), Write: fs.file(want, vfs.OpenWrite)}, nil
}

func (fs *openFS) CreateFile(ctx context.Context, c *vfs.Cred, dir vfs.Handle, _ string, _ vfs.CreateHow, want vfs.OpenAccess) (vfs.Made, vfs.Opened, error) {
	o, err := fs.OpenFile(ctx, c, dir, want)
	return vfs.Made{}, o, err
}

const openBoth = vfs.OpenRead | vfs.OpenWrite

// opening returns a running call of a user that uses the only export.
func opening(t *testing.T, s *Realm, uid uint32) *Request {
	return openingIn(t, s, s.Set().List()[0], uid)
}

// openingIn is opening for any export.
func openingIn(t *testing.T, s *Realm, e *Exported, uid uint32) *Request {
	q := new(Request)
	q.Begin(s, &oncrpc.Peer{}, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: uid, GID: 100, GIDs: []uint32{7}}, new(oncrpc.Reply))
	require.NoError(t, q.Enter(e.ID))
	require.NoError(t, q.Use(t.Context(), vfs.Handle{}))
	return q
}

func open(t *testing.T, q *Request, access vfs.OpenAccess) *Open {
	o, err := q.OpenFile(t.Context(), vfs.Handle{}, access)
	require.NoError(t, err)
	return o
}

// TestFileUsers checks that a File goes with its end and its last user, and is
// its opener's alone.
func TestFileUsers(t *testing.T) {
	fs := new(openFS)
	s := newRealm(t, fs)
	q := opening(t, s, 1000)
	defer q.End()
	o := open(t, q, openBoth)
	assert.Equal(t, 2, fs.open)
	other := opening(t, s, 1001)
	assert.Nil(t, other.FileOf(o, vfs.OpenRead), "another user")
	other.End()
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
	fs := new(openFS)
	s := newRealm(t, fs)
	q := opening(t, s, 1000)
	defer q.End()
	o, more := open(t, q, vfs.OpenRead), open(t, q, openBoth)
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
	one, two := new(openFS), new(openFS)
	s := newRealm(t, one)
	q := opening(t, s, 1000)
	defer q.End()
	o := open(t, q, openBoth)
	defer o.Close()
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: two}}))
	other := opening(t, s, 1000)
	defer other.End()
	assert.Nil(t, other.FileOf(o, vfs.OpenRead))
	assert.Nil(t, other.FileOf(nil, vfs.OpenRead))
}

// TestFileOfRemovedExport checks that files are closed after the last call, and
// before the file system is given back.
func TestFileOfRemovedExport(t *testing.T) {
	fs := new(openFS)
	s := newRealm(t, fs)
	released := make(chan struct{})
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: fs, Released: func() { fs.closed = true; assert.Zero(t, fs.open); close(released) }}}))
	q := opening(t, s, 1000)
	o := open(t, q, openBoth)
	f := q.FileOf(o, vfs.OpenRead)
	require.NoError(t, s.SetExports(nil))
	assert.True(t, o.Removed())
	assert.Equal(t, 2, fs.open, "a call runs")
	f.Done()
	q.End()
	<-released
	assert.Zero(t, fs.open)
	o.Close()
	assert.Zero(t, fs.open)
}

// TestFileMergeOtherExport opens one object in two exports, whose directories
// overlap: the Open of one export uses no File of the other, which may go before
// it.
func TestFileMergeOtherExport(t *testing.T) {
	one, two := new(openFS), new(openFS)
	s := newRealm(t, one)
	require.NoError(t, s.SetExports([]Export{
		{Path: "/x", FS: one},
		{Path: "/y", FS: two, Released: func() { two.closed = true }},
	}))
	q := opening(t, s, 1000)
	defer q.End()
	o := open(t, q, vfs.OpenRead)
	defer o.Close()
	other := openingIn(t, s, s.Set().List()[1], 1000)
	more := open(t, other, openBoth)
	o.Merge(more)
	more.Close()
	other.End()
	assert.Zero(t, two.open)
	assert.Nil(t, q.FileOf(o, vfs.OpenWrite), "it is another export's")
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: one}}))
	assert.True(t, two.closed)
}

// TestFileCloseKeepsExport checks that an export is given back only after the
// files that no call closes, but for instance the end of a client.
func TestFileCloseKeepsExport(t *testing.T) {
	fs := new(openFS)
	s := newRealm(t, fs)
	released := make(chan struct{})
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: fs, Released: func() { close(released) }}}))
	q := opening(t, s, 1000)
	o := open(t, q, vfs.OpenRead)
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

// TestFileHung checks that SetExports does not wait for the files of an export
// that it removes.
func TestFileHung(t *testing.T) {
	fs := new(openFS)
	s := newRealm(t, fs)
	released := make(chan struct{})
	require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: fs, Released: func() { close(released) }}}))
	q := opening(t, s, 1000)
	open(t, q, vfs.OpenRead)
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
