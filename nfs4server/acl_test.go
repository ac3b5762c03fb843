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

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4/nfs4test"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// shm returns the file system of a new directory that has lists.
func shm(t *testing.T) (*posix.FS, string) {
	dir, err := os.MkdirTemp("/dev/shm", "nfs4server-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	fs, err := posix.Open(dir, posix.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fs.Close()) })
	return fs, dir
}

// TestScenariosOfLists runs the scenarios of access control lists on a directory
// of the host, with the statements that they show.
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
	fs, _ := shm(t)
	s := loopbackOf(t, 40*time.Second, fs)
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

// hostList writes a list in the form of the host's extended attribute.
func hostList(a vfs.ACL) []byte {
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

// hostHas returns a list of the host.
func hostHas(t *testing.T, path, name string) string {
	b := make([]byte, 64<<10)
	n, err := unix.Getxattr(path, name, b)
	if err == unix.ENODATA {
		return ""
	}
	require.NoError(t, err)
	return string(b[:n])
}

func withList(a nfs4.ACL) nfs4.Attrs { return nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrACL), ACL: a} }

// list returns the acl of an object.
func (g *rig) list(fh []byte) nfs4.ACL { return g.attrs(fh, nfs4.BitmapOf(nfs4.AttrACL)).ACL }

// TestHostLists checks that a list of the host is on another object of the host
// once the answer to its SETATTR is there, and that each SETATTR moves change, also
// within a tick of the clock.
func TestHostLists(t *testing.T) {
	g, dir := onDiskAt(t, "/dev/shm")
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
	from, to := g.lookup("x", "from"), g.lookup("x", "to")
	changes := map[uint64]bool{}
	for i, access := range lists {
		def := lists[(i+1)%len(lists)]
		require.NoError(t, unix.Setxattr(dir+"/from", "system.posix_acl_access", hostList(access), 0))
		require.NoError(t, unix.Setxattr(dir+"/from", "system.posix_acl_default", hostList(def), 0))
		require.Equal(t, nfs4.OK, g.set(to, withList(g.list(from))))
		assert.Equal(t, string(hostList(access)), hostHas(t, dir+"/to", "system.posix_acl_access"))
		assert.Equal(t, string(hostList(def)), hostHas(t, dir+"/to", "system.posix_acl_default"))
		changes[g.attrs(to, nfs4.BitmapOf(nfs4.AttrChange)).Change] = true
	}
	require.NoError(t, unix.Setxattr(dir+"/from", "system.posix_acl_access", hostList(vfs.ModeACL(0o751)), 0))
	require.NoError(t, unix.Removexattr(dir+"/from", "system.posix_acl_default"))
	require.Equal(t, nfs4.OK, g.set(to, withList(g.list(from))))
	assert.Empty(t, hostHas(t, dir+"/to", "system.posix_acl_access"), "a list equal to a mode is not stored")
	assert.Empty(t, hostHas(t, dir+"/to", "system.posix_acl_default"))
	changes[g.attrs(to, nfs4.BitmapOf(nfs4.AttrChange)).Change] = true
	assert.Len(t, changes, len(lists)+1)
	assert.Equal(t, uint32(0o751), g.attrs(to, nfs4.BitmapOf(nfs4.AttrMode)).Mode)
}

