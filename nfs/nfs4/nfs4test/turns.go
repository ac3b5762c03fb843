package nfs4test

import (
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// confirmations are scenarios for OPEN_CONFIRM.
var confirmations = []Scenario{
	{Name: "OPEN by an owner that is new", By: "RFC 7530, 16.18.5: it requires OPEN_CONFIRM, which uses the next number and advances the stateid", run: func(t *T) {
		c := t.newClient40()
		for _, first := range []uint32{0, 1, 77, 1<<32 - 3} { // 9.1.7: any number may be first
			var res nfs4.OpenRes
			var fh nfs4.HandleRes
			name := string(rune('a' + first%26))
			c.expectStatus(nfs4.OK, putFH(t.ownDir()), c.openSeqOp(first, openOrCreate(name, name, nfs4.ShareBoth, 0), &res), getFH(&fh))
			assert.EqualValues(t, 1, res.StateID.SeqID)
			assert.NotZero(t, res.Flags&nfs4.OpenConfirm)
			assert.NotZero(t, res.Flags&nfs4.OpenLocktypePosix)
			assert.Equal(t, nfs4.DelegateNone, res.Delegation.Type, "9.1.11")
			var confirmed nfs4.StateIDRes
			next := first + 1
			c.expectStatus(nfs4.OK, putFH(fh.Object), openConfirmOp(res.StateID, next, &confirmed))
			assert.Equal(t, res.StateID.Other, confirmed.StateID.Other)
			assert.EqualValues(t, 2, confirmed.StateID.SeqID)
			c.expectStatus(nfs4.OK, putFH(fh.Object), readOp(confirmed.StateID, 0, 1, new(nfs4.ReadRes)))
			var again nfs4.StateIDRes
			c.expectStatus(nfs4.OK, putFH(fh.Object), openConfirmOp(res.StateID, next, &again)) // a retry
			assert.Equal(t, confirmed, again)
			c.expectStatus(nfs4.ErrBadStateID, putFH(fh.Object), openConfirmOp(confirmed.StateID, next+1, &again))
			var more nfs4.OpenRes
			c.expectStatus(nfs4.OK, putFH(t.ownDir()), c.openSeqOp(next+1, openOrCreate(name, name, nfs4.ShareRead, 0), &more))
			assert.Zero(t, more.Flags&nfs4.OpenConfirm, "the owner is known")
			assert.EqualValues(t, 3, more.StateID.SeqID)
		}
	}},
	{Name: "the number after 4294967295", By: "RFC 7530, 9.1.3: it is 1", Linux: "it is 0", run: func(t *T) {
		o := t.newClient40().newOwner("a", "f", 1<<32-2, 0)
		assert.EqualValues(t, 1<<32-1, o.seq)
		o.expectStatus(nfs4.ErrBadSeqID, putFH(o.fh), o.downgradeOp(0, nfs4.ShareBoth, new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), o.downgradeOp(1, nfs4.ShareBoth, new(nfs4.StateIDRes)))
	}},
	{Name: "a stateid that OPEN_CONFIRM has yet to confirm", By: "RFC 7530, 16.18.5: NFS4ERR_BAD_STATEID", Linux: "CLOSE is executed", run: func(t *T) {
		c := t.newClient40()
		var res nfs4.OpenRes
		var fh nfs4.HandleRes
		c.expectStatus(nfs4.OK, putFH(t.ownDir()), c.openSeqOp(5, openOrCreate("f", "a", nfs4.ShareBoth, 0), &res), getFH(&fh))
		o := &owner{client: c, name: "a", seq: 5, fh: fh.Object, id: res.StateID}
		c.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), readOp(o.id, 0, 1, new(nfs4.ReadRes)))
		c.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), writeOp(o.id, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		c.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), o.closeOp(6, new(nfs4.StateIDRes)))
		c.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), o.closeOp(9, new(nfs4.StateIDRes))) // whatever the number
		c.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), o.downgradeOp(6, nfs4.ShareRead, new(nfs4.StateIDRes)))
		c.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), o.lockOp(6, "l", 1, 0, 1, new(nfs4.LockRes)))
		c.expectStatus(nfs4.OK, putFH(o.fh), openConfirmOp(o.id, 6, new(nfs4.StateIDRes)))
	}},
	{Name: "another OPEN before OPEN_CONFIRM", By: "RFC 7530, 16.18.5: it replaces the first", run: func(t *T) {
		c := t.newClient40()
		deny := openOrCreate("f", "a", nfs4.ShareBoth, nfs4.ShareBoth)
		var one, two nfs4.OpenRes
		var fh, fh2 nfs4.HandleRes
		c.expectStatus(nfs4.OK, putFH(t.ownDir()), c.openSeqOp(5, deny, &one), getFH(&fh))
		c.expectStatus(nfs4.OK, putFH(t.ownDir()), c.openSeqOp(9, openOrCreate("g", "a", nfs4.ShareBoth, 0), &two), getFH(&fh2))
		assert.NotZero(t, two.Flags&nfs4.OpenConfirm)
		c.expectStatus(nfs4.ErrBadStateID, putFH(fh.Object), openConfirmOp(one.StateID, 10, new(nfs4.StateIDRes)))
		c.expectStatus(nfs4.OK, putFH(fh2.Object), openConfirmOp(two.StateID, 10, new(nfs4.StateIDRes)))
		other := t.newClient40()
		other.newOwner("b", "f", 1, nfs4.ShareBoth) // the first has no state left
	}},
	{Name: "OPEN_CONFIRM with a wrong number", By: "RFC 7530, 16.18.4: the open is released", Linux: "the open stays", run: func(t *T) {
		c := t.newClient40()
		var res nfs4.OpenRes
		var fh nfs4.HandleRes
		c.expectStatus(nfs4.OK, putFH(t.ownDir()), c.openSeqOp(5, openOrCreate("f", "a", nfs4.ShareBoth, nfs4.ShareBoth), &res), getFH(&fh))
		c.expectStatus(nfs4.ErrBadSeqID, putFH(fh.Object), openConfirmOp(res.StateID, 8, new(nfs4.StateIDRes)))
		c.expectStatus(nfs4.ErrBadStateID, putFH(fh.Object), openConfirmOp(res.StateID, 6, new(nfs4.StateIDRes)))
		t.newClient40().newOwner("b", "f", 1, nfs4.ShareBoth)
	}},
}

