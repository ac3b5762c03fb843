package nfs4server

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// xattrSteps are the four operations on a key.
func xattrSteps(key, value string) map[nfs4.Op]step {
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
	g := newTestServer(
		t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)},
		exportset.Export{Path: "/ro", FS: fs, Clients: exports.Everyone(readOnly), ID: 7},
		exportset.Export{Path: "/none", FS: struct{ vfs.FS }{mem.New(mem.Options{})}, Clients: exports.Everyone(free), ID: 8},
	).becomeRoot().connectClient()
	g.makeFile("f", "")
	const bits = nfs4.AccessXARead | nfs4.AccessXAWrite | nfs4.AccessXAList
	ask := func(path ...string) (bool, nfs4.AccessRes) {
		fh := g.lookupPath(path...)
		var res nfs4.AccessRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: bits}, &res})
		require.Equal(t, nfs4.OK, st)
		return g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrXattrSupport)).XattrSupport, res
	}
	has, res := ask("x", "f")
	assert.Equal(t, []any{true, bits, bits}, []any{has, res.Supported, res.Access})
	has, res = ask("ro", "f")
	assert.Equal(t, []any{true, bits, bits &^ nfs4.AccessXAWrite}, []any{has, res.Supported, res.Access})
	has, res = ask("none")
	assert.Equal(t, []any{false, uint32(0), uint32(0)}, []any{has, res.Supported, res.Access})

	x := g.lookupPath("x", "f")
	st, _ := g.sendSteps(putStep(x), xattrSteps("k", "value")[nfs4.OpSetXattr])
	require.Equal(t, nfs4.OK, st)
	ro, none := g.lookupPath("ro", "f"), g.lookupPath("none")
	for op, s := range xattrSteps("k", "value") {
		want := nfs4.OK
		if op == nfs4.OpSetXattr || op == nfs4.OpRemoveXattr {
			want = nfs4.ErrROFS
		}
		st, _ := g.sendSteps(putStep(ro), s)
		assert.Equal(t, want, st, op)
		st, _ = g.sendSteps(putStep(none), s)
		assert.Equal(t, nfs4.ErrNotSupp, st, op)
	}
}

// TestHostXattrs compares with the host's attributes: only user attributes, without the host's
// prefix.
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
	g, dir := newDiskServerAt(t, "/dev/shm")
	fh := g.makeFile("f", "")
	path := dir + "/f"
	list := func() (names []string) {
		var res nfs4.ListXattrsRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpListXattrs, &nfs4.ListXattrsArgs{MaxCount: 4096}, &res})
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
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpGetXattr, &nfs4.NameArgs{Name: []byte(key)}, &got})
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, want, string(got.Value))
	}
	for _, key := range []string{"trusted.t", "system.posix_acl_access", "security.capability"} {
		st, _ := g.sendSteps(putStep(fh), xattrSteps(key, "mine")[nfs4.OpSetXattr])
		require.Equal(t, nfs4.OK, st)
		b := make([]byte, 10)
		n, err := unix.Getxattr(path, "user."+key, b)
		require.NoError(t, err)
		assert.Equal(t, "mine", string(b[:n]), "done when it is answered")
		st, _ = g.sendSteps(putStep(fh), xattrSteps(key, "")[nfs4.OpRemoveXattr])
		require.Equal(t, nfs4.OK, st)
	}
	if unix.Geteuid() == 0 {
		b := make([]byte, 10)
		n, err := unix.Getxattr(path, "trusted.t", b)
		require.NoError(t, err)
		assert.Equal(t, "secret", string(b[:n]))
	}
}

// TestXattrRoom checks values when they do not fit into a reply or into a slot that must cache
// it (R8276-8.4.1-2), and values after a data item.
func TestXattrRoom(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	for _, size := range []int{1, 7000, 9000, vfs.MaxXattrValue} {
		value := strings.Repeat("v", size)
		st, _ := g.sendSteps(putStep(fh), xattrSteps("k", value)[nfs4.OpSetXattr])
		require.Equal(t, nfs4.OK, st)
		var got nfs4.GetXattrRes
		get := step{nfs4.OpGetXattr, &nfs4.NameArgs{Name: []byte("k")}, &got}
		st, _ = g.sendSteps(putStep(fh), get)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, value, string(got.Value))

		g.seq++
		seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq, CacheThis: true}, new(nfs4.SequenceRes)}
		st, _ = g.sendRaw(seq, putStep(fh), get)
		want := nfs4.OK
		if size > 7584 {
			want = nfs4.ErrRepTooBigToCache
		}
		assert.Equal(t, want, st, size)

		var read nfs4.ReadRes
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpRead, &nfs4.ReadArgs{Count: 7}, &read}, get)
		want = nfs4.OK
		if size > maxUnreserved {
			want = nfs4.ErrRepTooBig
		}
		assert.Equal(t, want, st, size)
		assert.Equal(t, "content", string(read.Data))
	}
}

// restartAfterCrash restarts an export's server after a crash: changes to its files wait for
// mountrdma mounts that may hold them, and do not know about the crash.
func (g *testServer) restartAfterCrash(e exportset.Export) {
	g.t.Helper()
	r, err := exportset.New(exportset.Config{Exports: []exportset.Export{e}, DefersChange: func(bool) bool { return true }})
	require.NoError(g.t, err)
	g.s = New(Config{Exports: r, State: g.s.state, Lease: g.s.lease})
}

// TestXattrsAndDelegations checks that a change waits for mountrdma mounts that may hold the
// object, and that reading does not.
//
// R8276-8.4.2-7, R8276-8.8-2.
func TestXattrsAndDelegations(t *testing.T) {
	e := newMemoryExport("/x", free)
	g := newTestServer(t, e).becomeRoot().connectClient()
	fh := g.makeFile("f", "")
	st, _ := g.sendSteps(putStep(fh), xattrSteps("k", "value")[nfs4.OpSetXattr])
	require.Equal(t, nfs4.OK, st)

	g.restartAfterCrash(e)
	fh = g.lookupPath("x", "f")
	for op, s := range xattrSteps("k", "other") {
		want := nfs4.OK
		if op == nfs4.OpSetXattr || op == nfs4.OpRemoveXattr {
			want = nfs4.ErrDelay
		}
		st, _ := g.sendSteps(putStep(fh), s)
		assert.Equal(t, want, st, op)
	}
	var got nfs4.GetXattrRes
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpGetXattr, &nfs4.NameArgs{Name: []byte("k")}, &got})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "value", string(got.Value))
}
