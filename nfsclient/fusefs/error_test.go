package fusefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A fakeFullFS rejects data while it is full.
type fakeFullFS struct {
	vfs.FS
	full atomic.Pointer[error]
}

func (f *fakeFullFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	if err := f.full.Load(); err != nil {
		return 0, 0, vfs.WCC{}, *err
	}
	return f.FS.Write(ctx, c, h, p, off, how)
}

// TestWriteErrors checks that lost data is reported once, by fsync or otherwise
// by close.
func TestWriteErrors(t *testing.T) {
	for _, want := range []error{unix.ENOSPC, unix.EDQUOT, unix.EIO} {
		t.Run(want.Error(), func(t *testing.T) {
			full := &fakeFullFS{}
			s := newServer(t, func(fs vfs.FS) vfs.FS { full.FS = fs; return full })
			m := s.mount(nil)
			f := openAt(t, m.path("a"), os.O_RDWR|os.O_CREATE)
			full.full.Store(&want)
			_, err := f.WriteString("lost")
			require.NoError(t, err, "the error is unknown yet")
			assert.ErrorIs(t, f.Sync(), want)
			assert.NoError(t, f.Sync(), "once")
			_, err = f.WriteString("lost again")
			require.NoError(t, err)
			mustLstat(t, m.path("a")) // sends the data, but does not report the loss
			assert.ErrorIs(t, f.Close(), want)

			f = openAt(t, m.path("a"), os.O_RDWR)
			_, err = f.WriteString("lost")
			require.NoError(t, err)
			full.full.Store(nil)
			_, err = f.WriteAt([]byte("kept"), 4096)
			require.NoError(t, err)
			_ = f.Close()
			f = openAt(t, m.path("a"), os.O_RDWR|unix.O_DIRECT)
			full.full.Store(&want)
			_, err = f.WriteString("lost")
			assert.ErrorIs(t, err, want)
			full.full.Store(nil)
			require.NoError(t, f.Close())
			writeFile(t, m.path("a"), []byte("fine"))
			assertContent(t, s.path("a"), []byte("fine"))
		})
	}
}

// TestErrno checks the status that programs get for each error.
func TestErrno(t *testing.T) {
	m := &Mount{cfg: Config{Log: discard}}
	for _, tt := range []struct {
		err  error
		want fuse.Status
	}{
		{nil, fuse.OK},
		{&nfsclient.Error{Status: nfs3.ErrNoEnt}, fuse.ENOENT},
		{&nfsclient.Error{Status: nfs3.ErrStale}, errStale},
		{&nfsclient.Error{Status: nfs3.ErrBadHandle}, errStale},
		{&nfsclient.Error{Status: nfs3.ErrDQuot}, fuse.Status(unix.EDQUOT)},
		{&nfsclient.Error{Status: nfs3.ErrJukebox}, fuse.EIO},
		{&nfsclient.Error{Status: nfs3.ErrNotSupp}, fuse.Status(unix.EOPNOTSUPP)},
		{rpcmsg.AuthBadCred, fuse.EACCES},
		{&tickets.Error{Reason: wire.NoTicket}, fuse.EACCES},
		{fmt.Errorf("a call: %w", &tickets.Error{Reason: wire.NoKDC}), fuse.EACCES},
		{fmt.Errorf("a call: %w", &tickets.Error{Reason: wire.Expired}), fuse.Status(unix.EKEYEXPIRED)},
		{context.Canceled, fuse.EINTR},
		{oncrpc.ErrClosed, fuse.EIO},
		{errors.New("anything"), fuse.EIO},
	} {
		assert.Equal(t, tt.want, m.errorStatus(tt.err), "%v", tt.err)
	}
}

// TestUnreachable checks that programs get EIO when the calls of the mount fail
// without an answer.
func TestUnreachable(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, s.path("a"), []byte("x"))
	f := openAt(t, m.path("a"), os.O_RDWR)
	_, err := f.WriteString("y")
	require.NoError(t, err)
	m.setBefore(func(context.Context, *oncrpc.Exchange) error { return oncrpc.ErrClosed })
	_, err = os.ReadDir(m.dir)
	assert.ErrorIs(t, err, unix.EIO)
	assert.ErrorIs(t, f.Sync(), unix.EIO)
	_, err = os.Create(m.path("b"))
	assert.ErrorIs(t, err, unix.EIO)
	m.setBefore(nil)
	assertContent(t, m.path("a"), []byte("x"))
}