// ownerSequences are scenarios for owners' sequence numbers.
var ownerSequences = []Scenario{
	{Name: "the numbers of each operation", By: "RFC 7530, 9.1.7: L+1 is executed, L is a retry, all else is NFS4ERR_BAD_SEQID", run: func(t *T) {
		c := t.newClient40()
		t.awaitGraceEnd()
		o := c.newOwner("a", "f", 10, 0)
		var locked nfs4.LockRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 70, 0, 10, &locked))
		lockSeq := uint32(70)
		for _, x := range []struct {
			name string
			lock bool
			op   func(seqid uint32) op
		}{
			{"OPEN", false, func(n uint32) op { return o.openOp(n, openName("f", "", nfs4.ShareRead, 0), new(nfs4.OpenRes)) }},
			{"LOCK", true, func(n uint32) op { return relockOp(locked.StateID, n, 20, 10, &locked) }},
			{"LOCKU", true, func(n uint32) op { return unlockOp(locked.StateID, n, 0, 5, new(nfs4.StateIDRes)) }},
			{"OPEN_DOWNGRADE", false, func(n uint32) op { return o.downgradeOp(n, nfs4.ShareBoth, new(nfs4.StateIDRes)) }},
			{"CLOSE", false, func(n uint32) op { return o.closeOp(n, new(nfs4.StateIDRes)) }},
		} {
			last, at := &o.seq, o.fh
			if x.lock {
				last = &lockSeq
			}
			if x.name == "OPEN" {
				at = t.ownDir()
			}
			l := *last
			for _, wrong := range []uint32{l - 1, l + 2, 0, l + 1<<31} {
				rep := o.callCompound(putFH(at), x.op(wrong))
				assert.Equal(t, nfs4.ErrBadSeqID, rep.status, "%s, %d after %d", x.name, wrong, l)
			}
			call := x.op(l + 1)
			one := o.expectStatus(nfs4.OK, putFH(at), call)
			*last = l + 1
			two := t.dial().expectStatus(nfs4.OK, putFH(at), call)
			assert.Equal(t, one.raw, two.raw, "the same results, over another connection")
			switch res := call.res.(type) {
			case *nfs4.OpenRes:
				o.id = res.StateID
			case *nfs4.StateIDRes:
				if x.lock {
					locked.StateID = res.StateID
				} else {
					o.id = res.StateID
				}
			}
		}
	}},
	{Name: "a retry as another operation", By: "RFC 7530, 9.1.9: NFS4ERR_BAD_SEQID", run: func(t *T) {
		t.awaitGraceEnd()
		o := t.newClient40().newOwner("a", "f", 10, 0)
		n := o.nextSeqID()
		var res nfs4.StateIDRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.downgradeOp(n, nfs4.ShareBoth, &res))
		o.id = res.StateID
		o.expectStatus(nfs4.ErrBadSeqID, putFH(o.fh), o.closeOp(n, new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.ErrBadSeqID, putFH(o.fh), o.lockOp(n, "l", 1, 0, 1, new(nfs4.LockRes)))
		o.expectStatus(nfs4.ErrBadSeqID, putFH(t.ownDir()), o.openOp(n, openName("f", "", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
	}, Linux: "it answers with the reply to the other operation"},
	{Name: "operations that fail use up their numbers", By: "RFC 7530, 9.1.7: but for eight errors", Linux: "LOCK of a bad range does not", run: func(t *T) {
		t.awaitGraceEnd()
		c := t.newClient40()
		o, other := c.newOwner("a", "f", 10, 0), t.newClient40().newOwner("b", "f", 10, 0)
		other.openDenying(t, nfs4.ShareRead)
		other.expectStatus(nfs4.OK, putFH(other.fh), other.lockOp(other.nextSeqID(), "l", 1, 100, 10, new(nfs4.LockRes)))
		// These statuses of OPEN, LOCK and the others use up the number.
		o.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("none", "", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		o.expectStatus(nfs4.ErrInval, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("", "", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		o.expectStatus(nfs4.ErrExist, putFH(t.ownDir()), o.openOp(o.nextSeqID(), withCreate(openName("f", "", nfs4.ShareRead, 0), nfs4.Guarded, modeAttrs(0o666)), new(nfs4.OpenRes)))
		o.expectStatus(nfs4.ErrShareDenied, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openName("denied", "", nfs4.ShareRead, 0), new(nfs4.OpenRes)))
		o.expectStatus(nfs4.ErrInval, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 1, 5, 0, new(nfs4.LockRes)))
		o.expectStatus(nfs4.ErrDenied, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 2, 100, 1, new(nfs4.LockRes)))
		o.expectStatus(nfs4.ErrInval, putFH(o.fh), o.downgradeOp(o.nextSeqID(), 0, new(nfs4.StateIDRes)))
		// These do not.
		o.expectStatus(nfs4.ErrNoFileHandle, o.closeOp(o.seq+1, new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.ErrBadSeqID, putFH(o.fh), o.closeOp(o.seq+5, new(nfs4.StateIDRes)))
		cut := raw((&nfs4.CloseArgs{SeqID: o.seq + 1, StateID: o.id}).AppendTo(nil)[:18])
		o.expectStatus(nfs4.ErrBadXDR, putFH(o.fh), op{nfs4.OpClose, &cut, statusRes()})
		bad := *o
		bad.id.Other[11]++
		o.expectStatus(nfs4.ErrBadStateID, putFH(o.fh), bad.closeOp(o.seq+1, new(nfs4.StateIDRes)))

		var locked nfs4.LockRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 3, 0, 10, &locked))
		o.expectStatus(nfs4.ErrInval, putFH(o.fh), unlockOp(locked.StateID, 4, 5, 0, new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.ErrDenied, putFH(o.fh), relockOp(locked.StateID, 5, 100, 1, new(nfs4.LockRes)))
		o.expectStatus(nfs4.ErrInval, putFH(o.fh), relockOp(locked.StateID, 6, 100, 0, new(nfs4.LockRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), unlockOp(locked.StateID, 7, 0, toEOF, new(nfs4.StateIDRes)))
		old := *o
		var res nfs4.StateIDRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.downgradeOp(o.nextSeqID(), nfs4.ShareBoth, &res))
		o.id = res.StateID
		o.expectStatus(nfs4.ErrOldStateID, putFH(o.fh), old.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes)))
	}},
	{Name: "a new lock-owner", By: "RFC 7530, 9.1.9: only the open-owner's number decides; 16.10.5", run: func(t *T) {
		t.awaitGraceEnd()
		o := t.newClient40().newOwner("a", "f", 10, 0)
		var one nfs4.LockRes
		o.expectStatus(nfs4.ErrBadSeqID, putFH(o.fh), o.lockOp(o.seq+2, "l", 1, 0, 10, &one))
		call := o.lockOp(o.nextSeqID(), "l", 1234, 0, 10, &one)
		first := o.expectStatus(nfs4.OK, putFH(o.fh), call)
		assert.EqualValues(t, 1, one.StateID.SeqID)
		assert.Equal(t, first.raw, o.expectStatus(nfs4.OK, putFH(o.fh), call).raw, "a retry")
		var more nfs4.LockRes
		o.expectStatus(nfs4.ErrBadSeqID, putFH(o.fh), relockOp(one.StateID, 1236, 20, 1, &more))
		o.expectStatus(nfs4.OK, putFH(o.fh), relockOp(one.StateID, 1235, 20, 1, &more))
		assert.Equal(t, one.StateID.Other, more.StateID.Other)
		assert.EqualValues(t, 2, more.StateID.SeqID)
	}},
	{Name: "a lock-owner that another file knows", By: "RFC 7530, 9.1.9: both numbers count", run: func(t *T) {
		t.awaitGraceEnd()
		c := t.newClient40()
		f, g := c.newOwner("a", "f", 10, 0), c.newOwner("b", "g", 10, 0)
		f.expectStatus(nfs4.OK, putFH(f.fh), f.lockOp(f.nextSeqID(), "l", 5, 0, 10, new(nfs4.LockRes)))
		g.expectStatus(nfs4.ErrBadSeqID, putFH(g.fh), g.lockOp(g.seq+1, "l", 9, 0, 10, new(nfs4.LockRes)))
		g.expectStatus(nfs4.ErrBadSeqID, putFH(g.fh), g.lockOp(g.seq+1, "l", 5, 0, 10, new(nfs4.LockRes))) // one is a retry, the other is not
		g.expectStatus(nfs4.OK, putFH(g.fh), g.lockOp(g.nextSeqID(), "l", 6, 0, 10, new(nfs4.LockRes)))
	}},
	{Name: "a lock-owner that claims to be new to a file", By: "RFC 7530, 16.10.5: NFS4ERR_BAD_SEQID", Linux: "it is granted", run: func(t *T) {
		t.awaitGraceEnd()
		o := t.newClient40().newOwner("a", "f", 10, 0)
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "l", 5, 0, 10, new(nfs4.LockRes)))
		o.expectStatus(nfs4.ErrBadSeqID, putFH(o.fh), o.lockOp(o.seq+1, "l", 6, 20, 10, new(nfs4.LockRes)))
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "m", 6, 20, 10, new(nfs4.LockRes)))
	}},
	{Name: "open-owners and lock-owners of one name", By: "RFC 7530, 9.1: two name spaces", run: func(t *T) {
		t.awaitGraceEnd()
		o := t.newClient40().newOwner("same", "f", 10, 0)
		var locked nfs4.LockRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.lockOp(o.nextSeqID(), "same", 500, 0, 10, &locked))
		o.expectStatus(nfs4.OK, putFH(o.fh), relockOp(locked.StateID, 501, 20, 1, new(nfs4.LockRes)))
		var res nfs4.StateIDRes
		o.expectStatus(nfs4.OK, putFH(o.fh), o.downgradeOp(o.nextSeqID(), nfs4.ShareBoth, &res))
		o.id = res.StateID
		var conflict nfs4.LockTRes
		other := t.newClient40()
		other.expectStatus(nfs4.ErrDenied, putFH(o.fh), lockTest(other.id, "other", 0, 1, &conflict))
		assert.Equal(t, nfs4.StateOwner{ClientID: o.client.id, Owner: []byte("same")}, conflict.Denied.Owner)
		o.expectStatus(nfs4.OK, putFH(o.fh), o.closeOp(o.nextSeqID(), new(nfs4.StateIDRes))) // 9.1, 9.10: its locks end with it
		other.expectStatus(nfs4.OK, putFH(o.fh), lockTest(other.id, "other", 0, 1, &conflict))
	}},
}

// openDenying opens the file "denied" with a deny mode.
func (o *owner) openDenying(t *T, deny uint32) {
	o.expectStatus(nfs4.OK, putFH(t.ownDir()), o.openOp(o.nextSeqID(), openOrCreate("denied", "", nfs4.ShareBoth, deny), new(nfs4.OpenRes)))
}
