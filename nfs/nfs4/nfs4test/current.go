package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// openCreateOp returns an OPEN that creates a file.
func openCreateOp(name string) op {
	return openOp(withCreate(openName(name, "a", nfs4.ShareBoth, 0), nfs4.Unchecked, modeAttrs(0o666)), new(nfs4.OpenRes))
}

// closeCurrentOp returns CLOSE with the current stateid.
func closeCurrentOp() op { return closeFile(nfs4.CurrentStateID) }

// currents are scenarios for the current stateid.
var currents = []Scenario{
	{Name: "WRITE, READ and SETATTR by the current stateid", By: "RFC 8881, 16.2.3.1.2: they do not change it", run: func(t *T) {
		id := nfs4.CurrentStateID
		var res nfs4.ReadRes
		ops := []op{putFH(t.ownDir()), openCreateOp("f")}
		for range 3 {
			ops = append(ops, writeOp(id, 0, nfs4.Unstable, "0123456789", new(nfs4.WriteRes)), setAttr(id, sizeAttrs(4)), readOp(id, 0, 100, &res))
		}
		t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxOperations = 32 }).completeReclaim().expectStatus(nfs4.OK, append(ops, closeCurrentOp())...)
		assert.Equal(t, "0123", string(res.Data))
	}},
	{Name: "the current stateid after each operation that sets the filehandle", By: "RFC 8881, 16.2.3.1.2: it MUST be set to the all-zeros stateid", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		up := t.newObject(nfs4.TypeDir, "d")
		for name, ops := range map[string][]op{
			"PUTFH of the same file": {putFH(fh)},
			"LOOKUP":                 {putFH(t.ownDir()), lookupOp("f")},
			"PUTROOTFH":              {putRootFH()},
			"PUTPUBFH":               {{nfs4.OpPutPubFH, &void, statusRes()}},
			"LOOKUPP":                {putFH(up), lookupP()},
			"CREATE":                 {putFH(t.ownDir()), createOp(nfs4.TypeDir, "new", modeAttrs(0o777))},
		} {
			all := append([]op{putFH(t.ownDir()), openCreateOp("f")}, ops...)
			rep := t.ownSession().callWithSequence(append(all, closeCurrentOp())...)
			assert.Equal(t, nfs4.ErrBadStateID, rep.status, name)
			assert.Equal(t, nfs4.OpClose, rep.lastOp, name)
		}
	}},
	{Name: "the current stateid after operations that keep the filehandle", By: "RFC 8881, 16.2.3.1.2: it MUST NOT be changed", run: func(t *T) {
		fh := t.newFile("g", "data")
		for name, o := range map[string]op{
			"GETATTR": getAttr(new(nfs4.GetAttrRes), nfs4.AttrType), "GETFH": getFH(new(nfs4.HandleRes)), "SAVEFH": saveFH(),
			"ACCESS": accessOp(nfs4.AccessRead, new(nfs4.AccessRes)), "COMMIT": commitOp(0, 0, new(nfs4.CommitRes)),
			"VERIFY":       verifyOp(nfs4.OpVerify, newAttrs(func(a *nfs4.Attrs) { a.Type = nfs4.TypeReg }, nfs4.AttrType)),
			"READ":         readOp(nfs4.AnonymousStateID, 0, 1, new(nfs4.ReadRes)),
			"SETATTR":      setAttr(nfs4.AnonymousStateID, modeAttrs(0o600)),
			"TEST_STATEID": testStateID(new(testedStateIDs), fh.id),
		} {
			rep := t.ownSession().callWithSequence(putFH(t.ownDir()), openCreateOp("f"), o, closeCurrentOp())
			assert.Equal(t, nfs4.OK, rep.status, name)
		}
	}},
	{Name: "SAVEFH and RESTOREFH of a stateid", By: "RFC 8881, 16.2.3.1.2: filehandle and stateid as a set", run: func(t *T) {
		id := nfs4.CurrentStateID
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), openCreateOp("f"), saveFH(), putFH(t.ownDir()), openCreateOp("g"), closeCurrentOp(), restoreFH(),
			writeOp(id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)), closeCurrentOp())
		t.expectStatus(nfs4.ErrBadStateID, putFH(t.ownDir()), saveFH(), openCreateOp("f"), restoreFH(), readOp(id, 0, 1, new(nfs4.ReadRes)))
	}},
	{Name: "OPEN_DOWNGRADE of the current stateid", By: "RFC 8881, 16.2.3.1.2: it sets the current stateid", run: func(t *T) {
		both := openName("f", "a", nfs4.ShareBoth, 0)
		one := openName("f", "a", nfs4.ShareRead, 0)
		var res nfs4.StateIDRes
		t.expectStatus(nfs4.ErrOpenMode, putFH(t.ownDir()), openOp(withCreate(both, nfs4.Unchecked, modeAttrs(0o666)), new(nfs4.OpenRes)),
			putFH(t.ownDir()), openOp(one, new(nfs4.OpenRes)), downgradeOp(nfs4.CurrentStateID, nfs4.ShareRead, 0, &res),
			writeOp(nfs4.CurrentStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		assert.EqualValues(t, 3, res.StateID.SeqID)
	}},
	{Name: "LOCK, READ and LOCKU by the current stateid", By: "RFC 8881, 16.2.3.1.2, Figure 5", Linux: "NFS4ERR_BAD_STATEID", run: func(t *T) {
		t.awaitGraceEnd()
		id := nfs4.CurrentStateID
		l := op{nfs4.OpLock, &nfs4.LockArgs{
			Type: nfs4.LockWrite, Length: 1024, New: true, StateID: id, Owner: nfs4.StateOwner{Owner: []byte("l")},
		}, new(nfs4.LockRes)}
		u := op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: id, Length: 1024}, new(nfs4.StateIDRes)}
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), openCreateOp("f"), l, writeOp(id, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)),
			readOp(id, 0, 1024, new(nfs4.ReadRes)), u, saveFH(), putRootFH(), restoreFH(), readOp(id, 0, 1024, new(nfs4.ReadRes)),
			freeStateID(id))
		t.expectStatus(nfs4.ErrBadStateID, putFH(t.ownDir()), openCreateOp("f"), l, closeCurrentOp()) // it is the locks' stateid
	}},
	{Name: "FREE_STATEID after CLOSE by the current stateid", By: "RFC 8881, 16.2.3.1.2, 18.38.3", run: func(t *T) {
		t.expectStatus(nfs4.ErrBadStateID, putFH(t.ownDir()), openCreateOp("f"), closeCurrentOp(), freeStateID(nfs4.CurrentStateID))
	}},
	{Name: "operations by a current stateid that was not set", By: "RFC 8881, 16.2.3.1.2, Figure 6: MUST return NFS4ERR_BAD_STATEID", run: func(t *T) {
		t.awaitGraceEnd()
		fh := t.newObject(nfs4.TypeReg, "f")
		id := nfs4.CurrentStateID
		for _, o := range append(append(dataOps(id), stateChangingOps(id)...),
			op{nfs4.OpLock, &nfs4.LockArgs{Type: nfs4.LockRead, Length: 1, New: true, StateID: id, Owner: nfs4.StateOwner{Owner: []byte("l")}}, new(nfs4.LockRes)},
			op{nfs4.OpLock, &nfs4.LockArgs{Type: nfs4.LockRead, Length: 1, StateID: id}, new(nfs4.LockRes)},
			op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockRead, Length: 1, StateID: id}, new(nfs4.StateIDRes)},
			freeStateID(id)) {
			t.expectStatus(nfs4.ErrBadStateID, putFH(fh), o)
		}
	}},
	{Name: "TEST_STATEID of the current stateid", By: "RFC 8881, 18.48.3: special stateids are NFS4ERR_BAD_STATEID", run: func(t *T) {
		var res testedStateIDs
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), testStateID(&res, nfs4.CurrentStateID))
		assert.Equal(t, []nfs4.Status{nfs4.ErrBadStateID}, res.statuses)
	}},
}
