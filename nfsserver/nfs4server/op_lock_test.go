package nfs4server

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

const toEnd = math.MaxUint64

// lockArgs returns the arguments for a LOCK through an open.
func lockArgs(open nfs4.StateID, owner string, typ nfs4.LockType, offset, length uint64) *nfs4.LockArgs {
	open.SeqID = 0
	return &nfs4.LockArgs{Type: typ, Offset: offset, Length: length, New: true, StateID: open, Owner: nfs4.StateOwner{Owner: []byte(owner)}}
}

func (g *testServer) lockFile(fh nfs4.FH, a *nfs4.LockArgs) (nfs4.LockRes, nfs4.Status) {
	g.t.Helper()
	var res nfs4.LockRes
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpLock, a, &res})
	return res, st
}

func (g *testServer) testLock(fh nfs4.FH, owner string, typ nfs4.LockType, offset, length uint64) (nfs4.LockTRes, nfs4.Status) {
	g.t.Helper()
	var res nfs4.LockTRes
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpLockT, &nfs4.LockTArgs{Type: typ, Offset: offset, Length: length, Owner: nfs4.StateOwner{ClientID: 99, Owner: []byte(owner)}}, &res})
	return res, st
}

func (g *testServer) unlockFile(fh nfs4.FH, a *nfs4.LockUArgs) (nfs4.StateIDRes, nfs4.Status) {
	g.t.Helper()
	var res nfs4.StateIDRes
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpLockU, a, &res})
	return res, st
}

// newOtherClient returns a second client at the same server.
func (g *testServer) newOtherClient() *testServer {
	second := *g
	return second.connectAs("other")
}

// TestLockRanges checks the ranges in LOCK, LOCKT and LOCKU (R8881-18.10.3-1, R8881-18.10.3-2,
// R8881-3.1-2), and the ranges in LOCK4denied.
//
// R8881-18.10.3-6, R8881-18.12.3-1.
func TestLockRanges(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	other := g.newOtherClient()
	fh := g.makeFile("f", "content")
	mine, _, _ := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	theirs, _, _ := other.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	for _, r := range []struct {
		offset, length uint64
		want           nfs4.Status
	}{
		{0, 0, nfs4.ErrInval},
		{5, 0, nfs4.ErrInval},
		{toEnd, 0, nfs4.ErrInval},
		{1, toEnd - 1, nfs4.OK},
		{2, toEnd - 1, nfs4.ErrInval},
		{toEnd, 1, nfs4.ErrInval},
		{toEnd - 1, 1, nfs4.OK},
		{toEnd - 1, 2, nfs4.ErrInval},
		{1 << 63, 1 << 63, nfs4.ErrInval},
		{1 << 63, 1<<63 - 1, nfs4.OK},
		{1<<63 - 1, 1, nfs4.OK},
		{0, 1 << 63, nfs4.OK},
		{0, 1, nfs4.OK},
		{0, toEnd, nfs4.OK},
		{1, toEnd, nfs4.OK},
		{toEnd, toEnd, nfs4.OK},
	} {
		res, st := g.lockFile(fh, lockArgs(mine.StateID, "l", nfs4.LockWrite, r.offset, r.length))
		assert.Equal(t, r.want, st, "LOCK of %d at %d", r.length, r.offset)
		tested, st := g.testLock(fh, "l", nfs4.LockWrite, r.offset, r.length)
		assert.Equal(t, r.want, st, "LOCKT of %d at %d", r.length, r.offset)
		if r.want == nfs4.OK {
			last := r.offset
			if r.length != toEnd {
				last += r.length - 1
			}
			tested, st = other.testLock(fh, "l", nfs4.LockRead, last, toEnd)
			require.Equal(t, nfs4.ErrDenied, st)
			assert.Equal(t, nfs4.LockDenied{
				Offset: r.offset, Length: r.length, Type: nfs4.LockWrite,
				Owner: nfs4.StateOwner{ClientID: g.clientID(), Owner: []byte("l")},
			}, tested.Denied)
			denied, st := other.lockFile(fh, lockArgs(theirs.StateID, "l", nfs4.LockReadWait, last, toEnd))
			require.Equal(t, nfs4.ErrDenied, st)
			assert.Equal(t, tested.Denied, denied.Denied)
			if last := r.offset - 1; r.offset > 0 {
				_, st = other.testLock(fh, "l", nfs4.LockRead, last, 1)
				assert.Equal(t, nfs4.OK, st, "the byte before %d", r.offset)
			}
		}
		id := res.StateID
		if r.want != nfs4.OK {
			res, st = g.lockFile(fh, lockArgs(mine.StateID, "l", nfs4.LockWrite, 0, 1))
			require.Equal(t, nfs4.OK, st)
			id = res.StateID
		}
		_, st = g.unlockFile(fh, &nfs4.LockUArgs{Type: nfs4.LockReadWait, SeqID: 77, StateID: id, Offset: r.offset, Length: r.length})
		assert.Equal(t, r.want, st, "LOCKU of %d at %d", r.length, r.offset)
		_, st = g.unlockFile(fh, &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: nfs4.StateID{Other: id.Other}, Length: toEnd})
		require.Equal(t, nfs4.OK, st)
	}
}

