package nfs4server

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4/nfs4test"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// newACLDir returns a file system with lists in a new directory.
func newACLDir(t *testing.T) (*posix.FS, string) {
	dir, err := os.MkdirTemp("/dev/shm", "nfs4server-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	fs, err := posix.Open(dir, posix.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fs.Close()) })
	return fs, dir
}

// TestScenariosOfLists runs the access control list scenarios in a host directory, with the
// statements that they show.
func TestScenariosOfLists(t *testing.T) {
	shown := map[string]string{
		"aclsupport": "R8881-6.2.1-3 R8881-6.2.1.2-1 R8881-6.2.1.2-3",
		"GETATTR of acl of an object without a list":                      "R8881-6.4.2-1 R8881-6.2.1.3.1-5",
		"GETATTR of acl of objects of each type":                          "",
		"SETATTR and GETATTR of acl":                                      "R8881-6.2.1-3 R8881-6.4.1.2-1",
		"SETATTR of an empty acl":                                         "",
		"SETATTR of the mode of an object with an acl":                    "R8881-6.4.1.1-1 R8881-6.4.1.1-2",
		"SETATTR of mode and acl":                                         "R8881-6.4.1.3-1",
		"an acl together with dacl or sacl":                               "R8881-6.4.1-1",
		"SETATTR of an acl that cannot be held":                           "R8881-6.2.1.2-2 R8881-6.2.1.4-1 R8881-6.2.1.4.1-1 R8881-6.2.1.4.1-3",
		"SETATTR of an acl that files alone or directories alone inherit": "R8881-6.2.1.4-1 R8881-6.4.3-2",
		"SETATTR of an acl that only nothing inherits":                    "R8881-6.2.1.4.1-1",
		"SETATTR of an acl that hides attributes":                         "R8881-6.2.1-2 R8881-6.2.1-4",
		"INHERITED_ACE in an acl":                                         "R8881-6.2.1.4.1-2",
		"IDENTIFIER_GROUP on special names in an acl":                     "R8881-6.2.1.4.1-2 R8881-6.2.1.5-1 R8881-6.2.1.5-2",
		"the mode by an acl":                                              "R8881-6.3.2-1 R8881-6.2.1.3.1-3",
		"rights by an acl":                                                "R8881-6.2.1-1 R8881-6.2.1.5-1",
		"inheritance of an acl":                                           "R8881-6.4.3-1 R8881-6.4.3.1-1",
		"an acl that is inherited and counts":                             "",
		"SETATTR of an acl that ends inheritance":                         "R8881-6.4.1.2-1",
		"OPEN and CREATE with acl":                                        "R8881-6.4.3-1",
		"OPEN and CREATE with an acl that cannot be held":                 "R8881-6.2.1.2-2 R8881-5.9-2",
		"creation with attributes, but neither mode nor acl":              "R8881-6.4.3-1",
		"SETATTR of an acl with names that are unknown":                   "R8881-5.9-2",
		"SETATTR of an acl with an empty name":                            "R8881-5.9-2",
		"SETATTR of acl by another user":                                  "",
		"SETATTR of acl of a symbolic link":                               "R8881-6.2.1.2-2",
		"SETATTR of an acl that is longer than the message":               "",
		"VERIFY and NVERIFY of acl":                                       "R8881-18.15.4-2",
		"VERIFY of an acl with flags that mean nothing":                   "R8881-18.15.4-2 R8881-6.2.1.4.1-2",
		"READDIR of acl":                                                  "",
		"GETATTR of an acl that is longer than the reply may be":          "",
	}
	fs, _ := newACLDir(t)
	s := serveLoopbackFS(t, 40*time.Second, fs)
	for s.Minor = nfs4.Minor1; s.Minor <= nfs4.Minor2; s.Minor++ {
		ran := 0
		for _, sc := range nfs4test.All() {
			if _, ok := shown[sc.Name]; !ok {
				continue
			}
			ran++
			t.Run(sc.Name, func(t *testing.T) {
				for _, failure := range sc.Run(s) {
					t.Errorf("%s\n%s", sc.By, failure)
				}
			})
		}
		assert.Len(t, shown, ran, "scenarios that do not exist")
	}
}

// encodeHostACL encodes a list as the host's extended attribute.
func encodeHostACL(a vfs.ACL) []byte {
	b := []byte{2, 0, 0, 0}
	for _, e := range a {
		id := e.ID
		if e.Tag != vfs.ACLUser && e.Tag != vfs.ACLGroup {
			id = ^uint32(0)
		}
		b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, uint16(e.Tag)), uint16(e.Perm))
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

// readHostACL returns a list from the host.
func readHostACL(t *testing.T, path, name string) string {
	b := make([]byte, 64<<10)
	n, err := unix.Getxattr(path, name, b)
	if err == unix.ENODATA {
		return ""
	}
	require.NoError(t, err)
	return string(b[:n])
}

func aclAttrs(a nfs4.ACL) nfs4.Attrs { return nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrACL), ACL: a} }

