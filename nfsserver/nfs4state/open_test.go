package nfs4state

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// R8881-9.7-1: two OPENs with each access and deny, of two clients, of two
// owners of a client, and of one owner, whose own deny modes count as well.
func TestShareReservations(t *testing.T) {
	for first := range uint32(16) {
		for second := range uint32(16) {
			for _, by := range []string{"other client", "other owner", "same owner"} {
				w := newTestState(t)
				s := w.newTestClient("c")
				access, deny := first&3, first>>2
				status := w.openStatus(s, "o", "f", access, deny)
				want(t, "access 0", status == nfs4.ErrInval, access == 0)
				if access == 0 {
					continue
				}
				by2, owner := s, "o"
				switch by {
				case "other client":
					by2 = w.newTestClient("d")
				case "other owner":
					owner = "p"
				}
				expected := nfs4.OK
				switch a, d := second&3, second>>2; {
				case a == 0:
					expected = nfs4.ErrInval
				case a&deny != 0 || d&access != 0:
					expected = nfs4.ErrShareDenied
				}
				got := w.openStatus(by2, owner, "f", second&3, second>>2)
				want(t, fmt.Sprint(by, ": ", access, deny, " then ", second&3, second>>2), got, expected)
				want(t, "another file", w.openStatus(by2, owner, "g", 3, 3), nfs4.OK)
				for _, wish := range []uint32{1, 2} { // R8881-8.2.3-1
					denied := deny&wish != 0 || expected == nfs4.OK && second>>2&wish != 0
					want(t, "Denied", w.Denied("f", wish) == nfs4.ErrLocked, denied)
				}
			}
		}
	}
	w := newTestState(t)
	s := w.newTestClient("c")
	want(t, "access 4", w.openStatus(s, "o", "f", 4, 0), nfs4.ErrInval)
	want(t, "deny 4", w.openStatus(s, "o", "f", 1, 4), nfs4.ErrInval)
}

// R8881-18.18.3-2: OPEN_DOWNGRADE to each pair of modes, after each set of
// OPENs, succeeds if and only if the pair is the union of some of them.
func TestDowngrade(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	o, _ := w.mustOpen(s, "o", "f", 1, 0, nil)
	unions := make([]uint32, 1<<16) // by a set of OPENs: a bit for each union of some of them
	for set := 1; set < 1<<16; set++ {
		if set&0x1111 != 0 { // access 0
			continue
		}
		var newest uint32
		for m := range uint32(16) {
			if set&(1<<m) != 0 {
				newest = m
			}
		}
		all := unions[set&^(1<<newest)]
		for u := range uint32(16) {
			if unions[set&^(1<<newest)]&(1<<u) != 0 {
				all |= 1 << (u | newest)
			}
		}
		all |= 1 << newest
		unions[set] = all
		for to := range uint32(16) {
			w.setRequestedModes(o, uint16(set))
			before := o.modes.Load()
			id := nfs4.StateID{Other: o.other}
			seqid := o.StateID().SeqID
			id, status := w.Downgrade(s, &id, to&3, to>>2)
			if all&(1<<to) == 0 {
				want(t, fmt.Sprintf("%#x to %#x", set, to), status, nfs4.ErrInval)
				want(t, "modes after a failure", o.modes.Load(), before)
				continue
			}
			want(t, fmt.Sprintf("%#x to %#x", set, to), status, nfs4.OK)
			want(t, "modes", o.modes.Load(), to)
			want(t, "access", o.Access(), to&3)
			want(t, "stateid", id, nfs4.StateID{SeqID: seqid + 1, Other: o.other})
		}
	}
}