// clientID returns the client's ID.
func (g *testServer) clientID() uint64 { return g.s.state.Session(g.session).ClientID() }

// TestLockTypes checks that waiting lock types get an immediate reply (R8881-9.6-1), and that
// seqids and client IDs in arguments do not matter (R8881-18.10.3-5, R8881-18.11.3-2).
//
// R8881-18.10.4-2, R8881-18.10.4-3, R8881-18.11.3-1.
func TestLockTypes(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	open, _, _ := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	exclusive := map[nfs4.LockType]bool{nfs4.LockRead: false, nfs4.LockReadWait: false, nfs4.LockWrite: true, nfs4.LockWriteWait: true}
	for have := range exclusive {
		a := lockArgs(open.StateID, "a", have, 0, 10)
		a.OpenSeqID, a.LockSeqID, a.Owner.ClientID = 12, 34, 56
		res, st := g.lockFile(fh, a)
		require.Equal(t, nfs4.OK, st)
		for want := range exclusive {
			expected := nfs4.OK
			if exclusive[have] || exclusive[want] {
				expected = nfs4.ErrDenied
			}
			_, st := g.testLock(fh, "b", want, 9, 1)
			assert.Equal(t, expected, st)
			_, st = g.testLock(fh, "a", want, 9, 1)
			assert.Equal(t, nfs4.OK, st, "an owner's own lock")
			second, st := g.lockFile(fh, lockArgs(open.StateID, "b", want, 9, 1))
			assert.Equal(t, expected, st)
			if st == nfs4.OK {
				_, st = g.unlockFile(fh, &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: second.StateID, Length: toEnd})
				assert.Equal(t, nfs4.OK, st)
			}
		}
		a = lockArgs(nfs4.StateID{Other: res.StateID.Other}, "", have, 20, 10)
		a.New, a.LockSeqID = false, 78
		res, st = g.lockFile(fh, a)
		require.Equal(t, nfs4.OK, st)
		_, st = g.unlockFile(fh, &nfs4.LockUArgs{Type: nfs4.LockWrite, StateID: res.StateID, Length: toEnd})
		require.Equal(t, nfs4.OK, st)
	}
	a := lockArgs(open.StateID, "a", nfs4.LockRead, 0, 10)
	a.Reclaim = true
	_, st := g.lockFile(fh, a)
	assert.Equal(t, nfs4.ErrNoGrace, st)
	a.Type, a.Reclaim = 5, false
	_, st = g.lockFile(fh, a)
	assert.Equal(t, nfs4.ErrBadXDR, st)
}