// getACL returns an object's acl.
func (g *testServer) getACL(fh []byte) nfs4.ACL {
	return g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrACL)).ACL
}

// TestHostLists checks that a host list is on another host object once the reply to its SETATTR
// has arrived, and that each SETATTR increases change, even within a clock tick.
func TestHostLists(t *testing.T) {
	g, dir := newDiskServerAt(t, "/dev/shm")
	obj := func(p uint8) vfs.ACLEntry { return vfs.ACLEntry{Tag: vfs.ACLUserObj, Perm: p} }
	group := func(p uint8) vfs.ACLEntry { return vfs.ACLEntry{Tag: vfs.ACLGroupObj, Perm: p} }
	other := func(p uint8) vfs.ACLEntry { return vfs.ACLEntry{Tag: vfs.ACLOther, Perm: p} }
	mask := func(p uint8) vfs.ACLEntry { return vfs.ACLEntry{Tag: vfs.ACLMask, Perm: p} }
	lists := []vfs.ACL{
		{obj(7), {Tag: vfs.ACLUser, ID: 5, Perm: 4}, group(0), mask(4), other(0)},
		{obj(6), group(4), {Tag: vfs.ACLGroup, ID: 0, Perm: 7}, {Tag: vfs.ACLGroup, ID: 1 << 31, Perm: 2}, mask(7), other(1)},
		{obj(0), {Tag: vfs.ACLUser, ID: 1, Perm: 1}, {Tag: vfs.ACLUser, ID: 2, Perm: 2}, group(5), {Tag: vfs.ACLGroup, ID: 3, Perm: 4}, mask(7), other(6)},
	}
	require.NoError(t, unix.Mkdir(dir+"/from", 0o777))
	require.NoError(t, unix.Mkdir(dir+"/to", 0o777))
	from, to := g.lookupPath("x", "from"), g.lookupPath("x", "to")
	changes := map[uint64]bool{}
	for i, access := range lists {
		def := lists[(i+1)%len(lists)]
		require.NoError(t, unix.Setxattr(dir+"/from", "system.posix_acl_access", encodeHostACL(access), 0))
		require.NoError(t, unix.Setxattr(dir+"/from", "system.posix_acl_default", encodeHostACL(def), 0))
		require.Equal(t, nfs4.OK, g.setAttrs(to, aclAttrs(g.getACL(from))))
		assert.Equal(t, string(encodeHostACL(access)), readHostACL(t, dir+"/to", "system.posix_acl_access"))
		assert.Equal(t, string(encodeHostACL(def)), readHostACL(t, dir+"/to", "system.posix_acl_default"))
		changes[g.getAttrs(to, nfs4.BitmapOf(nfs4.AttrChange)).Change] = true
	}
	require.NoError(t, unix.Setxattr(dir+"/from", "system.posix_acl_access", encodeHostACL(vfs.ModeACL(0o751)), 0))
	require.NoError(t, unix.Removexattr(dir+"/from", "system.posix_acl_default"))
	require.Equal(t, nfs4.OK, g.setAttrs(to, aclAttrs(g.getACL(from))))
	assert.Empty(t, readHostACL(t, dir+"/to", "system.posix_acl_access"), "a list equal to a mode is not stored")
	assert.Empty(t, readHostACL(t, dir+"/to", "system.posix_acl_default"))
	changes[g.getAttrs(to, nfs4.BitmapOf(nfs4.AttrChange)).Change] = true
	assert.Len(t, changes, len(lists)+1)
	assert.Equal(t, uint32(0o751), g.getAttrs(to, nfs4.BitmapOf(nfs4.AttrMode)).Mode)
}