// R8881-8.2.1-1, R8881-8.2.2-1, R8881-8.2.2-2, R8881-8.2.4-1, R8881-9.9-3, R8881-18.2.3-1: one stateid for an owner and
// object; each OPEN and OPEN_DOWNGRADE advances the seqid, and returns its own.
func TestStateID(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	o, first := w.mustOpen(s, "o", "f", 1, 0, "file")
	want(t, "first seqid", first.SeqID, 1)
	again, second := w.mustOpen(s, "o", "f", 2, 0, "spare")
	want(t, "Open", again, o)
	want(t, "stateid", second, nfs4.StateID{SeqID: 2, Other: first.Other})
	want(t, "File", o.File, any("file"))
	want(t, "releases of a File that was not needed", w.releaseCount("spare"), 1)
	_, other := w.mustOpen(s, "p", "f", 1, 0, "other")
	want(t, "another owner's stateid", other.Other == first.Other, false)
	third, status := w.Downgrade(s, &second, 1, 0)
	want(t, "OPEN_DOWNGRADE", status, nfs4.OK)
	want(t, "seqid", third.SeqID, 3)
	for _, id := range []nfs4.StateID{first, second} {
		_, status := w.Downgrade(s, &id, 1, 0)
		want(t, "OPEN_DOWNGRADE", status, nfs4.ErrOldStateID)
		want(t, "CLOSE", w.Close(s, &id), nfs4.ErrOldStateID)
		want(t, "TEST_STATEID", w.TestStateID(s, &id), nfs4.ErrOldStateID)
	}
	high := nfs4.StateID{SeqID: 4, Other: first.Other}
	want(t, "CLOSE with a later seqid", w.Close(s, &high), nfs4.ErrBadStateID)
	want(t, "FREE_STATEID", w.FreeStateID(s, &third), nfs4.ErrLocksHeld) // R8881-18.38.3-1
	current := nfs4.StateID{Other: first.Other}
	want(t, "CLOSE with seqid 0", w.Close(s, &current), nfs4.OK)
	want(t, "CLOSE again", w.Close(s, &current), nfs4.ErrBadStateID)
	want(t, "FREE_STATEID", w.FreeStateID(s, &third), nfs4.ErrBadStateID)
	want(t, "the other owner's", w.TestStateID(s, &other), nfs4.OK)
	want(t, "releases", fmt.Sprint(w.releaseCount("file"), w.releaseCount("other")), "1 0")
}

// R8881-8.2.2-1, R8881-8.2.2-3, R7530-9.1.3-2: seqids wrap from 2^32-1 to 1, in comparisons too.
func TestSeqIDWraps(t *testing.T) {
	const last = ^uint32(0)
	for _, test := range []struct {
		current, given uint32
		status         nfs4.Status
	}{
		{last, last, nfs4.OK},
		{last, 0, nfs4.OK},
		{last, last - 1, nfs4.ErrOldStateID},
		{last, 1, nfs4.ErrBadStateID},
		{1, last, nfs4.ErrOldStateID},
		{1, 1, nfs4.OK},
		{1, 2, nfs4.ErrBadStateID},
		{1, 0, nfs4.OK},
		{300, last - 300, nfs4.ErrOldStateID},
		{last - 300, 300, nfs4.ErrBadStateID},
	} {
		var o Open
		o.seqid.Store(test.current)
		want(t, fmt.Sprint(test.current, " and ", test.given), o.checkSeqID(test.given), test.status)
		o.seqOwner = new(seqOwner)
		if test.given == 0 { // in version 4.0 it is no current one (R7530-9.1.4.4-4)
			test.status = nfs4.ErrOldStateID
		}
		want(t, fmt.Sprint(test.current, " and ", test.given, " in version 4.0"), o.checkSeqID(test.given), test.status)
	}
	var o Open
	o.seqid.Store(last - 1)
	o.bumpSeqID()
	want(t, "seqid", o.StateID().SeqID, last)
	o.bumpSeqID()
	want(t, "seqid", o.StateID().SeqID, 1)
}

// R8881-8.2-1, R8881-8.2.3-4, R8881-8.2.3-5, R8881-18.48.3-1: stateids of others, and
// special ones, are NFS4ERR_BAD_STATEID.
func TestBadStateIDs(t *testing.T) {
	w := newTestState(t)
	s, other := w.newTestClient("c"), w.newTestClient("d")
	_, id := w.mustOpen(s, "o", "f", 1, 0, nil)
	want(t, "another's stateid", w.TestStateID(other, &id), nfs4.ErrBadStateID)
	bad := []nfs4.StateID{{}, {SeqID: 1}, nfs4.InvalidStateID, {SeqID: 2}}
	for _, seqid := range []uint32{0, 1, ^uint32(0)} {
		ones := nfs4.StateID{SeqID: seqid}
		for i := range ones.Other {
			ones.Other[i] = 0xff
		}
		bad = append(bad, ones)
	}
	for bit := range 8 * len(id.Other) {
		changed := id
		changed.Other[bit/8] ^= 1 << (bit % 8)
		bad = append(bad, changed)
	}
	for _, id := range bad {
		want(t, fmt.Sprint(id), w.TestStateID(s, &id), nfs4.ErrBadStateID)
		want(t, fmt.Sprint("CLOSE ", id), w.Close(s, &id), nfs4.ErrBadStateID)
	}
}

// R8881-8.2.4-3, R8881-8.2.3-6, R7530-9.1.4.3-1: no stateid comes twice, however often an index is
// used; no stateid is all zeros or ones, and none tells the next.
func TestStateIDsAreUnique(t *testing.T) {
	w := newTestState(t)
	w.lastStateID.Store(1<<32 - 1000) // the number's upper bits count too
	s := w.newTestClient("c")
	seen := make(map[[nfs4.OtherSize]byte]bool)
	for range 100_000 {
		_, id := w.mustOpen(s, "o", "f", 1, 0, nil)
		if seen[id.Other] {
			t.Fatalf("stateid %x came twice", id.Other)
		}
		if zeros, ones := ([nfs4.OtherSize]byte{}), nfs4.BypassStateID.Other; id.Other == zeros || id.Other == ones {
			t.Fatalf("stateid %x is special", id.Other)
		}
		seen[id.Other] = true
		want(t, "CLOSE", w.Close(s, &id), nfs4.OK)
	}
	numbers := make(map[uint32]bool)
	for n := range uint32(1 << 16) {
		numbers[permuteNumber(w.seed, n)] = true
	}
	want(t, "different numbers", len(numbers), 1<<16)
}

