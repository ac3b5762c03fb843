package nfs4test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// Bits of ACEs. The first ones are of all allowing ACEs of servers that keep
// POSIX lists, and of those for the owner.
const (
	always4 = nfs4.ACEReadAttributes | nfs4.ACEReadACL | nfs4.ACESynchronize
	owner4  = always4 | nfs4.ACEWriteAttributes | nfs4.ACEWriteACL
	read4   = nfs4.ACEReadData
	write4  = nfs4.ACEWriteData | nfs4.ACEAppendData
	exec4   = nfs4.ACEExecute
	change4 = write4 | nfs4.ACEDeleteChild // the right to write to a directory

	inherit4 = nfs4.ACEFileInherit | nfs4.ACEDirectoryInherit
	only4    = inherit4 | nfs4.ACEInheritOnly
	group4   = nfs4.ACEIdentifierGroup
)

func allow(who string, mask uint32) nfs4.ACE {
	return nfs4.ACE{Type: nfs4.ACEAllow, Mask: mask, Who: []byte(who)}
}

func deny(who string, mask uint32) nfs4.ACE {
	return nfs4.ACE{Type: nfs4.ACEDeny, Mask: mask, Who: []byte(who)}
}

// flagged returns aces with flags.
func flagged(flags uint32, aces ...nfs4.ACE) nfs4.ACL {
	for i := range aces {
		aces[i].Flag |= flags
	}
	return aces
}

// acl returns attributes with a list.
func acl(aces ...nfs4.ACE) nfs4.Attrs {
	return attrs(func(a *nfs4.Attrs) { a.ACL = aces }, nfs4.AttrACL)
}

// and returns a with a mode.
func and(a nfs4.Attrs, mode uint32) nfs4.Attrs {
	a.Mask.Set(nfs4.AttrMode)
	a.Mode = mode
	return a
}

// aclText writes a list so that differences show.
func aclText(a nfs4.ACL) string {
	var b strings.Builder
	for _, e := range a {
		fmt.Fprintf(&b, "%d:%#x:%s:%#x\n", e.Type, e.Flag, e.Who, e.Mask)
	}
	return b.String()
}

// hasACL checks the list and the mode of an object.
func (t *T) hasACL(fh nfs4.FH, mode uint32, want ...nfs4.ACE) {
	a := t.attrsOf(fh, nfs4.AttrACL, nfs4.AttrMode)
	assert.Equal(t, aclText(want), aclText(a.ACL))
	assert.Equal(t, fmt.Sprintf("%o", mode), fmt.Sprintf("%o", a.Mode))
}

