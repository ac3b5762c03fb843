package nfs4state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// mustHeld returns what all clients hold of a file.
func (w *testState) mustHeld(key string, id uint64, limit int) HeldFile {
	w.t.Helper()
	f, held := w.HeldFile(key, id, limit)
	want(w.t, "held", held, true)
	return f
}

// TestHeldFile checks the snapshot of a file that NFSv4 clients and a Machine hold in every way, for
// all and for one of them.
func TestHeldFile(t *testing.T) {
	q := newWaitingTest(t)
	a, aid := q.openAsWaiter("a")
	b, bid := q.openAsWaiter("b")
	m := q.enterTestMachine("m")
	_, _, status := q.OpenFile(b, &OpenFile{Owner: []byte("second"), Key: "f", Handle: "fh", Access: nfs4.ShareRead}, nil)
	want(t, "OPEN", status, nfs4.OK)
	want(t, "SHARE", m.Share(&Share{Owner: []byte("s"), Key: "f", Access: nfs4.ShareRead}), nfs4.OK)
	q.mustLock(a, newLock(aid, "f", "x", true, 0, 9))
	q.mustLock(a, newLock(aid, "f", "y", false, 100, locks.ToEnd))
	want(t, "LOCK", m.lockStatus(&Lock{Owner: []byte("n"), Key: "f", Range: locks.Range{Start: 50, End: 59}}), nfs4.OK)
	q.mustWait(b, bid, "w", true, 5, 5)
	q.advanceClock(3 * time.Second)
	want(t, "LOCK", m.lockStatus(q.withTell(machineLock(false))), nfs4.ErrDenied)
	q.advanceClock(2 * time.Second)
	q.mustWait(b, bid, "w", true, 5, 5) // it asks again, and has waited since the first time

	waited, all := q.WaitedKeys(9)
	assert.Equal(t, []any{[]string{"f"}, 1}, []any{waited, all})
	f := q.mustHeld("f", 0, 100)
	assert.Equal(t, "fh", f.Handle)
	assert.False(t, f.Omitted)
	require.Len(t, f.Opens, 4)
	require.Len(t, f.Locks, 3)
	require.Len(t, f.Waiters, 2)
	type lock struct {
		client, owner string
		r             locks.Range
		exclusive     bool
	}
	var got []lock
	for _, l := range f.Locks {
		got = append(got, lock{l.Name, l.Owner, l.Range, l.Exclusive})
	}
	assert.Equal(t, []lock{
		{"a", "x", locks.Range{Start: 0, End: 9}, true},
		{"m", "n", locks.Range{Start: 50, End: 59}, false},
		{"a", "y", locks.Range{Start: 100, End: locks.ToEnd}, false},
	}, got)
	w := f.Waiters
	assert.Equal(t, []any{"b", "w", 5 * time.Second, true, false}, []any{w[0].Name, w[0].Owner, w[0].For, w[0].Exclusive, w[0].Machine})
	assert.Equal(t, []any{"m", "o", 2 * time.Second, false, true}, []any{w[1].Name, w[1].Owner, w[1].For, w[1].Exclusive, w[1].Machine})
	assert.Equal(t, "192.0.2.1", w[1].Addr.Addr().String())
	assert.Equal(t, "b", w[0].Conn)

	own := q.mustHeld("f", a.ClientID(), 100)
	require.Len(t, own.Opens, 1)
	assert.Equal(t, [2]uint32{nfs4.ShareBoth, 0}, [2]uint32{own.Opens[0].Access, own.Opens[0].Deny})
	assert.Len(t, own.Locks, 2)
	assert.Len(t, own.Waiters, 2, "others that wait for this client")
	q.advanceClock(2*testLease + 1)
	assert.Len(t, q.mustHeld("f", 0, 100).Waiters, 1, "a client that no longer asks has given up")

	cut := q.mustHeld("f", 0, 1)
	assert.True(t, cut.Omitted)
	assert.Equal(t, []int{1, 1, 1}, []int{len(cut.Opens), len(cut.Locks), len(cut.Waiters)}, "opens hide no locks or waiters")
	assert.False(t, q.mustHeld("f", 0, 4).Omitted)
	_, held := q.HeldFile("none", 0, 5)
	assert.False(t, held)
}

// TestHeldDelegation checks that delegations are listed with their kind and locks, and whether they
// are recalled.
func TestHeldDelegation(t *testing.T) {
	w := newTestState(t)
	s := w.newCallableClient("c")
	w.mustOpen(s, "o", "f", nfs4.ShareBoth, 0, nil)
	d, status := w.Delegate(s, &Delegate{Key: "f", Handle: "fh", Write: true}, nil)
	want(t, "status", status, nfs4.OK)
	w.mustLock(s, &Lock{StateID: d.StateID(), New: true, ByDelegation: true, Owner: []byte("l"), Key: "f", Range: locks.Range{End: 3}})
	f := w.mustHeld("f", 0, 10)
	require.Len(t, f.Delegations, 1)
	assert.Equal(t, [2]bool{true, false}, [2]bool{f.Delegations[0].Write, f.Delegations[0].Recalled})
	assert.Len(t, f.Locks, 1)
	assert.Equal(t, "fh", f.Handle)
	w.Recall(d)
	assert.True(t, w.mustHeld("f", s.ClientID(), 10).Delegations[0].Recalled)
}

