package nfs4state

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// R8881-2.10.6.1-1, R8881-2.10.6.1-2, R8881-2.10.6.1-3, R8881-2.10.6.1-4,
// R8881-2.10.6.1-12, R8881-2.10.6.1.2-1, R8881-18.46.3-4: a slot's sequence IDs,
// also through 0, and errors that change nothing.
func TestSlot(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	begin := func(sequence uint32, digest uint64) sequenceOutcome {
		return w.Begin(s, &Sequenced{Slot: 3, Sequence: sequence, Highest: 3, Digest: digest, Conn: "first"})
	}
	faults := func(last uint32, used bool) {
		t.Helper()
		before := s.slots[3]
		beforeUse := s.renewedAt
		w.advanceClock(1)
		wrong := []uint32{last - 1, last + 2, last + 1<<31}
		if !used {
			wrong = append(wrong, last)
		}
		for _, sequence := range wrong {
			want(t, "misordered", begin(sequence, 1).Status, nfs4.ErrSeqMisordered)
		}
		if used {
			want(t, "other call", begin(last, 2).Status, nfs4.ErrSeqFalseRetry)
		}
		n := uint32(len(s.slots))
		want(t, "slot beyond", w.Begin(s, &Sequenced{Slot: n, Sequence: last + 1, Highest: n}).Status, nfs4.ErrBadSlot)
		want(t, "highest beyond", w.Begin(s, &Sequenced{Slot: 3, Sequence: last + 1, Highest: n}).Status, nfs4.ErrBadHighSlot)
		after := s.slots[3]
		want(t, "slot's sequence ID", after.sequence, before.sequence)
		want(t, "slot's state", after.hasExecuted == before.hasExecuted && after.hasReply == before.hasReply && after.running == before.running, true)
		want(t, "last use", s.renewedAt, beforeUse)
	}
	faults(0, false) // R8881-18.36.3-9: the first is 1
	for sequence := uint32(1); sequence < 4; sequence++ {
		want(t, "new call", begin(sequence, 1).New, true)
		want(t, "the next one while it runs", begin(sequence+1, 1).Status, nfs4.ErrSeqMisordered)
		s.End(3, []byte{byte(sequence)}, true, false)
		for range 3 {
			got := begin(sequence, 1)
			want(t, "replay", bytes.Equal(got.Replay, []byte{byte(sequence)}), true)
		}
		faults(sequence, true)
	}
	s.slots[3].sequence = ^uint32(0) - 1
	for _, sequence := range []uint32{^uint32(0), 0, 1} {
		want(t, "new call", begin(sequence, 1).New, true)
		s.End(3, nil, false, false)
		want(t, "replay", begin(sequence, 1).Replay != nil, true)
		faults(sequence, true)
	}
}

// R8881-2.10.6.1.1-1, R8881-2.10.6.1.3-1, R8881-2.10.6.4-4: which replies are
// kept.
func TestKept(t *testing.T) {
	short, long := make([]byte, uncachedLimit), make([]byte, uncachedLimit+1)
	for _, test := range []struct {
		reply            []byte
		keep, item, kept bool
	}{
		{nil, false, false, true},
		{short, false, false, true},
		{long, false, false, false},
		{long, true, false, true},
		{short, false, true, false},
		{short, true, true, false},
	} {
		w := newTestState(t)
		s := w.newTestClient("c")
		for range 2 { // memory is used again
			o := w.beginNextCall(s, 0)
			want(t, "new call", o.New, true)
			s.End(0, test.reply, test.keep, test.item)
			o = w.Begin(s, &Sequenced{Sequence: s.slots[0].sequence})
			want(t, "status", o.Status, nfs4.OK)
			want(t, "replay", o.Replay != nil, test.kept)
			want(t, "uncached", o.Uncached, !test.kept)
			want(t, "length", len(o.Replay), map[bool]int{true: len(test.reply)}[test.kept])
		}
	}
}

// A replay belongs to the caller: the slot's next call does not touch it. The
// next call frees the memory of a long reply. A replay is results alone, for a
// transport to send in its own form (R8881-2.9.2-6).
func TestReplayIsCopied(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	reply := bytes.Repeat([]byte("old"), uncachedLimit)
	w.beginNextCall(s, 0)
	s.End(0, reply, true, false)
	first := w.Begin(s, &Sequenced{Sequence: 1})
	w.beginNextCall(s, 0)
	want(t, "memory of a long reply", s.slots[0].reply == nil, true)
	s.End(0, []byte("new"), true, false)
	want(t, "replay", bytes.Equal(first.Replay, reply), true)
	second := w.Begin(s, &Sequenced{Sequence: 2})
	w.beginNextCall(s, 0)
	s.End(0, []byte("xxx"), true, false)
	want(t, "replay of a short reply", string(second.Replay), "new")
}

