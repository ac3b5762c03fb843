package nfs4test

import (
	"bytes"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// unknownAttrs returns the attribute numbers that neither the object nor
// package nfs4 supports.
func (t *T) unknownAttrs(fh nfs4.FH) (ids []nfs4.AttrID) {
	all := t.getAttrs(fh, nfs4.AttrSupportedAttrs).SupportedAttrs
	for id := nfs4.AttrID(0); id < 96; id++ {
		if !all.Has(id) && !nfs4.Known.Has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// rawAttrs is a fattr4 with one attribute, whose value is 8 zero bytes.
func rawAttrs(id nfs4.AttrID) raw {
	mask := nfs4.BitmapOf(id)
	return xdr.AppendOpaque(mask.AppendTo(nil), make([]byte, 8))
}

// undefinedAttr is a fattr4 with an attribute that no minor version defines.
var undefinedAttr = raw{0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0}

// attrsOps returns the operations that take a fattr4.
func (t *T) attrsOps(a raw) []op {
	stateid := make(raw, 16)
	set := append(stateid, a...)
	made := raw{0, 0, 0, 2, 0, 0, 0, 1, 'd', 0, 0, 0} // NF4DIR, "d"
	made = append(made, a...)
	verifying := bytes.Clone(a)
	return []op{
		{nfs4.OpSetAttr, &set, new(nfs4.SetAttrRes)},
		{nfs4.OpCreate, &made, new(nfs4.CreateRes)},
		{nfs4.OpVerify, (*raw)(&verifying), statusRes()},
		{nfs4.OpNVerify, (*raw)(&verifying), statusRes()},
	}
}

// badBooleanOps returns operations with a boolean that is 2.
func (t *T) badBooleanOps() []op {
	lock := nfs4.LockArgs{Type: nfs4.LockRead, Length: 1, StateID: nfs4.StateID{SeqID: 3}}
	reclaim, fresh := raw(lock.AppendTo(nil)), raw(lock.AppendTo(nil))
	reclaim[7], fresh[27] = 2, 2
	complete := raw{0, 0, 0, 2}
	return []op{
		{nfs4.OpLock, &reclaim, new(nfs4.LockRes)}, {nfs4.OpLock, &fresh, new(nfs4.LockRes)}, {nfs4.OpReclaimComplete, &complete, statusRes()},
	}
}

// malformedArgs are scenarios for arguments that cannot be decoded, or that no
// minor version defines.
var malformedArgs = []Scenario{
	{Name: "attributes that the server does not have, of any form", By: "RFC 8881, 15.1.15.1, 18.30.4: NFS4ERR_ATTRNOTSUPP", Linux: "NFS4ERR_BADXDR for ACLs and labels without an end", run: func(t *T) {
		fh := t.newObject(nfs4.TypeDir, "in")
		for _, id := range t.unknownAttrs(fh) {
			for _, o := range t.attrsOps(rawAttrs(id)) {
				t.expectStatus(nfs4.ErrAttrNotSupp, putFH(fh), o)
			}
		}
		t.expectStatus(nfs4.ErrNoEnt, putFH(fh), lookupOp("d"))
	}},
	{Name: "attributes beyond those that are defined", By: "RFC 8881, 15.1.15.1, 18.30.4: NFS4ERR_ATTRNOTSUPP", Linux: "they are ignored", run: func(t *T) {
		fh := t.newObject(nfs4.TypeDir, "in")
		for _, o := range t.attrsOps(undefinedAttr) {
			t.expectStatus(nfs4.ErrAttrNotSupp, putFH(fh), o)
		}
	}},
	{Name: "GETATTR and READDIR with large bitmaps", By: "RFC 8881, 18.7.3: attributes that are not supported are left out", Linux: "NFS4ERR_BADXDR from READDIR", run: func(t *T) {
		fh, want := t.makeFullDir(2)
		for _, n := range []byte{3, 4, 10, 30} {
			mask := append(raw{0, 0, 0, n}, bytes.Repeat([]byte{0}, 4*int(n))...)
			mask[7] = 1 << nfs4.AttrType
			for at := 16; at < len(mask); at += 4 {
				mask[at] = 0xff // from the fourth word on
			}
			var res nfs4.GetAttrRes
			t.expectStatus(nfs4.OK, putFH(fh), op{nfs4.OpGetAttr, &mask, &res})
			assert.Equal(t, nfs4.BitmapOf(nfs4.AttrType), res.Attrs.Mask)
			d := nfs4.ReadDirArgs{DirCount: 4096, MaxCount: 4096}
			b := raw(d.AppendTo(nil))
			b = append(b[:len(b)-4], mask...)
			var l listing
			t.expectStatus(nfs4.OK, putFH(fh), op{nfs4.OpReadDir, &b, &l})
			assert.Len(t, l.names, len(want))
		}
	}},
	{Name: "a bitmap that the message does not have", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", run: func(t *T) {
		for _, n := range []uint32{2, 1000, 1 << 30, 1<<32 - 1} {
			mask := raw(xdr.AppendUint32(xdr.AppendUint32(nil, n), 2))
			t.expectStatus(nfs4.ErrBadXDR, putFH(t.ownDir()), op{nfs4.OpGetAttr, &mask, new(nfs4.GetAttrRes)})
		}
		t.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "names and handles that the message does not have", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", run: func(t *T) {
		for _, n := range []uint32{1, 100, 1 << 16, 1 << 31, 1<<32 - 1} {
			b := raw(xdr.AppendUint32(nil, n))
			for _, num := range []nfs4.Op{nfs4.OpLookup, nfs4.OpRemove, nfs4.OpSecInfo} {
				t.expectStatus(nfs4.ErrBadXDR, putFH(t.ownDir()), op{num, &b, statusRes()})
			}
			t.expectStatus(nfs4.ErrBadXDR, op{nfs4.OpPutFH, &b, statusRes()})
			t.expectStatus(nfs4.ErrBadXDR, putFH(t.ownDir()), saveFH(), op{nfs4.OpRename, &b, new(nfs4.RenameRes)})
		}
		t.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "booleans that are 2", By: "RFC 4506, 4.4: NFS4ERR_BADXDR", Linux: "they stand for TRUE", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		for _, o := range t.badBooleanOps() {
			t.expectStatus(nfs4.ErrBadXDR, putFH(fh), o)
		}
		s := t.ownSession()
		b := raw(s.sequenceOp(0).args.AppendTo(nil))
		b[len(b)-1] = 2
		s.callCompound(op{nfs4.OpSequence, &b, new(nfs4.SequenceRes)}).checkStatus(t, 1, nfs4.ErrBadXDR)
		s.expectStatus(nfs4.OK, putRootFH()) // the slot has not changed
	}},
	{Name: "undefined values of enumerations in OPEN", By: "RFC 5662: opentype4, createmode4, open_delegation_type4: NFS4ERR_BADXDR", Linux: "CLAIM_PREVIOUS's delegation is ignored", run: func(t *T) {
		plain := openName("f", "a", nfs4.ShareRead, 0)
		at := 4 + 4 + 4 + 8 + 4 + 4 // opentype4
		typ := raw(plain.AppendTo(nil))
		typ[at+3] = 2
		how := withCreate(plain, nfs4.Unchecked, nfs4.Attrs{})
		mode := raw(how.AppendTo(nil))
		mode[at+7] = 9
		before := plain
		before.Claim = nfs4.ClaimPrevious
		deleg := raw(before.AppendTo(nil))
		deleg[len(deleg)-1] = 77
		for _, b := range []raw{typ, mode, deleg} {
			t.expectStatus(nfs4.ErrBadXDR, putFH(t.ownDir()), op{nfs4.OpOpen, &b, new(nfs4.OpenRes)})
		}
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
	}},
	{Name: "undefined values of attributes", By: "RFC 5662: nfs_ftype4, time_how4: NFS4ERR_BADXDR", Linux: "a type is compared, and not the same", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		kind := append(raw{0, 0, 0, 1, 0, 0, 0, 1 << nfs4.AttrType}, 0, 0, 0, 4, 0, 0, 0, 99)
		t.expectStatus(nfs4.ErrBadXDR, putFH(fh), op{nfs4.OpVerify, &kind, statusRes()})
		mask := nfs4.BitmapOf(nfs4.AttrTimeModifySet)
		how := append(make(raw, 16), xdr.AppendOpaque(mask.AppendTo(nil), []byte{0, 0, 0, 5})...)
		t.expectStatus(nfs4.ErrBadXDR, putFH(fh), op{nfs4.OpSetAttr, &how, new(nfs4.SetAttrRes)})
	}},
	{Name: "optional operations that the server does not have", By: "RFC 8881, 17, 15.1.1.5: NFS4ERR_NOTSUPP, whatever the arguments", run: func(t *T) {
		for _, num := range []nfs4.Op{nfs4.OpDelegPurge, nfs4.OpOpenAttr, nfs4.OpGetDeviceList, nfs4.OpWantDelegation} {
			for _, n := range []int{0, 8, 200} {
				args := raw(make([]byte, n))
				t.expectStatus(nfs4.ErrNotSupp, putFH(t.ownDir()), op{num, &args, statusRes()})
			}
		}
	}},
	{Name: "an operation after one that is not there", By: "RFC 8881, 16.2.3: the COMPOUND ends", run: func(t *T) {
		args := raw(nil)
		rep := t.ownSession().callWithSequence(putFH(t.ownDir()), op{nfs4.OpOpenAttr, &args, statusRes()}, createOp(nfs4.TypeDir, "d", modeAttrs(0o755)))
		assert.Equal(t, 3, rep.resultCount)
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("d"))
	}},
	{Name: "minor version 0", By: "RFC 8881, 15.1.3.2: served, or NFS4ERR_MINOR_VERS_MISMATCH without results", run: func(t *T) {
		rep := t.dial().callMinor(nfs4.Minor0, putRootFH())
		if rep.status != nfs4.OK {
			assert.Equal(t, nfs4.ErrMinorVersMismatch, rep.status)
			assert.Zero(t, rep.resultCount)
		}
	}},
	{Name: "minor versions that nobody defines, with and without operations", By: "RFC 8881, 16.2.3: the minor version is checked first", run: func(t *T) {
		for _, ops := range [][]op{{}, {{200, &void, statusRes()}}, {putRootFH(), putRootFH()}} {
			rep := t.dial().callMinor(50, ops...)
			assert.Equal(t, nfs4.ErrMinorVersMismatch, rep.status)
			assert.Zero(t, rep.resultCount)
		}
	}},
	{Name: "NULL with AUTH_NONE", By: "RFC 8881, 16.1", run: func(t *T) {
		c := t.dial()
		c.cred = rpcmsg.Cred{Flavor: rpcmsg.AuthNone}
		stat, results, err := c.callProc(nfs4.ProcNull, nil)
		require.NoError(t, err)
		assert.Zero(t, stat)
		assert.Empty(t, results)
	}},
	{Name: "calls with an undefined flavour", By: "RFC 5531, 9: AUTH_ERROR", run: func(t *T) {
		c := t.dial()
		c.cred = rpcmsg.Cred{Flavor: 390099}
		stat, _, err := c.callProc(nfs4.ProcCompound, (&compound{minor: t.Minor, ops: []op{putRootFH()}}).encodeArgs())
		require.NoError(t, err)
		assert.EqualValues(t, deniedStat, stat)
		t.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "CREATE with bytes after the attributes' values", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", run: func(t *T) {
		mask := nfs4.BitmapOf(nfs4.AttrMode)
		b := raw{0, 0, 0, 2, 0, 0, 0, 1, 'd', 0, 0, 0}
		b = append(b, xdr.AppendOpaque(mask.AppendTo(nil), []byte{0, 0, 1, 0xed, 0, 0, 0, 0})...)
		t.expectStatus(nfs4.ErrBadXDR, putFH(t.ownDir()), op{nfs4.OpCreate, &b, new(nfs4.CreateRes)})
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("d"))
	}},
}
