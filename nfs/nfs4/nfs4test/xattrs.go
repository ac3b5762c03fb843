package nfs4test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

func getXattr(key string, res *nfs4.GetXattrRes) op { return op{nfs4.OpGetXattr, nameArgs(key), res} }

func setXattr(how nfs4.XattrHow, key, value string, res *nfs4.ChangeRes) op {
	return op{nfs4.OpSetXattr, &nfs4.SetXattrArgs{How: how, Key: []byte(key), Value: []byte(value)}, res}
}

func listXattrs(cookie uint64, most uint32, res *nfs4.ListXattrsRes) op {
	return op{nfs4.OpListXattrs, &nfs4.ListXattrsArgs{Cookie: cookie, MaxCount: most}, res}
}

func removeXattr(key string, res *nfs4.ChangeRes) op {
	return op{nfs4.OpRemoveXattr, nameArgs(key), res}
}

// xattrOps returns the four operations.
func xattrOps() []op {
	return []op{
		getXattr("k", new(nfs4.GetXattrRes)), setXattr(nfs4.XattrEither, "k", "v", new(nfs4.ChangeRes)),
		listXattrs(0, 1000, new(nfs4.ListXattrsRes)), removeXattr("k", new(nfs4.ChangeRes)),
	}
}

// hasXattrs reports whether the file system supports extended attributes.
func (t *T) hasXattrs() bool {
	a := t.getAttrs(t.ownDir(), nfs4.AttrXattrSupport)
	return a.Mask.Has(nfs4.AttrXattrSupport) && a.XattrSupport
}

// withXattrs skips a scenario if the file system does not support extended
// attributes.
func withXattrs(run func(t *T)) func(t *T) {
	return func(t *T) {
		if t.hasXattrs() {
			run(t)
		}
	}
}

// xattrNames lists an object's keys with calls of at most the given size, which
// must return each key once.
func (t *T) xattrNames(fh nfs4.FH, most uint32) (names []string) {
	for cookie := uint64(0); ; {
		var res nfs4.ListXattrsRes
		t.expectStatus(nfs4.OK, putFH(fh), listXattrs(cookie, most, &res))
		size := nfs4.XattrsLen
		for _, name := range res.Names {
			names, size = append(names, string(name)), size+nfs4.XattrLen(len(name))
		}
		if !assert.LessOrEqual(t, size, int(most)) || res.EOF || !assert.NotEmpty(t, res.Names) {
			slices.Sort(names)
			return names
		}
		cookie = res.Cookie
	}
}