// TestListNames checks the names and numbers of users and groups in lists, both ways and in
// comparisons (R8881-5.9-2, R8881-18.15.4-2).
func TestListNames(t *testing.T) {
	g, _ := newDiskServerAt(t, "/dev/shm")
	p := new(fakeUserDatabase)
	g.s.owners = idmap.New(idmap.Config{Rules: idmap.Rules{Domain: "example.org"}, Database: p})
	t.Cleanup(g.s.owners.Close)
	fh := g.makeFile("f", "")
	list := func(user, group string) nfs4.ACL {
		return nfs4.ACL{
			{Mask: nfs4.ACEReadData, Who: []byte(user)}, {Mask: nfs4.ACEExecute, Flag: nfs4.ACEIdentifierGroup, Who: []byte(group)},
		}
	}
	whos := func() (out []string) {
		for _, e := range g.getACL(fh) {
			out = append(out, string(e.Who))
		}
		return out
	}
	for _, tt := range []struct{ user, group, gotUser, gotGroup string }{
		{"alice@example.org", "staff@EXAMPLE.ORG", "alice@example.org", "staff@example.org"},
		{"1234", "4321", "alice@example.org", "staff@example.org"},
		{"5", "6", "5", "6"},
	} {
		require.Equal(t, nfs4.OK, g.setAttrs(fh, aclAttrs(list(tt.user, tt.group))))
		assert.Equal(t, []string{"OWNER@", "OWNER@", tt.gotUser, tt.gotUser, "GROUP@", tt.gotGroup, "EVERYONE@"}, whos())
	}
	require.Equal(t, nfs4.OK, g.setAttrs(fh, aclAttrs(list("1234", "4321"))))
	numbers := g.getACL(fh)
	for i, e := range numbers {
		numbers[i].Who = bytes.Clone(e.Who)
		switch string(e.Who) {
		case "alice@example.org":
			numbers[i].Who = []byte("1234")
		case "staff@example.org":
			numbers[i].Who = []byte("4321")
		}
	}
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: aclAttrs(numbers)}, newStatusRes()})
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpNVerify, &nfs4.VerifyArgs{Attrs: aclAttrs(numbers)}, newStatusRes()})
	assert.Equal(t, nfs4.ErrSame, st)
	for _, who := range []string{"bob@example.org", "staff@example.org", "alice@elsewhere.org", "alice"} {
		assert.Equal(t, nfs4.ErrBadOwner, g.setAttrs(fh, aclAttrs(list(who, "6"))), who)
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: aclAttrs(list(who, "6"))}, newStatusRes()})
		assert.Equal(t, nfs4.ErrNotSame, st)
	}
	p.down.Store(true)
	assert.Equal(t, nfs4.ErrDelay, g.setAttrs(fh, aclAttrs(list("carol@example.org", "6"))))
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: aclAttrs(list("carol@example.org", "6"))}, newStatusRes()})
	assert.Equal(t, nfs4.ErrDelay, st)
}

// TestListsByExport checks that an export without lists does not have the
// attribute, that a read-only one shows it, and that both minor versions have it
// (R8881-6.2.1-3, R8881-6.2.1.2-1).
func TestListsByExport(t *testing.T) {
	fs, _ := newACLDir(t)
	readOnly := free
	readOnly.ReadOnly = true
	g := newTestServer(
		t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)},
		exportset.Export{Path: "/ro", FS: fs, Clients: exports.Everyone(readOnly), ID: 7},
		exportset.Export{Path: "/none", FS: mem.New(mem.Options{}), Clients: exports.Everyone(free), ID: 8},
	).becomeRoot().connectClient()
	all := nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrACL, nfs4.AttrACLSupport, nfs4.AttrSuppattrExclCreat)
	for minor := nfs4.Minor1; minor <= nfs4.Minor2; minor++ {
		g.minor = minor
		g.connectAs(fmt.Sprint("by 4.", minor))
		set := aclAttrs(nfs4.ACL{{Mask: nfs4.ACEReadData, Who: []byte(nfs4.WhoEveryone)}})
		for path, want := range map[string]struct {
			has bool
			set nfs4.Status
		}{"x": {true, nfs4.OK}, "ro": {true, nfs4.ErrROFS}, "none": {false, nfs4.ErrAttrNotSupp}} {
			fh := g.lookupPath(path)
			a := g.getAttrs(fh, all)
			assert.Equal(t, want.has, a.SupportedAttrs.Has(nfs4.AttrACL), path)
			assert.Equal(t, want.has, a.SuppattrExclCreat.Has(nfs4.AttrACL), path)
			assert.Equal(t, want.has, a.Mask.Has(nfs4.AttrACL), path)
			assert.Equal(t, want.has, a.ACLSupport == 3, path)
			assert.True(t, a.Mask.Has(nfs4.AttrACLSupport))
			assert.Equal(t, want.set, g.setAttrs(fh, set), path)
		}
		st, _ := g.sendSteps(putRootStep(), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: set}, new(nfs4.SetAttrRes)})
		assert.Equal(t, nfs4.ErrAttrNotSupp, st)
	}
}

