package exportset

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A fakeLocker is a file system whose host has one reply to all calls about locks.
type fakeLocker struct {
	fakeRootFS
	done   bool
	err    error
	client netip.Addr // the caller of the last OpenLocks
}

func (f *fakeLocker) OpenLocks(ctx context.Context, _ vfs.Handle) (vfs.FileLocks, error) {
	f.client = vfs.ClientOf(ctx)
	return fakeLocks{f}, ctx.Err()
}

type fakeLocks struct{ of *fakeLocker }

func (l fakeLocks) SetLock(locks.Range, locks.Kind) (bool, error) { return l.of.done, l.of.err }

func (l fakeLocks) TestLock(r locks.Range, k locks.Kind) (locks.Range, locks.Kind, error) {
	return r, k, l.of.err
}

func (fakeLocks) Close() {}

// TestHostLocks checks the statuses for the host's replies, and that locks open after their call.
func TestHostLocks(t *testing.T) {
	f, said := new(fakeLocker), new(bytes.Buffer)
	s := newTestSet(t, f, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(said, nil)) })
	begin := func(q *Request) func() (*HostLocks, nfs4.Status) {
		e := s.Snapshot().List()[0]
		root := f.Root()
		var reply oncrpc.Reply
		q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, &reply)
		defer q.End()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h, err := q.Open(ctx, s.AppendHandle(nil, e, &root))
		require.NoError(t, err)
		return q.HostLocks(ctx, h)
	}
	open := begin(new(Request))
	l, status := open()
	require.Equal(t, nfs4.OK, status)
	assert.Equal(t, peerAt(1).Addr.Addr(), f.client)
	for _, tt := range []struct {
		done   bool
		err    error
		status nfs4.Status
	}{
		{true, nil, nfs4.OK},
		{false, nil, nfs4.ErrDenied},
		{false, syscall.EOPNOTSUPP, nfs4.ErrNotSupp},
		{false, syscall.ESTALE, nfs4.ErrStale},
		{false, syscall.EROFS, nfs4.ErrROFS},
		{false, syscall.EAGAIN, nfs4.ErrDelay},
		{false, syscall.EINTR, nfs4.ErrDelay},
		{false, syscall.EMFILE, nfs4.ErrDelay},
		{false, syscall.ENFILE, nfs4.ErrDelay},
		{false, syscall.ENOMEM, nfs4.ErrDelay},
		{false, syscall.ENOLCK, nfs4.ErrDelay},
		{false, syscall.ETIMEDOUT, nfs4.ErrDelay},
	} {
		f.done, f.err = tt.done, tt.err
		assert.Equal(t, tt.status, l.SetLock(locks.Range{}, locks.Shared), "%v", tt.err)
		if tt.err != nil {
			_, _, status := l.TestLock(locks.Range{}, locks.Shared)
			assert.Equal(t, tt.status, status, "%v", tt.err)
		}
	}
	assert.Empty(t, said.String())
	f.err = syscall.EIO
	assert.Equal(t, nfs4.ErrServerFault, l.SetLock(locks.Range{}, locks.Shared))
	assert.Contains(t, said.String(), syscall.EIO.Error())

	require.NoError(t, s.SetExports(nil))
	_, status = open()
	assert.Equal(t, nfs4.ErrStale, status, "the export was removed")
}

// TestNoHostLocks checks that a file system without locks has no HostLocks.
func TestNoHostLocks(t *testing.T) {
	s := newTestSet(t, new(fakeRootFS))
	assert.Nil(t, (&Request{set: s, Export: s.Snapshot().List()[0]}).HostLocks(t.Context(), vfs.Handle{}))
}
