package nfs4state

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A fakeParts is a File for tests: a list of parts.
type fakeParts struct{ has uint32 }

// newPartsState returns a testState whose Files are fakeParts, and which counts
// each part's release.
func newPartsState(t *testing.T) (w *testState, ended *[4]int) {
	w = newTestState(t)
	ended = new([4]int)
	w.config.Release = func(file any) {
		if w.isLocked() {
			t.Error("Release is called with the State locked")
			return
		}
		p := file.(*fakeParts)
		for bit := range uint32(4) {
			if p.has&(1<<bit) != 0 {
				ended[bit]++
			}
		}
		p.has = 0
	}
	w.config.Merge = func(file, other any) {
		if file, other, ok := asParts(file, other); ok {
			other.has, file.has = other.has&file.has, file.has|other.has
		}
	}
	w.config.Narrow = func(file any, access uint32) any {
		p := file.(*fakeParts)
		rest := &fakeParts{p.has &^ access}
		p.has &= access
		return rest
	}
	return w, ended
}

func asParts(a, b any) (*fakeParts, *fakeParts, bool) {
	x, ok := a.(*fakeParts)
	y, also := b.(*fakeParts)
	return x, y, ok && also
}

// TestFilesEndOnce checks that the Files of OPENs end with the last stateid that
// needs them, and only once.
func TestFilesEndOnce(t *testing.T) {
	w, ended := newPartsState(t)
	s := w.newTestClient("c")
	file := &fakeParts{1}
	_, first := w.mustOpen(s, "o", "f", 1, 0, file)
	w.mustOpen(s, "o", "f", 1, 0, &fakeParts{1})
	want(t, "a further OPEN for the same", *ended, [4]int{1, 0})
	w.mustOpen(s, "o", "f", 2, 0, &fakeParts{2})
	want(t, "a further OPEN for more", *ended, [4]int{1, 0})
	want(t, "the File", file.has, 3)
	want(t, "an OPEN that fails", w.openStatus(s, "o", "f", 3, 2), nfs4.ErrShareDenied)
	_, _, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: 3, Deny: 2}, &fakeParts{3})
	want(t, "an OPEN that fails", status, nfs4.ErrShareDenied)
	want(t, "what it brought", *ended, [4]int{2, 1})
	id := nfs4.StateID{Other: first.Other}
	id, status = w.Downgrade(s, &id, 2, 0)
	want(t, "OPEN_DOWNGRADE", status, nfs4.OK)
	want(t, "what it gave up", *ended, [4]int{3, 1})
	_, status = w.Downgrade(s, &id, 1, 0)
	want(t, "OPEN_DOWNGRADE to what is gone", status, nfs4.ErrInval)
	want(t, "what that gave up", *ended, [4]int{3, 1})
	want(t, "CLOSE", w.Close(s, &id), nfs4.OK)
	want(t, "the end", *ended, [4]int{3, 2})
	w.advanceClock(2 * defaultCourtesy)
	w.Sweep()
	w.checkEmpty()
}

// R8881-8.5-1, R8881-8.2.4-1: state of a removed export is revoked, its locks
// included, for any seqid and operation (R8881-8.2.4-4), until the client frees
// the stateids.
//
// R8881-18.38.3-2, R8881-18.46.3-8.
func TestRevoke(t *testing.T) {
	w, ended := newPartsState(t)
	s, other := w.newTestClient("c"), w.newTestClient("d")
	_, id := w.mustOpen(s, "o", "f", 3, 3, &fakeParts{3})
	set := w.mustLock(s, &Lock{StateID: id, New: true, Owner: []byte("l"), Key: "f", Range: locks.Range{Start: 0, End: 10}, Exclusive: true})
	_, stays := w.mustOpen(s, "o", "g", 1, 0, &fakeParts{4})
	want(t, "flags", w.SequenceFlags(s)&nfs4.SeqAdminStateRevoked, 0)

	w.Revoke(func(file any) bool { return file.(*fakeParts).has == 3 })
	want(t, "ended", *ended, [4]int{1, 1, 0})
	want(t, "flags", w.SequenceFlags(s)&nfs4.SeqAdminStateRevoked, nfs4.SeqAdminStateRevoked)
	want(t, "flags of another client", w.SequenceFlags(other)&nfs4.SeqAdminStateRevoked, 0)
	want(t, "another open", w.TestStateID(s, &stays), nfs4.OK)
	for what, lost := range map[string]nfs4.StateID{"open": id, "locks": set} {
		_, status := w.Open(s, &lost)
		want(t, what+" in use", status, nfs4.ErrAdminRevoked)
		_, status = w.Downgrade(s, &lost, 1, 0)
		want(t, "OPEN_DOWNGRADE of "+what, status, nfs4.ErrAdminRevoked)
		want(t, "CLOSE of "+what, w.Close(s, &lost), nfs4.ErrAdminRevoked)
		_, status = w.unlockBytes(s, lost, "f", 0, 10)
		want(t, "LOCKU of "+what, status, nfs4.ErrAdminRevoked)
		want(t, "TEST_STATEID of "+what, w.TestStateID(s, &lost), nfs4.ErrAdminRevoked)
		want(t, "FREE_STATEID by another client", w.FreeStateID(other, &lost), nfs4.ErrBadStateID)
	}
	_, again := w.mustOpen(other, "o", "f", 3, 3, &fakeParts{3})
	w.mustLock(other, &Lock{StateID: again, New: true, Owner: []byte("l"), Key: "f", Range: locks.Range{Start: 0, End: 10}, Exclusive: true})
	want(t, "FREE_STATEID", w.FreeStateID(s, &id), nfs4.OK)
	want(t, "FREE_STATEID again", w.FreeStateID(s, &id), nfs4.ErrBadStateID)
	want(t, "flags", w.SequenceFlags(s)&nfs4.SeqAdminStateRevoked, nfs4.SeqAdminStateRevoked)
	want(t, "FREE_STATEID of the locks", w.FreeStateID(s, &set), nfs4.OK)
	want(t, "flags", w.SequenceFlags(s)&nfs4.SeqAdminStateRevoked, 0)

	// The client may also be removed.
	w.Revoke(func(any) bool { return true })
	want(t, "ended", *ended, [4]int{2, 2, 1})
	w.advanceClock(2 * defaultCourtesy)
	w.Sweep()
	w.checkEmpty()
}

// TestRevokeInSteps checks that nothing is granted of what is revoked in steps before it is recorded
// that the client may not reclaim it.
func TestRevokeInSteps(t *testing.T) {
	g := newRestartingState(manyGoroutines{t})
	s, other := g.newTestClient("c"), g.newTestClient("other")
	_, open := g.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, "gone")
	n := uint64(manyEntries)
	for i := range n {
		g.mustLock(s, newLock(open, "f", "l", true, 2*i, 2*i))
	}
	_, open = g.mustOpen(other, "o", "f", nfs4.ShareBoth, 0, "stays")
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Revoke(func(file any) bool { return file == "gone" })
	}()
	for i := uint64(0); g.lockStatus(other, newLock(open, "f", fmt.Sprint(i), true, 2*(i%n), 2*(i%n))) != nfs4.OK; i += n/64 + 1 {
	}
	g.State.mu.Lock()
	want(t, "the record says revoked", g.ledger.records[s.client.key].revoked, true)
	want(t, "the record is stable", g.ledger.storedRecords.Load() >= s.client.lastRecord, true)
	g.State.mu.Unlock()
	<-done
}
