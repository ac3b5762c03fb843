package nfs4server

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// stateIDSteps are the operations that take a stateid, each with one.
func stateIDSteps(id nfs4.StateID) map[string]step {
	return map[string]step{
		"READ":           {nfs4.OpRead, &nfs4.ReadArgs{StateID: id, Count: 1}, new(nfs4.ReadRes)},
		"WRITE":          {nfs4.OpWrite, &nfs4.WriteArgs{StateID: id, Data: []byte("x")}, new(nfs4.WriteRes)},
		"SETATTR":        {nfs4.OpSetAttr, &nfs4.SetAttrArgs{StateID: id, Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 7}}, new(nfs4.SetAttrRes)},
		"OPEN_DOWNGRADE": {nfs4.OpOpenDowngrade, &nfs4.OpenDowngradeArgs{StateID: id, ShareAccess: nfs4.ShareBoth}, new(nfs4.StateIDRes)},
		"CLOSE":          {nfs4.OpClose, &nfs4.CloseArgs{StateID: id}, new(nfs4.StateIDRes)},
	}
}

// TestStateIDChecks checks the order in which a stateid is checked (R8881-8.2.4-4): a stateid
// that does not exist, and another client's (R8881-8.2-1) or another file's stateid
// (R8881-8.2-3), with any seqid; then the seqid (R8881-8.2.2-2).
func TestStateIDChecks(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	other := *g
	other.connectAs("other")
	opened, elsewhere, st := g.openName(openArgs("o", "elsewhere", nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	theirs, _, st := other.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	for range 2 { // seqid 3, with one before and one after
		_, _, st = g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
		require.Equal(t, nfs4.OK, st)
		_, _, st = g.openName(openArgs("o", "elsewhere", nfs4.ShareBoth, 0, nfs4.NoCreate))
		require.Equal(t, nfs4.OK, st)
		_, _, st = other.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
		require.Equal(t, nfs4.OK, st)
	}
	mine, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	forged := mine.StateID
	forged.Other[11] ^= 1
	with := func(id nfs4.StateID, seqid uint32) nfs4.StateID { return nfs4.StateID{SeqID: seqid, Other: id.Other} }
	for seqid := range uint32(5) {
		want := map[uint32]nfs4.Status{1: nfs4.ErrOldStateID, 2: nfs4.ErrOldStateID, 4: nfs4.ErrBadStateID}[seqid]
		for name, s := range stateIDSteps(with(forged, seqid)) {
			st, _ := g.sendSteps(putStep(fh), s)
			assert.Equal(t, nfs4.ErrBadStateID, st, "%s with a forged stateid", name)
		}
		for name, s := range stateIDSteps(with(theirs.StateID, seqid)) {
			st, _ := g.sendSteps(putStep(fh), s)
			assert.Equal(t, nfs4.ErrBadStateID, st, "%s with another's stateid", name)
		}
		for name, s := range stateIDSteps(with(opened.StateID, seqid)) {
			st, _ := g.sendSteps(putStep(fh), s)
			assert.Equal(t, nfs4.ErrBadStateID, st, "%s with another file's stateid", name)
		}
		if seqid == 0 || seqid == 3 {
			continue // right
		}
		for name, s := range stateIDSteps(with(mine.StateID, seqid)) {
			st, _ := g.sendSteps(putStep(fh), s)
			assert.Equal(t, want, st, "%s with seqid %d", name, seqid)
		}
	}
	assert.EqualValues(t, 3, mine.StateID.SeqID)
	assert.Equal(t, nfs4.OK, g.closeFile(elsewhere, with(opened.StateID, 0)))
}

// TestSpecialStateIDs checks every combination of zeros and ones.
func TestSpecialStateIDs(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	var zeros, ones nfs4.StateID
	for i := range ones.Other {
		ones.Other[i] = 0xff
	}
	const last = ^uint32(0)
	for _, seqid := range []uint32{0, 1, 2, 5, last - 1, last} {
		for _, id := range []nfs4.StateID{zeros, ones} {
			id.SeqID = seqid
			special := id == nfs4.AnonymousStateID || id == nfs4.BypassStateID
			for name, s := range stateIDSteps(id) {
				want := nfs4.ErrBadStateID // R8881-8.2.3-3, R8881-8.2.3-4, R8881-8.2.3-5
				if special && name != "CLOSE" && name != "OPEN_DOWNGRADE" {
					want = nfs4.OK // R8881-8.2.3-1, R8881-8.2.3-2, R8881-8.2.3-8
				}
				st, _ := g.sendSteps(putStep(fh), s)
				assert.Equal(t, want, st, "%s with %v", name, id)
			}
			if !special {
				continue
			}
			mode := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o600}
			st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{StateID: id, Attrs: mode}, new(nfs4.SetAttrRes)})
			assert.Equal(t, nfs4.OK, st, "R8881-8.2.6-1: SETATTR of the mode")
		}
	}
	denying, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead, nfs4.ShareBoth, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	for _, id := range []nfs4.StateID{nfs4.AnonymousStateID, nfs4.BypassStateID} {
		for name, s := range stateIDSteps(id) {
			want := nfs4.ErrLocked // R8881-8.2.3-1, R8881-9.1.2-1, R8881-9.1.2-6
			switch {
			case name == "CLOSE" || name == "OPEN_DOWNGRADE":
				continue
			case name == "READ" && id == nfs4.BypassStateID:
				want = nfs4.OK // R8881-8.2.3-2
			}
			st, _ := g.sendSteps(putStep(fh), s)
			assert.Equal(t, want, st, "%s with %v", name, id)
		}
	}
	for name, s := range stateIDSteps(denying.StateID) { // R8881-9.1.2-3
		if name == "WRITE" || name == "SETATTR" {
			st, _ := g.sendSteps(putStep(fh), s)
			assert.Equal(t, nfs4.ErrOpenMode, st, name)
		}
	}
	require.Equal(t, nfs4.OK, g.closeFile(fh, denying.StateID))
	res, _, st := g.openName(openArgs("o", "f", nfs4.ShareWrite, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	_, st = g.readFile(fh, res.StateID)
	assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrOpenMode}, st, "R8881-9.1.2-4")
}

