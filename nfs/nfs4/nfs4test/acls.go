package nfs4test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// ACE mask bits. Servers that store POSIX ACLs set alwaysACE in each ALLOW
// entry, and ownerACE in the owner's.
const (
	alwaysACE    = nfs4.ACEReadAttributes | nfs4.ACEReadACL | nfs4.ACESynchronize
	ownerACE     = alwaysACE | nfs4.ACEWriteAttributes | nfs4.ACEWriteACL
	readACE      = nfs4.ACEReadData
	writeACE     = nfs4.ACEWriteData | nfs4.ACEAppendData
	execACE      = nfs4.ACEExecute
	changeDirACE = writeACE | nfs4.ACEDeleteChild // the right to write to a directory

	inheritACE     = nfs4.ACEFileInherit | nfs4.ACEDirectoryInherit
	inheritOnlyACE = inheritACE | nfs4.ACEInheritOnly
	groupACE       = nfs4.ACEIdentifierGroup
)

func allowACE(who string, mask uint32) nfs4.ACE {
	return nfs4.ACE{Type: nfs4.ACEAllow, Mask: mask, Who: []byte(who)}
}

func denyACE(who string, mask uint32) nfs4.ACE {
	return nfs4.ACE{Type: nfs4.ACEDeny, Mask: mask, Who: []byte(who)}
}

// withACEFlags sets flags in all aces.
func withACEFlags(flags uint32, aces ...nfs4.ACE) nfs4.ACL {
	for i := range aces {
		aces[i].Flag |= flags
	}
	return aces
}

// aclAttrs returns attributes with an ACL.
func aclAttrs(aces ...nfs4.ACE) nfs4.Attrs {
	return newAttrs(func(a *nfs4.Attrs) { a.ACL = aces }, nfs4.AttrACL)
}

// withMode returns a copy that also sets the mode.
func withMode(a nfs4.Attrs, mode uint32) nfs4.Attrs {
	a.Mask.Set(nfs4.AttrMode)
	a.Mode = mode
	return a
}

// formatACL formats an ACL, one entry a line, for readable differences.
func formatACL(a nfs4.ACL) string {
	var b strings.Builder
	for _, e := range a {
		fmt.Fprintf(&b, "%d:%#x:%s:%#x\n", e.Type, e.Flag, e.Who, e.Mask)
	}
	return b.String()
}

// checkACL checks an object's ACL and mode.
func (t *T) checkACL(fh nfs4.FH, mode uint32, want ...nfs4.ACE) {
	a := t.getAttrs(fh, nfs4.AttrACL, nfs4.AttrMode)
	assert.Equal(t, formatACL(want), formatACL(a.ACL))
	assert.Equal(t, fmt.Sprintf("%o", mode), fmt.Sprintf("%o", a.Mode))
}

// withACLs skips a scenario if the file system has no ACLs.
func withACLs(run func(t *T)) func(t *T) {
	return func(t *T) {
		all := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		if all.Has(nfs4.AttrACL) {
			run(t)
		}
	}
}

// mixedACL returns the ACL of a file with mode 0640, with entries for a named
// user and a named group. Its POSIX mask would be rw.
func mixedACL() []nfs4.ACE {
	return []nfs4.ACE{
		denyACE(nfs4.WhoOwner, execACE), allowACE(nfs4.WhoOwner, readACE|writeACE|ownerACE),
		denyACE("7", writeACE|execACE), allowACE("7", readACE|alwaysACE),
		allowACE(nfs4.WhoGroup, readACE|alwaysACE),
		{Type: nfs4.ACEAllow, Flag: groupACE, Mask: readACE | writeACE | execACE | alwaysACE, Who: []byte("8")},
		denyACE(nfs4.WhoGroup, execACE),
		allowACE(nfs4.WhoEveryone, execACE|alwaysACE),
	}
}

// canOpen reports whether the caller of s may open a file.
func (s *session) canOpen(fh nfs4.FH, share uint32) bool {
	var res nfs4.OpenRes
	rep := s.callWithSequence(putFH(fh), openOp(openFH(fmt.Sprint("try", share), share, 0), &res))
	if rep.status == nfs4.OK {
		s.expectStatus(nfs4.OK, putFH(fh), closeFile(res.StateID))
	}
	return rep.status == nfs4.OK
}