// R8881-8.2.4-1, R8881-8.3-1, R8881-8.3-3, R8881-8.4.1-1, R8881-8.4.3-1,
// R8881-8.4.3-2: a silent client keeps all its state (R8881-2.4.2-2) until another
// client needs some, and then loses all, its client ID (R8881-2.10.13.1.4-2)
// included; not within its lease (R8881-2.10.12-1), nor while one of its calls
// runs, nor in vain.
func TestCourtesy(t *testing.T) {
	for _, test := range []struct {
		name   string
		needs  func(w *testState, s *Session) bool
		renews func(w *testState, s *Session)
	}{
		{"OPEN", func(w *testState, s *Session) bool { return w.openStatus(s, "o", "f", 1, 0) == nfs4.OK }, (*testState).renewByCall},
		{"deny", func(w *testState, s *Session) bool { return w.openStatus(s, "o", "f", 2, 1) == nfs4.OK }, (*testState).renewByCall},
		{"anonymous READ", func(w *testState, _ *Session) bool { return w.Denied("f", 1) == nfs4.OK }, (*testState).renewByCall},
		{
			"OPEN, renewed by a retry", func(w *testState, s *Session) bool { return w.openStatus(s, "o", "f", 1, 0) == nfs4.OK },
			func(w *testState, s *Session) { // R8881-8.3-1
				o := w.Begin(s, &Sequenced{Sequence: s.slots[0].sequence})
				want(w.t, "replay", o.Replay != nil, true)
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestState(t)
			s, other := w.newTestClient("c"), w.newTestClient("d")
			w.renewByCall(s)
			_, id := w.mustOpen(s, "o", "f", 1, 1, "file")
			_, id2 := w.mustOpen(s, "o", "g", 3, 3, "file 2")
			w.advanceClock(testLease)
			want(t, "needed within the lease", test.needs(w, other), false)
			w.advanceClock(1)
			test.renews(w, s)
			w.advanceClock(testLease)
			want(t, "needed within the renewed lease", test.needs(w, other), false)
			want(t, "SEQUENCE", w.beginNextCall(s, 0).New, true)
			w.advanceClock(10 * testLease)
			want(t, "needed while a call runs", test.needs(w, other), false)
			s.End(0, nil, false, false)
			w.advanceClock(testLease)
			want(t, "needed within the lease after it", test.needs(w, other), false)
			w.advanceClock(testLease)
			want(t, "another object", w.openStatus(other, "o", "h", 1, 0), nfs4.OK)
			want(t, "stateid when no owner needs it", w.TestStateID(s, &id), nfs4.OK)
			want(t, "needed after the lease", test.needs(w, other), true)
			want(t, "releases", fmt.Sprint(w.releaseCount("file"), w.releaseCount("file 2")), "1 1")
			want(t, "stateid", w.TestStateID(s, &id2), nfs4.ErrBadStateID)
			want(t, "SEQUENCE", w.beginNextCall(s, 0).Status, nfs4.ErrBadSession)
			want(t, "CREATE_SESSION", w.CreateSession(createArgs(s.ClientID(), 2, 0)).Status, nfs4.ErrStaleClientID)
		})
	}
	t.Run("in vain", func(t *testing.T) {
		w := newTestState(t)
		silent, live, other := w.newTestClient("silent"), w.newTestClient("live"), w.newTestClient("other")
		_, id := w.mustOpen(silent, "o", "f", 1, 0, nil)
		w.advanceClock(2 * testLease)
		w.renewByCall(live)
		w.mustOpen(live, "o", "f", 1, 0, nil)
		want(t, "OPEN against a live client too", w.openStatus(other, "o", "f", 1, 1), nfs4.ErrShareDenied)
		want(t, "the silent client's stateid", w.TestStateID(silent, &id), nfs4.OK)
	})
	t.Run("own", func(t *testing.T) {
		w := newTestState(t)
		s := w.newTestClient("c")
		w.mustOpen(s, "o", "f", 1, 1, nil)
		w.advanceClock(2 * testLease)
		want(t, "a silent client's own conflict", w.openStatus(s, "p", "f", 1, 0), nfs4.ErrShareDenied)
	})
}

