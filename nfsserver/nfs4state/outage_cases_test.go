package nfs4state

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/journal"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// reclaimAll makes a client reclaim all that it believes it has.
func (r *outageRun) reclaimAll(b *outageClient) {
	for !r.reclaimNext(b) {
		r.checkState()
	}
}

// claimCount returns the number of a client's claims.
func (b *outageClient) claimCount() (n int) {
	b.eachClaim(func(*claim) { n++ })
	return n
}

// R8881-8.4.3-3: the two edge conditions. State that another client has had since
// cannot be reclaimed, although the other has released it before the restart, and
// also if the client has reclaimed a part of its state in time.
func TestEdges(t *testing.T) {
	begin := func(t *testing.T) (r *outageRun, a, b *outageClient) {
		r = newOutageRun(t, t.Name())
		a, b = &r.clients[0], &r.clients[1]
		r.reclaimAll(a)
		r.reclaimAll(b)
		r.openMore(a, 0, nfs4.ShareBoth, 0)
		r.lockSpan(a, 0, 0, span{0, 1}, locks.Exclusive)
		r.lockSpan(a, 1, 0, span{4, 5}, locks.Exclusive)
		want(t, "what A has", a.claimCount(), 5)
		return r, a, b
	}
	use := func(t *testing.T, r *outageRun, b *outageClient) {
		r.reclaimAll(b)
		r.openMore(b, 0, nfs4.ShareBoth, 0)
		r.lockSpan(b, 0, 0, span{4, 4}, locks.Exclusive)
		want(t, "what B has", b.claimCount(), 2)
		r.unlockSpan(b, 0, 0, whole)
		r.closeObject(b, 0)
		r.checkState()
	}
	t.Run("first", func(t *testing.T) {
		r, a, b := begin(t)
		r.advanceClock(r.lease + 1)
		use(t, r, b)
		r.crashServer("after the lease of A")
		r.reclaimAll(a)
		want(t, "what A has back", a.claimCount(), 0)
		want(t, "reclaims that failed", r.lost > 0, true)
		r.checkFinish()
	})
	for reclaims := range 3 {
		t.Run(fmt.Sprint("second, after ", reclaims, " reclaims"), func(t *testing.T) {
			r, a, b := begin(t)
			r.crashServer("with A alive")
			for range reclaims {
				r.reclaimNext(a)
			}
			r.advanceClock(r.grace)
			use(t, r, b)
			r.crashServer("after grace")
			r.reclaimAll(a) // which fails if A gets back what B has had
			want(t, "A has its later lock back", a.bytes[1][0][4].kind, locks.None)
			r.checkFinish()
		})
	}
	t.Run("none", func(t *testing.T) {
		r, a, b := begin(t)
		r.advanceClock(10 * r.lease) // no client needs A's state
		r.reclaimAll(b)
		r.openMore(b, 0, nfs4.ShareBoth, 0)
		r.crashServer("before anybody needs what A has")
		r.reclaimNext(a)
		r.crashServer("within grace")
		r.reclaimAll(a)
		want(t, "what A has back", a.claimCount(), 5)
		r.reclaimAll(b)
		r.checkFinish()
	})
}

