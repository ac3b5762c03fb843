package nfs4state

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// TestDelegateWrite checks who gets a write delegation, what its stateid permits, and
// that no other client can open the file.
//
// R8881-10.4-1.
func TestDelegateWrite(t *testing.T) {
	w := newTestState(t)
	s, other := w.newCallableClient("a"), w.newCallableClient("b")
	may := func(s *Session, key string) nfs4.Status { return w.MayDelegate(s, key, true) }
	w.mustOpen(s, "o", "x", nfs4.ShareRead, 0, nil)
	want(t, "for an open to read", may(s, "x"), nfs4.ErrStale)
	w.mustOpen(s, "o", "x", nfs4.ShareBoth, 0, nil)
	w.mustOpen(s, "p", "x", nfs4.ShareRead, 0, nil)
	want(t, "with its own opens", may(s, "x"), nfs4.OK)
	_, id := w.mustOpen(other, "o", "x", nfs4.ShareRead, 0, nil)
	want(t, "with another client's open", may(s, "x"), nfs4.ErrShareDenied)
	want(t, "CLOSE", w.Close(other, &id), nfs4.OK)
	d, status := w.Delegate(s, &Delegate{Key: "x", Write: true}, "delegated")
	want(t, "a delegation", status, nfs4.OK)
	assert.True(t, d.Writes())
	assert.Equal(t, nfs4.ShareBoth, d.Access())
	want(t, "another of its own", may(s, "x"), nfs4.ErrExist)
	assert.Equal(t, nfs4.DelegateWrite, w.DelegationType(s, "x"))
	assert.Equal(t, nfs4.DelegateNone, w.DelegationType(other, "x"))
	assert.Equal(t, 1, w.Counts().Writes)

	_, _, status = w.OpenFile(other, &OpenFile{Owner: []byte("o"), Key: "x", Access: nfs4.ShareRead}, "late")
	want(t, "another's OPEN", status, nfs4.ErrDelay)
	assert.Equal(t, 1, w.releaseCount("late"))
	w.mustOpen(s, "q", "x", nfs4.ShareRead, 0, nil)
	id = d.StateID()
	want(t, "DELEGRETURN", w.ReturnDelegation(s, &id), nfs4.OK)
	assert.Zero(t, w.Counts().Writes)
	w.mustOpen(other, "o", "x", nfs4.ShareRead, 0, nil)

	w.mustOpen(other, "o", "y", nfs4.ShareRead, 0, nil)
	w.mustDelegate(other, "y", nil)
	assert.Equal(t, nfs4.DelegateRead, w.DelegationType(other, "y"))
	w.mustOpen(s, "o", "y", nfs4.ShareBoth, 0, nil)
	want(t, "with another client's delegation", may(s, "y"), nfs4.ErrShareDenied)
	for i := range maxOwnOpens + 1 {
		w.mustOpen(s, string(rune('a'+i)), "many", nfs4.ShareBoth, 0, nil)
	}
	want(t, "of a file with many opens", may(s, "many"), nfs4.ErrShareDenied)
}

// TestReclaimWrite checks the grace period for a client that had a write delegation:
// it delays all opens of others, and only a client that had one reclaims one.
//
// R8881-10.2.1-2, R8881-10.2.1-4.
func TestReclaimWrite(t *testing.T) {
	w := newRestartingState(t)
	s := w.newCallableClient("a")
	w.mustOpen(s, "o", "x", nfs4.ShareBoth, 0, nil)
	_, status := w.Delegate(s, &Delegate{Key: "x", Write: true}, nil)
	want(t, "a delegation", status, nfs4.OK)
	reading := w.newCallableClient("reading")
	w.mustOpen(reading, "o", "r", nfs4.ShareRead, 0, nil)
	w.mustDelegate(reading, "r", nil)

	w.crashState()
	assert.Equal(t, 1, w.Grace().Writes)
	assert.Equal(t, 2, w.Grace().Reads)
	assert.True(t, w.HasEarlierWriters())
	other := w.newCallableClient("other")
	_, _, status = w.OpenFile(other, &OpenFile{Owner: []byte("o"), Key: "z", Access: nfs4.ShareRead}, nil)
	want(t, "another's OPEN to read", status, nfs4.ErrGrace)
	open := func(s *Session, key string, had nfs4.Delegation) nfs4.Status {
		_, _, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: key, Access: nfs4.ShareBoth, Reclaim: true, Delegated: had}, nil)
		return status
	}
	s, reading = w.reconnect("a"), w.reconnect("reading")
	want(t, "a reclaim by a client that had none", open(reading, "x", nfs4.DelegateWrite), nfs4.ErrReclaimBad)
	want(t, "the reclaim", open(s, "x", nfs4.DelegateWrite), nfs4.OK)
	claim := OpenFile{Owner: []byte("p"), Key: "x", Access: nfs4.ShareBoth, Claimed: true}
	_, _, status = w.OpenFile(s, &claim, nil)
	want(t, "an OPEN by no delegation", status, nfs4.ErrGrace)
	_, status = w.Delegate(s, &Delegate{Key: "x", Write: true, Reclaim: true}, nil)
	want(t, "the delegation", status, nfs4.OK)
	want(t, "an OPEN by the delegation", w.MayOpen(s, &OpenFile{Access: nfs4.ShareBoth, Claimed: true}), nfs4.OK)
	_, _, status = w.OpenFile(s, &claim, nil)
	want(t, "an OPEN by the delegation", status, nfs4.OK)
	want(t, "another's reclaim of the same file", open(reading, "x", nfs4.DelegateNone), nfs4.ErrReclaimConflict)
	want(t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
	assert.False(t, w.HasEarlierWriters())
	assert.True(t, w.HasEarlierDelegations(), "of the client that reads")
	_, _, status = w.OpenFile(other, &OpenFile{Owner: []byte("o"), Key: "z", Access: nfs4.ShareRead}, nil)
	want(t, "another's OPEN to read", status, nfs4.OK)
}

// TestWriteMachine checks that an NFSv3 machine locks nothing of a file that a
// client has a write delegation of, and the other way round.
func TestWriteMachine(t *testing.T) {
	w := newTestState(t)
	s := w.newCallableClient("a")
	w.mustOpen(s, "o", "x", nfs4.ShareBoth, 0, nil)
	m, status := w.EnterMachine(Machine{Name: "m", Addr: netip.MustParseAddr("192.0.2.9")}, fairshare.Name{})
	want(t, "a machine", status, nfs4.OK)
	lock := Lock{Owner: []byte("l"), Key: "x", Range: locks.Range{End: 9}}
	_, status = m.Lock(&lock)
	want(t, "LOCK by a machine", status, nfs4.OK)
	want(t, "a delegation in addition", w.MayDelegate(s, "x", true), nfs4.ErrShareDenied)
	w.mustOpen(s, "o", "y", nfs4.ShareBoth, 0, nil)
	_, status = w.Delegate(s, &Delegate{Key: "y", Write: true}, nil)
	want(t, "a delegation", status, nfs4.OK)
	lock.Key = "y"
	_, status = m.Lock(&lock)
	want(t, "LOCK by a machine of a delegated file", status, nfs4.ErrDelay)
}
