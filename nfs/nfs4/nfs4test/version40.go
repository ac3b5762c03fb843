package nfs4test

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// sessionful are scenarios, of families that version 4.0 has too, which are about
// later minor versions: their statuses, operations, claims and stateids.
var sessionful = []string{
	"operations without a current filehandle", "operations without a saved filehandle", "a COMPOUND begins without filehandles",
	"SECINFO", "SECINFO_NO_NAME", "SECINFO_NO_NAME of the root's parent", "SECINFO_NO_NAME of a file's parent",
	"SECINFO_NO_NAME of an undefined style", "GETATTR of the required attributes", "SETATTR of the size of what is no file",
	"OPEN gives a stateid", "OPEN again by the same owner", "OPEN by the filehandle", "OPEN with each access and deny mode",
	"OPEN that conflicts with share reservations", "OPEN of what is no file", "OPEN without permission",
	"OPEN whose wish for a delegation is not granted", "OPEN sets the current filehandle and stateid",
	"OPEN claims a delegation that is not there", "OPEN creates", "OPEN with EXCLUSIVE4", "OPEN with EXCLUSIVE4_1",
	"OPEN with EXCLUSIVE4_1 and attributes beyond suppattr_exclcreat", "a seqid of 0", "stateids that the server never gave",
	"the stateid of another client", "the current stateid moves with the filehandle", "OPEN_DOWNGRADE lets others in", "TEST_STATEID",
	"TEST_STATEID of another client's stateid", "TEST_STATEID of more stateids than the message has", "FREE_STATEID",
	"FREE_STATEID of the current stateid", "READ of what is no file", "WRITE to what is no file", "COMMIT of what is no file",
	"READLINK of what is no link", "LOCK by stateids that cannot be", "FREE_STATEID of locks", "DESTROY_CLIENTID frees locks that are left",
	"a restart of the client frees its locks", "LOCKT of what is no file", "LOCK of the current stateid",
	"OPEN that creates by a filehandle", "OPEN by the filehandle of a directory", "OPEN by owners of each length",
	"deny modes add up over the OPENs of an owner", "CLOSE lets others in", "OPEN that is denied changes nothing",
	"OPEN with EXCLUSIVE4_1 and attributes", "LOCK by a lock-owner that has locks, with the stateid of the open",
	"SETATTR of some bits of the mode", "exclusive creation over objects of each type",
}

// linux40 are the differences of Linux's server by version 4.0 where they are not
// those by later versions.
var linux40 = map[string]string{
	"VERIFY and NVERIFY of each attribute":              "",
	"VERIFY and NVERIFY of all attributes of each type": "",
	"special stateids that are not allowed":             "NFS4ERR_STALE_STATEID",
}

// All40 returns the scenarios for version 4.0: its own, and those of later versions
// that hold for it too.
func All40() []Scenario {
	shared := slices.Concat(
		handles, lookups, security, getattrs, verifies, setattrs, opens, creations, stateids, data, makes, removals, renames, readdirs,
		byteRanges, sharing, roots, values, rights,
	)
	shared = slices.DeleteFunc(shared, func(sc Scenario) bool {
		return sc.Since > nfs4.Minor1 || sc.Heavy || sc.Hostile || sc.Slow || slices.Contains(sessionful, sc.Name)
	})
	for i := range shared {
		if differs, ok := linux40[shared[i].Name]; ok {
			shared[i].Linux = differs
		}
	}
	return slices.Concat(clientIDs, confirmations, turns, retries40, stateids40, plainOps, leases40, delegations40, hogs40, shared)
}

// want makes a COMPOUND of version 4.0, which must end with a status at its last
// operation.
func (c *conn) want(st nfs4.Status, ops ...op) *reply {
	return c.compound(ops...).is(c.t, len(ops), st)
}

// An owner is an open-owner of version 4.0, and a file that it has open.
type owner struct {
	*client
	name string
	seq  uint32 // of the last operation
	fh   nfs4.FH
	id   nfs4.StateID
}

