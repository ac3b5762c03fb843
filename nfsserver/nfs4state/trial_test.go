package nfs4state

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// mustTryOpen sends OPEN for owner o and file f with a Trial, which must
// succeed.
func (w *testState) mustTryOpen(s *Session, access, deny uint32, file any) (*Trial, *Open, nfs4.StateID) {
	w.t.Helper()
	t := new(Trial)
	o, id, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: access, Deny: deny, Trial: t}, file)
	want(w.t, "OPEN", status, nfs4.OK)
	return t, o, id
}

// TestUndo checks that an OPEN that fails after all leaves nothing behind: neither
// an Open, nor modes, a seqid or a part of a File (RFC 8881, Section 18.16).
func TestUndo(t *testing.T) {
	w, ended := newPartsState(t)
	s := w.newTestClient("c")
	trial, _, id := w.mustTryOpen(s, 2, 1, &fakeParts{2})
	want(t, "seqid", id.SeqID, 1)
	want(t, "denying", w.HasDenyModes(), true)
	w.RevertTrial(trial)
	want(t, "stateid of an undone OPEN", w.TestStateID(s, &id), nfs4.ErrBadStateID)
	want(t, "the File's end", *ended, [4]int{0, 1})
	want(t, "denying", w.HasDenyModes(), false)
	want(t, "opens", len(s.client.opens)+len(w.allFiles()), 0)

	o, first := w.mustOpen(s, "o", "f", 1, 0, &fakeParts{1})
	trial, _, _ = w.mustTryOpen(s, 2, 2, &fakeParts{2})
	want(t, "access", o.Access(), 3)
	w.RevertTrial(trial)
	want(t, "access", o.Access(), 1)
	want(t, "denying", w.HasDenyModes(), false)
	want(t, "stateid", o.StateID(), first)
	want(t, "the added part's end", *ended, [4]int{0, 2})
	want(t, "part of the first OPEN", o.File.(*fakeParts).has, 1)
	_, status := w.Downgrade(s, &first, 2, 0)
	want(t, "OPEN_DOWNGRADE to modes that were taken back", status, nfs4.ErrInval)

	trial, _, _ = w.mustTryOpen(s, 1, 0, &fakeParts{1}) // modes that it has already
	w.RevertTrial(trial)
	want(t, "stateid", o.StateID(), first)
	want(t, "access", o.Access(), 1)

	trial, _, second := w.mustTryOpen(s, 2, 0, &fakeParts{2})
	w.KeepTrial(trial)
	want(t, "stateid", o.StateID(), second)
	want(t, "access", o.Access(), 3)
	trial, _, _ = w.mustTryOpen(s, 3, 0, nil)
	_, third := w.mustOpen(s, "o", "f", 3, 0, nil) // the client has that stateid
	w.RevertTrial(trial)
	want(t, "stateid that a client has", o.StateID(), third)

	trial, _, _ = w.mustTryOpen(s, 2, 0, &fakeParts{})
	want(t, "CLOSE", w.Close(s, &nfs4.StateID{Other: first.Other}), nfs4.OK)
	w.RevertTrial(trial)
	want(t, "opens", len(s.client.opens)+len(w.allFiles()), 0)
	trial, _, id = w.mustTryOpen(s, 2, 1, &fakeParts{})
	w.Revoke(func(any) bool { return true })
	w.RevertTrial(trial)
	want(t, "revoked", w.TestStateID(s, &id), nfs4.ErrAdminRevoked)
	want(t, "denying", w.HasDenyModes(), false)
}

// TestManyTrials makes random OPENs of one owner, some of which fail late. The
// modes are always those of the OPENs that have not failed.
func TestManyTrials(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newTestState(t)
		s := w.newTestClient("c")
		var trials []*Trial
		var modes [2][]uint32 // from OPENs that may fail, and from those that cannot
		var o *Open
		for range 30 {
			access := 1 + rng.Uint32N(3)
			switch n := rng.IntN(5); {
			case n == 0:
				o, _ = w.mustOpen(s, "o", "f", access, 0, nil)
				modes[1] = append(modes[1], access)
			case n <= 2:
				var trial *Trial
				trial, o, _ = w.mustTryOpen(s, access, 0, nil)
				trials, modes[0] = append(trials, trial), append(modes[0], access)
			case len(trials) > 0:
				i := rng.IntN(len(trials))
				if n == 3 {
					w.KeepTrial(trials[i])
					modes[1] = append(modes[1], modes[0][i])
				} else {
					w.RevertTrial(trials[i])
				}
				trials, modes[0] = slices.Delete(trials, i, i+1), slices.Delete(modes[0], i, i+1)
			}
			var asked uint16
			for _, m := range append(slices.Clone(modes[0]), modes[1]...) {
				asked |= 1 << m
			}
			if asked == 0 {
				want(t, "opens", len(s.client.opens)+len(w.allFiles()), 0)
				continue
			}
			want(t, "modes of the OPENs in force", o.requestedModes, asked)
			want(t, "Trials", len(o.trials), len(trials))
		}
	}
}

// TestRevertInSteps checks that another OPEN of the owner does not use an Open that is reverted in
// steps: it would lack some of its locks.
func TestRevertInSteps(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	trial := new(Trial)
	_, id, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: nfs4.ShareBoth, Trial: trial}, nil)
	want(t, "OPEN", status, nfs4.OK)
	for i := range uint64(2 * maxEntriesPerHold) {
		w.mustLock(s, newLock(id, "f", "l", true, 2*i, 2*i))
	}
	var deferred deferredWork
	_, done := w.revertTrial(trial, false, &deferred)
	want(t, "the first step does all", done, false)
	want(t, "OPEN between two steps", w.openStatus(s, "o", "f", nfs4.ShareRead, 0), nfs4.ErrDelay)
	w.RevertTrial(trial)
	want(t, "locks", s.client.locks, 0)
	w.mustOpen(s, "o", "f", nfs4.ShareRead, 0, nil)
}