// TestListRoom checks long lists when they do not fit into a reply or into a slot that must
// cache it, and after a data item.
func TestListRoom(t *testing.T) {
	g, _ := newDiskServerAt(t, "/dev/shm")
	fh := g.makeFile("f", "content")
	for _, n := range []int{1, 200, 400, 8000} {
		list := nfs4.ACL{{Mask: nfs4.ACEReadData, Who: []byte(nfs4.WhoOwner)}}
		for i := range n {
			list = append(list, nfs4.ACE{Mask: nfs4.ACEReadData, Who: fmt.Append(nil, 1000+i)})
		}
		require.Equal(t, nfs4.OK, g.setAttrs(fh, aclAttrs(list)))
		size := 0
		get := step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrACL)}, new(nfs4.GetAttrRes)}
		st, _ := g.sendSteps(putStep(fh), get)
		require.Equal(t, nfs4.OK, st)
		got := get.res.(*nfs4.GetAttrRes).Attrs.ACL
		assert.Len(t, got, n+3)
		size = got.Len()

		g.seq++
		seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq, CacheThis: true}, new(nfs4.SequenceRes)}
		st, _ = g.sendRaw(seq, putStep(fh), get)
		want := nfs4.OK
		if size > 7584 {
			want = nfs4.ErrRepTooBigToCache
		}
		assert.Equal(t, want, st, n)
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpRead, &nfs4.ReadArgs{Count: 7}, new(nfs4.ReadRes)}, get)
		want = nfs4.OK
		if size > maxUnreserved {
			want = nfs4.ErrRepTooBig
		}
		assert.Equal(t, want, st, n)
	}
	list := make(nfs4.ACL, 9000) // more than an attribute of the host can hold
	for i := range list {
		list[i] = nfs4.ACE{Mask: nfs4.ACEReadData, Who: fmt.Append(nil, 1000+i)}
	}
	assert.Equal(t, nfs4.ErrFBig, g.setAttrs(fh, aclAttrs(list)))
	assert.Len(t, g.getACL(fh), 8003)
}

// TestListsAndDelegations checks that a list change waits for mountrdma mounts that may hold
// the object, and that reading does not.
func TestListsAndDelegations(t *testing.T) {
	fs, _ := newACLDir(t)
	e := exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)}
	g := newTestServer(t, e).becomeRoot().connectClient()
	g.makeFile("f", "")
	g.restartAfterCrash(e)
	fh := g.lookupPath("x", "f")
	before := g.getACL(fh)
	assert.Equal(t, nfs4.ErrDelay, g.setAttrs(fh, aclAttrs(before)))
	assert.Equal(t, before, g.getACL(fh))
}

// A fakeACLFS may fail to set lists, and records the objects' mode before that.
type fakeACLFS struct {
	*posix.FS
	fail  error
	modes []uint32
}

func (f *fakeACLFS) SetACL(ctx context.Context, c *vfs.Cred, h vfs.Handle, access, def *vfs.ACL) (vfs.MaybeAttr, error) {
	a, err := f.FS.GetAttr(ctx, c, h)
	if err != nil {
		return vfs.MaybeAttr{}, err
	}
	if f.modes = append(f.modes, a.Mode&0o7777); f.fail != nil {
		return vfs.MaybeAttr{}, f.fail
	}
	return f.FS.SetACL(ctx, c, h, access, def)
}