// A retry of a running call waits for the reply, the newest retry only; another
// call in the slot waits too (R8881-2.10.6.2-3 proposes NFS4ERR_DELAY).
func TestRetryWaits(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second) // a retry without a reply fails the test
	defer stop()
	retry := func(digest uint64) *pendingRetry {
		t.Helper()
		o := w.Begin(s, &Sequenced{Sequence: s.slots[0].sequence, Digest: digest})
		if o.Retry == nil || o.New || o.Replay != nil {
			t.Fatalf("a retry of a running call is %+v", o)
		}
		return o.Retry
	}
	w.Begin(s, &Sequenced{Sequence: 1, Digest: 1})
	first, second := retry(1), retry(1)
	got, err := first.Wait(ctx)
	want(t, "retry before a newer one", got.Status, nfs4.ErrDelay) // R8881-2.9.2-3: none is dropped
	want(t, "err", err, nil)
	gone, cancel := context.WithCancelCause(ctx)
	cause := errors.New("cause")
	cancel(cause)
	_, err = second.Wait(gone)
	want(t, "retry whose connection was closed", err, cause)
	s.End(0, []byte("reply"), false, false)
	got, err = second.Wait(ctx)
	want(t, "reply", string(got.Replay), "reply")
	want(t, "err", err, nil)

	w.Begin(s, &Sequenced{Sequence: 2, Digest: 1})
	r := retry(2)
	s.End(0, nil, false, false)
	got, err = r.Wait(ctx)
	want(t, "other call", got.Status, nfs4.ErrSeqFalseRetry)
	want(t, "err", err, nil)

	w.Begin(s, &Sequenced{Sequence: 3, Digest: 1})
	r = retry(1)
	s.End(0, nil, true, true)
	got, _ = r.Wait(ctx)
	want(t, "uncached", got.Uncached, true)
}

// R8881-2.10.6-1: in every order of two clients' calls on two slots each, with a
// retry by each client, a call is executed once, and its retry gets its reply. A
// lease does not run out while a call runs (R8881-8.3-3).
func TestInterleavings(t *testing.T) {
	w := newTestState(t)
	sessions := [2]*Session{w.newTestClient("a"), w.newTestClient("b")}
	const begin, end = 0, 1
	type step struct{ client, slot, do int } // do: begin and end of the slot's call, or a retry
	const retry = 2
	var order []step
	var sequence uint32
	play := func() {
		sequence++
		var running, done [2][2]bool
		var waits [2]*pendingRetry
		for _, st := range order {
			s := sessions[st.client]
			a := Sequenced{Slot: uint32(st.slot), Sequence: sequence, Highest: 1}
			switch st.do {
			case begin:
				want(t, "new", w.Begin(s, &a).New, true)
				running[st.client][st.slot] = true
			case end:
				s.End(a.Slot, []byte{byte(sequence)}, false, false)
				running[st.client][st.slot], done[st.client][st.slot] = false, true
				if r := waits[st.client]; r != nil && st.slot == 0 {
					o, err := r.Wait(t.Context())
					want(t, "reply of a retry that waited", err == nil && o.Replay[0] == byte(sequence), true)
				}
			case retry:
				o := w.Begin(s, &a)
				switch {
				case running[st.client][0]:
					waits[st.client] = o.Retry
					want(t, "retry waits", o.Retry != nil, true)
				case done[st.client][0]:
					want(t, "reply", o.Replay[0], byte(sequence))
				}
			}
			w.clock.Add(1)
			silent := sessions[st.client].client.silentFor(w.config.Now())
			runs := running[st.client][0] || running[st.client][1]
			want(t, "lease stands still", silent == 0, runs)
		}
	}
	// left: the next step of each slot's call, and whether the retry is to come.
	var walk func(next [2][2]int, retried [2]bool)
	walk = func(next [2][2]int, retried [2]bool) {
		if next == [2][2]int{{2, 2}, {2, 2}} && retried == [2]bool{true, true} {
			play()
			return
		}
		for client := range 2 {
			for slot := range 2 {
				if do := next[client][slot]; do <= end {
					after := next
					after[client][slot]++
					order = append(order, step{client, slot, do})
					walk(after, retried)
					order = order[:len(order)-1]
				}
			}
			// A retry before the call would be the call itself.
			if !retried[client] && next[client][0] > begin {
				after := retried
				after[client] = true
				order = append(order, step{client, 0, retry})
				walk(next, after)
				order = order[:len(order)-1]
			}
		}
	}
	walk([2][2]int{}, [2]bool{})
	t.Logf("%d orders", sequence)
}