// TestListNames checks names and numbers of users and groups in lists, both ways
// and in comparisons (R8881-5.9-2, R8881-18.15.4-2).
func TestListNames(t *testing.T) {
	g, _ := onDiskAt(t, "/dev/shm")
	p := new(people)
	g.s.owners = idmap.New(idmap.Config{Rules: idmap.Rules{Domain: "example.org"}, Database: p})
	t.Cleanup(g.s.owners.Close)
	fh := g.make("f", "")
	list := func(user, group string) nfs4.ACL {
		return nfs4.ACL{
			{Mask: nfs4.ACEReadData, Who: []byte(user)}, {Mask: nfs4.ACEExecute, Flag: nfs4.ACEIdentifierGroup, Who: []byte(group)},
		}
	}
	whos := func() (out []string) {
		for _, e := range g.list(fh) {
			out = append(out, string(e.Who))
		}
		return out
	}
	for _, tt := range []struct{ user, group, gotUser, gotGroup string }{
		{"alice@example.org", "staff@EXAMPLE.ORG", "alice@example.org", "staff@example.org"},
		{"1234", "4321", "alice@example.org", "staff@example.org"},
		{"5", "6", "5", "6"},
	} {
		require.Equal(t, nfs4.OK, g.set(fh, withList(list(tt.user, tt.group))))
		assert.Equal(t, []string{"OWNER@", "OWNER@", tt.gotUser, tt.gotUser, "GROUP@", tt.gotGroup, "EVERYONE@"}, whos())
	}
	require.Equal(t, nfs4.OK, g.set(fh, withList(list("1234", "4321"))))
	numbers := g.list(fh)
	for i, e := range numbers {
		numbers[i].Who = bytes.Clone(e.Who)
		switch string(e.Who) {
		case "alice@example.org":
			numbers[i].Who = []byte("1234")
		case "staff@example.org":
			numbers[i].Who = []byte("4321")
		}
	}
	st, _ := g.do(put(fh), step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: withList(numbers)}, status()})
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.do(put(fh), step{nfs4.OpNVerify, &nfs4.VerifyArgs{Attrs: withList(numbers)}, status()})
	assert.Equal(t, nfs4.ErrSame, st)
	for _, who := range []string{"bob@example.org", "staff@example.org", "alice@elsewhere.org", "alice"} {
		assert.Equal(t, nfs4.ErrBadOwner, g.set(fh, withList(list(who, "6"))), who)
		st, _ = g.do(put(fh), step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: withList(list(who, "6"))}, status()})
		assert.Equal(t, nfs4.ErrNotSame, st)
	}
	p.down.Store(true)
	assert.Equal(t, nfs4.ErrDelay, g.set(fh, withList(list("carol@example.org", "6"))))
	st, _ = g.do(put(fh), step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: withList(list("carol@example.org", "6"))}, status()})
	assert.Equal(t, nfs4.ErrDelay, st)
}

// TestListsByExport checks that an export without lists does not have the
// attribute, that a read-only one shows it, and that both minor versions have it
// (R8881-6.2.1-3, R8881-6.2.1.2-1).
func TestListsByExport(t *testing.T) {
	fs, _ := shm(t)
	readOnly := free
	readOnly.ReadOnly = true
	g := newRig(
		t, realm.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)},
		realm.Export{Path: "/ro", FS: fs, Clients: exports.Everyone(readOnly), ID: 7},
		realm.Export{Path: "/none", FS: mem.New(mem.Options{}), Clients: exports.Everyone(free), ID: 8},
	).asRoot().connect()
	all := nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrACL, nfs4.AttrACLSupport, nfs4.AttrSuppattrExclCreat)
	for minor := nfs4.Minor1; minor <= nfs4.Minor2; minor++ {
		g.minor = minor
		g.connectAs(fmt.Sprint("by 4.", minor))
		set := withList(nfs4.ACL{{Mask: nfs4.ACEReadData, Who: []byte(nfs4.WhoEveryone)}})
		for path, want := range map[string]struct {
			has bool
			set nfs4.Status
		}{"x": {true, nfs4.OK}, "ro": {true, nfs4.ErrROFS}, "none": {false, nfs4.ErrAttrNotSupp}} {
			fh := g.lookup(path)
			a := g.attrs(fh, all)
			assert.Equal(t, want.has, a.SupportedAttrs.Has(nfs4.AttrACL), path)
			assert.Equal(t, want.has, a.SuppattrExclCreat.Has(nfs4.AttrACL), path)
			assert.Equal(t, want.has, a.Mask.Has(nfs4.AttrACL), path)
			assert.Equal(t, want.has, a.ACLSupport == 3, path)
			assert.True(t, a.Mask.Has(nfs4.AttrACLSupport))
			assert.Equal(t, want.set, g.set(fh, set), path)
		}
		st, _ := g.do(root(), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: set}, new(nfs4.SetAttrRes)})
		assert.Equal(t, nfs4.ErrAttrNotSupp, st)
	}
}

