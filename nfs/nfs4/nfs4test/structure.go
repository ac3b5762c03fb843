package nfs4test

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// structure are scenarios of COMPOUND itself.
var structure = []Scenario{
	{Name: "NULL", By: "RFC 8881, 16.1", run: func(t *T) {
		stat, results, err := t.dial().exchange(nfs4.ProcNull, nil)
		require.NoError(t, err)
		assert.Zero(t, stat)
		assert.Empty(t, results)
	}},
	{Name: "an undefined procedure", By: "RFC 5531, 9: PROC_UNAVAIL", run: func(t *T) {
		stat, _, err := t.dial().exchange(2, nil)
		require.NoError(t, err)
		assert.EqualValues(t, rpcmsg.ProcUnavail, stat)
	}},
	{Name: "an empty COMPOUND", By: "RFC 8881, 16.2.3", run: func(t *T) {
		rep := t.dial().compound()
		assert.Equal(t, nfs4.OK, rep.status)
		assert.Zero(t, rep.n)
	}},
	{Name: "tags", By: "RFC 8881, 16.2.3: the tag is returned", Linux: "GARBAGE_ARGS for long ones", run: func(t *T) {
		s := t.session()
		for _, tag := range []string{"", "x", "four", strings.Repeat("long ", 200)} {
			x := compound{tag: tag, minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
			stat, results, err := s.exchange(nfs4.ProcCompound, x.encode())
			require.NoError(t, err)
			require.Zero(t, stat)
			rep := x.decode(t, results).is(t, 2, nfs4.OK)
			assert.Equal(t, tag, string(rep.tag))
			s.seq[0]++
		}
	}},
	{Name: "a tag that is not UTF-8", By: "RFC 8881, 16.2.3: it SHOULD be UTF-8; NFS4ERR_INVAL, or it is returned", run: func(t *T) {
		s := t.session()
		x := compound{tag: "\xff\xfe\x00", minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
		stat, results, err := s.exchange(nfs4.ProcCompound, x.encode())
		require.NoError(t, err)
		require.Zero(t, stat)
		rep := x.decode(t, results)
		if rep.status != nfs4.ErrInval {
			rep.is(t, 2, nfs4.OK)
			assert.Equal(t, x.tag, string(rep.tag))
		}
	}},
	{Name: "minor versions that nobody defines", By: "RFC 8881, 15.1.3.2: NFS4ERR_MINOR_VERS_MISMATCH, and no results", run: func(t *T) {
		for _, minor := range []uint32{3, 100, 1 << 31} {
			rep := t.dial().compoundIn(minor, putRootFH())
			assert.Equal(t, nfs4.ErrMinorVersMismatch, rep.status)
			assert.Zero(t, rep.n)
		}
	}},
	{Name: "operations of minor version 0 alone", By: "RFC 8881, 15.2: those that MUST NOT be implemented are NFS4ERR_NOTSUPP", Linux: "RENEW is NFS4ERR_STALE_CLIENTID", run: func(t *T) {
		for _, num := range []nfs4.Op{
			nfs4.OpOpenConfirm, nfs4.OpRenew, nfs4.OpSetClientID, nfs4.OpSetClientIDConfirm, nfs4.OpReleaseLockOwner,
		} {
			args := raw(make([]byte, 64))
			t.want(nfs4.ErrNotSupp, putRootFH(), op{num, &args, status()})
		}
	}},
	{Name: "undefined operations", By: "RFC 8881, 15.1.3.4: NFS4ERR_OP_ILLEGAL", run: func(t *T) {
		for _, num := range []nfs4.Op{0, 1, 2, 200, 10043, nfs4.OpIllegal, 10045, 1 << 31} {
			rep := t.session().do(putRootFH(), op{num, &void, status()}, putRootFH()).is(t, 3, nfs4.ErrOpIllegal)
			assert.Equal(t, nfs4.OpIllegal, rep.last)
		}
		rep := t.dial().compound(op{200, &void, status()})
		assert.Contains(t, []nfs4.Status{nfs4.ErrOpIllegal, nfs4.ErrOpNotInSession}, rep.status)
	}},
	{Name: "operations of minor version 2 in minor version 1", By: "RFC 8178, 4.2: NFS4ERR_OP_ILLEGAL", run: func(t *T) {
		s := t.session()
		for num := nfs4.OpAllocate; num < nfs4.NumOp; num++ {
			s.compoundIn(nfs4.Minor1, s.sequenceOp(0), putRootFH(), op{num, &void, status()}).is(t, 3, nfs4.ErrOpIllegal)
			s.seq[0]++
		}
	}},
	{Name: "optional operations", By: "RFC 8881, 17: NFS4ERR_NOTSUPP, unless the server has them", run: func(t *T) {
		f := t.file("f", "data")
		for _, num := range []nfs4.Op{
			nfs4.OpDelegPurge, nfs4.OpOpenAttr, nfs4.OpGetDirDelegation, nfs4.OpGetDeviceInfo, nfs4.OpGetDeviceList,
			nfs4.OpLayoutCommit, nfs4.OpLayoutGet, nfs4.OpLayoutReturn, nfs4.OpWantDelegation,
		} {
			args := raw(make([]byte, 200))
			res := raw(nil)
			rep := t.session().do(putFH(f.fh), op{num, &args, &res})
			assert.NotEqual(t, nfs4.ErrOpIllegal, rep.status, "%s", num)
		}
		t.want(nfs4.OK, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "operations of minor version 2", By: "RFC 7862, 13: operations that are not there are NFS4ERR_NOTSUPP, not NFS4ERR_OP_ILLEGAL", run: func(t *T) {
		s := t.session()
		t.dir()
		for num := nfs4.OpAllocate; num < nfs4.NumOp; num++ {
			args := raw(make([]byte, 200))
			res := raw(nil)
			rep := s.compoundIn(nfs4.Minor2, s.sequenceOp(0), putFH(t.dir()), op{num, &args, &res})
			s.seq[0]++
			assert.NotEqual(t, nfs4.ErrOpIllegal, rep.status, "%s", num)
			assert.NotEqual(t, nfs4.OK, rep.status, "%s with zeros", num)
		}
	}},
	{Name: "a COMPOUND stops at the first error", By: "RFC 8881, 16.2.3", run: func(t *T) {
		t.session().do(putFH(t.dir()), lookup("missing"), create(nfs4.TypeDir, "d", mode(0o755))).is(t, 3, nfs4.ErrNoEnt)
		t.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("d"))
	}},
	{Name: "what was done before an error stays", By: "RFC 8881, 16.2.3: there is no rollback", run: func(t *T) {
		t.session().do(putFH(t.dir()), create(nfs4.TypeDir, "d", mode(0o755)), lookup("missing")).is(t, 4, nfs4.ErrNoEnt)
		t.want(nfs4.OK, putFH(t.dir()), lookup("d"))
	}},
	{Name: "a COMPOUND of no known length", By: "RFC 8881, 16.2.3; RFC 5531, 9: GARBAGE_ARGS", run: func(t *T) {
		for _, n := range []uint32{2, 1000, 1 << 31, 1<<32 - 1} {
			b := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendString(nil, ""), t.Minor), n)
			b = nfs4.AppendOp(b, nfs4.OpPutRootFH, &void)
			_, _, err := t.dial().exchange(nfs4.ProcCompound, b)
			require.NoError(t, err)
		}
		t.want(nfs4.OK, putRootFH())
	}},
	{Name: "bytes after a COMPOUND", By: "RFC 5531, 9", run: func(t *T) {
		s := t.session()
		x := compound{tag: "", minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
		_, _, err := s.over(t.dial()).exchange(nfs4.ProcCompound, append(x.encode(), 1, 2, 3, 4))
		require.NoError(t, err)
		other := t.client().session()
		other.want(nfs4.OK, putRootFH())
	}},
	{Name: "a record of many fragments", By: "RFC 5531, 11", run: func(t *T) {
		s := t.session()
		x := compound{tag: "a tag", minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
		msg := append(s.appendCall(nil, nfs4.ProcCompound), x.encode()...)
		var b []byte
		for i, c := range msg {
			mark := uint32(1)
			if i == len(msg)-1 {
				mark |= lastFragment
			}
			b = append(xdr.AppendUint32(b, mark), c)
		}
		_, err := s.nc.Write(b)
		require.NoError(t, err)
		_, results, err := s.answer(s.xid)
		require.NoError(t, err)
		x.decode(t, results).is(t, 2, nfs4.OK)
	}},
	{Name: "calls of another version", By: "RFC 5531, 9: PROG_MISMATCH", run: func(t *T) {
		c := t.dial()
		msg := c.appendCall(nil, 0)
		msg[19] = 7 // vers
		c.send(msg)
		stat, _, err := c.answer(c.xid)
		require.NoError(t, err)
		assert.EqualValues(t, rpcmsg.ProgMismatch, stat)
	}},
}

// cuttable are COMPOUNDs that are cut at each byte.
func (t *T) cuttable() map[string][]op {
	f := t.file("f", "data")
	return map[string][]op{
		"LOOKUP": {putFH(t.dir()), lookup("f"), getFH(new(nfs4.HandleRes))},
		"GETATTR and SETATTR": {
			putFH(f.fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType, nfs4.AttrOwner, nfs4.AttrTimeModify), setAttr(f.id, mode(0o640)),
		},
		"WRITE and READ": {putFH(f.fh), write(f.id, 0, nfs4.Unstable, "0123456", new(nfs4.WriteRes)), read(f.id, 0, 100, new(nfs4.ReadRes))},
		"OPEN and CLOSE": {
			putFH(t.dir()), open(creating(openName("f", "a", 3, 0), nfs4.Unchecked, mode(0o644)), new(nfs4.OpenRes)), closeFile(nfs4.StateID{}).current(),
		},
		"READDIR": {putFH(t.dir()), readDir(nfs4.ReadDirArgs{DirCount: 1000, MaxCount: 1000, Request: nfs4.BitmapOf(nfs4.AttrType)}, new(listing))},
		"ACCESS and VERIFY": {
			putFH(f.fh), access(nfs4.AccessRead, new(nfs4.AccessRes)), verify(nfs4.OpVerify, attrs(func(a *nfs4.Attrs) { a.Type = nfs4.TypeReg }, nfs4.AttrType)),
		},
		"stateids": {testStateID(new(seen), f.id, f.id), freeStateID(f.id)},
	}
}

// cutEach cuts a COMPOUND at each byte. Each of its parts has a session of its
// own, because it may use a slot or not.
func (t *T) cutEach(name string, ops []op) {
	whole := (&compound{tag: "a tag", minor: t.Minor, ops: append([]op{t.session().sequenceOp(0)}, ops...)}).encode()
	owner := t.client()
	owner.session().ready()
	for n := range len(whole) {
		c := owner.session()
		part := append([]byte(nil), whole[:n]...)
		if at := 4 + 8 + 4 + 4 + 4; n >= at+nfs4.SessionIDSize+4 {
			copy(part[at:], c.id[:])
			part[at+nfs4.SessionIDSize+3] = 1 // the first sequence ID
		}
		stat, results, err := c.exchange(nfs4.ProcCompound, part)
		require.NoError(t, err, "%s cut at byte %d", name, n)
		if stat != garbageArgs && assert.Zero(t, stat) {
			r := xdr.NewReader(results)
			var head nfs4.CompoundRes
			head.Decode(&r)
			assert.NotEqual(t, nfs4.OK, head.Status, "%s cut at byte %d", name, n)
		}
		c.alone(nfs4.OK, destroySessionOp(c.id))
	}
	t.want(nfs4.OK, putRootFH()) // the server goes on
}

// cuts are scenarios of messages that end too early.
var cuts = []Scenario{
	{Name: "COMPOUNDs cut at each byte", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR; RFC 5531, 9: GARBAGE_ARGS", Heavy: true, run: func(t *T) {
		for name, ops := range t.cuttable() {
			t.cutEach(name, ops)
		}
	}},
	{Name: "SECINFO_NO_NAME cut at each byte", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", Harms: true, run: func(t *T) {
		t.cutEach("SECINFO_NO_NAME", []op{secInfoNoName(nfs4.SecInfoParent, new(nfs4.SecInfoRes))})
	}},
	{Name: "calls without a session cut at each byte", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR; RFC 5531, 9: GARBAGE_ARGS", run: func(t *T) {
		a := nfs4.ExchangeIDArgs{Owner: []byte(t.unique()), Impl: nfs4.ImplID{Set: true, Domain: []byte("domain"), Name: []byte("name")}}
		create := t.client().args()
		create.SecParms = nfs4.SecParms{None: true, Sys: true}
		for _, o := range []op{
			{nfs4.OpExchangeID, &a, new(nfs4.ExchangeIDRes)},
			{nfs4.OpCreateSession, &create, new(nfs4.CreateSessionRes)},
			{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: t.session().id, Dir: 3}, new(nfs4.BindConnRes)},
			destroySessionOp(t.session().id), destroyClientIDOp(1),
		} {
			whole := (&compound{minor: t.Minor, ops: []op{o}}).encode()
			c := t.dial()
			for n := range len(whole) {
				stat, results, err := c.exchange(nfs4.ProcCompound, whole[:n])
				require.NoError(t, err, "%s cut at byte %d", o.num, n)
				if stat != garbageArgs && assert.Zero(t, stat) {
					r := xdr.NewReader(results)
					var head nfs4.CompoundRes
					head.Decode(&r)
					assert.NotEqual(t, nfs4.OK, head.Status, "%s cut at byte %d", o.num, n)
				}
			}
		}
		t.want(nfs4.OK, putRootFH())
	}},
	{Name: "connections cut at each byte", By: "RFC 5531, 11", Heavy: true, run: func(t *T) {
		s := t.session()
		x := compound{tag: "a tag", minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
		for n := 0; n < 200; n += 7 {
			c := t.dial()
			msg := append(c.appendCall(nil, nfs4.ProcCompound), x.encode()...)
			b := append(xdr.AppendUint32(nil, lastFragment|uint32(len(msg))), msg...)
			_, err := c.nc.Write(b[:min(n, len(b)-1)])
			require.NoError(t, err)
			c.nc.Close()
		}
		s.want(nfs4.OK, putRootFH())
	}},
}
