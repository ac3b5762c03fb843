package nfs4state

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// try is OPEN of owner o and file f with a Trial, which must succeed.
func (w *world) try(s *Session, access, deny uint32, file any) (*Trial, *Open, nfs4.StateID) {
	w.t.Helper()
	t := new(Trial)
	o, id, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: access, Deny: deny, Trial: t}, file)
	want(w.t, "OPEN", status, nfs4.OK)
	return t, o, id
}

// TestUndo checks that an OPEN that fails after all leaves nothing behind: neither
// an Open, nor modes, a seqid or a part of a File (RFC 8881, Section 18.16).
func TestUndo(t *testing.T) {
	w, ended := hooked(t)
	s := w.client("c")
	trial, _, id := w.try(s, 2, 1, &parts{2})
	want(t, "seqid", id.SeqID, 1)
	want(t, "denying", w.Denying(), true)
	w.Undo(trial)
	want(t, "stateid of an undone OPEN", w.TestStateID(s, &id), nfs4.ErrBadStateID)
	want(t, "the File's end", *ended, [4]int{0, 1})
	want(t, "denying", w.Denying(), false)
	want(t, "opens", len(s.client.opens)+len(w.files), 0)

	o, first := w.open(s, "o", "f", 1, 0, &parts{1})
	trial, _, _ = w.try(s, 2, 2, &parts{2})
	want(t, "access", o.Access(), 3)
	w.Undo(trial)
	want(t, "access", o.Access(), 1)
	want(t, "denying", w.Denying(), false)
	want(t, "stateid", o.StateID(), first)
	want(t, "the added part's end", *ended, [4]int{0, 2})
	want(t, "part of the first OPEN", o.File.(*parts).has, 1)
	_, status := w.Downgrade(s, &first, 2, 0)
	want(t, "OPEN_DOWNGRADE to modes that were taken back", status, nfs4.ErrInval)

	trial, _, _ = w.try(s, 1, 0, &parts{1}) // modes that it has already
	w.Undo(trial)
	want(t, "stateid", o.StateID(), first)
	want(t, "access", o.Access(), 1)

	trial, _, second := w.try(s, 2, 0, &parts{2})
	w.Settle(trial)
	want(t, "stateid", o.StateID(), second)
	want(t, "access", o.Access(), 3)
	trial, _, _ = w.try(s, 3, 0, nil)
	_, third := w.open(s, "o", "f", 3, 0, nil) // the client has that stateid
	w.Undo(trial)
	want(t, "stateid that a client has", o.StateID(), third)

	trial, _, _ = w.try(s, 2, 0, &parts{})
	want(t, "CLOSE", w.Close(s, &nfs4.StateID{Other: first.Other}), nfs4.OK)
	w.Undo(trial)
	want(t, "opens", len(s.client.opens)+len(w.files), 0)
	trial, _, id = w.try(s, 2, 1, &parts{})
	w.Revoke(func(any) bool { return true })
	w.Undo(trial)
	want(t, "revoked", w.TestStateID(s, &id), nfs4.ErrAdminRevoked)
	want(t, "denying", w.Denying(), false)
}

// TestManyTrials makes random OPENs of one owner, some of which fail late. The
// modes are always those of the OPENs that have not failed.
func TestManyTrials(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t)
		s := w.client("c")
		var trials []*Trial
		var modes [2][]uint32 // of OPENs that may fail, and of those that cannot
		var o *Open
		for range 30 {
			access := 1 + rng.Uint32N(3)
			switch n := rng.IntN(5); {
			case n == 0:
				o, _ = w.open(s, "o", "f", access, 0, nil)
				modes[1] = append(modes[1], access)
			case n <= 2:
				var trial *Trial
				trial, o, _ = w.try(s, access, 0, nil)
				trials, modes[0] = append(trials, trial), append(modes[0], access)
			case len(trials) > 0:
				i := rng.IntN(len(trials))
				if n == 3 {
					w.Settle(trials[i])
					modes[1] = append(modes[1], modes[0][i])
				} else {
					w.Undo(trials[i])
				}
				trials, modes[0] = slices.Delete(trials, i, i+1), slices.Delete(modes[0], i, i+1)
			}
			var asked uint16
			for _, m := range append(slices.Clone(modes[0]), modes[1]...) {
				asked |= 1 << m
			}
			if asked == 0 {
				want(t, "opens", len(s.client.opens)+len(w.files), 0)
				continue
			}
			want(t, "modes of the OPENs in force", o.asked, asked)
			want(t, "Trials", len(o.trials), len(trials))
		}
	}
}