// plain makes a client of version 4.0.
func (t *T) plain() *client { return t.dial().client40(t.unique(), 1) }

// numbered returns OPEN with a sequence number.
func (c *client) numbered(seqid uint32, a nfs4.OpenArgs, res *nfs4.OpenRes) op {
	a.SeqID, a.Owner.ClientID = seqid, c.id
	return op{nfs4.OpOpen, &a, res}
}

// making returns OPEN of a file that is created if there is none.
func making(name, owner string, share, deny uint32) nfs4.OpenArgs {
	return creating(openName(name, owner, share, deny), nfs4.Unchecked, mode(0o666))
}

// owner opens a file of the scenario's directory for an owner with a first
// sequence number, and confirms it.
func (c *client) newOwner(name, file string, first, deny uint32) *owner {
	o := &owner{client: c, name: name, seq: first}
	var res nfs4.OpenRes
	var fh nfs4.HandleRes
	c.want(nfs4.OK, putFH(c.t.dir()), c.numbered(first, making(file, name, nfs4.ShareBoth, deny), &res), getFH(&fh))
	o.fh, o.id = slices.Clone(fh.Object), res.StateID
	if res.Flags&nfs4.OpenConfirm != 0 {
		var confirmed nfs4.StateIDRes
		o.want(nfs4.OK, putFH(o.fh), openConfirm(o.id, o.next(), &confirmed))
		o.id = confirmed.StateID
	}
	return o
}

// next returns the next sequence number, which is used up.
func (o *owner) next() uint32 {
	if o.seq++; o.seq == 0 {
		o.seq = 1
	}
	return o.seq
}

func (o *owner) openOp(seqid uint32, a nfs4.OpenArgs, res *nfs4.OpenRes) op {
	a.Owner.Owner = []byte(o.name)
	return o.numbered(seqid, a, res)
}

func (o *owner) closeOp(seqid uint32, res *nfs4.StateIDRes) op {
	return op{nfs4.OpClose, &nfs4.CloseArgs{SeqID: seqid, StateID: o.id}, res}
}

func (o *owner) downgradeOp(seqid, share uint32, res *nfs4.StateIDRes) op {
	return op{nfs4.OpOpenDowngrade, &nfs4.OpenDowngradeArgs{StateID: o.id, SeqID: seqid, ShareAccess: share}, res}
}

// newLock returns LOCK by a lock-owner that is new to the file.
func (o *owner) newLock(seqid uint32, owner string, lockSeqID uint32, off, length uint64, res *nfs4.LockRes) op {
	return op{nfs4.OpLock, &nfs4.LockArgs{
		Type: nfs4.LockWrite, Offset: off, Length: length, New: true, OpenSeqID: seqid, StateID: o.id, LockSeqID: lockSeqID,
		Owner: nfs4.StateOwner{ClientID: o.client.id, Owner: []byte(owner)},
	}, res}
}

func lockMore(id nfs4.StateID, seqid uint32, off, length uint64, res *nfs4.LockRes) op {
	return op{nfs4.OpLock, &nfs4.LockArgs{Type: nfs4.LockWrite, Offset: off, Length: length, StateID: id, LockSeqID: seqid}, res}
}

func unlockOp(id nfs4.StateID, seqid uint32, off, length uint64, res *nfs4.StateIDRes) op {
	return op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockWrite, SeqID: seqid, StateID: id, Offset: off, Length: length}, res}
}

// lockTest returns LOCKT for a lock-owner.
func lockTest(id uint64, owner string, off, length uint64, res *nfs4.LockTRes) op {
	return op{nfs4.OpLockT, &nfs4.LockTArgs{
		Type: nfs4.LockWrite, Offset: off, Length: length, Owner: nfs4.StateOwner{ClientID: id, Owner: []byte(owner)},
	}, res}
}

func releaseLockOwner(id uint64, owner string) op {
	return op{nfs4.OpReleaseLockOwner, &nfs4.ReleaseLockOwnerArgs{Owner: nfs4.StateOwner{ClientID: id, Owner: []byte(owner)}}, status()}
}
