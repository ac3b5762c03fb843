package nfs4server

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// xattrCalls are the four operations on a key.
func xattrCalls(key, value string) map[nfs4.Op]step {
	return map[nfs4.Op]step{
		nfs4.OpGetXattr:    {nfs4.OpGetXattr, &nfs4.NameArgs{Name: []byte(key)}, new(nfs4.GetXattrRes)},
		nfs4.OpSetXattr:    {nfs4.OpSetXattr, &nfs4.SetXattrArgs{Key: []byte(key), Value: []byte(value)}, new(nfs4.ChangeRes)},
		nfs4.OpListXattrs:  {nfs4.OpListXattrs, &nfs4.ListXattrsArgs{MaxCount: 4096}, new(nfs4.ListXattrsRes)},
		nfs4.OpRemoveXattr: {nfs4.OpRemoveXattr, &nfs4.NameArgs{Name: []byte(key)}, new(nfs4.ChangeRes)},
	}
}

// TestXattrsByExport checks that an export without extended attributes has no
// operation for them, that a read-only one has those that read, and that
// xattr_support and ACCESS say so (R8276-8.4-1, R8276-8.2-1, R8276-8.5-1).
func TestXattrsByExport(t *testing.T) {
	fs := mem.New(mem.Options{Size: 1 << 30})
	readOnly := free
	readOnly.ReadOnly = true
	g := newRig(
		t, realm.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)},
		realm.Export{Path: "/ro", FS: fs, Clients: exports.Everyone(readOnly), ID: 7},
		realm.Export{Path: "/none", FS: struct{ vfs.FS }{mem.New(mem.Options{})}, Clients: exports.Everyone(free), ID: 8},
	).asRoot().connect()
	g.make("f", "")
	const bits = nfs4.AccessXARead | nfs4.AccessXAWrite | nfs4.AccessXAList
	ask := func(path ...string) (bool, nfs4.AccessRes) {
		fh := g.lookup(path...)
		var res nfs4.AccessRes
		st, _ := g.do(put(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: bits}, &res})
		require.Equal(t, nfs4.OK, st)
		return g.attrs(fh, nfs4.BitmapOf(nfs4.AttrXattrSupport)).XattrSupport, res
	}
	has, res := ask("x", "f")
	assert.Equal(t, []any{true, bits, bits}, []any{has, res.Supported, res.Access})
	has, res = ask("ro", "f")
	assert.Equal(t, []any{true, bits, bits &^ nfs4.AccessXAWrite}, []any{has, res.Supported, res.Access})
	has, res = ask("none")
	assert.Equal(t, []any{false, uint32(0), uint32(0)}, []any{has, res.Supported, res.Access})

	x := g.lookup("x", "f")
	st, _ := g.do(put(x), xattrCalls("k", "value")[nfs4.OpSetXattr])
	require.Equal(t, nfs4.OK, st)
	ro, none := g.lookup("ro", "f"), g.lookup("none")
	for op, s := range xattrCalls("k", "value") {
		want := nfs4.OK
		if op == nfs4.OpSetXattr || op == nfs4.OpRemoveXattr {
			want = nfs4.ErrROFS
		}
		st, _ := g.do(put(ro), s)
		assert.Equal(t, want, st, op)
		st, _ = g.do(put(none), s)
		assert.Equal(t, nfs4.ErrNotSupp, st, op)
	}
}

// TestHostXattrs compares with the attributes that the host has: those of users
// alone, without the host's prefix.
//
// R8276-5-1, R8276-5-2, R8276-8.4.3-3, R8276-8.7-1.
func TestHostXattrs(t *testing.T) {
	fs, err := posix.Open("/dev/shm", posix.Options{})
	require.NoError(t, err)
	has := fs.HasXattrs()
	require.NoError(t, fs.Close())
	if !has {
		t.Log("does not apply: this host has no extended attributes of users here")
		return
	}
	g, dir := onDiskAt(t, "/dev/shm")
	fh := g.make("f", "")
	path := dir + "/f"
	list := func() (names []string) {
		var res nfs4.ListXattrsRes
		st, _ := g.do(put(fh), step{nfs4.OpListXattrs, &nfs4.ListXattrsArgs{MaxCount: 4096}, &res})
		require.Equal(t, nfs4.OK, st)
		assert.True(t, res.EOF)
		for _, name := range res.Names {
			names = append(names, string(name))
		}
		slices.Sort(names)
		return names
	}
	if unix.Geteuid() == 0 {
		require.NoError(t, unix.Setxattr(path, "trusted.t", []byte("secret"), 0))
		assert.Empty(t, list(), "attributes of the system do not show")
	}
	require.NoError(t, unix.Setxattr(path, "user.a", []byte("one"), 0))
	require.NoError(t, unix.Setxattr(path, "user.user.a", []byte("two"), 0))
	assert.Equal(t, []string{"a", "user.a"}, list())
	var got nfs4.GetXattrRes
	for key, want := range map[string]string{"a": "one", "user.a": "two"} {
		st, _ := g.do(put(fh), step{nfs4.OpGetXattr, &nfs4.NameArgs{Name: []byte(key)}, &got})
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, want, string(got.Value))
	}
	for _, key := range []string{"trusted.t", "system.posix_acl_access", "security.capability"} {
		st, _ := g.do(put(fh), xattrCalls(key, "mine")[nfs4.OpSetXattr])
		require.Equal(t, nfs4.OK, st)
		b := make([]byte, 10)
		n, err := unix.Getxattr(path, "user."+key, b)
		require.NoError(t, err)
		assert.Equal(t, "mine", string(b[:n]), "done when it is answered")
		st, _ = g.do(put(fh), xattrCalls(key, "")[nfs4.OpRemoveXattr])
		require.Equal(t, nfs4.OK, st)
	}
	if unix.Geteuid() == 0 {
		b := make([]byte, 10)
		n, err := unix.Getxattr(path, "trusted.t", b)
		require.NoError(t, err)
		assert.Equal(t, "secret", string(b[:n]))
	}
}