// TestListRoom checks long lists beside the room of a reply, of a slot that is to
// keep it, and behind a data item.
func TestListRoom(t *testing.T) {
	g, _ := onDiskAt(t, "/dev/shm")
	fh := g.make("f", "content")
	for _, n := range []int{1, 200, 400, 8000} {
		list := nfs4.ACL{{Mask: nfs4.ACEReadData, Who: []byte(nfs4.WhoOwner)}}
		for i := range n {
			list = append(list, nfs4.ACE{Mask: nfs4.ACEReadData, Who: fmt.Append(nil, 1000+i)})
		}
		require.Equal(t, nfs4.OK, g.set(fh, withList(list)))
		size := 0
		get := step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrACL)}, new(nfs4.GetAttrRes)}
		st, _ := g.do(put(fh), get)
		require.Equal(t, nfs4.OK, st)
		got := get.res.(*nfs4.GetAttrRes).Attrs.ACL
		assert.Len(t, got, n+3)
		size = got.Len()

		g.seq++
		seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq, CacheThis: true}, new(nfs4.SequenceRes)}
		st, _ = g.raw(seq, put(fh), get)
		want := nfs4.OK
		if size > 7584 {
			want = nfs4.ErrRepTooBigToCache
		}
		assert.Equal(t, want, st, n)
		st, _ = g.do(put(fh), step{nfs4.OpRead, &nfs4.ReadArgs{Count: 7}, new(nfs4.ReadRes)}, get)
		want = nfs4.OK
		if size > shortList {
			want = nfs4.ErrRepTooBig
		}
		assert.Equal(t, want, st, n)
	}
	list := make(nfs4.ACL, 9000) // more than an attribute of the host can hold
	for i := range list {
		list[i] = nfs4.ACE{Mask: nfs4.ACEReadData, Who: fmt.Append(nil, 1000+i)}
	}
	assert.Equal(t, nfs4.ErrFBig, g.set(fh, withList(list)))
	assert.Len(t, g.list(fh), 8003)
}

// TestListsAndDelegations checks that a change of a list waits for mounts of
// mountrdma that may hold the object, and that reading does not.
func TestListsAndDelegations(t *testing.T) {
	fs, _ := shm(t)
	e := realm.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)}
	g := newRig(t, e).asRoot().connect()
	g.make("f", "")
	g.putOff(e)
	fh := g.lookup("x", "f")
	before := g.list(fh)
	assert.Equal(t, nfs4.ErrDelay, g.set(fh, withList(before)))
	assert.Equal(t, before, g.list(fh))
}

// A listsFS may fail to set lists, and notes the mode of the objects before.
type listsFS struct {
	*posix.FS
	fail  error
	modes []uint32
}