// TestLockObjects checks the statuses for objects other than regular files
// (R8881-18.10.3-7, R8881-15.1.2.6-1).
func TestLockObjects(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	g.makeFile("f", "content")
	open, fh, _ := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	locked, st := g.lockFile(fh, lockArgs(open.StateID, "l", nfs4.LockRead, 0, 1))
	require.Equal(t, nfs4.OK, st)
	var made nfs4.CreateRes
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("d")}, &made},
		putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeLnk, LinkData: []byte("f"), Name: []byte("l")}, &made},
		putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeFIFO, Name: []byte("p")}, &made})
	require.Equal(t, nfs4.OK, st)
	for name, want := range map[string]nfs4.Status{"": nfs4.ErrIsDir, "d": nfs4.ErrIsDir, "l": nfs4.ErrSymlink, "p": nfs4.ErrWrongType} {
		for _, s := range []step{
			{nfs4.OpLock, lockArgs(open.StateID, "l", nfs4.LockRead, 0, 1), new(nfs4.LockRes)},
			{nfs4.OpLockT, &nfs4.LockTArgs{Type: nfs4.LockRead, Length: 1}, new(nfs4.LockTRes)},
			{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: locked.StateID, Length: 1}, new(nfs4.StateIDRes)},
		} {
			at := []step{putRootStep(), lookupStep("x"), lookupStep(name), s}
			if name == "" {
				at = []step{putRootStep(), s}
			}
			st, n := g.sendSteps(at...)
			assert.Equal(t, want, st, "%s of %q", s.op, name)
			assert.Equal(t, len(at), n)
			st, n = g.sendSteps(s)
			assert.Equal(t, nfs4.ErrNoFileHandle, st)
			assert.Equal(t, 1, n)
		}
	}
	g.makeFile("other", "content")
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("other"), step{nfs4.OpLock, lockArgs(open.StateID, "l", nfs4.LockRead, 0, 1), new(nfs4.LockRes)})
	assert.Equal(t, nfs4.ErrBadStateID, st, "another file")
}

// TestLockCurrentStateID checks a COMPOUND whose operations use the stateid from the one before
// (R8881-16.2.3.1.2-1, R8881-8.2.3-8).
func TestLockCurrentStateID(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	var opened nfs4.OpenRes
	var locked, again nfs4.LockRes
	var unlocked nfs4.StateIDRes
	var read nfs4.ReadRes
	first := lockArgs(nfs4.CurrentStateID, "l", nfs4.LockWrite, 0, 10)
	first.StateID = nfs4.CurrentStateID
	second := &nfs4.LockArgs{Type: nfs4.LockRead, Offset: 5, Length: 1, StateID: nfs4.CurrentStateID}
	st, n := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate), &opened},
		step{nfs4.OpLock, first, &locked},
		step{nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.CurrentStateID, Count: 100}, &read},
		step{nfs4.OpSaveFH, &void, newStatusRes()},
		step{nfs4.OpLock, second, &again},
		step{nfs4.OpRestoreFH, &void, newStatusRes()}, // with the stateid before that LOCK
		step{nfs4.OpLockU, &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: nfs4.CurrentStateID, Length: toEnd}, &unlocked},
		step{nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: nfs4.StateID{}}, newStatusRes()})
	assert.Equal(t, nfs4.ErrBadStateID, st)
	assert.Equal(t, 10, n)
	assert.Equal(t, "content", string(read.Data))
	assert.NotEqual(t, opened.StateID.Other, locked.StateID.Other)
	for i, id := range []nfs4.StateID{locked.StateID, again.StateID, unlocked.StateID} {
		assert.Equal(t, nfs4.StateID{SeqID: uint32(i + 1), Other: locked.StateID.Other}, id)
	}
	for _, id := range []nfs4.StateID{nfs4.CurrentStateID, nfs4.AnonymousStateID, nfs4.BypassStateID} {
		first.StateID = id
		_, st = g.lockFile(fh, first)
		assert.Equal(t, nfs4.ErrBadStateID, st)
		_, st = g.unlockFile(fh, &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: id, Length: 1})
		assert.Equal(t, nfs4.ErrBadStateID, st)
	}
}