// acls are scenarios for access control lists.
var acls = []Scenario{
	{Name: "aclsupport", By: "RFC 8881, 6.2.1.2: ALLOW and DENY together; 0 without lists", run: func(t *T) {
		a := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs, nfs4.AttrACLSupport)
		want := uint32(0)
		if a.SupportedAttrs.Has(nfs4.AttrACL) {
			want = nfs4.ACLSupportAllow | nfs4.ACLSupportDeny
		}
		assert.Equal(t, want, a.ACLSupport)
		assert.False(t, a.SupportedAttrs.Has(nfs4.AttrDACL) || a.SupportedAttrs.Has(nfs4.AttrSACL))
	}},
	{Name: "acl of a file system without lists", By: "RFC 8881, 5.5, 18.30.4: NFS4ERR_ATTRNOTSUPP", run: func(t *T) {
		all := t.getAttrs(t.ownDir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		if all.Has(nfs4.AttrACL) {
			return
		}
		assert.Equal(t, nfs4.Bitmap{}, t.getAttrs(t.ownDir(), nfs4.AttrACL).Mask)
		t.expectStatus(nfs4.ErrAttrNotSupp, putFH(t.ownDir()), setAttr(nfs4.StateID{}, aclAttrs()))
		t.expectStatus(nfs4.ErrAttrNotSupp, putFH(t.ownDir()), createOp(nfs4.TypeDir, "d", aclAttrs()))
	}},
	{Name: "GETATTR of acl of an object without a list", By: "RFC 8881, 6.4.2: SHOULD represent the mode", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for m, want := range map[uint32][]nfs4.ACE{
			0o640: {allowACE(nfs4.WhoOwner, readACE|writeACE|ownerACE), allowACE(nfs4.WhoGroup, readACE|alwaysACE), allowACE(nfs4.WhoEveryone, alwaysACE)},
			0o777: {
				allowACE(nfs4.WhoOwner, readACE|writeACE|execACE|ownerACE), allowACE(nfs4.WhoGroup, readACE|writeACE|execACE|alwaysACE),
				allowACE(nfs4.WhoEveryone, readACE|writeACE|execACE|alwaysACE),
			},
			0o4126: {
				denyACE(nfs4.WhoOwner, readACE|writeACE), allowACE(nfs4.WhoOwner, execACE|ownerACE), allowACE(nfs4.WhoGroup, writeACE|alwaysACE),
				denyACE(nfs4.WhoGroup, readACE), allowACE(nfs4.WhoEveryone, readACE|writeACE|alwaysACE),
			},
			0: {allowACE(nfs4.WhoOwner, ownerACE), allowACE(nfs4.WhoGroup, alwaysACE), allowACE(nfs4.WhoEveryone, alwaysACE)},
		} {
			t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(m)))
			t.checkACL(fh, m, want...)
		}
		dir := t.createObject(createOp(nfs4.TypeDir, "d", modeAttrs(0o720)), putFH(t.ownDir()))
		t.checkACL(
			dir, 0o720, allowACE(nfs4.WhoOwner, readACE|changeDirACE|execACE|ownerACE), allowACE(nfs4.WhoGroup, changeDirACE|alwaysACE),
			allowACE(nfs4.WhoEveryone, alwaysACE),
		)
	})},
	{Name: "GETATTR of acl of objects of each type", By: "RFC 8881, 6: any file system object", run: withACLs(func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			a := t.getAttrs(fh, nfs4.AttrACL)
			assert.Equal(t, nfs4.BitmapOf(nfs4.AttrACL), a.Mask, name)
			assert.NotEmpty(t, a.ACL, name)
		})
	})},
	{Name: "SETATTR and GETATTR of acl", By: "RFC 8881, 6.2.1, 6.4.1.2", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(0o4600)))
		before := t.getAttrs(fh, nfs4.AttrChange).Change
		o := setAttr(nfs4.StateID{}, aclAttrs(mixedACL()...))
		t.expectStatus(nfs4.OK, putFH(fh), o)
		assert.Equal(t, nfs4.BitmapOf(nfs4.AttrACL), o.res.(*nfs4.SetAttrRes).AttrsSet)
		assert.NotEqual(t, before, t.getAttrs(fh, nfs4.AttrChange).Change)
		t.checkACL(fh, 0o4671, mixedACL()...) // the high bits stay; the mask is the group's
		list := t.getAttrs(fh, nfs4.AttrACL).ACL
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(list...)))
		t.checkACL(fh, 0o4671, mixedACL()...)
		plain := []nfs4.ACE{allowACE(nfs4.WhoOwner, readACE|ownerACE), allowACE(nfs4.WhoGroup, alwaysACE), allowACE(nfs4.WhoEveryone, alwaysACE)}
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(plain...)))
		t.checkACL(fh, 0o4400, plain...)
	})},
	{Name: "SETATTR of an empty acl", By: "RFC 8881, 6.2.1, 6.4.3: denies all, but the owner can set another", run: withACLs(func(t *T) {
		s := t.sessionAs(7)
		fh := t.createObject(createOp(nfs4.TypeFIFO, "p", modeAttrs(0o666)), putFH(t.ownDir()))
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, newAttrs(func(a *nfs4.Attrs) { a.Owner = []byte("7") }, nfs4.AttrOwner)))
		s.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs()))
		t.checkACL(fh, 0, allowACE(nfs4.WhoOwner, ownerACE), allowACE(nfs4.WhoGroup, alwaysACE), allowACE(nfs4.WhoEveryone, alwaysACE))
		s.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(allowACE(nfs4.WhoEveryone, readACE))))
	})},
	{Name: "SETATTR of the mode of an object with an acl", By: "RFC 8881, 6.4.1.1: named users SHOULD NOT be granted what the group is not", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(mixedACL()...)), setAttr(nfs4.StateID{}, modeAttrs(0o611)))
		t.checkACL(
			fh, 0o611, denyACE(nfs4.WhoOwner, execACE), allowACE(nfs4.WhoOwner, readACE|writeACE|ownerACE), denyACE("7", execACE), allowACE("7", alwaysACE),
			allowACE(nfs4.WhoGroup, alwaysACE), withACEFlags(groupACE, allowACE("8", execACE|alwaysACE))[0], denyACE(nfs4.WhoGroup, execACE),
			allowACE(nfs4.WhoEveryone, execACE|alwaysACE),
		)
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(0o671)))
		t.checkACL(fh, 0o671, mixedACL()...) // nothing is lost
	})},
	{Name: "SETATTR of mode and acl", By: "RFC 8881, 6.4.1.3: MUST be applied in this order", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		o := setAttr(nfs4.StateID{}, withMode(aclAttrs(mixedACL()...), 0o2700))
		t.expectStatus(nfs4.OK, putFH(fh), o)
		assert.Equal(t, nfs4.BitmapOf(nfs4.AttrACL, nfs4.AttrMode), o.res.(*nfs4.SetAttrRes).AttrsSet)
		t.checkACL(fh, 0o2671, mixedACL()...)
		masked := aclAttrs(allowACE(nfs4.WhoEveryone, readACE))
		masked.Mask.Set(nfs4.AttrModeSetMasked)
		masked.ModeSetMasked = nfs4.ModeMasked{Value: 0o1007, Mask: 0o7007}
		all := t.getAttrs(fh, nfs4.AttrSupportedAttrs).SupportedAttrs
		if all.Has(nfs4.AttrModeSetMasked) {
			t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, masked))
			assert.Equal(t, uint32(0o1444), t.getAttrs(fh, nfs4.AttrMode).Mode)
		}
	})},
	{Name: "an acl together with dacl or sacl", By: "RFC 8881, 6.4.1: NFS4ERR_ATTRNOTSUPP", run: withACLs(func(t *T) {
		for _, id := range []nfs4.AttrID{nfs4.AttrDACL, nfs4.AttrSACL} {
			both := nfs4.BitmapOf(nfs4.AttrACL, id)
			b := raw(both.AppendTo(make([]byte, 16)))
			b = append(b, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
			t.expectStatus(nfs4.ErrAttrNotSupp, putFH(t.ownDir()), op{nfs4.OpSetAttr, &b, new(nfs4.SetAttrRes)})
		}
	})},
	{Name: "SETATTR of an acl that cannot be held", By: "RFC 8881, 6.2.1.2, 6.2.1.4: NFS4ERR_ATTRNOTSUPP", run: withACLs(func(t *T) {
		file, dir := t.newObject(nfs4.TypeReg, "f"), t.newObject(nfs4.TypeDir, "d")
		before := [2]string{formatACL(t.getAttrs(file, nfs4.AttrACL).ACL), formatACL(t.getAttrs(dir, nfs4.AttrACL).ACL)}
		for what, e := range map[string]nfs4.ACE{
			"audit": {Type: nfs4.ACEAudit, Flag: nfs4.ACEFailedAccess, Mask: readACE}, "alarm": {Type: nfs4.ACEAlarm, Mask: readACE},
			"an undefined type": {Type: 4}, "a flag of audit": {Flag: nfs4.ACESuccessfulAccess}, "an undefined flag": {Flag: 0x100},
			"inherited once": {Flag: inheritACE | nfs4.ACENoPropagateInherit},
		} {
			e.Who = []byte(nfs4.WhoEveryone)
			for _, fh := range []nfs4.FH{file, dir} {
				o := setAttr(nfs4.StateID{}, aclAttrs(allowACE(nfs4.WhoOwner, readACE), e))
				t.expectStatus(nfs4.ErrAttrNotSupp, putFH(fh), o)
				assert.Equal(t, nfs4.Bitmap{}, o.res.(*nfs4.SetAttrRes).AttrsSet, what)
			}
		}
		for _, flags := range []uint32{inheritACE, inheritOnlyACE, nfs4.ACEFileInherit, nfs4.ACEDirectoryInherit} {
			t.expectStatus(nfs4.ErrAttrNotSupp, putFH(file), setAttr(nfs4.StateID{}, aclAttrs(withACEFlags(flags, allowACE(nfs4.WhoOwner, readACE))...)))
		}
		assert.Equal(t, before, [2]string{formatACL(t.getAttrs(file, nfs4.AttrACL).ACL), formatACL(t.getAttrs(dir, nfs4.AttrACL).ACL)})
	})},
	{Name: "SETATTR of an acl that files alone or directories alone inherit", By: "RFC 8881, 6.2.1.4: the server may reject the request", Linux: "both inherit it, although only one should", run: withACLs(func(t *T) {
		for _, flags := range []uint32{nfs4.ACEFileInherit, nfs4.ACEDirectoryInherit, nfs4.ACEFileInherit | nfs4.ACEInheritOnly} {
			t.expectStatus(nfs4.ErrAttrNotSupp, putFH(t.ownDir()), setAttr(nfs4.StateID{}, aclAttrs(withACEFlags(flags, allowACE(nfs4.WhoOwner, readACE))...)))
		}
	})},
	{Name: "SETATTR of an acl that only nothing inherits", By: "RFC 8881, 6.2.1.4.1: SHOULD fail with NFS4ERR_ATTRNOTSUPP", Linux: "it is taken for an entry of the object itself", run: withACLs(func(t *T) {
		t.expectStatus(nfs4.ErrAttrNotSupp, putFH(t.ownDir()), setAttr(nfs4.StateID{}, aclAttrs(withACEFlags(nfs4.ACEInheritOnly, allowACE(nfs4.WhoOwner, readACE))...)))
	})},
	{Name: "SETATTR of an acl that hides attributes", By: "RFC 8881, 6.2.1: should still be rejected", Linux: "the entry is ignored", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for _, who := range []string{nfs4.WhoOwner, nfs4.WhoGroup, nfs4.WhoEveryone, "7"} {
			t.expectStatus(nfs4.ErrAttrNotSupp, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(denyACE(who, nfs4.ACEReadAttributes))))
		}
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(allowACE(nfs4.WhoEveryone, alwaysACE), denyACE("7", alwaysACE))))
	})},
	{Name: "INHERITED_ACE in an acl", By: "RFC 8881, 6.2.1.4.1: MUST be cleared", Linux: "NFS4ERR_ATTRNOTSUPP", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(withACEFlags(nfs4.ACEInherited, allowACE(nfs4.WhoOwner, readACE))...)))
		for _, e := range t.getAttrs(fh, nfs4.AttrACL).ACL {
			assert.Zero(t, e.Flag&nfs4.ACEInherited)
		}
	})},
	{Name: "IDENTIFIER_GROUP on special names in an acl", By: "RFC 8881, 6.2.1.5: MUST be ignored, SHOULD be zero", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		list := withACEFlags(groupACE, allowACE(nfs4.WhoOwner, readACE), allowACE(nfs4.WhoGroup, readACE), allowACE(nfs4.WhoEveryone, execACE))
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(list...)))
		assert.Equal(t, uint32(0o551), t.getAttrs(fh, nfs4.AttrMode).Mode)
		for _, e := range t.getAttrs(fh, nfs4.AttrACL).ACL {
			assert.Zero(t, e.Flag)
		}
	})},
	{Name: "the mode by an acl", By: "RFC 8881, 6.3.2", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for want, list := range map[uint32][]nfs4.ACE{
			0o444: {allowACE(nfs4.WhoEveryone, readACE)},
			0o466: {denyACE(nfs4.WhoOwner, writeACE), allowACE(nfs4.WhoEveryone, readACE|writeACE)},
			0o604: {allowACE(nfs4.WhoOwner, writeACE), denyACE(nfs4.WhoGroup, readACE), allowACE(nfs4.WhoOwner, readACE), allowACE(nfs4.WhoEveryone, readACE)},
			0o111: {allowACE(nfs4.WhoEveryone, nfs4.ACEAppendData|execACE)},
			0o400: {allowACE(nfs4.WhoOwner, readACE|nfs4.ACEWriteData), denyACE(nfs4.WhoEveryone, writeACE)},
		} {
			if want == 0o604 { // the denial concerns the owner too, who may be in the group
				want = 0o204
			}
			t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(list...)))
			assert.Equal(t, fmt.Sprintf("%o", want), fmt.Sprintf("%o", t.getAttrs(fh, nfs4.AttrMode).Mode))
		}
	})},
	{Name: "rights by an acl", By: "RFC 8881, 6.2.1: entries in their order", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		byGroup := withACEFlags(groupACE, allowACE("80", readACE|writeACE), denyACE("81", writeACE))
		list := append([]nfs4.ACE{
			allowACE(nfs4.WhoOwner, readACE|writeACE), denyACE("70", readACE), allowACE("71", readACE), denyACE("71", writeACE),
		}, byGroup...)
		list = append(list, allowACE(nfs4.WhoEveryone, readACE))
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(list...)))
		for _, tt := range []struct {
			s           *session
			read, write bool
		}{
			{t.sessionAs(70), false, false},
			{t.sessionAs(70, 80), false, false},
			{t.sessionAs(71), true, false},
			{t.sessionAs(71, 80), true, false},
			{t.sessionAs(72), true, false},
			{t.sessionAs(72, 80), true, true},
			{t.sessionAs(72, 81), true, false},
			{t.sessionAs(72, 80, 81), true, true},
		} {
			assert.Equal(t, tt.read, tt.s.canOpen(fh, nfs4.ShareRead))
			assert.Equal(t, tt.write, tt.s.canOpen(fh, nfs4.ShareWrite))
			var res nfs4.AccessRes
			tt.s.expectStatus(nfs4.OK, putFH(fh), accessOp(nfs4.AccessRead|nfs4.AccessModify, &res))
			assert.Equal(t, []bool{tt.read, tt.write}, []bool{res.Access&nfs4.AccessRead != 0, res.Access&nfs4.AccessModify != 0})
		}
	})},
	{Name: "inheritance of an acl", By: "RFC 8881, 6.4.3: if just the mode is given", run: withACLs(func(t *T) {
		own := []nfs4.ACE{
			allowACE(nfs4.WhoOwner, readACE|changeDirACE|execACE|ownerACE), allowACE(nfs4.WhoGroup, readACE|changeDirACE|execACE|alwaysACE),
			allowACE(nfs4.WhoEveryone, readACE|changeDirACE|execACE|alwaysACE),
		}
		heirs := func(flags uint32) []nfs4.ACE {
			return withACEFlags(
				flags, allowACE(nfs4.WhoOwner, readACE|changeDirACE|execACE|ownerACE), denyACE("7", changeDirACE), allowACE("7", readACE|execACE|alwaysACE),
				allowACE(nfs4.WhoGroup, readACE|changeDirACE|execACE|alwaysACE), allowACE(nfs4.WhoEveryone, alwaysACE),
			)
		}
		dir := t.createObject(createOp(nfs4.TypeDir, "d", modeAttrs(0o777)), putFH(t.ownDir()))
		t.expectStatus(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, aclAttrs(append(own, heirs(inheritOnlyACE)...)...)))
		t.checkACL(dir, 0o777, append(own, heirs(inheritOnlyACE)...)...)
		var fh nfs4.HandleRes
		a := withCreate(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, modeAttrs(0o644))
		t.expectStatus(nfs4.OK, putFH(dir), openOp(a, new(nfs4.OpenRes)), getFH(&fh))
		t.checkACL(
			fh.Object, 0o640, allowACE(nfs4.WhoOwner, readACE|writeACE|ownerACE), allowACE("7", readACE|alwaysACE), allowACE(nfs4.WhoGroup, readACE|alwaysACE),
			allowACE(nfs4.WhoEveryone, alwaysACE),
		)
		sub := t.createObject(createOp(nfs4.TypeDir, "sub", modeAttrs(0o777)), putFH(dir))
		t.checkACL(sub, 0o770, append(heirs(0), heirs(inheritOnlyACE)...)...)
	})},
	{Name: "SETATTR of an acl that ends inheritance", By: "RFC 8881, 6.4.1.2: SHOULD be set as given", Linux: "the default list stays", run: withACLs(func(t *T) {
		dir := t.createObject(createOp(nfs4.TypeDir, "d", modeAttrs(0o777)), putFH(t.ownDir()))
		own := []nfs4.ACE{
			allowACE(nfs4.WhoOwner, readACE|changeDirACE|execACE|ownerACE), allowACE(nfs4.WhoGroup, alwaysACE), allowACE(nfs4.WhoEveryone, alwaysACE),
		}
		heirs := withACEFlags(inheritOnlyACE, allowACE("7", readACE), allowACE(nfs4.WhoEveryone, readACE))
		t.expectStatus(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, aclAttrs(append(heirs, own...)...)), setAttr(nfs4.StateID{}, aclAttrs(own...)))
		t.checkACL(dir, 0o700, own...)
		sub := t.createObject(createOp(nfs4.TypeDir, "sub", modeAttrs(0o700)), putFH(dir))
		t.checkACL(sub, 0o700, own...)
	})},
	{Name: "an acl that is inherited and counts", By: "RFC 8881, 6.2.1.4", run: withACLs(func(t *T) {
		dir := t.createObject(createOp(nfs4.TypeDir, "d", modeAttrs(0o700)), putFH(t.ownDir()))
		t.expectStatus(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, aclAttrs(
			allowACE(nfs4.WhoOwner, readACE|changeDirACE|execACE), withACEFlags(inheritACE, allowACE(nfs4.WhoEveryone, readACE|execACE))[0],
		)))
		always := func(flags uint32) []nfs4.ACE {
			return withACEFlags(flags, allowACE(nfs4.WhoGroup, readACE|execACE|alwaysACE), allowACE(nfs4.WhoEveryone, readACE|execACE|alwaysACE))
		}
		a := t.getAttrs(dir, nfs4.AttrACL, nfs4.AttrMode)
		assert.Equal(t, uint32(0o755), a.Mode)
		if assert.Len(t, a.ACL, 6) {
			assert.Equal(t, formatACL(always(0)), formatACL(a.ACL[1:3]))
			assert.Equal(t, formatACL(always(inheritOnlyACE)), formatACL(a.ACL[4:]))
		}
	})},
	{Name: "OPEN and CREATE with acl", By: "RFC 8881, 6.4.3: SHOULD NOT inherit; the acl is set without modification", run: withACLs(func(t *T) {
		dir := t.createObject(createOp(nfs4.TypeDir, "d", modeAttrs(0o777)), putFH(t.ownDir()))
		heirs := withACEFlags(inheritOnlyACE, allowACE(nfs4.WhoOwner, readACE|changeDirACE|execACE), allowACE("9", readACE|changeDirACE|execACE), allowACE(nfs4.WhoEveryone, readACE))
		t.expectStatus(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, aclAttrs(append(heirs, allowACE(nfs4.WhoEveryone, readACE|changeDirACE|execACE))...)))
		for name, a := range map[string]nfs4.Attrs{"alone": aclAttrs(mixedACL()...), "with a mode": withMode(aclAttrs(mixedACL()...), 0o4777)} {
			want := uint32(0o671)
			if a.Mask.Has(nfs4.AttrMode) {
				want = 0o4671
			}
			var fh nfs4.HandleRes
			var res nfs4.OpenRes
			for _, how := range []nfs4.CreateMode{nfs4.Unchecked, nfs4.Guarded, nfs4.Exclusive1} {
				o := exclusiveOpen(openName(fmt.Sprint(name, how), "a", nfs4.ShareBoth, 0), how, exclusiveVerf, a)
				t.expectStatus(nfs4.OK, putFH(dir), openOp(o, &res), getFH(&fh))
				assert.Equal(t, a.Mask.Words[0]&(1<<nfs4.AttrACL), res.AttrSet.Words[0]&(1<<nfs4.AttrACL), "attrset")
				t.checkACL(fh.Object, want, mixedACL()...)
			}
			made := createOp(nfs4.TypeFIFO, name, a)
			pipe := t.createObject(made, putFH(dir))
			assert.Equal(t, a.Mask, made.res.(*nfs4.CreateRes).AttrSet)
			t.checkACL(pipe, want, mixedACL()...)
		}
		list := append(heirs[:2:2], allowACE(nfs4.WhoOwner, readACE|execACE|ownerACE), allowACE(nfs4.WhoGroup, execACE|alwaysACE), allowACE(nfs4.WhoEveryone, alwaysACE))
		sub := t.createObject(createOp(nfs4.TypeDir, "sub", aclAttrs(list...)), putFH(dir))
		a := t.getAttrs(sub, nfs4.AttrACL, nfs4.AttrMode)
		assert.Equal(t, uint32(0o510), a.Mode)
		if assert.Greater(t, len(a.ACL), 3) {
			assert.Equal(t, formatACL(list[2:]), formatACL(a.ACL[:3]))
		}
	})},
	{Name: "OPEN and CREATE with an acl that cannot be held", By: "RFC 8881, 6.2.1.2: MUST reject", Linux: "OPEN creates the file without the acl", run: withACLs(func(t *T) {
		bad := aclAttrs(nfs4.ACE{Type: nfs4.ACEAudit, Who: []byte(nfs4.WhoEveryone)})
		unknown := aclAttrs(allowACE("nobody at all@nowhere.invalid", readACE))
		for st, a := range map[nfs4.Status]nfs4.Attrs{nfs4.ErrAttrNotSupp: bad, nfs4.ErrBadOwner: unknown} {
			t.expectStatus(st, putFH(t.ownDir()), openOp(withCreate(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, a), new(nfs4.OpenRes)))
			t.expectStatus(st, putFH(t.ownDir()), createOp(nfs4.TypeDir, "f", a))
			t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
		}
	})},
	{Name: "SETATTR of an acl with names that are unknown", By: "RFC 8881, 5.9: NFS4ERR_BADOWNER", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for _, who := range []string{"nobody at all@nowhere.invalid", "INTERACTIVE@", "NETWORK@", "owner@", "4294967295", "OWNER@nowhere.invalid"} {
			for _, flags := range []uint32{0, groupACE} {
				t.expectStatus(nfs4.ErrBadOwner, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(withACEFlags(flags, allowACE(who, readACE))...)))
			}
		}
	})},
	{Name: "SETATTR of an acl with an empty name", By: "RFC 8881, 5.9: NFS4ERR_BADOWNER", Linux: "NFS4ERR_FBIG", run: withACLs(func(t *T) {
		t.expectStatus(nfs4.ErrBadOwner, putFH(t.ownDir()), setAttr(nfs4.StateID{}, aclAttrs(allowACE("", readACE))))
	})},
	{Name: "SETATTR of acl by another user", By: "RFC 8881, 15.1.6.2: NFS4ERR_PERM or NFS4ERR_ACCESS", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, modeAttrs(0o666)))
		t.sessionAs(7).expectOneOf(denialStatuses, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(allowACE(nfs4.WhoEveryone, readACE))))
		assert.Equal(t, uint32(0o666), t.getAttrs(fh, nfs4.AttrMode).Mode)
	})},
	{Name: "SETATTR of acl of a symbolic link", By: "RFC 8881, 6.2.1.2: MUST reject what cannot be stored", Linux: "NFS4ERR_NOTSUPP", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeLnk, "l")
		t.expectStatus(nfs4.ErrAttrNotSupp, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(allowACE(nfs4.WhoEveryone, readACE))))
		t.expectStatus(nfs4.ErrAttrNotSupp, putFH(t.ownDir()), createOp(nfs4.TypeLnk, "m", aclAttrs(allowACE(nfs4.WhoEveryone, readACE))))
	})},
	{Name: "SETATTR of an acl that is longer than the message", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", Linux: "NFS4ERR_FBIG", run: withACLs(func(t *T) {
		mask := nfs4.BitmapOf(nfs4.AttrACL)
		b := raw(mask.AppendTo(make([]byte, 16)))
		b = append(b, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff)
		t.expectStatus(nfs4.ErrBadXDR, putFH(t.ownDir()), op{nfs4.OpSetAttr, &b, new(nfs4.SetAttrRes)})
	})},
	{Name: "VERIFY and NVERIFY of acl", By: "RFC 8881, 18.15.4, 18.31.4", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(mixedACL()...)))
		t.expectStatus(nfs4.OK, putFH(fh), verifyOp(nfs4.OpVerify, aclAttrs(mixedACL()...)))
		t.expectStatus(nfs4.ErrSame, putFH(fh), verifyOp(nfs4.OpNVerify, aclAttrs(mixedACL()...)))
		for i := range mixedACL() {
			for _, change := range []func(e *nfs4.ACE){
				func(e *nfs4.ACE) { e.Type ^= 1 }, func(e *nfs4.ACE) { e.Mask ^= readACE }, func(e *nfs4.ACE) { e.Who = []byte("9") },
				func(e *nfs4.ACE) { e.Flag ^= nfs4.ACEFileInherit },
			} {
				other := mixedACL()
				change(&other[i])
				t.expectStatus(nfs4.ErrNotSame, putFH(fh), verifyOp(nfs4.OpVerify, aclAttrs(other...)))
				t.expectStatus(nfs4.OK, putFH(fh), verifyOp(nfs4.OpNVerify, aclAttrs(other...)))
			}
		}
		t.expectStatus(nfs4.ErrNotSame, putFH(fh), verifyOp(nfs4.OpVerify, aclAttrs(mixedACL()[1:]...)))
		t.expectStatus(nfs4.ErrNotSame, putFH(fh), verifyOp(nfs4.OpVerify, aclAttrs(allowACE("nobody at all@nowhere.invalid", readACE))))
	})},
	{Name: "VERIFY of an acl with flags that mean nothing", By: "RFC 8881, 6.2.1.4.1: MUST ignore; 18.31.4", Linux: "NFS4ERR_NOT_SAME", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(mixedACL()...)))
		list := mixedACL()
		for i := range list {
			list[i].Flag |= nfs4.ACEInherited
			if strings.HasSuffix(string(list[i].Who), "@") {
				list[i].Flag |= groupACE
			}
		}
		t.expectStatus(nfs4.OK, putFH(fh), verifyOp(nfs4.OpVerify, aclAttrs(list...)))
	})},
	{Name: "READDIR of acl", By: "RFC 8881, 18.23.3", run: withACLs(func(t *T) {
		want := map[string]string{}
		dir := t.createObject(createOp(nfs4.TypeDir, "d", modeAttrs(0o777)), putFH(t.ownDir()))
		for i := range 5 {
			name := fmt.Sprint("p", i)
			fh := t.createObject(createOp(nfs4.TypeFIFO, name, modeAttrs(0o600+uint32(i))), putFH(dir))
			if i == 3 {
				t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(mixedACL()...)))
			}
			want[name] = formatACL(t.getAttrs(fh, nfs4.AttrACL).ACL)
		}
		got := map[string]string{}
		var l listing
		t.expectStatus(nfs4.OK, putFH(dir), readDir(nfs4.ReadDirArgs{DirCount: 8192, MaxCount: 8192, Request: nfs4.BitmapOf(nfs4.AttrACL, nfs4.AttrFileID)}, &l))
		for _, e := range l.entries {
			got[string(e.Name)] = formatACL(e.Attrs.ACL)
		}
		assert.True(t, l.eof)
		assert.Equal(t, want, got)
	})},
	{Name: "GETATTR of an acl that is longer than the reply may be", By: "RFC 8881, 2.10.6.4: NFS4ERR_REP_TOO_BIG", run: withACLs(func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		var list []nfs4.ACE
		for i := range 100 {
			list = append(list, allowACE(fmt.Sprint(1000+i), readACE))
		}
		t.expectStatus(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, aclAttrs(list...)))
		assert.Len(t, t.getAttrs(fh, nfs4.AttrACL).ACL, 104)
		s := t.newSmallSession(func(a *nfs4.ChannelAttrs) { a.MaxResponseSize = 2000 })
		s.expectStatus(nfs4.ErrRepTooBig, putFH(fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrACL))
		s.expectStatus(nfs4.OK, putRootFH())
	})},
	{Name: "creation with attributes, but neither mode nor acl", By: "RFC 8881, 6.4.3: inheritance SHOULD take place, unmodified", Linux: "the mode is 0", run: withACLs(func(t *T) {
		dir := t.createObject(createOp(nfs4.TypeDir, "d", modeAttrs(0o777)), putFH(t.ownDir()))
		list := withACEFlags(inheritOnlyACE, allowACE(nfs4.WhoOwner, readACE|changeDirACE|execACE), allowACE("7", readACE), allowACE(nfs4.WhoEveryone, readACE))
		t.expectStatus(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, aclAttrs(append(list, allowACE(nfs4.WhoEveryone, readACE|changeDirACE|execACE))...)))
		var fh nfs4.HandleRes
		a := withCreate(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, sizeAttrs(0))
		t.expectStatus(nfs4.OK, putFH(dir), openOp(a, new(nfs4.OpenRes)), getFH(&fh))
		assert.Equal(t, "644", fmt.Sprintf("%o", t.getAttrs(fh.Object, nfs4.AttrMode).Mode))
		assert.True(t, t.sessionAs(7).canOpen(fh.Object, nfs4.ShareRead))
	})},
}