// Opens of a client are bounded, and closing many of one object is no slower
// than of many objects. One more fails for good: with NFS4ERR_DELAY, a client
// would repeat the OPEN forever.
//
// R8881-21-5.
func TestManyOpens(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	for i := range maxOpens {
		w.mustOpen(s, fmt.Sprint(i), "f", 1, 0, i)
	}
	want(t, "OPEN", w.openStatus(s, "one more", "f", 1, 0), nfs4.ErrServerFault)
	want(t, "OPEN of another client", w.openStatus(w.newTestClient("d"), "o", "f", 1, 0), nfs4.OK)
	want(t, "OPEN of what is open", w.openStatus(s, "5", "f", 1, 0), nfs4.OK)
	w.advanceClock(2 * defaultCourtesy)
	w.Sweep()
	for i := range maxOpens {
		if w.releaseCount(i) != 1 {
			t.Fatalf("file %d was released %d times", i, w.releaseCount(i))
		}
	}
	w.checkEmpty()
}

// Opens and sessions of all clients are bounded; if a limit is reached, a
// silent client is removed.
func TestOpensWithoutRoom(t *testing.T) {
	w := newTestState(t)
	silent, s := w.newTestClient("silent"), w.newTestClient("c")
	_, id := w.mustOpen(silent, "o", "f", 1, 0, nil)
	w.usage[stateIDs].Add(maxHoldings - 1)
	want(t, "OPEN within the lease", w.openStatus(s, "o", "f", 1, 0), nfs4.ErrDelay)
	w.advanceClock(testLease + 1)
	w.renewByCall(s)
	want(t, "OPEN after the lease", w.openStatus(s, "o", "f", 1, 0), nfs4.OK)
	want(t, "the silent client's stateid", w.TestStateID(silent, &id), nfs4.ErrBadStateID)
	want(t, "OPEN of the client itself", w.openStatus(s, "p", "f", 1, 0), nfs4.ErrDelay)
	w.advanceClock(testLease + 1)
	want(t, "the same when it has been silent", w.openStatus(s, "p", "f", 1, 0), nfs4.ErrBadSession)
	want(t, "Opens", w.usage.get(stateIDs), maxHoldings-1)
	w.usage[stateIDs].Add(-(maxHoldings - 1))
	w.checkEmpty()

	silent = w.newTestClient("silent")
	w.usage[liveSessions].Add(maxAllSessions - 1)
	w.advanceClock(testLease)
	id2, sequence, _ := w.mustExchange(exchangeArgs("c", 1, 0))
	want(t, "CREATE_SESSION within the lease", w.CreateSession(createArgs(id2, sequence, 0)).Status, nfs4.ErrNoSpc)
	w.advanceClock(testLease / searchesPerLease)
	w.mustCreateSession(createArgs(id2, sequence+1, 0))
	want(t, "the silent client's session", w.Session(silent.ID), nil)
}

// R8881-9.1.2-7: no OPEN denies an access that a READ or WRITE with a special
// stateid still makes, and no denied READ or WRITE begins, unless it bypasses that.
func TestSpecialUses(t *testing.T) {
	for access := nfs4.ShareRead; access <= nfs4.ShareWrite; access++ {
		for deny := range uint32(4) {
			w := newTestState(t)
			s := w.newTestClient("c")
			during, after := nfs4.OK, nfs4.OK
			if deny&access != 0 {
				during, after = nfs4.ErrDelay, nfs4.ErrLocked
			}
			first, status1 := w.BeginSpecial([]byte("f"), access, false)
			second, status2 := w.BeginSpecial([]byte("f"), access, true)
			want(t, "use", status1, nfs4.OK)
			want(t, "bypass", status2, nfs4.OK)
			open := func(what string, expected nfs4.Status) {
				t.Helper()
				_, id, status := w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: 3 &^ deny, Deny: deny}, nil)
				if deny == nfs4.ShareBoth {
					_, id, status = w.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: "f", Access: 1, Deny: deny}, nil)
				}
				want(t, what, status, expected)
				if status == nfs4.OK {
					want(t, "CLOSE", w.Close(s, &id), nfs4.OK)
				}
			}
			open("OPEN during two", during)
			first.End()
			first.End()
			open("OPEN during one", during)
			second.End()
			open("OPEN after them", nfs4.OK)
			want(t, "Opens with deny modes", w.denyingOpens.Load(), 0)

			want(t, "OPEN", w.openStatus(s, "o", "f", 1, deny), nfs4.OK)
			third, status3 := w.BeginSpecial([]byte("f"), access, false)
			want(t, "use of what is open", status3, after)
			third.End()
			fourth, status4 := w.BeginSpecial([]byte("f"), access, true)
			want(t, "bypass of what is open", status4, nfs4.OK)
			fourth.End()
			want(t, "uses that are left", w.hasSpecialUse("f", nfs4.ShareBoth), false)
		}
	}
}