// TestSeqIDOfCurrent checks that the current stateid represents the newest state, but for CLOSE
// and OPEN_DOWNGRADE the one that was set (R8881-8.2.3-3), and that only its file accepts it
// (R8881-8.2.3-7).
func TestSeqIDOfCurrent(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	g.makeFile("f", "content")
	fh := g.makeFile("g", "content")
	opening := func() step {
		return step{nfs4.OpOpen, openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate), new(nfs4.OpenRes)}
	}
	front := func() []step {
		return []step{
			putRootStep(), lookupStep("x"), opening(),
			{nfs4.OpSaveFH, &void, newStatusRes()},
			putRootStep(), lookupStep("x"), opening(),
			{nfs4.OpRestoreFH, &void, newStatusRes()},
		}
	}
	for name, s := range stateIDSteps(nfs4.CurrentStateID) {
		want := nfs4.OK
		if name == "CLOSE" || name == "OPEN_DOWNGRADE" {
			want = nfs4.ErrOldStateID
		}
		st, _ := g.sendSteps(append(front(), s)...)
		assert.Equal(t, want, st, name)
		st, _ = g.sendSteps(putRootStep(), lookupStep("x"), opening(), putStep(fh), s)
		assert.Equal(t, nfs4.ErrBadStateID, st, "%s of another file", name)
		st, _ = g.sendSteps(putStep(fh), s)
		assert.Equal(t, nfs4.ErrBadStateID, st, "%s without an OPEN", name)
	}
}

// TestOwnersOfClients checks that equal owners from two clients are two (R8881-9.1.1-1), and
// that an owner has one open for a file, which one CLOSE ends (R8881-9.9-1).
func TestOwnersOfClients(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	other := *g
	other.connectAs("other")
	first, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	theirs, _, st := other.openName(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	assert.NotEqual(t, first.StateID.Other, theirs.StateID.Other)
	second, _, st := g.openName(openArgs("o", "f", nfs4.ShareWrite, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.StateID{SeqID: 2, Other: first.StateID.Other}, second.StateID)
	_, st = g.readFile(fh, second.StateID)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.OK, g.writeFile(fh, second.StateID, "x"), "open for both")
	assert.Equal(t, nfs4.OK, g.closeFile(fh, second.StateID))
	for _, id := range []nfs4.StateID{first.StateID, second.StateID} {
		_, st = g.readFile(fh, id)
		assert.Equal(t, nfs4.ErrBadStateID, st)
	}
	_, st = other.readFile(fh, theirs.StateID)
	assert.Equal(t, nfs4.OK, st)
}

// TestParallelOpens checks that one owner's concurrent OPENs, by two names for a file, are one
// open whose seqids show their order (R8881-9.10-1).
func TestParallelOpens(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSaveFH, &void, newStatusRes()}, putRootStep(), lookupStep("x"), step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte("second")}, new(nfs4.ChangeRes)})
	require.Equal(t, nfs4.OK, st)
	var mu sync.Mutex
	var seqids []uint32
	others := map[[nfs4.OtherSize]byte]bool{}
	var group sync.WaitGroup
	for slot := range uint32(8) {
		group.Go(func() {
			name := []string{"f", "second"}[slot%2]
			res := new(nfs4.OpenRes)
			seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Slot: slot, HighestSlotID: 7, Sequence: 1}, new(nfs4.SequenceRes)}
			if slot == 0 {
				seq.args.(*nfs4.SequenceArgs).Sequence = g.seq + 1
			}
			st, _ := g.sendRaw(seq, putRootStep(), lookupStep("x"), step{nfs4.OpOpen, openArgs("o", name, nfs4.ShareRead, 0, nfs4.NoCreate), res})
			assert.Equal(t, nfs4.OK, st)
			mu.Lock()
			defer mu.Unlock()
			seqids = append(seqids, res.StateID.SeqID)
			others[res.StateID.Other] = true
		})
	}
	group.Wait()
	slices.Sort(seqids)
	assert.Equal(t, []uint32{1, 2, 3, 4, 5, 6, 7, 8}, seqids)
	assert.Len(t, others, 1)
}

// TestNoDelegations checks that no delegation survives its client
// (R8881-10.2.1-1), and that without Config.Holders no OPEN gets one, and none can
// be returned (R8881-10.2-1).
func TestNoDelegations(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	st, _ := g.sendSteps(step{nfs4.OpDelegPurge, make(cutArgs, 8), newStatusRes()})
	assert.Equal(t, nfs4.ErrNotSupp, st)
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpDelegReturn, make(cutArgs, 16), newStatusRes()})
	assert.Equal(t, nfs4.ErrBadStateID, st)
	for _, want := range []uint32{nfs4.WantNoPreference, nfs4.WantReadDeleg, nfs4.WantWriteDeleg, nfs4.WantAnyDeleg, nfs4.WantNoDeleg} {
		res, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead|want, 0, nfs4.NoCreate))
		assert.Equal(t, nfs4.OK, st)
		assert.Contains(t, []nfs4.Delegation{nfs4.DelegateNone, nfs4.DelegateNoneExt}, res.Delegation.Type)
	}
}