// TestListBeforeOthers checks that a new object is its maker's alone until its
// list is set, and stays so if that fails, as the reply says.
func TestListBeforeOthers(t *testing.T) {
	posixFS, _ := newACLDir(t)
	fs := &fakeACLFS{FS: posixFS}
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)}).becomeRoot().connectClient()
	a := aclAttrs(nfs4.ACL{{Mask: nfs4.ACEReadData, Who: []byte(nfs4.WhoEveryone)}})
	a.Mask.Set(nfs4.AttrMode)
	a.Mode = 0o4777
	made := func(name string) (opened, created nfs4.Bitmap) {
		o := openArgs("o", "f"+name, nfs4.ShareBoth, 0, nfs4.Guarded)
		o.Attrs = a
		var open nfs4.OpenRes
		var create nfs4.CreateRes
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, o, &open})
		require.Equal(t, nfs4.OK, st)
		c := nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("d" + name), Attrs: a}
		st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &c, &create})
		require.Equal(t, nfs4.OK, st)
		return open.AttrSet, create.AttrSet
	}
	mode := func(name string) uint32 {
		return g.getAttrs(g.lookupPath("x", name), nfs4.BitmapOf(nfs4.AttrMode)).Mode
	}
	opened, created := made("1")
	assert.Equal(t, []nfs4.Bitmap{a.Mask, a.Mask}, []nfs4.Bitmap{opened, created})
	assert.Equal(t, []uint32{0o4444, 0o4444}, []uint32{mode("f1"), mode("d1")})
	fs.fail = syscall.ENOSPC
	opened, created = made("2")
	assert.Equal(t, []nfs4.Bitmap{{}, {}}, []nfs4.Bitmap{opened, created})
	assert.Equal(t, []uint32{0o4700, 0o4700}, []uint32{mode("f2"), mode("d2")})
	assert.Equal(t, []uint32{0o4700, 0o4700, 0o4700, 0o4700}, fs.modes)
}

// setFailing makes SETATTR, and returns its results also if it fails.
func (g *testServer) setFailing(fh nfs4.FH, a nfs4.SetAttrArgs) (res nfs4.SetAttrRes) {
	g.seq++
	r := xdr.NewReader(g.sendCompound(
		step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq}, nil}, putStep(fh), step{nfs4.OpSetAttr, &a, nil},
	))
	new(nfs4.CompoundRes).Decode(&r)
	r.Uint32()
	new(nfs4.SequenceRes).Decode(&r)
	r.Uint32()
	new(nfs4.StatusRes).Decode(&r)
	require.Equal(g.t, uint32(nfs4.OpSetAttr), r.Uint32())
	res.Decode(&r)
	require.NoError(g.t, r.Done())
	return res
}

// TestSizeBeforeOthers checks that SETATTR, if it fails after it has changed the size,
// says so (R8881-18.30.3-2).
func TestSizeBeforeOthers(t *testing.T) {
	onEachFS(t, func(t *testing.T, g *testServer, fs *fakeCountingFS) {
		opened, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
		require.Equal(t, nfs4.OK, st)
		a := nfs4.SetAttrArgs{Attrs: nfs4.Attrs{
			Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrOwner), Owner: []byte("4711"),
		}}
		for i, id := range []nfs4.StateID{{}, opened.StateID} {
			a.StateID, a.Attrs.Size = id, uint64(10+i)
			res := g.setFailing(fh, a)
			assert.Equal(t, nfs4.SetAttrRes{Status: nfs4.ErrPerm, AttrsSet: nfs4.BitmapOf(nfs4.AttrSize)}, res)
			assert.Equal(t, a.Attrs.Size, g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrSize)).Size)
		}
		fs.full = true
		for _, id := range []nfs4.StateID{{}, opened.StateID} {
			a.StateID = id
			assert.Equal(t, nfs4.SetAttrRes{Status: nfs4.ErrDQuot}, g.setFailing(fh, a))
		}
	})
}

// TestListFails checks that the reply to a SETATTR whose list cannot be set says
// which attributes were.
func TestListFails(t *testing.T) {
	posixFS, _ := newACLDir(t)
	fs := &fakeACLFS{FS: posixFS, fail: syscall.ENOSPC}
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)}).becomeRoot().connectClient()
	fh := g.makeFile("f", "")
	a := aclAttrs(nfs4.ACL{{Mask: nfs4.ACEReadData, Who: []byte(nfs4.WhoEveryone)}})
	a.Mask.Set(nfs4.AttrMode)
	a.Mode = 0o640
	res := g.setFailing(fh, nfs4.SetAttrArgs{Attrs: a})
	assert.Equal(t, nfs4.SetAttrRes{Status: nfs4.ErrNoSpc, AttrsSet: nfs4.BitmapOf(nfs4.AttrMode)}, res)
	assert.Equal(t, uint32(0o640), g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrMode)).Mode)
	assert.Equal(t, []uint32{0o640}, fs.modes, "the mode comes first")
	fs.fail = syscall.EOPNOTSUPP
	a.Mask.Clear(nfs4.AttrMode)
	assert.Equal(t, nfs4.ErrAttrNotSupp, g.setAttrs(fh, a))
}