// withACLs makes the run of a scenario that means nothing without lists.
func withACLs(run func(t *T)) func(t *T) {
	return func(t *T) {
		all := t.attrsOf(t.dir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		if all.Has(nfs4.AttrACL) {
			run(t)
		}
	}
}

// shared is a list with a user and a group of a file of mode 0640, whose mask
// would be rw.
func sharedACL() []nfs4.ACE {
	return []nfs4.ACE{
		deny(nfs4.WhoOwner, exec4), allow(nfs4.WhoOwner, read4|write4|owner4),
		deny("7", write4|exec4), allow("7", read4|always4),
		allow(nfs4.WhoGroup, read4|always4),
		{Type: nfs4.ACEAllow, Flag: group4, Mask: read4 | write4 | exec4 | always4, Who: []byte("8")},
		deny(nfs4.WhoGroup, exec4),
		allow(nfs4.WhoEveryone, exec4|always4),
	}
}

// canOpen reports whether the caller of s may open a file.
func (s *session) canOpen(fh nfs4.FH, share uint32) bool {
	var res nfs4.OpenRes
	rep := s.do(putFH(fh), open(openFH(fmt.Sprint("try", share), share, 0), &res))
	if rep.status == nfs4.OK {
		s.want(nfs4.OK, putFH(fh), closeFile(res.StateID))
	}
	return rep.status == nfs4.OK
}

// acls are scenarios of access control lists.
var acls = []Scenario{
	{Name: "aclsupport", By: "RFC 8881, 6.2.1.2: ALLOW and DENY together; 0 without lists", run: func(t *T) {
		a := t.attrsOf(t.dir(), nfs4.AttrSupportedAttrs, nfs4.AttrACLSupport)
		want := uint32(0)
		if a.SupportedAttrs.Has(nfs4.AttrACL) {
			want = nfs4.ACLSupportAllow | nfs4.ACLSupportDeny
		}
		assert.Equal(t, want, a.ACLSupport)
		assert.False(t, a.SupportedAttrs.Has(nfs4.AttrDACL) || a.SupportedAttrs.Has(nfs4.AttrSACL))
	}},
	{Name: "acl of a file system without lists", By: "RFC 8881, 5.5, 18.30.4: NFS4ERR_ATTRNOTSUPP", run: func(t *T) {
		all := t.attrsOf(t.dir(), nfs4.AttrSupportedAttrs).SupportedAttrs
		if all.Has(nfs4.AttrACL) {
			return
		}
		assert.Equal(t, nfs4.Bitmap{}, t.attrsOf(t.dir(), nfs4.AttrACL).Mask)
		t.want(nfs4.ErrAttrNotSupp, putFH(t.dir()), setAttr(nfs4.StateID{}, acl()))
		t.want(nfs4.ErrAttrNotSupp, putFH(t.dir()), create(nfs4.TypeDir, "d", acl()))
	}},
	{Name: "GETATTR of acl of an object without a list", By: "RFC 8881, 6.4.2: SHOULD represent the mode", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		for m, want := range map[uint32][]nfs4.ACE{
			0o640: {allow(nfs4.WhoOwner, read4|write4|owner4), allow(nfs4.WhoGroup, read4|always4), allow(nfs4.WhoEveryone, always4)},
			0o777: {
				allow(nfs4.WhoOwner, read4|write4|exec4|owner4), allow(nfs4.WhoGroup, read4|write4|exec4|always4),
				allow(nfs4.WhoEveryone, read4|write4|exec4|always4),
			},
			0o4126: {
				deny(nfs4.WhoOwner, read4|write4), allow(nfs4.WhoOwner, exec4|owner4), allow(nfs4.WhoGroup, write4|always4),
				deny(nfs4.WhoGroup, read4), allow(nfs4.WhoEveryone, read4|write4|always4),
			},
			0: {allow(nfs4.WhoOwner, owner4), allow(nfs4.WhoGroup, always4), allow(nfs4.WhoEveryone, always4)},
		} {
			t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, mode(m)))
			t.hasACL(fh, m, want...)
		}
		dir := t.make(create(nfs4.TypeDir, "d", mode(0o720)), putFH(t.dir()))
		t.hasACL(
			dir, 0o720, allow(nfs4.WhoOwner, read4|change4|exec4|owner4), allow(nfs4.WhoGroup, change4|always4),
			allow(nfs4.WhoEveryone, always4),
		)
	})},
	{Name: "GETATTR of acl of objects of each type", By: "RFC 8881, 6: any file system object", run: withACLs(func(t *T) {
		t.each(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			a := t.attrsOf(fh, nfs4.AttrACL)
			assert.Equal(t, nfs4.BitmapOf(nfs4.AttrACL), a.Mask, name)
			assert.NotEmpty(t, a.ACL, name)
		})
	})},
	{Name: "SETATTR and GETATTR of acl", By: "RFC 8881, 6.2.1, 6.4.1.2", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, mode(0o4600)))
		before := t.attrsOf(fh, nfs4.AttrChange).Change
		o := setAttr(nfs4.StateID{}, acl(sharedACL()...))
		t.want(nfs4.OK, putFH(fh), o)
		assert.Equal(t, nfs4.BitmapOf(nfs4.AttrACL), o.res.(*nfs4.SetAttrRes).AttrsSet)
		assert.NotEqual(t, before, t.attrsOf(fh, nfs4.AttrChange).Change)
		t.hasACL(fh, 0o4671, sharedACL()...) // the high bits stay; the mask is the group's
		list := t.attrsOf(fh, nfs4.AttrACL).ACL
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(list...)))
		t.hasACL(fh, 0o4671, sharedACL()...)
		plain := []nfs4.ACE{allow(nfs4.WhoOwner, read4|owner4), allow(nfs4.WhoGroup, always4), allow(nfs4.WhoEveryone, always4)}
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(plain...)))
		t.hasACL(fh, 0o4400, plain...)
	})},
	{Name: "SETATTR of an empty acl", By: "RFC 8881, 6.2.1, 6.4.3: denies all, but the owner can set another", run: withACLs(func(t *T) {
		s := t.by(7)
		fh := t.make(create(nfs4.TypeFIFO, "p", mode(0o666)), putFH(t.dir()))
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, attrs(func(a *nfs4.Attrs) { a.Owner = []byte("7") }, nfs4.AttrOwner)))
		s.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl()))
		t.hasACL(fh, 0, allow(nfs4.WhoOwner, owner4), allow(nfs4.WhoGroup, always4), allow(nfs4.WhoEveryone, always4))
		s.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(allow(nfs4.WhoEveryone, read4))))
	})},
	{Name: "SETATTR of the mode of an object with an acl", By: "RFC 8881, 6.4.1.1: named users SHOULD NOT be granted what the group is not", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(sharedACL()...)), setAttr(nfs4.StateID{}, mode(0o611)))
		t.hasACL(
			fh, 0o611, deny(nfs4.WhoOwner, exec4), allow(nfs4.WhoOwner, read4|write4|owner4), deny("7", exec4), allow("7", always4),
			allow(nfs4.WhoGroup, always4), flagged(group4, allow("8", exec4|always4))[0], deny(nfs4.WhoGroup, exec4),
			allow(nfs4.WhoEveryone, exec4|always4),
		)
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, mode(0o671)))
		t.hasACL(fh, 0o671, sharedACL()...) // nothing is lost
	})},
	{Name: "SETATTR of mode and acl", By: "RFC 8881, 6.4.1.3: MUST be applied in this order", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		o := setAttr(nfs4.StateID{}, and(acl(sharedACL()...), 0o2700))
		t.want(nfs4.OK, putFH(fh), o)
		assert.Equal(t, nfs4.BitmapOf(nfs4.AttrACL, nfs4.AttrMode), o.res.(*nfs4.SetAttrRes).AttrsSet)
		t.hasACL(fh, 0o2671, sharedACL()...)
		masked := acl(allow(nfs4.WhoEveryone, read4))
		masked.Mask.Set(nfs4.AttrModeSetMasked)
		masked.ModeSetMasked = nfs4.ModeMasked{Value: 0o1007, Mask: 0o7007}
		all := t.attrsOf(fh, nfs4.AttrSupportedAttrs).SupportedAttrs
		if all.Has(nfs4.AttrModeSetMasked) {
			t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, masked))
			assert.Equal(t, uint32(0o1444), t.attrsOf(fh, nfs4.AttrMode).Mode)
		}
	})},
	{Name: "an acl together with dacl or sacl", By: "RFC 8881, 6.4.1: NFS4ERR_ATTRNOTSUPP", run: withACLs(func(t *T) {
		for _, id := range []nfs4.AttrID{nfs4.AttrDACL, nfs4.AttrSACL} {
			both := nfs4.BitmapOf(nfs4.AttrACL, id)
			b := raw(both.AppendTo(make([]byte, 16)))
			b = append(b, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
			t.want(nfs4.ErrAttrNotSupp, putFH(t.dir()), op{nfs4.OpSetAttr, &b, new(nfs4.SetAttrRes)})
		}
	})},
	{Name: "SETATTR of an acl that cannot be held", By: "RFC 8881, 6.2.1.2, 6.2.1.4: NFS4ERR_ATTRNOTSUPP", run: withACLs(func(t *T) {
		file, dir := t.object(nfs4.TypeReg, "f"), t.object(nfs4.TypeDir, "d")
		before := [2]string{aclText(t.attrsOf(file, nfs4.AttrACL).ACL), aclText(t.attrsOf(dir, nfs4.AttrACL).ACL)}
		for what, e := range map[string]nfs4.ACE{
			"audit": {Type: nfs4.ACEAudit, Flag: nfs4.ACEFailedAccess, Mask: read4}, "alarm": {Type: nfs4.ACEAlarm, Mask: read4},
			"an undefined type": {Type: 4}, "a flag of audit": {Flag: nfs4.ACESuccessfulAccess}, "an undefined flag": {Flag: 0x100},
			"inherited once": {Flag: inherit4 | nfs4.ACENoPropagateInherit},
		} {
			e.Who = []byte(nfs4.WhoEveryone)
			for _, fh := range []nfs4.FH{file, dir} {
				o := setAttr(nfs4.StateID{}, acl(allow(nfs4.WhoOwner, read4), e))
				t.want(nfs4.ErrAttrNotSupp, putFH(fh), o)
				assert.Equal(t, nfs4.Bitmap{}, o.res.(*nfs4.SetAttrRes).AttrsSet, what)
			}
		}
		for _, flags := range []uint32{inherit4, only4, nfs4.ACEFileInherit, nfs4.ACEDirectoryInherit} {
			t.want(nfs4.ErrAttrNotSupp, putFH(file), setAttr(nfs4.StateID{}, acl(flagged(flags, allow(nfs4.WhoOwner, read4))...)))
		}
		assert.Equal(t, before, [2]string{aclText(t.attrsOf(file, nfs4.AttrACL).ACL), aclText(t.attrsOf(dir, nfs4.AttrACL).ACL)})
	})},
	{Name: "SETATTR of an acl that files alone or directories alone inherit", By: "RFC 8881, 6.2.1.4: the server may reject the request", Linux: "both inherit it, though it says less", run: withACLs(func(t *T) {
		for _, flags := range []uint32{nfs4.ACEFileInherit, nfs4.ACEDirectoryInherit, nfs4.ACEFileInherit | nfs4.ACEInheritOnly} {
			t.want(nfs4.ErrAttrNotSupp, putFH(t.dir()), setAttr(nfs4.StateID{}, acl(flagged(flags, allow(nfs4.WhoOwner, read4))...)))
		}
	})},
	{Name: "SETATTR of an acl that only nothing inherits", By: "RFC 8881, 6.2.1.4.1: SHOULD fail with NFS4ERR_ATTRNOTSUPP", Linux: "it is taken for an entry of the object itself", run: withACLs(func(t *T) {
		t.want(nfs4.ErrAttrNotSupp, putFH(t.dir()), setAttr(nfs4.StateID{}, acl(flagged(nfs4.ACEInheritOnly, allow(nfs4.WhoOwner, read4))...)))
	})},
	{Name: "SETATTR of an acl that hides attributes", By: "RFC 8881, 6.2.1: should still be rejected", Linux: "the entry is ignored", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		for _, who := range []string{nfs4.WhoOwner, nfs4.WhoGroup, nfs4.WhoEveryone, "7"} {
			t.want(nfs4.ErrAttrNotSupp, putFH(fh), setAttr(nfs4.StateID{}, acl(deny(who, nfs4.ACEReadAttributes))))
		}
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(allow(nfs4.WhoEveryone, always4), deny("7", always4))))
	})},
	{Name: "INHERITED_ACE in an acl", By: "RFC 8881, 6.2.1.4.1: MUST be cleared", Linux: "NFS4ERR_ATTRNOTSUPP", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(flagged(nfs4.ACEInherited, allow(nfs4.WhoOwner, read4))...)))
		for _, e := range t.attrsOf(fh, nfs4.AttrACL).ACL {
			assert.Zero(t, e.Flag&nfs4.ACEInherited)
		}
	})},
	{Name: "IDENTIFIER_GROUP on special names in an acl", By: "RFC 8881, 6.2.1.5: MUST be ignored, SHOULD be zero", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		list := flagged(group4, allow(nfs4.WhoOwner, read4), allow(nfs4.WhoGroup, read4), allow(nfs4.WhoEveryone, exec4))
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(list...)))
		assert.Equal(t, uint32(0o551), t.attrsOf(fh, nfs4.AttrMode).Mode)
		for _, e := range t.attrsOf(fh, nfs4.AttrACL).ACL {
			assert.Zero(t, e.Flag)
		}
	})},
	{Name: "the mode by an acl", By: "RFC 8881, 6.3.2", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		for want, list := range map[uint32][]nfs4.ACE{
			0o444: {allow(nfs4.WhoEveryone, read4)},
			0o466: {deny(nfs4.WhoOwner, write4), allow(nfs4.WhoEveryone, read4|write4)},
			0o604: {allow(nfs4.WhoOwner, write4), deny(nfs4.WhoGroup, read4), allow(nfs4.WhoOwner, read4), allow(nfs4.WhoEveryone, read4)},
			0o111: {allow(nfs4.WhoEveryone, nfs4.ACEAppendData|exec4)},
			0o400: {allow(nfs4.WhoOwner, read4|nfs4.ACEWriteData), deny(nfs4.WhoEveryone, write4)},
		} {
			if want == 0o604 { // the denial concerns the owner too, who may be in the group
				want = 0o204
			}
			t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(list...)))
			assert.Equal(t, fmt.Sprintf("%o", want), fmt.Sprintf("%o", t.attrsOf(fh, nfs4.AttrMode).Mode))
		}
	})},
	{Name: "rights by an acl", By: "RFC 8881, 6.2.1: entries in their order", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		byGroup := flagged(group4, allow("80", read4|write4), deny("81", write4))
		list := append([]nfs4.ACE{
			allow(nfs4.WhoOwner, read4|write4), deny("70", read4), allow("71", read4), deny("71", write4),
		}, byGroup...)
		list = append(list, allow(nfs4.WhoEveryone, read4))
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(list...)))
		for _, tt := range []struct {
			s           *session
			read, write bool
		}{
			{t.by(70), false, false},
			{t.by(70, 80), false, false},
			{t.by(71), true, false},
			{t.by(71, 80), true, false},
			{t.by(72), true, false},
			{t.by(72, 80), true, true},
			{t.by(72, 81), true, false},
			{t.by(72, 80, 81), true, true},
		} {
			assert.Equal(t, tt.read, tt.s.canOpen(fh, nfs4.ShareRead))
			assert.Equal(t, tt.write, tt.s.canOpen(fh, nfs4.ShareWrite))
			var res nfs4.AccessRes
			tt.s.want(nfs4.OK, putFH(fh), access(nfs4.AccessRead|nfs4.AccessModify, &res))
			assert.Equal(t, []bool{tt.read, tt.write}, []bool{res.Access&nfs4.AccessRead != 0, res.Access&nfs4.AccessModify != 0})
		}
	})},
	{Name: "inheritance of an acl", By: "RFC 8881, 6.4.3: if just the mode is given", run: withACLs(func(t *T) {
		own := []nfs4.ACE{
			allow(nfs4.WhoOwner, read4|change4|exec4|owner4), allow(nfs4.WhoGroup, read4|change4|exec4|always4),
			allow(nfs4.WhoEveryone, read4|change4|exec4|always4),
		}
		heirs := func(flags uint32) []nfs4.ACE {
			return flagged(
				flags, allow(nfs4.WhoOwner, read4|change4|exec4|owner4), deny("7", change4), allow("7", read4|exec4|always4),
				allow(nfs4.WhoGroup, read4|change4|exec4|always4), allow(nfs4.WhoEveryone, always4),
			)
		}
		dir := t.make(create(nfs4.TypeDir, "d", mode(0o777)), putFH(t.dir()))
		t.want(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, acl(append(own, heirs(only4)...)...)))
		t.hasACL(dir, 0o777, append(own, heirs(only4)...)...)
		var fh nfs4.HandleRes
		a := creating(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, mode(0o644))
		t.want(nfs4.OK, putFH(dir), open(a, new(nfs4.OpenRes)), getFH(&fh))
		t.hasACL(
			fh.Object, 0o640, allow(nfs4.WhoOwner, read4|write4|owner4), allow("7", read4|always4), allow(nfs4.WhoGroup, read4|always4),
			allow(nfs4.WhoEveryone, always4),
		)
		sub := t.make(create(nfs4.TypeDir, "sub", mode(0o777)), putFH(dir))
		t.hasACL(sub, 0o770, append(heirs(0), heirs(only4)...)...)
	})},
	{Name: "SETATTR of an acl that ends inheritance", By: "RFC 8881, 6.4.1.2: SHOULD be set as given", Linux: "the default list stays", run: withACLs(func(t *T) {
		dir := t.make(create(nfs4.TypeDir, "d", mode(0o777)), putFH(t.dir()))
		own := []nfs4.ACE{
			allow(nfs4.WhoOwner, read4|change4|exec4|owner4), allow(nfs4.WhoGroup, always4), allow(nfs4.WhoEveryone, always4),
		}
		heirs := flagged(only4, allow("7", read4), allow(nfs4.WhoEveryone, read4))
		t.want(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, acl(append(heirs, own...)...)), setAttr(nfs4.StateID{}, acl(own...)))
		t.hasACL(dir, 0o700, own...)
		sub := t.make(create(nfs4.TypeDir, "sub", mode(0o700)), putFH(dir))
		t.hasACL(sub, 0o700, own...)
	})},
	{Name: "an acl that is inherited and counts", By: "RFC 8881, 6.2.1.4", run: withACLs(func(t *T) {
		dir := t.make(create(nfs4.TypeDir, "d", mode(0o700)), putFH(t.dir()))
		t.want(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, acl(
			allow(nfs4.WhoOwner, read4|change4|exec4), flagged(inherit4, allow(nfs4.WhoEveryone, read4|exec4))[0],
		)))
		always := func(flags uint32) []nfs4.ACE {
			return flagged(flags, allow(nfs4.WhoGroup, read4|exec4|always4), allow(nfs4.WhoEveryone, read4|exec4|always4))
		}
		a := t.attrsOf(dir, nfs4.AttrACL, nfs4.AttrMode)
		assert.Equal(t, uint32(0o755), a.Mode)
		if assert.Len(t, a.ACL, 6) {
			assert.Equal(t, aclText(always(0)), aclText(a.ACL[1:3]))
			assert.Equal(t, aclText(always(only4)), aclText(a.ACL[4:]))
		}
	})},
	{Name: "OPEN and CREATE with acl", By: "RFC 8881, 6.4.3: SHOULD NOT inherit; the acl is set without modification", run: withACLs(func(t *T) {
		dir := t.make(create(nfs4.TypeDir, "d", mode(0o777)), putFH(t.dir()))
		heirs := flagged(only4, allow(nfs4.WhoOwner, read4|change4|exec4), allow("9", read4|change4|exec4), allow(nfs4.WhoEveryone, read4))
		t.want(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, acl(append(heirs, allow(nfs4.WhoEveryone, read4|change4|exec4))...)))
		for name, a := range map[string]nfs4.Attrs{"alone": acl(sharedACL()...), "with a mode": and(acl(sharedACL()...), 0o4777)} {
			want := uint32(0o671)
			if a.Mask.Has(nfs4.AttrMode) {
				want = 0o4671
			}
			var fh nfs4.HandleRes
			var res nfs4.OpenRes
			for _, how := range []nfs4.CreateMode{nfs4.Unchecked, nfs4.Guarded, nfs4.Exclusive1} {
				o := exclusively(openName(fmt.Sprint(name, how), "a", nfs4.ShareBoth, 0), how, verf, a)
				t.want(nfs4.OK, putFH(dir), open(o, &res), getFH(&fh))
				assert.Equal(t, a.Mask.Words[0]&(1<<nfs4.AttrACL), res.AttrSet.Words[0]&(1<<nfs4.AttrACL), "attrset")
				t.hasACL(fh.Object, want, sharedACL()...)
			}
			made := create(nfs4.TypeFIFO, name, a)
			pipe := t.make(made, putFH(dir))
			assert.Equal(t, a.Mask, made.res.(*nfs4.CreateRes).AttrSet)
			t.hasACL(pipe, want, sharedACL()...)
		}
		list := append(heirs[:2:2], allow(nfs4.WhoOwner, read4|exec4|owner4), allow(nfs4.WhoGroup, exec4|always4), allow(nfs4.WhoEveryone, always4))
		sub := t.make(create(nfs4.TypeDir, "sub", acl(list...)), putFH(dir))
		a := t.attrsOf(sub, nfs4.AttrACL, nfs4.AttrMode)
		assert.Equal(t, uint32(0o510), a.Mode)
		if assert.Greater(t, len(a.ACL), 3) {
			assert.Equal(t, aclText(list[2:]), aclText(a.ACL[:3]))
		}
	})},
	{Name: "OPEN and CREATE with an acl that cannot be held", By: "RFC 8881, 6.2.1.2: MUST reject", Linux: "OPEN creates the file without the acl", run: withACLs(func(t *T) {
		bad := acl(nfs4.ACE{Type: nfs4.ACEAudit, Who: []byte(nfs4.WhoEveryone)})
		unknown := acl(allow("nobody at all@nowhere.invalid", read4))
		for st, a := range map[nfs4.Status]nfs4.Attrs{nfs4.ErrAttrNotSupp: bad, nfs4.ErrBadOwner: unknown} {
			t.want(st, putFH(t.dir()), open(creating(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, a), new(nfs4.OpenRes)))
			t.want(st, putFH(t.dir()), create(nfs4.TypeDir, "f", a))
			t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("f"))
		}
	})},
	{Name: "SETATTR of an acl with names that are unknown", By: "RFC 8881, 5.9: NFS4ERR_BADOWNER", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		for _, who := range []string{"nobody at all@nowhere.invalid", "INTERACTIVE@", "NETWORK@", "owner@", "4294967295", "OWNER@nowhere.invalid"} {
			for _, flags := range []uint32{0, group4} {
				t.want(nfs4.ErrBadOwner, putFH(fh), setAttr(nfs4.StateID{}, acl(flagged(flags, allow(who, read4))...)))
			}
		}
	})},
	{Name: "SETATTR of an acl with an empty name", By: "RFC 8881, 5.9: NFS4ERR_BADOWNER", Linux: "NFS4ERR_FBIG", run: withACLs(func(t *T) {
		t.want(nfs4.ErrBadOwner, putFH(t.dir()), setAttr(nfs4.StateID{}, acl(allow("", read4))))
	})},
	{Name: "SETATTR of acl by another user", By: "RFC 8881, 15.1.6.2: NFS4ERR_PERM or NFS4ERR_ACCESS", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, mode(0o666)))
		t.by(7).oneOf(refused, putFH(fh), setAttr(nfs4.StateID{}, acl(allow(nfs4.WhoEveryone, read4))))
		assert.Equal(t, uint32(0o666), t.attrsOf(fh, nfs4.AttrMode).Mode)
	})},
	{Name: "SETATTR of acl of a symbolic link", By: "RFC 8881, 6.2.1.2: MUST reject what cannot be stored", Linux: "NFS4ERR_NOTSUPP", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeLnk, "l")
		t.want(nfs4.ErrAttrNotSupp, putFH(fh), setAttr(nfs4.StateID{}, acl(allow(nfs4.WhoEveryone, read4))))
		t.want(nfs4.ErrAttrNotSupp, putFH(t.dir()), create(nfs4.TypeLnk, "m", acl(allow(nfs4.WhoEveryone, read4))))
	})},
	{Name: "SETATTR of an acl that is longer than the message", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", Linux: "NFS4ERR_FBIG", run: withACLs(func(t *T) {
		mask := nfs4.BitmapOf(nfs4.AttrACL)
		b := raw(mask.AppendTo(make([]byte, 16)))
		b = append(b, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff)
		t.want(nfs4.ErrBadXDR, putFH(t.dir()), op{nfs4.OpSetAttr, &b, new(nfs4.SetAttrRes)})
	})},
	{Name: "VERIFY and NVERIFY of acl", By: "RFC 8881, 18.15.4, 18.31.4", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(sharedACL()...)))
		t.want(nfs4.OK, putFH(fh), verify(nfs4.OpVerify, acl(sharedACL()...)))
		t.want(nfs4.ErrSame, putFH(fh), verify(nfs4.OpNVerify, acl(sharedACL()...)))
		for i := range sharedACL() {
			for _, change := range []func(e *nfs4.ACE){
				func(e *nfs4.ACE) { e.Type ^= 1 }, func(e *nfs4.ACE) { e.Mask ^= read4 }, func(e *nfs4.ACE) { e.Who = []byte("9") },
				func(e *nfs4.ACE) { e.Flag ^= nfs4.ACEFileInherit },
			} {
				other := sharedACL()
				change(&other[i])
				t.want(nfs4.ErrNotSame, putFH(fh), verify(nfs4.OpVerify, acl(other...)))
				t.want(nfs4.OK, putFH(fh), verify(nfs4.OpNVerify, acl(other...)))
			}
		}
		t.want(nfs4.ErrNotSame, putFH(fh), verify(nfs4.OpVerify, acl(sharedACL()[1:]...)))
		t.want(nfs4.ErrNotSame, putFH(fh), verify(nfs4.OpVerify, acl(allow("nobody at all@nowhere.invalid", read4))))
	})},
	{Name: "VERIFY of an acl with flags that mean nothing", By: "RFC 8881, 6.2.1.4.1: MUST ignore; 18.31.4", Linux: "NFS4ERR_NOT_SAME", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(sharedACL()...)))
		list := sharedACL()
		for i := range list {
			list[i].Flag |= nfs4.ACEInherited
			if strings.HasSuffix(string(list[i].Who), "@") {
				list[i].Flag |= group4
			}
		}
		t.want(nfs4.OK, putFH(fh), verify(nfs4.OpVerify, acl(list...)))
	})},
	{Name: "READDIR of acl", By: "RFC 8881, 18.23.3", run: withACLs(func(t *T) {
		want := map[string]string{}
		dir := t.make(create(nfs4.TypeDir, "d", mode(0o777)), putFH(t.dir()))
		for i := range 5 {
			name := fmt.Sprint("p", i)
			fh := t.make(create(nfs4.TypeFIFO, name, mode(0o600+uint32(i))), putFH(dir))
			if i == 3 {
				t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(sharedACL()...)))
			}
			want[name] = aclText(t.attrsOf(fh, nfs4.AttrACL).ACL)
		}
		got := map[string]string{}
		var l listing
		t.want(nfs4.OK, putFH(dir), readDir(nfs4.ReadDirArgs{DirCount: 8192, MaxCount: 8192, Request: nfs4.BitmapOf(nfs4.AttrACL, nfs4.AttrFileID)}, &l))
		for _, e := range l.entries {
			got[string(e.Name)] = aclText(e.Attrs.ACL)
		}
		assert.True(t, l.eof)
		assert.Equal(t, want, got)
	})},
	{Name: "GETATTR of an acl that is longer than the reply may be", By: "RFC 8881, 2.10.6.4: NFS4ERR_REP_TOO_BIG", run: withACLs(func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		var list []nfs4.ACE
		for i := range 100 {
			list = append(list, allow(fmt.Sprint(1000+i), read4))
		}
		t.want(nfs4.OK, putFH(fh), setAttr(nfs4.StateID{}, acl(list...)))
		assert.Len(t, t.attrsOf(fh, nfs4.AttrACL).ACL, 104)
		s := t.small(func(a *nfs4.ChannelAttrs) { a.MaxResponseSize = 2000 })
		s.want(nfs4.ErrRepTooBig, putFH(fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrACL))
		s.want(nfs4.OK, putRootFH())
	})},
	{Name: "creation with attributes, but neither mode nor acl", By: "RFC 8881, 6.4.3: inheritance SHOULD take place, unmodified", Linux: "the mode is 0", run: withACLs(func(t *T) {
		dir := t.make(create(nfs4.TypeDir, "d", mode(0o777)), putFH(t.dir()))
		list := flagged(only4, allow(nfs4.WhoOwner, read4|change4|exec4), allow("7", read4), allow(nfs4.WhoEveryone, read4))
		t.want(nfs4.OK, putFH(dir), setAttr(nfs4.StateID{}, acl(append(list, allow(nfs4.WhoEveryone, read4|change4|exec4))...)))
		var fh nfs4.HandleRes
		a := creating(openName("f", "a", nfs4.ShareBoth, 0), nfs4.Guarded, sized(0))
		t.want(nfs4.OK, putFH(dir), open(a, new(nfs4.OpenRes)), getFH(&fh))
		assert.Equal(t, "644", fmt.Sprintf("%o", t.attrsOf(fh.Object, nfs4.AttrMode).Mode))
		assert.True(t, t.by(7).canOpen(fh.Object, nfs4.ShareRead))
	})},
}