func (f *listsFS) SetACL(ctx context.Context, c *vfs.Cred, h vfs.Handle, access, def *vfs.ACL) (vfs.MaybeAttr, error) {
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
// list is set, and stays so if that fails, as the answer says.
func TestListBeforeOthers(t *testing.T) {
	posixFS, _ := shm(t)
	fs := &listsFS{FS: posixFS}
	g := newRig(t, realm.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)}).asRoot().connect()
	a := withList(nfs4.ACL{{Mask: nfs4.ACEReadData, Who: []byte(nfs4.WhoEveryone)}})
	a.Mask.Set(nfs4.AttrMode)
	a.Mode = 0o4777
	made := func(name string) (opened, created nfs4.Bitmap) {
		o := openArgs("o", "f"+name, nfs4.ShareBoth, 0, nfs4.Guarded)
		o.Attrs = a
		var open nfs4.OpenRes
		var create nfs4.CreateRes
		st, _ := g.do(root(), look("x"), step{nfs4.OpOpen, o, &open})
		require.Equal(t, nfs4.OK, st)
		c := nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("d" + name), Attrs: a}
		st, _ = g.do(root(), look("x"), step{nfs4.OpCreate, &c, &create})
		require.Equal(t, nfs4.OK, st)
		return open.AttrSet, create.AttrSet
	}
	mode := func(name string) uint32 { return g.attrs(g.lookup("x", name), nfs4.BitmapOf(nfs4.AttrMode)).Mode }
	opened, created := made("1")
	assert.Equal(t, []nfs4.Bitmap{a.Mask, a.Mask}, []nfs4.Bitmap{opened, created})
	assert.Equal(t, []uint32{0o4444, 0o4444}, []uint32{mode("f1"), mode("d1")})
	fs.fail = syscall.ENOSPC
	opened, created = made("2")
	assert.Equal(t, []nfs4.Bitmap{{}, {}}, []nfs4.Bitmap{opened, created})
	assert.Equal(t, []uint32{0o4700, 0o4700}, []uint32{mode("f2"), mode("d2")})
	assert.Equal(t, []uint32{0o4700, 0o4700, 0o4700, 0o4700}, fs.modes)
}

// failedSet makes SETATTR, and returns its results also if it fails.
func (g *rig) failedSet(fh nfs4.FH, a nfs4.SetAttrArgs) (res nfs4.SetAttrRes) {
	g.seq++
	r := xdr.NewReader(g.send(
		step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq}, nil}, put(fh), step{nfs4.OpSetAttr, &a, nil},
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
	eachFS(t, func(t *testing.T, g *rig, fs *countingFS) {
		opened, fh, st := g.open(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
		require.Equal(t, nfs4.OK, st)
		a := nfs4.SetAttrArgs{Attrs: nfs4.Attrs{
			Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrOwner), Owner: []byte("4711"),
		}}
		for i, id := range []nfs4.StateID{{}, opened.StateID} {
			a.StateID, a.Attrs.Size = id, uint64(10+i)
			res := g.failedSet(fh, a)
			assert.Equal(t, nfs4.SetAttrRes{Status: nfs4.ErrPerm, AttrsSet: nfs4.BitmapOf(nfs4.AttrSize)}, res)
			assert.Equal(t, a.Attrs.Size, g.attrs(fh, nfs4.BitmapOf(nfs4.AttrSize)).Size)
		}
		fs.full = true
		for _, id := range []nfs4.StateID{{}, opened.StateID} {
			a.StateID = id
			assert.Equal(t, nfs4.SetAttrRes{Status: nfs4.ErrDQuot}, g.failedSet(fh, a))
		}
	})
}

// TestListFails checks that the answer to a SETATTR whose list cannot be set says
// which attributes were.
func TestListFails(t *testing.T) {
	posixFS, _ := shm(t)
	fs := &listsFS{FS: posixFS, fail: syscall.ENOSPC}
	g := newRig(t, realm.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)}).asRoot().connect()
	fh := g.make("f", "")
	a := withList(nfs4.ACL{{Mask: nfs4.ACEReadData, Who: []byte(nfs4.WhoEveryone)}})
	a.Mask.Set(nfs4.AttrMode)
	a.Mode = 0o640
	res := g.failedSet(fh, nfs4.SetAttrArgs{Attrs: a})
	assert.Equal(t, nfs4.SetAttrRes{Status: nfs4.ErrNoSpc, AttrsSet: nfs4.BitmapOf(nfs4.AttrMode)}, res)
	assert.Equal(t, uint32(0o640), g.attrs(fh, nfs4.BitmapOf(nfs4.AttrMode)).Mode)
	assert.Equal(t, []uint32{0o640}, fs.modes, "the mode comes first")
	fs.fail = syscall.EOPNOTSUPP
	a.Mask.Clear(nfs4.AttrMode)
	assert.Equal(t, nfs4.ErrAttrNotSupp, g.set(fh, a))
}