// xattrs are scenarios for extended attributes.
var xattrs = []Scenario{
	{Name: "extended attributes by minor version 1", By: "RFC 8276, 8.4: operations of minor version 2", Since: nfs4.Minor2, run: func(t *T) {
		t.ownDir()
		t.Minor, t.own = nfs4.Minor1, nil // R8276-8.4-2
		t.forEachType(func(_ string, kind nfs4.FileType, fh nfs4.FH) {
			for _, o := range xattrOps() {
				t.expectStatus(nfs4.ErrOpIllegal, putFH(fh), o)
			}
		})
		assert.Equal(t, nfs4.Bitmap{}, t.getAttrs(t.ownDir(), nfs4.AttrXattrSupport).Mask)
		var res nfs4.AccessRes
		t.expectOneOf([]nfs4.Status{nfs4.OK, nfs4.ErrInval}, putFH(t.ownDir()), accessOp(0x1ff, &res))
		assert.Zero(t, res.Supported&0x1c0, "R8276-8.5-1")
	}},
	{Name: "extended attributes of a file system without them", By: "RFC 8276, 8.4: all four operations MUST NOT be supported", Linux: "LISTXATTRS returns an empty list", Since: nfs4.Minor2, run: func(t *T) {
		for _, o := range xattrOps() {
			if !t.hasXattrs() { // R8276-8.4-1
				t.expectStatus(nfs4.ErrNotSupp, putFH(t.ownDir()), o)
			}
		}
	}},
	{Name: "SETXATTR, GETXATTR, LISTXATTRS and REMOVEXATTR", By: "RFC 8276, 8.4", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		for _, kind := range []nfs4.FileType{nfs4.TypeReg, nfs4.TypeDir} {
			fh := t.newObject(kind, fmt.Sprint(kind))
			for _, value := range []string{"", "v", strings.Repeat("x", 1000)} { // R8276-8.1-1: an empty value is legal
				var set, removed nfs4.ChangeRes
				var got nfs4.GetXattrRes
				t.expectStatus(nfs4.OK, putFH(fh), setXattr(nfs4.XattrEither, "user.a", value, &set), getXattr("user.a", &got))
				assert.Equal(t, value, string(got.Value))
				assert.NotEqual(t, set.Dir.Before, set.Dir.After, "R8276-8.4.2-6")
				assert.Equal(t, []string{"user.a"}, t.xattrNames(fh, 1000), "R8276-5-2: the prefix is the host's")
				t.expectStatus(nfs4.OK, putFH(fh), removeXattr("user.a", &removed))
				assert.NotEqual(t, removed.Dir.Before, removed.Dir.After)
				assert.Empty(t, t.xattrNames(fh, 1000))
			}
		}
	})},
	{Name: "extended attributes of names that do not exist", By: "RFC 8276, 8.4.1.3, 8.4.2.3, 8.4.4.3: NFS4ERR_NOXATTR, NFS4ERR_EXIST", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.ErrNoXattr, putFH(fh), getXattr("k", new(nfs4.GetXattrRes)))                       // R8276-8.4.1-1
		t.expectStatus(nfs4.ErrNoXattr, putFH(fh), removeXattr("k", new(nfs4.ChangeRes)))                      // R8276-8.4.4-1
		t.expectStatus(nfs4.ErrNoXattr, putFH(fh), setXattr(nfs4.XattrReplace, "k", "v", new(nfs4.ChangeRes))) // R8276-8.4.2-2
		t.expectStatus(nfs4.OK, putFH(fh), setXattr(nfs4.XattrCreate, "k", "v", new(nfs4.ChangeRes)))
		t.expectStatus(nfs4.ErrExist, putFH(fh), setXattr(nfs4.XattrCreate, "k", "w", new(nfs4.ChangeRes)))
		t.expectStatus(nfs4.OK, putFH(fh), setXattr(nfs4.XattrReplace, "k", "other value", new(nfs4.ChangeRes)))
		var got nfs4.GetXattrRes
		t.expectStatus(nfs4.OK, putFH(fh), getXattr("k", &got))
		assert.Equal(t, "other value", string(got.Value))
	})},
	{Name: "SETXATTR and REMOVEXATTR move change and time_metadata", By: "RFC 8276, 8.4.2.3, 8.4.4.3: MUST change", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		fh, probe := t.newObject(nfs4.TypeReg, "f"), t.newObject(nfs4.TypeReg, "probe")
		for _, o := range []op{
			setXattr(nfs4.XattrCreate, "k", "v", new(nfs4.ChangeRes)), setXattr(nfs4.XattrReplace, "k", "w", new(nfs4.ChangeRes)),
			removeXattr("k", new(nfs4.ChangeRes)),
		} { // R8276-8.4.2-5, R8276-8.4.4-1
			before := t.getAttrs(fh, nfs4.AttrChange, nfs4.AttrTimeMetadata, nfs4.AttrTimeModify)
			t.awaitClockTick(probe)
			t.expectStatus(nfs4.OK, putFH(fh), o)
			after := t.getAttrs(fh, nfs4.AttrChange, nfs4.AttrTimeMetadata, nfs4.AttrTimeModify)
			assert.NotEqual(t, before.Change, after.Change)
			assert.NotEqual(t, before.TimeMetadata, after.TimeMetadata)
			assert.Equal(t, before.TimeModify, after.TimeModify)
			info := o.res.(*nfs4.ChangeRes).Dir
			assert.Equal(t, []uint64{before.Change, after.Change}, []uint64{info.Before, info.After})
		}
	})},
	{Name: "extended attributes of objects of each type", By: "RFC 8276, 8.4.5: NFS4ERR_WRONG_TYPE; an empty list is one too", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) { // R8276-8.1-2
			for _, o := range xattrOps() {
				want := nfs4.ErrWrongType
				if kind == nfs4.TypeReg || kind == nfs4.TypeDir || o.num == nfs4.OpListXattrs {
					want = nfs4.OK
				}
				if o.num == nfs4.OpGetXattr && want == nfs4.OK {
					want = nfs4.ErrNoXattr
				}
				t.expectStatus(want, putFH(fh), o)
			}
		})
	})},
	{Name: "extended attributes with too long or empty keys and values", By: "RFC 8276, 8.2.1, 8.4.2.3: NFS4ERR_XATTR2BIG, NFS4ERR_NAMETOOLONG", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		long := strings.Repeat("k", 251) // R8276-8.2.1-1
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxRequestSize, a.Fore.MaxResponseSize = 1<<20, 1<<20 }).completeReclaim()
		s.expectStatus(nfs4.ErrNameTooLong, putFH(fh), getXattr(long, new(nfs4.GetXattrRes)))
		s.expectStatus(nfs4.ErrNameTooLong, putFH(fh), setXattr(nfs4.XattrEither, long, "v", new(nfs4.ChangeRes)))
		s.expectStatus(nfs4.ErrNameTooLong, putFH(fh), removeXattr(long, new(nfs4.ChangeRes)))
		s.expectStatus(nfs4.OK, putFH(fh), setXattr(nfs4.XattrEither, long[1:], "v", new(nfs4.ChangeRes)))
		for _, key := range []string{"", "a\x00b"} {
			s.expectStatus(nfs4.ErrInval, putFH(fh), getXattr(key, new(nfs4.GetXattrRes)))
			s.expectStatus(nfs4.ErrInval, putFH(fh), setXattr(nfs4.XattrEither, key, "v", new(nfs4.ChangeRes)))
			s.expectStatus(nfs4.ErrInval, putFH(fh), removeXattr(key, new(nfs4.ChangeRes)))
		}
		s.expectStatus(nfs4.ErrXattr2Big, putFH(fh), setXattr(nfs4.XattrEither, "k", strings.Repeat("v", 64<<10+1), new(nfs4.ChangeRes))) // R8276-8.4.2-4
		assert.Equal(t, []string{long[1:]}, t.xattrNames(fh, 1000))
	})},
	{Name: "extended attributes and the limits of a session", By: "RFC 8276, 8.4.1.3: NFS4ERR_REP_TOO_BIG; 8.4.2.3: NFS4ERR_REQ_TOO_BIG", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), setXattr(nfs4.XattrEither, "k", strings.Repeat("v", 3000), new(nfs4.ChangeRes)))
		var got nfs4.GetXattrRes
		t.expectStatus(nfs4.OK, putFH(fh), getXattr("k", &got))
		assert.Len(t, got.Value, 3000)
		s := t.newSmallSession(func(a *nfs4.ChannelAttrs) { a.MaxResponseSize, a.MaxRequestSize = 2000, 2000 })
		s.expectStatus(nfs4.ErrRepTooBig, putFH(fh), getXattr("k", new(nfs4.GetXattrRes)))                                                                        // R8276-8.4.1-2
		assert.Equal(t, nfs4.ErrReqTooBig, s.callWithSequence(putFH(fh), setXattr(nfs4.XattrEither, "k", strings.Repeat("w", 2000), new(nfs4.ChangeRes))).status) // R8276-8.4.2-3
		s.expectStatus(nfs4.OK, putRootFH())
	})},
	{Name: "LISTXATTRS in pieces", By: "RFC 8276, 8.4.3.3: NFS4ERR_TOOSMALL; lxr_cookie", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for _, most := range []uint32{0, 8, 15} {
			t.expectStatus(nfs4.ErrTooSmall, putFH(fh), listXattrs(0, most, new(nfs4.ListXattrsRes)))
		}
		var want []string
		for i := range 30 {
			name := fmt.Sprint("n", i*i*i)
			t.expectStatus(nfs4.OK, putFH(fh), setXattr(nfs4.XattrEither, name, "v", new(nfs4.ChangeRes)))
			want = append(want, name)
		}
		slices.Sort(want)
		for _, most := range []uint32{28, 29, 40, 100, 333, 10_000, 1<<32 - 1} { // R8276-8.4.3-4
			assert.Equal(t, want, t.xattrNames(fh, most), "%d bytes", most)
		}
		for _, most := range []uint32{16, 23} { // R8276-8.4.3-2
			t.expectStatus(nfs4.ErrTooSmall, putFH(fh), listXattrs(0, most, new(nfs4.ListXattrsRes)))
		}
	})},
	{Name: "LISTXATTRS while keys go", By: "RFC 8276, 8.4.3.4: the server should be able to continue", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for i := range 10 {
			t.expectStatus(nfs4.OK, putFH(fh), setXattr(nfs4.XattrEither, fmt.Sprint(i), "v", new(nfs4.ChangeRes)))
		}
		seen := 0
		for cookie := uint64(0); ; seen++ {
			var res nfs4.ListXattrsRes
			t.expectStatus(nfs4.OK, putFH(fh), listXattrs(cookie, nfs4.XattrsLen+8, &res))
			if cookie = res.Cookie; len(res.Names) == 0 {
				break
			}
			t.expectStatus(nfs4.OK, putFH(fh), removeXattr(string(res.Names[0]), new(nfs4.ChangeRes)))
		}
		assert.Equal(t, 10, seen)
	})},
	{Name: "extended attributes by another user", By: "RFC 8276, 8.8: permission MUST be verified", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), setXattr(nfs4.XattrEither, "k", "v", new(nfs4.ChangeRes)))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		for mode4, may := range map[uint32]struct{ read, write bool }{0o600: {}, 0o604: {read: true}, 0o602: {write: true}, 0o606: {true, true}} { // R8276-8.8-1
			t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(mode4)))
			status := map[bool]nfs4.Status{true: nfs4.OK, false: nfs4.ErrAccess}
			s.expectStatus(status[may.read], putFH(fh), getXattr("k", new(nfs4.GetXattrRes)))
			s.expectStatus(status[may.write], putFH(fh), setXattr(nfs4.XattrEither, "other", "v", new(nfs4.ChangeRes)))
			s.expectStatus(status[may.write], putFH(fh), removeXattr("other", new(nfs4.ChangeRes)))
			var res nfs4.AccessRes
			s.expectStatus(nfs4.OK, putFH(fh), accessOp(nfs4.AccessXARead|nfs4.AccessXAWrite, &res)) // R8276-8.5-1
			assert.EqualValues(t, nfs4.AccessXARead|nfs4.AccessXAWrite, res.Supported)
			assert.Equal(t, may, struct{ read, write bool }{res.Access&nfs4.AccessXARead != 0, res.Access&nfs4.AccessXAWrite != 0}, "mode %o", mode4)
		}
	})},
	{Name: "extended attributes of a file that another client denies", By: "RFC 8276, 8.8: deny modes do not matter", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		o := t.openAs(t.ownSession(), "f", "owner", nfs4.ShareBoth, nfs4.ShareBoth) // R8276-8.8-1
		s := t.newClient().newSession().completeReclaim()
		s.expectStatus(nfs4.OK, putFH(o.fh), setXattr(nfs4.XattrEither, "k", "v", new(nfs4.ChangeRes)), getXattr("k", new(nfs4.GetXattrRes)))
	})},
	{Name: "OPENATTR of an object with extended attributes", By: "RFC 8276, 6: named attributes are apart", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), setXattr(nfs4.XattrEither, "k", "v", new(nfs4.ChangeRes)))
		no := raw{0, 0, 0, 0}
		t.expectStatus(nfs4.ErrNotSupp, putFH(fh), op{nfs4.OpOpenAttr, &no, statusRes()}) // R8276-6-1
		assert.False(t, t.getAttrs(fh, nfs4.AttrNamedAttr).NamedAttr)
	})},
	{Name: "SETXATTR with an undefined option", By: "RFC 8276, 8.4.2.1: NFS4ERR_BADXDR or NFS4ERR_INVAL", Since: nfs4.Minor2, run: withXattrs(func(t *T) {
		bad := raw{0, 0, 0, 3, 0, 0, 0, 1, 'k', 0, 0, 0, 0, 0, 0, 0}
		t.expectOneOf([]nfs4.Status{nfs4.ErrBadXDR, nfs4.ErrInval}, putFH(t.ownDir()), op{nfs4.OpSetXattr, &bad, new(nfs4.ChangeRes)}) // R8276-8.4.2-1
	})},
	{Name: "extended attributes of the root of the tree", By: "RFC 8276, 8.4: where xattr_support is TRUE all operations are supported", Linux: "its root is a directory of tmpfs, which has none", Since: nfs4.Minor2, run: func(t *T) {
		var got nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putRootFH(), getAttr(&got, nfs4.AttrXattrSupport))
		assert.True(t, got.Attrs.XattrSupport)
		want := map[nfs4.Op]nfs4.Status{ // R8276-8.4-1
			nfs4.OpGetXattr: nfs4.ErrNoXattr, nfs4.OpSetXattr: nfs4.ErrROFS, nfs4.OpListXattrs: nfs4.OK, nfs4.OpRemoveXattr: nfs4.ErrROFS,
		}
		for _, o := range xattrOps() {
			t.expectStatus(want[o.num], putRootFH(), o)
		}
		var res nfs4.AccessRes
		t.expectStatus(nfs4.OK, putRootFH(), accessOp(nfs4.AccessXARead|nfs4.AccessXAWrite|nfs4.AccessXAList, &res))
		assert.Equal(t, nfs4.AccessXARead|nfs4.AccessXAList, res.Access)
	}},
}