// aProgram is a program of two clients with two crashes.
var aProgram = []func(r *outageRun, a, b *outageClient){
	func(r *outageRun, a, _ *outageClient) { r.reclaimNext(a) },
	func(r *outageRun, a, _ *outageClient) { r.openMore(a, 0, nfs4.ShareBoth, 0) },
	func(r *outageRun, a, _ *outageClient) { r.lockSpan(a, 0, 0, span{0, 3}, locks.Exclusive) },
	func(r *outageRun, _, b *outageClient) { r.reclaimNext(b) },
	func(r *outageRun, _, b *outageClient) { r.openMore(b, 1, nfs4.ShareRead, nfs4.ShareWrite) },
	func(r *outageRun, _, _ *outageClient) { r.useSpecial(1, nfs4.ShareWrite) },
	func(r *outageRun, _, b *outageClient) { r.openMore(b, 0, nfs4.ShareBoth, 0) },
	func(r *outageRun, _, b *outageClient) { r.lockSpan(b, 0, 0, span{4, 7}, locks.Shared) },
	func(r *outageRun, _, _ *outageClient) { r.crashServer("as it must") },
	func(r *outageRun, a, _ *outageClient) { r.reclaimNext(a) },
	func(r *outageRun, _, b *outageClient) { r.reclaimNext(b) },
	func(r *outageRun, a, _ *outageClient) { r.reclaimNext(a) },
	func(r *outageRun, _, _ *outageClient) { r.useSpecial(1, nfs4.ShareWrite) },
	func(r *outageRun, a, _ *outageClient) { r.reclaimNext(a) },
	func(r *outageRun, a, _ *outageClient) { r.lockSpan(a, 0, 0, span{4, 5}, locks.Exclusive) },
	func(r *outageRun, _, _ *outageClient) { r.advanceClock(r.grace) },
	func(r *outageRun, a, _ *outageClient) { r.lockSpan(a, 0, 0, span{4, 5}, locks.Exclusive) },
	func(r *outageRun, _, _ *outageClient) { r.useSpecial(1, nfs4.ShareWrite) },
	func(r *outageRun, _, _ *outageClient) { r.Sweep() },
	func(r *outageRun, a, _ *outageClient) { r.closeObject(a, 0) },
	func(r *outageRun, _, _ *outageClient) { r.crashServer("as it must") },
	func(r *outageRun, _, b *outageClient) { r.reclaimNext(b) },
	func(r *outageRun, _, b *outageClient) { r.reclaimNext(b) },
	func(r *outageRun, a, _ *outageClient) { r.reclaimNext(a) },
	func(r *outageRun, _, b *outageClient) { r.reclaimNext(b) },
}

// R8881-8.4.2.1-7: the journal fails, or the server dies, at each step of a program
// and at each call of the journal within, and once more at each later step.
func TestCrashAtEachStep(t *testing.T) {
	const between = crashAfter + 1 // dies between two steps
	for fault := refused; fault <= between; fault++ {
		for first := range aProgram {
			for second := first; second < len(aProgram); second++ {
				r := newOutageRun(t, fmt.Sprint("fault ", fault, " at steps ", first, " and ", second))
				for i, do := range aProgram {
					if i == first || i == second && second != first {
						if fault == between {
							r.crashServer("between two steps")
						} else {
							r.journal.next, r.journal.times = fault, 1+second%2
						}
					}
					do(r, &r.clients[0], &r.clients[1])
					r.checkState()
				}
				r.checkFinish()
			}
		}
	}
}