// TestXattrRoom checks values beside the room of a reply, and of a slot that is
// to keep the reply (R8276-8.4.1-2), and values behind a data item.
func TestXattrRoom(t *testing.T) {
	g := newRig(t, memory("/x", free)).asRoot().connect()
	fh := g.make("f", "content")
	for _, size := range []int{1, 7000, 9000, vfs.MaxXattrValue} {
		value := strings.Repeat("v", size)
		st, _ := g.do(put(fh), xattrCalls("k", value)[nfs4.OpSetXattr])
		require.Equal(t, nfs4.OK, st)
		var got nfs4.GetXattrRes
		get := step{nfs4.OpGetXattr, &nfs4.NameArgs{Name: []byte("k")}, &got}
		st, _ = g.do(put(fh), get)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, value, string(got.Value))

		g.seq++
		seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq, CacheThis: true}, new(nfs4.SequenceRes)}
		st, _ = g.raw(seq, put(fh), get)
		want := nfs4.OK
		if size > 7584 {
			want = nfs4.ErrRepTooBigToCache
		}
		assert.Equal(t, want, st, size)

		var read nfs4.ReadRes
		st, _ = g.do(put(fh), step{nfs4.OpRead, &nfs4.ReadArgs{Count: 7}, &read}, get)
		want = nfs4.OK
		if size > shortList {
			want = nfs4.ErrRepTooBig
		}
		assert.Equal(t, want, st, size)
		assert.Equal(t, "content", string(read.Data))
	}
}

// putOff restarts the server of an export after a crash: changes of its files wait
// for mounts of mountrdma that may hold them, and have not heard of the crash.
func (g *rig) putOff(e realm.Export) {
	g.t.Helper()
	marker := filepath.Join(g.t.TempDir(), "grants")
	require.NoError(g.t, os.WriteFile(marker, []byte("5m0s"), 0o600))
	keeper, err := delegserver.New(delegserver.Config{Marker: marker, Log: slog.New(slog.DiscardHandler)})
	require.NoError(g.t, err)
	g.t.Cleanup(keeper.Close)
	r, err := realm.New(realm.Config{Exports: []realm.Export{e}, Grants: keeper})
	require.NoError(g.t, err)
	g.s = New(Config{Realm: r, State: g.s.state, Lease: g.s.lease})
}

// TestXattrsAndDelegations checks that a change waits for mounts of mountrdma
// that may hold the object, and that reading does not.
//
// R8276-8.4.2-7, R8276-8.8-2.
func TestXattrsAndDelegations(t *testing.T) {
	e := memory("/x", free)
	g := newRig(t, e).asRoot().connect()
	fh := g.make("f", "")
	st, _ := g.do(put(fh), xattrCalls("k", "value")[nfs4.OpSetXattr])
	require.Equal(t, nfs4.OK, st)

	g.putOff(e)
	fh = g.lookup("x", "f")
	for op, s := range xattrCalls("k", "other") {
		want := nfs4.OK
		if op == nfs4.OpSetXattr || op == nfs4.OpRemoveXattr {
			want = nfs4.ErrDelay
		}
		st, _ := g.do(put(fh), s)
		assert.Equal(t, want, st, op)
	}
	var got nfs4.GetXattrRes
	st, _ = g.do(put(fh), step{nfs4.OpGetXattr, &nfs4.NameArgs{Name: []byte("k")}, &got})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "value", string(got.Value))
}
