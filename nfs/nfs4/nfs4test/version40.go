package nfs4test

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// minor1Only are the scenarios in NFSv4.0's families that test statuses,
// operations, claims or stateids of later minor versions.
var minor1Only = []string{
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

// linux40 replaces Scenario.Linux where Linux's server differs from its later
// minor versions in NFSv4.0.
var linux40 = map[string]string{
	"VERIFY and NVERIFY of each attribute":              "",
	"VERIFY and NVERIFY of all attributes of each type": "",
	"special stateids that are not allowed":             "NFS4ERR_STALE_STATEID",
}

// All40 returns the scenarios for NFSv4.0: its own, and those for later versions
// that also apply to it.
func All40() []Scenario {
	shared := slices.Concat(
		handles, lookups, security, getattrs, verifies, setattrs, opens, creations, stateids, data, creates, removals, renames, readdirs,
		byteRanges, shareModes, roots, values, rights,
	)
	shared = slices.DeleteFunc(shared, func(sc Scenario) bool {
		return sc.Since > nfs4.Minor1 || sc.Heavy || sc.Hostile || sc.Slow || slices.Contains(minor1Only, sc.Name)
	})
	for i := range shared {
		if differs, ok := linux40[shared[i].Name]; ok {
			shared[i].Linux = differs
		}
	}
	return slices.Concat(clientIDs, confirmations, ownerSequences, retries40, stateids40, plainOps, leases40, delegations40, exhaustions40, shared)
}

// expectStatus sends an NFSv4.0 COMPOUND, whose last operation must return the status.
func (c *conn) expectStatus(st nfs4.Status, ops ...op) *reply {
	return c.callCompound(ops...).checkStatus(c.t, len(ops), st)
}

// An owner is an NFSv4.0 open-owner, and a file that it has open.
type owner struct {
	*client
	name string
	seq  uint32 // the last operation's
	fh   nfs4.FH
	id   nfs4.StateID
}

// newClient40 creates an NFSv4.0 client.
func (t *T) newClient40() *client { return t.dial().newClientID40(t.uniqueName(), 1) }

// openSeqOp returns OPEN with the given sequence number.
func (c *client) openSeqOp(seqid uint32, a nfs4.OpenArgs, res *nfs4.OpenRes) op {
	a.SeqID, a.Owner.ClientID = seqid, c.id
	return op{nfs4.OpOpen, &a, res}
}

// openOrCreate returns the arguments of an OPEN that creates the file if
// necessary.
func openOrCreate(name, owner string, share, deny uint32) nfs4.OpenArgs {
	return withCreate(openName(name, owner, share, deny), nfs4.Unchecked, modeAttrs(0o666))
}

// newOwner opens a file in the scenario's directory with the owner's first
// sequence number, and confirms the open.
func (c *client) newOwner(name, file string, first, deny uint32) *owner {
	o := &owner{client: c, name: name, seq: first}
	var res nfs4.OpenRes
	var fh nfs4.HandleRes
	c.expectStatus(nfs4.OK, putFH(c.t.ownDir()), c.openSeqOp(first, openOrCreate(file, name, nfs4.ShareBoth, deny), &res), getFH(&fh))
	o.fh, o.id = slices.Clone(fh.Object), res.StateID
	if res.Flags&nfs4.OpenConfirm != 0 {
		var confirmed nfs4.StateIDRes
		o.expectStatus(nfs4.OK, putFH(o.fh), openConfirmOp(o.id, o.nextSeqID(), &confirmed))
		o.id = confirmed.StateID
	}
	return o
}

// nextSeqID returns the owner's next seqid.
func (o *owner) nextSeqID() uint32 {
	if o.seq++; o.seq == 0 {
		o.seq = 1
	}
	return o.seq
}

func (o *owner) openOp(seqid uint32, a nfs4.OpenArgs, res *nfs4.OpenRes) op {
	a.Owner.Owner = []byte(o.name)
	return o.openSeqOp(seqid, a, res)
}

func (o *owner) closeOp(seqid uint32, res *nfs4.StateIDRes) op {
	return op{nfs4.OpClose, &nfs4.CloseArgs{SeqID: seqid, StateID: o.id}, res}
}

func (o *owner) downgradeOp(seqid, share uint32, res *nfs4.StateIDRes) op {
	return op{nfs4.OpOpenDowngrade, &nfs4.OpenDowngradeArgs{StateID: o.id, SeqID: seqid, ShareAccess: share}, res}
}

// lockOp returns a LOCK that creates a lock-owner for the file.
func (o *owner) lockOp(seqid uint32, owner string, lockSeqID uint32, off, length uint64, res *nfs4.LockRes) op {
	return op{nfs4.OpLock, &nfs4.LockArgs{
		Type: nfs4.LockWrite, Offset: off, Length: length, New: true, OpenSeqID: seqid, StateID: o.id, LockSeqID: lockSeqID,
		Owner: nfs4.StateOwner{ClientID: o.client.id, Owner: []byte(owner)},
	}, res}
}

// relockOp returns a LOCK by an existing lock-owner.
func relockOp(id nfs4.StateID, seqid uint32, off, length uint64, res *nfs4.LockRes) op {
	return op{nfs4.OpLock, &nfs4.LockArgs{Type: nfs4.LockWrite, Offset: off, Length: length, StateID: id, LockSeqID: seqid}, res}
}

func unlockOp(id nfs4.StateID, seqid uint32, off, length uint64, res *nfs4.StateIDRes) op {
	return op{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockWrite, SeqID: seqid, StateID: id, Offset: off, Length: length}, res}
}

// lockTest returns a LOCKT for a lock-owner.
func lockTest(id uint64, owner string, off, length uint64, res *nfs4.LockTRes) op {
	return op{nfs4.OpLockT, &nfs4.LockTArgs{
		Type: nfs4.LockWrite, Offset: off, Length: length, Owner: nfs4.StateOwner{ClientID: id, Owner: []byte(owner)},
	}, res}
}

func releaseLockOwner(id uint64, owner string) op {
	return op{nfs4.OpReleaseLockOwner, &nfs4.ReleaseLockOwnerArgs{Owner: nfs4.StateOwner{ClientID: id, Owner: []byte(owner)}}, statusRes()}
}
