package nfs4test

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// Places is the exports(5) option for the referral that the referral scenarios
// expect.
const Places = "refer=/there/it@192.0.2.9+host.example:/else@192.0.2.10"

// referralParent returns the operations that lead to the directory above Referral, and its name.
func (t *T) referralParent() (above []op, name string) {
	above = []op{putRootFH()}
	for _, name := range t.Referral[:len(t.Referral)-1] {
		above = append(above, lookupOp(name))
	}
	return above, t.Referral[len(t.Referral)-1]
}

// referrals are scenarios for an absent file system, if the server has one.
var referrals = []Scenario{
	{Name: "fs_locations of a referral", By: "RFC 8881, 11.4.1, 11.16", run: func(t *T) {
		if t.Referral == nil {
			return
		}
		above, name := t.referralParent()
		var at, up nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, append(slices.Clone(above), getAttr(&up, nfs4.AttrFSID), lookupOp(name), getAttr(&at, nfs4.AttrFSID, nfs4.AttrFSLocations, nfs4.AttrMountedOnFileID, nfs4.AttrSize, nfs4.AttrType, nfs4.AttrChange))...)
		got := at.Attrs
		assert.Equal(t, nfs4.BitmapOf(nfs4.AttrFSID, nfs4.AttrFSLocations, nfs4.AttrMountedOnFileID), got.Mask, "11.4.1: no others, and no error for them")
		assert.NotEqual(t, up.Attrs.FSID, got.FSID, "11.4.1: the fsid is its own")
		var root nfs4.Pathname
		for _, n := range t.Referral {
			root = append(root, []byte(n))
		}
		assert.Equal(t, nfs4.FSLocations{Root: root, Locations: []nfs4.FSLocation{
			{Servers: [][]byte{[]byte("192.0.2.9"), []byte("host.example")}, Root: nfs4.Pathname{[]byte("there"), []byte("it")}},
			{Servers: [][]byte{[]byte("192.0.2.10")}, Root: nfs4.Pathname{[]byte("else")}},
		}}, got.FSLocations)
	}},
	{Name: "operations in a referral", By: "RFC 8881, 11.3: NFS4ERR_MOVED, also of GETFH", Linux: "GETATTR of no attribute is NFS4_OK", run: func(t *T) {
		if t.Referral == nil {
			return
		}
		above, name := t.referralParent()
		to := append(above, lookupOp(name))
		t.expectStatus(nfs4.OK, to...)
		o := openOp(withCreate(openName("f", "o", nfs4.ShareBoth, 0), nfs4.Unchecked, modeAttrs(0o644)), new(nfs4.OpenRes))
		var none nfs4.StateID
		for _, o := range []op{
			getFH(new(nfs4.HandleRes)), saveFH(), lookupOp("x"), lookupP(), accessOp(1, new(nfs4.AccessRes)), readDir(nfs4.ReadDirArgs{DirCount: 1000, MaxCount: 4000}, new(listing)),
			createOp(nfs4.TypeDir, "d", modeAttrs(0o755)), o, removeOp("x"), setAttr(none, modeAttrs(0o755)), readOp(none, 0, 1, new(nfs4.ReadRes)),
			getAttr(new(nfs4.GetAttrRes)), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType, nfs4.AttrFSID),
			getAttr(new(nfs4.GetAttrRes), nfs4.AttrRdattrError, nfs4.AttrMountedOnFileID),
		} {
			t.expectStatus(nfs4.ErrMoved, append(slices.Clone(to), o)...)
		}
		t.expectStatus(nfs4.OK, append(slices.Clone(to), putRootFH(), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType))...)
	}},
	{Name: "VERIFY in a referral", By: "RFC 8881, 11.4.1: NFS4ERR_MOVED, unless only attributes that are there are named, the places among them", Linux: "always NFS4ERR_MOVED", run: func(t *T) {
		if t.Referral == nil {
			return
		}
		above, name := t.referralParent()
		to := append(above, lookupOp(name))
		var at nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, append(slices.Clone(to), getAttr(&at, nfs4.AttrFSID, nfs4.AttrFSLocations))...)
		all := at.Attrs
		t.expectStatus(nfs4.OK, append(slices.Clone(to), verifyOp(nfs4.OpVerify, all))...)
		t.expectStatus(nfs4.ErrSame, append(slices.Clone(to), verifyOp(nfs4.OpNVerify, all))...)
		without, more := all, all
		without.Mask.Clear(nfs4.AttrFSLocations)
		more.Mask.Set(nfs4.AttrSize)
		for _, a := range []nfs4.Attrs{without, more} {
			t.expectStatus(nfs4.ErrMoved, append(slices.Clone(to), verifyOp(nfs4.OpVerify, a))...)
			t.expectStatus(nfs4.ErrMoved, append(slices.Clone(to), verifyOp(nfs4.OpNVerify, a))...)
		}
	}},
	{Name: "READDIR above a referral", By: "RFC 8881, 11.4.2: fs_locations; else rdattr_error; else NFS4ERR_MOVED", run: func(t *T) {
		if t.Referral == nil {
			return
		}
		above, name := t.referralParent()
		list := func(want nfs4.Status, ids ...nfs4.AttrID) nfs4.Attrs {
			var all listing
			t.expectStatus(want, append(slices.Clone(above), readDir(nfs4.ReadDirArgs{DirCount: 8000, MaxCount: 8000, Request: nfs4.BitmapOf(ids...)}, &all))...)
			i := slices.Index(all.names, name)
			if want != nfs4.OK {
				return nfs4.Attrs{}
			}
			require.GreaterOrEqual(t, i, 0)
			return all.entries[i].Attrs
		}
		a := list(nfs4.OK, nfs4.AttrFSLocations, nfs4.AttrSize, nfs4.AttrMountedOnFileID)
		assert.Equal(t, nfs4.BitmapOf(nfs4.AttrFSLocations, nfs4.AttrMountedOnFileID), a.Mask)
		assert.Len(t, a.FSLocations.Locations, 2)
		b := list(nfs4.OK, nfs4.AttrRdattrError, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrMountedOnFileID)
		assert.Equal(t, nfs4.BitmapOf(nfs4.AttrRdattrError, nfs4.AttrFSID, nfs4.AttrMountedOnFileID), b.Mask)
		assert.Equal(t, nfs4.ErrMoved, b.RdattrError)
		assert.Equal(t, a.MountedOnFileID, b.MountedOnFileID)
		list(nfs4.ErrMoved, nfs4.AttrSize)
	}},
	{Name: "fs_locations of a file system that is here", By: "RFC 8881, 11.16: the path, and no places", run: func(t *T) {
		var want nfs4.Pathname
		for _, n := range t.Path {
			want = append(want, []byte(n))
		}
		for _, fh := range []nfs4.FH{t.ownDir(), t.newObject(nfs4.TypeReg, "f")} {
			a := t.getAttrs(fh, nfs4.AttrFSLocations)
			assert.Equal(t, nfs4.BitmapOf(nfs4.AttrFSLocations), a.Mask)
			assert.Equal(t, nfs4.FSLocations{Root: want}, a.FSLocations)
		}
	}},
}