// TestJournalCutAtEachByte truncates a journal on disk at each byte after the
// last record that was stored when a call returned: the clients reclaim what had
// been granted until then. Of a journal that is damaged in its midst, nothing
// can be reclaimed (R8881-8.4.3-5).
func TestJournalCutAtEachByte(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "clients")
	start := func() (*testState, *journal.Journal, journal.Found) {
		j, found, err := journal.Open(dir, "clients", JournalHeader, nil)
		if err != nil {
			t.Fatal(err)
		}
		past, err := ReadPast(found.Records)
		if err != nil {
			t.Fatal(err)
		}
		w := newTestState(manyGoroutines{t})
		config := w.config
		config.Journal, config.Past, config.Epoch = j, past, past.Epoch+1
		w.State = New(config)
		return w, j, found
	}
	content := func() []byte {
		b, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	w, j, _ := start()
	names := []string{"a", "b", "c"}
	var sizes []int // when the client of that index has state
	var files [][]byte
	for i, name := range names {
		s := w.newTestClient(name)
		_, id := w.mustOpen(s, "o", name, nfs4.ShareBoth, uint32(i), nil)
		w.mustLock(s, newLock(id, name, "l", true, 0, 9))
		files = append(files, content())
		sizes = append(sizes, len(files[i]))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	all := files[len(files)-1]
	for i := range files {
		if !bytes.HasPrefix(all, files[i]) {
			t.Fatal("the journal does not grow at its end alone")
		}
	}
	restart := func(b []byte, what string, clients int) {
		t.Helper()
		if err := os.WriteFile(at, b, 0o600); err != nil {
			t.Fatal(err)
		}
		w, j, _ := start()
		defer j.Close()
		want(t, what+": clients that may reclaim", w.Grace().Clients >= clients, true)
		for i, name := range names {
			id, sequence, _ := w.mustExchange(exchangeArgs(name, 1, 0))
			s := w.mustCreateSession(createArgs(id, sequence, 0))
			_, open, status := w.OpenFile(s, &OpenFile{
				Owner: []byte("o"), Key: name, Access: nfs4.ShareBoth, Deny: uint32(i), Reclaim: true,
			}, nil)
			if i < clients {
				want(t, fmt.Sprint(what, ": reclaim of the open of ", name), status, nfs4.OK)
				a := newLock(open, name, "l", true, 0, 9)
				a.Reclaim = true
				want(t, fmt.Sprint(what, ": reclaim of the lock of ", name), w.lockStatus(s, a), nfs4.OK)
			}
			if clients < 0 {
				want(t, fmt.Sprint(what, ": reclaim of the open of ", name), status, nfs4.ErrNoGrace)
			}
			want(t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
		}
		want(t, what+": clients that may reclaim still", w.Grace().Clients, 0)
	}
	for cut := sizes[0]; cut <= len(all); cut++ {
		clients := 0
		for clients < len(sizes) && sizes[clients] <= cut {
			clients++
		}
		restart(all[:cut], fmt.Sprint("cut at byte ", cut), clients)
	}
	damaged := bytes.Clone(all)
	damaged[sizes[0]-1] ^= 1
	restart(damaged, "damage in the midst", -1)
}

// TestRecordsAreBounded: clients with long names that come and go, most of them
// silently, leave a journal, a table and a queue that do not grow without
// limit, even if the server dies again and again, or the journal fails.
func TestRecordsAreBounded(t *testing.T) {
	r := newOutageRun(t, "bounded")
	n := 0
	come := func(failing bool) {
		n++
		owner := fmt.Sprintf("%900d", n)
		id, sequence, _ := r.mustExchange(exchangeArgs(owner, 1, 0))
		s := r.mustCreateSession(createArgs(id, sequence, 0))
		r.ReclaimComplete(s)
		key := fmt.Sprint(n % 7)
		_, open, status := r.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: key, Access: nfs4.ShareBoth}, nil)
		if failing {
			want(t, "OPEN while the journal fails", status, nfs4.ErrDelay)
			return
		}
		want(t, "OPEN", status, nfs4.OK)
		r.testState.mustLock(s, newLock(open, key, "l", true, uint64(n), uint64(n)))
		if n%10 != 0 {
			want(t, "CLOSE", r.testState.Close(s, &open), nfs4.OK)
			want(t, "DESTROY_SESSION", r.DestroySession(s.ID, nil), nfs4.OK)
			want(t, "DESTROY_CLIENTID", r.DestroyClientID(s.ClientID()), nfs4.OK)
		}
	}
	for range 3 {
		var most, queue int
		for i := range 2000 {
			failing := i%200 == 199
			if failing {
				r.journal.next, r.journal.times = refused, 1<<30
			} else if r.journal.times > 0 {
				r.journal.times = 0
				r.advanceClock(retryEvery)
			}
			come(failing)
			r.advanceClock(testLease / 200)
			if i%50 == 0 {
				r.Sweep()
				r.WaitForHostLocks()
			}
			most, queue = max(most, int(r.journal.size)), max(queue, len(r.ledger.queue))
		}
		want(t, fmt.Sprint("length of the journal: ", most), most < 5*minCompact, true)
		want(t, fmt.Sprint("records: ", len(r.ledger.records)), len(r.ledger.records) <= 300, true)
		want(t, fmt.Sprint("queue: ", queue), queue < 100, true)
		r.journal.times = 0
		r.crashServer("under load")
		r.advanceClock(r.grace)
		r.Sweep()
		want(t, "records after a grace period without clients", len(r.ledger.records), 0)
	}
	if r.journal.calls < 100 {
		t.Fatal("the journal was not used")
	}
}