// TestLockInput checks READ and WRITE with lock stateids, which have their open's access
// (R8881-9.1.2-5), that locks do not stop other clients' I/O (R8881-9.1.2-2), and the release
// of locks (R8881-18.2.3-3, R8881-18.38.3-1).
//
// R8881-18.10.4-1.
func TestLockInput(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	open, _, _ := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	reader, _, _ := g.openName(openArgs("reader", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	_, st := g.lockFile(fh, lockArgs(reader.StateID, "l", nfs4.LockWrite, 0, 1))
	assert.Equal(t, nfs4.ErrOpenMode, st)
	weak, st := g.lockFile(fh, lockArgs(reader.StateID, "l", nfs4.LockRead, 100, 1))
	require.Equal(t, nfs4.OK, st)
	strong, st := g.lockFile(fh, lockArgs(open.StateID, "k", nfs4.LockWrite, 0, toEnd))
	assert.Equal(t, nfs4.ErrDenied, st)
	assert.EqualValues(t, 100, strong.Denied.Offset)
	strong, st = g.lockFile(fh, lockArgs(open.StateID, "k", nfs4.LockWrite, 0, 100))
	require.Equal(t, nfs4.OK, st)
	for _, id := range []nfs4.StateID{weak.StateID, {Other: weak.StateID.Other}, strong.StateID} {
		data, st := g.readFile(fh, id)
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, "content", data)
	}
	assert.Equal(t, nfs4.ErrOpenMode, g.writeFile(fh, weak.StateID, "CON"))
	assert.Equal(t, nfs4.OK, g.writeFile(fh, strong.StateID, "CON"))
	assert.Equal(t, nfs4.OK, g.writeFile(fh, nfs4.AnonymousStateID, "Con"))
	assert.Equal(t, nfs4.ErrBadStateID, g.closeFile(fh, weak.StateID))
	free := func(id nfs4.StateID) nfs4.Status {
		st, _ := g.sendSteps(step{nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: id}, newStatusRes()})
		return st
	}
	assert.Equal(t, nfs4.ErrLocksHeld, free(weak.StateID))
	gone, st := g.unlockFile(fh, &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: weak.StateID, Length: toEnd})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.OK, free(gone.StateID))
	assert.Equal(t, nfs4.ErrBadStateID, free(gone.StateID))
	assert.Equal(t, nfs4.OK, g.closeFile(fh, open.StateID))
	_, st = g.unlockFile(fh, &nfs4.LockUArgs{Type: nfs4.LockRead, StateID: strong.StateID, Length: toEnd})
	assert.Equal(t, nfs4.ErrBadStateID, st, "CLOSE has ended the lock stateid")
	_, st = g.testLock(fh, "x", nfs4.LockWrite, 0, toEnd)
	assert.Equal(t, nfs4.OK, st)
}

// TestLockLongOwner checks the longest lock-owner in LOCK4denied, and replies
// without space for it.
func TestLockLongOwner(t *testing.T) {
	g := newTestServer(t)
	g.cached = 700
	g.connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	open, _, _ := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	owner := strings.Repeat("o", 1024)
	_, st := g.lockFile(fh, lockArgs(open.StateID, owner, nfs4.LockWrite, 0, 1))
	require.Equal(t, nfs4.OK, st)
	res, st := g.testLock(fh, "x", nfs4.LockRead, 0, 1)
	assert.Equal(t, nfs4.ErrDenied, st)
	assert.Equal(t, owner, string(res.Denied.Owner.Owner))
	cached := func(s step) (nfs4.Status, int) {
		g.seq++
		return g.sendRaw(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq, CacheThis: true}, new(nfs4.SequenceRes)}, putStep(fh), s)
	}
	st, n := cached(step{nfs4.OpLock, lockArgs(open.StateID, "x", nfs4.LockRead, 0, 1), new(nfs4.LockRes)})
	assert.Equal(t, nfs4.ErrRepTooBigToCache, st)
	assert.Equal(t, 3, n)
	st, _ = cached(step{nfs4.OpLock, lockArgs(open.StateID, "x", nfs4.LockRead, 1, 1), new(nfs4.LockRes)})
	assert.Equal(t, nfs4.OK, st)
	res, st = g.testLock(fh, "x", nfs4.LockRead, 0, 1)
	assert.Equal(t, nfs4.ErrDenied, st)
	assert.Equal(t, owner, string(res.Denied.Owner.Owner))
}
