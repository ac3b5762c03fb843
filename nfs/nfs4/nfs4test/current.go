package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// created returns OPEN that creates a file of the scenario's directory.
func created(name string) op {
	return open(creating(openName(name, "a", nfs4.ShareBoth, 0), nfs4.Unchecked, mode(0o666)), new(nfs4.OpenRes))
}

// closeCurrent is CLOSE of the current stateid.
func closeCurrent() op { return closeFile(nfs4.CurrentStateID) }

// currents are scenarios of the current stateid.
var currents = []Scenario{
	{Name: "WRITE, READ and SETATTR by the current stateid", By: "RFC 8881, 16.2.3.1.2: they do not change it", run: func(t *T) {
		id := nfs4.CurrentStateID
		var res nfs4.ReadRes
		ops := []op{putFH(t.dir()), created("f")}
		for range 3 {
			ops = append(ops, write(id, 0, nfs4.Unstable, "0123456789", new(nfs4.WriteRes)), setAttr(id, sized(4)), read(id, 0, 100, &res))
		}
		t.client().session(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxOperations = 32 }).ready().want(nfs4.OK, append(ops, closeCurrent())...)
		assert.Equal(t, "0123", string(res.Data))
	}},
	{Name: "the current stateid after each operation that sets the filehandle", By: "RFC 8881, 16.2.3.1.2: it MUST be set to the all-zeros stateid", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		up := t.object(nfs4.TypeDir, "d")
		for name, ops := range map[string][]op{
			"PUTFH of the same file": {putFH(fh)},
			"LOOKUP":                 {putFH(t.dir()), lookup("f")},
			"PUTROOTFH":              {putRootFH()},
			"PUTPUBFH":               {{nfs4.OpPutPubFH, &void, status()}},
			"LOOKUPP":                {putFH(up), lookupP()},
			"CREATE":                 {putFH(t.dir()), create(nfs4.TypeDir, "new", mode(0o777))},
		} {
			all := append([]op{putFH(t.dir()), created("f")}, ops...)
			rep := t.session().do(append(all, closeCurrent())...)
			assert.Equal(t, nfs4.ErrBadStateID, rep.status, name)
			assert.Equal(t, nfs4.OpClose, rep.last, name)
		}
	}},
	{Name: "the current stateid after operations that keep the filehandle", By: "RFC 8881, 16.2.3.1.2: it MUST NOT be changed", run: func(t *T) {
		fh := t.file("g", "data")
		for name, o := range map[string]op{
			"GETATTR": getAttr(new(nfs4.GetAttrRes), nfs4.AttrType), "GETFH": getFH(new(nfs4.HandleRes)), "SAVEFH": saveFH(),
			"ACCESS": access(nfs4.AccessRead, new(nfs4.AccessRes)), "COMMIT": commit(0, 0, new(nfs4.CommitRes)),
			"VERIFY":       verify(nfs4.OpVerify, attrs(func(a *nfs4.Attrs) { a.Type = nfs4.TypeReg }, nfs4.AttrType)),
			"READ":         read(nfs4.AnonymousStateID, 0, 1, new(nfs4.ReadRes)),
			"SETATTR":      setAttr(nfs4.AnonymousStateID, mode(0o600)),
			"TEST_STATEID": testStateID(new(seen), fh.id),
		} {
			rep := t.session().do(putFH(t.dir()), created("f"), o, closeCurrent())
			assert.Equal(t, nfs4.OK, rep.status, name)
		}
	}},
	{Name: "SAVEFH and RESTOREFH of a stateid", By: "RFC 8881, 16.2.3.1.2: filehandle and stateid as a set", run: func(t *T) {
		id := nfs4.CurrentStateID
		t.want(nfs4.OK, putFH(t.dir()), created("f"), saveFH(), putFH(t.dir()), created("g"), closeCurrent(), restoreFH(),
			write(id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)), closeCurrent())
		t.want(nfs4.ErrBadStateID, putFH(t.dir()), saveFH(), created("f"), restoreFH(), read(id, 0, 1, new(nfs4.ReadRes)))
	}},
	{Name: "OPEN_DOWNGRADE of the current stateid", By: "RFC 8881, 16.2.3.1.2: it sets the current stateid", run: func(t *T) {
		both := openName("f", "a", nfs4.ShareBoth, 0)
		one := openName("f", "a", nfs4.ShareRead, 0)
		var res nfs4.StateIDRes
		t.want(nfs4.ErrOpenMode, putFH(t.dir()), open(creating(both, nfs4.Unchecked, mode(0o666)), new(nfs4.OpenRes)),
			putFH(t.dir()), open(one, new(nfs4.OpenRes)), downgrade(nfs4.CurrentStateID, nfs4.ShareRead, 0, &res),
			write(nfs4.CurrentStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		assert.EqualValues(t, 3, res.StateID.SeqID)
	}},
	{Name: "LOCK, READ and LOCKU by the current stateid", By: "RFC 8881, 16.2.3.1.2, Figure 5", Linux: "NFS4ERR_BAD_STATEID", run: func(t *T) {
		t.afterGrace()
		id := nfs4.CurrentStateID
		l := op{nfs4.OpLock, &nfs4.LockArgs{
			Type: nfs4.LockWrite, Length: 1024, New: true, StateID: id, Owner: nfs4.StateOwner{Owner: []byte("l")},
		}, new(nfs4.LockRes)}
		u := op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: id, Length: 1024}, new(nfs4.StateIDRes)}
		t.want(nfs4.OK, putFH(t.dir()), created("f"), l, write(id, 0, nfs4.Unstable, "data", new(nfs4.WriteRes)),
			read(id, 0, 1024, new(nfs4.ReadRes)), u, saveFH(), putRootFH(), restoreFH(), read(id, 0, 1024, new(nfs4.ReadRes)),
			freeStateID(id))
		t.want(nfs4.ErrBadStateID, putFH(t.dir()), created("f"), l, closeCurrent()) // it is the stateid of the locks
	}},
	{Name: "FREE_STATEID after CLOSE by the current stateid", By: "RFC 8881, 16.2.3.1.2, 18.38.3", run: func(t *T) {
		t.want(nfs4.ErrBadStateID, putFH(t.dir()), created("f"), closeCurrent(), freeStateID(nfs4.CurrentStateID))
	}},
	{Name: "operations by a current stateid that was not set", By: "RFC 8881, 16.2.3.1.2, Figure 6: MUST return NFS4ERR_BAD_STATEID", run: func(t *T) {
		t.afterGrace()
		fh := t.object(nfs4.TypeReg, "f")
		id := nfs4.CurrentStateID
		for _, o := range append(append(using(id), changing(id)...),
			op{nfs4.OpLock, &nfs4.LockArgs{Type: nfs4.LockRead, Length: 1, New: true, StateID: id, Owner: nfs4.StateOwner{Owner: []byte("l")}}, new(nfs4.LockRes)},
			op{nfs4.OpLock, &nfs4.LockArgs{Type: nfs4.LockRead, Length: 1, StateID: id}, new(nfs4.LockRes)},
			op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockRead, Length: 1, StateID: id}, new(nfs4.StateIDRes)},
			freeStateID(id)) {
			t.want(nfs4.ErrBadStateID, putFH(fh), o)
		}
	}},
	{Name: "TEST_STATEID of the current stateid", By: "RFC 8881, 18.48.3: special stateids are NFS4ERR_BAD_STATEID", run: func(t *T) {
		var res seen
		t.want(nfs4.OK, putFH(t.dir()), testStateID(&res, nfs4.CurrentStateID))
		assert.Equal(t, []nfs4.Status{nfs4.ErrBadStateID}, res.all)
	}},
}
