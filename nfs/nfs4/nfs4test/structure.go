package nfs4test

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// structure are scenarios for COMPOUND itself.
var structure = []Scenario{
	{Name: "NULL", By: "RFC 8881, 16.1", run: func(t *T) {
		stat, results, err := t.dial().callProc(nfs4.ProcNull, nil)
		require.NoError(t, err)
		assert.Zero(t, stat)
		assert.Empty(t, results)
	}},
	{Name: "an undefined procedure", By: "RFC 5531, 9: PROC_UNAVAIL", run: func(t *T) {
		stat, _, err := t.dial().callProc(2, nil)
		require.NoError(t, err)
		assert.EqualValues(t, rpcmsg.ProcUnavail, stat)
	}},
	{Name: "an empty COMPOUND", By: "RFC 8881, 16.2.3", run: func(t *T) {
		rep := t.dial().callCompound()
		assert.Equal(t, nfs4.OK, rep.status)
		assert.Zero(t, rep.resultCount)
	}},
	{Name: "tags", By: "RFC 8881, 16.2.3: the tag is returned", Linux: "GARBAGE_ARGS for long ones", run: func(t *T) {
		s := t.ownSession()
		for _, tag := range []string{"", "x", "four", strings.Repeat("long ", 200)} {
			x := compound{tag: tag, minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
			stat, results, err := s.callProc(nfs4.ProcCompound, x.encodeArgs())
			require.NoError(t, err)
			require.Zero(t, stat)
			rep := x.decodeResults(t, results).checkStatus(t, 2, nfs4.OK)
			assert.Equal(t, tag, string(rep.tag))
			s.seq[0]++
		}
	}},
	{Name: "a tag that is not UTF-8", By: "RFC 8881, 16.2.3: it SHOULD be UTF-8; NFS4ERR_INVAL, or it is returned", run: func(t *T) {
		s := t.ownSession()
		x := compound{tag: "\xff\xfe\x00", minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
		stat, results, err := s.callProc(nfs4.ProcCompound, x.encodeArgs())
		require.NoError(t, err)
		require.Zero(t, stat)
		rep := x.decodeResults(t, results)
		if rep.status != nfs4.ErrInval {
			rep.checkStatus(t, 2, nfs4.OK)
			assert.Equal(t, x.tag, string(rep.tag))
		}
	}},
	{Name: "minor versions that nobody defines", By: "RFC 8881, 15.1.3.2: NFS4ERR_MINOR_VERS_MISMATCH, and no results", run: func(t *T) {
		for _, minor := range []uint32{3, 100, 1 << 31} {
			rep := t.dial().callMinor(minor, putRootFH())
			assert.Equal(t, nfs4.ErrMinorVersMismatch, rep.status)
			assert.Zero(t, rep.resultCount)
		}
	}},
	{Name: "operations of minor version 0 alone", By: "RFC 8881, 15.2: those that MUST NOT be implemented are NFS4ERR_NOTSUPP", Linux: "RENEW is NFS4ERR_STALE_CLIENTID", run: func(t *T) {
		for _, num := range []nfs4.Op{
			nfs4.OpOpenConfirm, nfs4.OpRenew, nfs4.OpSetClientID, nfs4.OpSetClientIDConfirm, nfs4.OpReleaseLockOwner,
		} {
			args := raw(make([]byte, 64))
			t.expectStatus(nfs4.ErrNotSupp, putRootFH(), op{num, &args, statusRes()})
		}
	}},
	{Name: "undefined operations", By: "RFC 8881, 15.1.3.4: NFS4ERR_OP_ILLEGAL", run: func(t *T) {
		for _, num := range []nfs4.Op{0, 1, 2, 200, 10043, nfs4.OpIllegal, 10045, 1 << 31} {
			rep := t.ownSession().callWithSequence(putRootFH(), op{num, &void, statusRes()}, putRootFH()).checkStatus(t, 3, nfs4.ErrOpIllegal)
			assert.Equal(t, nfs4.OpIllegal, rep.lastOp)
		}
		rep := t.dial().callCompound(op{200, &void, statusRes()})
		assert.Contains(t, []nfs4.Status{nfs4.ErrOpIllegal, nfs4.ErrOpNotInSession}, rep.status)
	}},
	{Name: "operations of minor version 2 in minor version 1", By: "RFC 8178, 4.2: NFS4ERR_OP_ILLEGAL", run: func(t *T) {
		s := t.ownSession()
		for num := nfs4.OpAllocate; num < nfs4.NumOp; num++ {
			s.callMinor(nfs4.Minor1, s.sequenceOp(0), putRootFH(), op{num, &void, statusRes()}).checkStatus(t, 3, nfs4.ErrOpIllegal)
			s.seq[0]++
		}
	}},
	{Name: "optional operations", By: "RFC 8881, 17: NFS4ERR_NOTSUPP, unless the server has them", run: func(t *T) {
		f := t.newFile("f", "data")
		for _, num := range []nfs4.Op{
			nfs4.OpDelegPurge, nfs4.OpOpenAttr, nfs4.OpGetDirDelegation, nfs4.OpGetDeviceInfo, nfs4.OpGetDeviceList,
			nfs4.OpLayoutCommit, nfs4.OpLayoutGet, nfs4.OpLayoutReturn, nfs4.OpWantDelegation,
		} {
			args := raw(make([]byte, 200))
			res := raw(nil)
			rep := t.ownSession().callWithSequence(putFH(f.fh), op{num, &args, &res})
			assert.NotEqual(t, nfs4.ErrOpIllegal, rep.status, "%s", num)
		}
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
	}},
	{Name: "operations of minor version 2", By: "RFC 7862, 13: operations that are not there are NFS4ERR_NOTSUPP, not NFS4ERR_OP_ILLEGAL", run: func(t *T) {
		s := t.ownSession()
		t.ownDir()
		for num := nfs4.OpAllocate; num < nfs4.NumOp; num++ {
			args := raw(make([]byte, 200))
			res := raw(nil)
			rep := s.callMinor(nfs4.Minor2, s.sequenceOp(0), putFH(t.ownDir()), op{num, &args, &res})
			s.seq[0]++
			assert.NotEqual(t, nfs4.ErrOpIllegal, rep.status, "%s", num)
			assert.NotEqual(t, nfs4.OK, rep.status, "%s with zeros", num)
		}
	}},
	{Name: "a COMPOUND stops at the first error", By: "RFC 8881, 16.2.3", run: func(t *T) {
		t.ownSession().callWithSequence(putFH(t.ownDir()), lookupOp("missing"), createOp(nfs4.TypeDir, "d", modeAttrs(0o755))).checkStatus(t, 3, nfs4.ErrNoEnt)
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("d"))
	}},
	{Name: "what was done before an error stays", By: "RFC 8881, 16.2.3: there is no rollback", run: func(t *T) {
		t.ownSession().callWithSequence(putFH(t.ownDir()), createOp(nfs4.TypeDir, "d", modeAttrs(0o755)), lookupOp("missing")).checkStatus(t, 4, nfs4.ErrNoEnt)
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), lookupOp("d"))
	}},
	{Name: "a COMPOUND of no known length", By: "RFC 8881, 16.2.3; RFC 5531, 9: GARBAGE_ARGS", run: func(t *T) {
		for _, n := range []uint32{2, 1000, 1 << 31, 1<<32 - 1} {
			b := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendString(nil, ""), t.Minor), n)
			b = nfs4.AppendOp(b, nfs4.OpPutRootFH, &void)
			_, _, err := t.dial().callProc(nfs4.ProcCompound, b)
			require.NoError(t, err)
		}
		t.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "bytes after a COMPOUND", By: "RFC 5531, 9", run: func(t *T) {
		s := t.ownSession()
		x := compound{tag: "", minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
		_, _, err := s.overConn(t.dial()).callProc(nfs4.ProcCompound, append(x.encodeArgs(), 1, 2, 3, 4))
		require.NoError(t, err)
		other := t.newClient().newSession()
		other.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "a record of many fragments", By: "RFC 5531, 11", run: func(t *T) {
		s := t.ownSession()
		x := compound{tag: "a tag", minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
		msg := append(s.appendCall(nil, nfs4.ProcCompound), x.encodeArgs()...)
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
		_, results, err := s.awaitReply(s.xid)
		require.NoError(t, err)
		x.decodeResults(t, results).checkStatus(t, 2, nfs4.OK)
	}},
	{Name: "calls of another version", By: "RFC 5531, 9: PROG_MISMATCH", run: func(t *T) {
		c := t.dial()
		msg := c.appendCall(nil, 0)
		msg[19] = 7 // vers
		c.sendRecord(msg)
		stat, _, err := c.awaitReply(c.xid)
		require.NoError(t, err)
		assert.EqualValues(t, rpcmsg.ProgMismatch, stat)
	}},
}

// compoundsToTruncate returns COMPOUNDs for truncateEach.
func (t *T) compoundsToTruncate() map[string][]op {
	f := t.newFile("f", "data")
	return map[string][]op{
		"LOOKUP": {putFH(t.ownDir()), lookupOp("f"), getFH(new(nfs4.HandleRes))},
		"GETATTR and SETATTR": {
			putFH(f.fh), getAttr(new(nfs4.GetAttrRes), nfs4.AttrType, nfs4.AttrOwner, nfs4.AttrTimeModify), setAttr(f.id, modeAttrs(0o640)),
		},
		"WRITE and READ": {putFH(f.fh), writeOp(f.id, 0, nfs4.Unstable, "0123456", new(nfs4.WriteRes)), readOp(f.id, 0, 100, new(nfs4.ReadRes))},
		"OPEN and CLOSE": {
			putFH(t.ownDir()), openOp(withCreate(openName("f", "a", 3, 0), nfs4.Unchecked, modeAttrs(0o644)), new(nfs4.OpenRes)), closeFile(nfs4.StateID{}).withCurrentStateID(),
		},
		"READDIR": {putFH(t.ownDir()), readDir(nfs4.ReadDirArgs{DirCount: 1000, MaxCount: 1000, Request: nfs4.BitmapOf(nfs4.AttrType)}, new(listing))},
		"ACCESS and VERIFY": {
			putFH(f.fh), accessOp(nfs4.AccessRead, new(nfs4.AccessRes)), verifyOp(nfs4.OpVerify, newAttrs(func(a *nfs4.Attrs) { a.Type = nfs4.TypeReg }, nfs4.AttrType)),
		},
		"stateids": {testStateID(new(testedStateIDs), f.id, f.id), freeStateID(f.id)},
	}
}

// truncateEach sends a COMPOUND truncated at each byte. Each part has its own
// session, because it may use a slot or not.
func (t *T) truncateEach(name string, ops []op) {
	whole := (&compound{tag: "a tag", minor: t.Minor, ops: append([]op{t.ownSession().sequenceOp(0)}, ops...)}).encodeArgs()
	owner := t.newClient()
	owner.newSession().completeReclaim()
	for n := range len(whole) {
		c := owner.newSession()
		part := append([]byte(nil), whole[:n]...)
		if at := 4 + 8 + 4 + 4 + 4; n >= at+nfs4.SessionIDSize+4 {
			copy(part[at:], c.id[:])
			part[at+nfs4.SessionIDSize+3] = 1 // the first sequence ID
		}
		stat, results, err := c.callProc(nfs4.ProcCompound, part)
		require.NoError(t, err, "%s cut at byte %d", name, n)
		if stat != garbageArgs && assert.Zero(t, stat) {
			r := xdr.NewReader(results)
			var head nfs4.CompoundRes
			head.Decode(&r)
			assert.NotEqual(t, nfs4.OK, head.Status, "%s cut at byte %d", name, n)
		}
		c.callWithoutSequence(nfs4.OK, destroySessionOp(c.id))
	}
	t.expectStatus(nfs4.OK, putRootFH()) // the server still works
}

// truncations are scenarios for truncated messages.
var truncations = []Scenario{
	{Name: "COMPOUNDs cut at each byte", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR; RFC 5531, 9: GARBAGE_ARGS", Heavy: true, run: func(t *T) {
		for name, ops := range t.compoundsToTruncate() {
			t.truncateEach(name, ops)
		}
	}},
	{Name: "SECINFO_NO_NAME cut at each byte", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR", Harms: true, run: func(t *T) {
		t.truncateEach("SECINFO_NO_NAME", []op{secInfoNoName(nfs4.SecInfoParent, new(nfs4.SecInfoRes))})
	}},
	{Name: "calls without a session cut at each byte", By: "RFC 8881, 15.1.1.1: NFS4ERR_BADXDR; RFC 5531, 9: GARBAGE_ARGS", run: func(t *T) {
		a := nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName()), Impl: nfs4.ImplID{Set: true, Domain: []byte("domain"), Name: []byte("name")}}
		create := t.newClient().createSessionArgs()
		create.SecParms = nfs4.SecParms{None: true, Sys: true}
		for _, o := range []op{
			{nfs4.OpExchangeID, &a, new(nfs4.ExchangeIDRes)},
			{nfs4.OpCreateSession, &create, new(nfs4.CreateSessionRes)},
			{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: t.ownSession().id, Dir: 3}, new(nfs4.BindConnRes)},
			destroySessionOp(t.ownSession().id), destroyClientIDOp(1),
		} {
			whole := (&compound{minor: t.Minor, ops: []op{o}}).encodeArgs()
			c := t.dial()
			for n := range len(whole) {
				stat, results, err := c.callProc(nfs4.ProcCompound, whole[:n])
				require.NoError(t, err, "%s cut at byte %d", o.num, n)
				if stat != garbageArgs && assert.Zero(t, stat) {
					r := xdr.NewReader(results)
					var head nfs4.CompoundRes
					head.Decode(&r)
					assert.NotEqual(t, nfs4.OK, head.Status, "%s cut at byte %d", o.num, n)
				}
			}
		}
		t.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "connections cut at each byte", By: "RFC 5531, 11", Heavy: true, run: func(t *T) {
		s := t.ownSession()
		x := compound{tag: "a tag", minor: t.Minor, ops: []op{s.sequenceOp(0), putRootFH()}}
		for n := 0; n < 200; n += 7 {
			c := t.dial()
			msg := append(c.appendCall(nil, nfs4.ProcCompound), x.encodeArgs()...)
			b := append(xdr.AppendUint32(nil, lastFragment|uint32(len(msg))), msg...)
			_, err := c.nc.Write(b[:min(n, len(b)-1)])
			require.NoError(t, err)
			c.nc.Close()
		}
		s.expectStatus(nfs4.OK, putRootFH())
	}},
}
