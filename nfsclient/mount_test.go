package nfsclient

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newTestMount exports /x, by which its subdirectory /x/d can be mounted too,
// and /z for other clients.
func newTestMount(t *testing.T) (*fakeConn, *Mount) {
	t.Helper()
	w := &fakeConn{t: t, mux: &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}}
	s, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{
		{Path: "/x", FS: newMemFS()},
		{Path: "/z", FS: newMemFS(), Clients: []exports.Client{
			{Host: exports.NetworkHost(netip.MustParsePrefix("10.0.0.0/8"))}, {Host: exports.NetworkHost(netip.MustParsePrefix("fc00::/7"))},
		}},
	}})
	require.NoError(t, err)
	s.Register(w.mux)
	t.Cleanup(func() { assert.Zero(t, buf.Default.Out(), "unreturned buffers") })
	return w, NewMount(w, nil)
}

func TestMount(t *testing.T) {
	w, m := newTestMount(t)
	ctx := t.Context()
	require.NoError(t, m.Null(ctx))
	root, err := m.Mnt(ctx, "/x")
	require.NoError(t, err)
	c := New(w, Config{})
	a, err := c.GetAttr(ctx, root)
	require.NoError(t, err)
	assert.EqualValues(t, memRoot, a.FileID)

	list, err := m.Exports(ctx)
	require.NoError(t, err)
	assert.Equal(t, []Export{{Path: "/x"}, {Path: "/z", Clients: []string{"10.0.0.0/8", "fc00::/7"}}}, list)
	mounted, err := m.Dump(ctx)
	require.NoError(t, err)
	assert.Equal(t, []MountEntry{{Host: "192.0.2.1", Path: "/x"}}, mounted)
	require.NoError(t, m.Umnt(ctx, "/x"))
	mounted, err = m.Dump(ctx)
	require.NoError(t, err)
	assert.Empty(t, mounted)
	assert.NoError(t, m.Close(), "the connection is not its own")
	assert.Empty(t, m.At())
}

func TestMountRefused(t *testing.T) {
	w, m := newTestMount(t)
	for path, want := range map[string]struct {
		status mount3.Status
		err    error
		words  string
	}{
		"/none": {mount3.ErrNoEnt, fs.ErrNotExist, "no such export"},
		"/z":    {mount3.ErrAcces, fs.ErrPermission, "does not export it to this host"},
	} {
		_, err := m.Mnt(t.Context(), path)
		var e *MountError
		require.ErrorAs(t, err, &e, path)
		assert.Equal(t, MountError{Path: path, Status: want.status}, *e)
		assert.ErrorIs(t, err, want.status)
		assert.ErrorIs(t, err, want.err)
		assert.ErrorContains(t, err, want.words)
		assert.ErrorContains(t, err, path)
		assert.ErrorContains(t, err, want.status.String())
	}
	for status, errno := range map[mount3.Status]syscall.Errno{
		mount3.ErrPerm: syscall.EPERM, mount3.ErrIO: syscall.EIO, mount3.ErrNotDir: syscall.ENOTDIR, mount3.ErrInval: syscall.EINVAL,
		mount3.ErrNameTooLong: syscall.ENAMETOOLONG, mount3.ErrNotSupp: syscall.EOPNOTSUPP,
		mount3.ErrServerFault: syscall.EREMOTEIO, 4711: syscall.EIO,
	} {
		w.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) {
			return (&mount3.MntRes{Status: status}).AppendTo(nil), nil
		}
		_, err := m.Mnt(t.Context(), "/x")
		assert.ErrorIs(t, err, status)
		assert.ErrorIs(t, err, errno)
	}
	_, err := m.Mnt(t.Context(), strings.Repeat("/", mount3.PathLen+1))
	assert.ErrorIs(t, err, syscall.ENAMETOOLONG)
	assert.ErrorIs(t, m.Umnt(t.Context(), strings.Repeat("/", mount3.PathLen+1)), syscall.ENAMETOOLONG)
}

// TestMountFlavors checks that an export for other flavors is rejected with a
// clear error, and not at the first NFS call, and that AUTH_SYS is selected
// wherever it is in the list: it is the first that the client supports
// (R2623-2.7-1).
func TestMountFlavors(t *testing.T) {
	w, m := newTestMount(t)
	for _, tt := range []struct {
		flavors []uint32
		good    bool
	}{{nil, true}, {[]uint32{390003, 1}, true}, {[]uint32{1, 390003}, true}, {[]uint32{0}, false}, {[]uint32{390003, 390004}, false}} {
		w.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) {
			return (&mount3.MntRes{Handle: rootFH, Flavors: tt.flavors}).AppendTo(nil), nil
		}
		root, err := m.Mnt(t.Context(), "/x")
		if tt.good {
			assert.NoError(t, err)
			assert.Equal(t, rootFH, root)
		} else {
			assert.ErrorContains(t, err, "the export /x wants ")
			assert.Nil(t, root)
		}
	}
	w.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) {
		return (&mount3.MntRes{Handle: rootFH, Flavors: []uint32{390005, 390004}}).AppendTo(nil), nil
	}
	_, err := m.Mnt(t.Context(), "/data")
	assert.EqualError(t, err, "the export /data wants krb5p, krb5i; the mount says sec=sys")
}

// mountCalls calls all MOUNT procedures.
func (m *Mount) mountCalls(ctx context.Context) map[string]error {
	_, mnt := m.Mnt(ctx, "/x")
	_, exports := m.Exports(ctx)
	_, dump := m.Dump(ctx)
	return map[string]error{"MNT": mnt, "EXPORT": exports, "DUMP": dump, "NULL": m.Null(ctx), "UMNT": m.Umnt(ctx, "/x")}
}

func TestMountTransportError(t *testing.T) {
	w, m := newTestMount(t)
	broken := errors.New("cable cut")
	w.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) { return nil, broken }
	for name, err := range m.mountCalls(t.Context()) {
		assert.ErrorIs(t, err, broken, name)
		assert.ErrorContains(t, err, "MOUNT", name)
	}
}

func TestMountMalformed(t *testing.T) {
	w, m := newTestMount(t)
	w.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) { return []byte{0, 0}, nil }
	for name, err := range m.mountCalls(t.Context()) {
		if name == "NULL" || name == "UMNT" {
			assert.NoError(t, err, "they have no results")
		} else {
			assert.ErrorIs(t, err, ErrReply, name)
		}
	}
}

// TestMountBounds checks the memory provided for the longest results.
func TestMountBounds(t *testing.T) {
	want := map[uint32]int{
		mount3.ProcNull: 0, mount3.ProcUmnt: 0, mount3.ProcExport: 1 << 20, mount3.ProcDump: 1 << 20,
		mount3.ProcMnt: len((&mount3.MntRes{Handle: make([]byte, nfs3.FHSize), Flavors: make([]uint32, maxFlavors)}).AppendTo(nil)),
	}
	w, m := newTestMount(t)
	w.before = func(_ context.Context, x *oncrpc.Exchange) ([]byte, error) {
		assert.Equal(t, want[x.Proc], x.MaxResults)
		cred := ProcessCred()
		if x.Proc == mount3.ProcNull {
			cred = rpcmsg.Cred{}
		}
		assert.Equal(t, cred, x.Cred)
		delete(want, x.Proc)
		return nil, errRecorded
	}
	m.mountCalls(t.Context())
	assert.Empty(t, want)
}