// TestHeldKeys checks that the pages of a list have each file of a client, or of all, once, and how
// many files are left.
func TestHeldKeys(t *testing.T) {
	w := newTestState(t)
	mine, other, m := w.newTestClient("mine"), w.newTestClient("other"), w.enterTestMachine("m")
	var own, all []string
	for i := range 1000 {
		key := fmt.Sprint("f", i)
		switch all = append(all, key); i % 4 {
		case 0:
			w.mustOpen(other, "o", key, nfs4.ShareRead, 0, nil)
		case 1:
			want(t, "LOCK", m.lockStatus(&Lock{Owner: []byte("o"), Key: key, Range: locks.Range{End: 3}}), nfs4.OK)
		default:
			own = append(own, key)
			w.mustOpen(mine, "o", key, nfs4.ShareRead, 0, nil)
			w.mustOpen(mine, "p", key, nfs4.ShareRead, 0, nil)
		}
	}
	slices.Sort(own)
	slices.Sort(all)
	for id, files := range map[uint64][]string{0: all, mine.ClientID(): own} {
		var got []string
		after := ""
		for {
			page, rest, status := w.HeldKeys(id, after, 99)
			want(t, "status", status, nfs4.OK)
			got = append(got, page...)
			want(t, "rest", rest, len(files)-len(got))
			if rest == 0 {
				break
			}
			after = page[len(page)-1]
		}
		slices.Sort(got)
		assert.Equal(t, files, got)
	}
	page, rest, status := w.HeldKeys(m.id, "", 1000)
	assert.Equal(t, []int{250, 0}, []int{len(page), rest})
	want(t, "status", status, nfs4.OK)
	_, _, status = w.HeldKeys(12345, "", 1000)
	want(t, "status", status, nfs4.ErrStaleClientID)
}

// TestHeldSteps checks that a list of very many opens and locks lets other calls run after
// maxEntriesPerHold entries, and survives their changes.
func TestHeldSteps(t *testing.T) {
	w := newTestState(manyGoroutines{t})
	s := w.newTestClient("c")
	const n = 2000
	var ids []nfs4.StateID
	for i := range n {
		_, id := w.mustOpen(s, fmt.Sprint("o", i), "f", nfs4.ShareBoth, 0, nil)
		ids = append(ids, id)
	}
	for i := range uint64(n) {
		w.mustLock(s, newLock(ids[0], "f", "l", true, 2*i, 2*i))
	}
	for i := range w.State.mu.parts {
		w.State.mu.parts[i].maxEntries = 0
	}
	f := w.mustHeld("f", 0, 10*n)
	assert.Equal(t, [2]int{n, n}, [2]int{len(f.Opens), len(f.Locks)})
	keys, _, _ := w.HeldKeys(0, "", n)
	assert.Equal(t, []string{"f"}, keys)
	most := 0
	for i := range w.State.mu.parts {
		most = max(most, w.State.mu.parts[i].maxEntries)
	}
	want(t, "entries of one hold", most <= maxEntriesPerHold, true)

	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for rng := rand.New(rand.NewPCG(1, 1)); len(ids) > 1; {
			select {
			case <-stop:
				return
			default:
			}
			i := 1 + rng.IntN(len(ids)-1)
			w.Close(s, &ids[i])
			ids[i] = ids[len(ids)-1]
			ids = ids[:len(ids)-1]
			start := uint64(rng.IntN(2 * n))
			_ = w.lockStatus(s, newLock(ids[0], "f", "l", false, start, start+10))
		}
	}()
	for range 20 {
		w.mustHeld("f", 0, 10*n)
		_, _, status := w.HeldKeys(s.ClientID(), "", n)
		want(t, "status", status, nfs4.OK)
	}
	close(stop)
	<-done
}

// TestHeldOnce checks that a list has no open twice, although CLOSEs move others while the list is
// read.
func TestHeldOnce(t *testing.T) {
	const n = 100
	for range 10 {
		w := newTestState(manyGoroutines{t})
		var others []nfs4.StateID
		s := w.newTestClient("other")
		for i := range 20 * n {
			_, id := w.mustOpen(s, fmt.Sprint("o", i), "f", nfs4.ShareRead, 0, nil)
			others = append(others, id)
		}
		for i := range n {
			w.mustOpen(w.newTestClient(fmt.Sprint("c", i)), "o", "f", nfs4.ShareRead, 0, nil)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range others {
				w.Close(s, &others[i])
			}
		}()
		f := w.mustHeld("f", 0, 30*n)
		<-done
		opens := make(map[uint64]int)
		for _, o := range f.Opens {
			if o.ID != s.ClientID() {
				opens[o.ID]++
			}
		}
		assert.Equal(t, n, len(opens))
		for _, times := range opens {
			assert.Equal(t, 1, times)
		}
	}
}
