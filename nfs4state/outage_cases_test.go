package nfs4state

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/journal"
	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// reclaimAll has a client reclaim all that it believes to have.
func (r *outages) reclaimAll(b *believer) {
	for !r.reclaim(b) {
		r.settle()
	}
}

// has returns how many claims a client has.
func (b *believer) has() (n int) {
	b.claims(func(*claim) { n++ })
	return n
}

// R8881-8.4.3-3: the two edge conditions. State that another client has had
// meanwhile is not given back, although the other has let it go before the restart,
// and also if the client has reclaimed a part of its state in time.
func TestEdges(t *testing.T) {
	begin := func(t *testing.T) (r *outages, a, b *believer) {
		r = newOutages(t, t.Name())
		a, b = &r.clients[0], &r.clients[1]
		r.reclaimAll(a)
		r.reclaimAll(b)
		r.open(a, 0, nfs4.ShareBoth, 0)
		r.lock(a, 0, 0, span{0, 1}, locks.Exclusive)
		r.lock(a, 1, 0, span{4, 5}, locks.Exclusive)
		want(t, "what A has", a.has(), 5)
		return r, a, b
	}
	use := func(t *testing.T, r *outages, b *believer) {
		r.reclaimAll(b)
		r.open(b, 0, nfs4.ShareBoth, 0)
		r.lock(b, 0, 0, span{4, 4}, locks.Exclusive)
		want(t, "what B has", b.has(), 2)
		r.unlock(b, 0, 0, whole)
		r.close(b, 0)
		r.settle()
	}
	t.Run("first", func(t *testing.T) {
		r, a, b := begin(t)
		r.sleep(r.lease + 1)
		use(t, r, b)
		r.crash("after the lease of A")
		r.reclaimAll(a)
		want(t, "what A has back", a.has(), 0)
		want(t, "reclaims that failed", r.lost > 0, true)
		r.finish()
	})
	for reclaims := range 3 {
		t.Run(fmt.Sprint("second, after ", reclaims, " reclaims"), func(t *testing.T) {
			r, a, b := begin(t)
			r.crash("with A alive")
			for range reclaims {
				r.reclaim(a)
			}
			r.sleep(r.grace)
			use(t, r, b)
			r.crash("after grace")
			r.reclaimAll(a) // which fails if A gets back what B has had
			want(t, "A has its later lock back", a.bytes[1][0][4].kind, locks.None)
			r.finish()
		})
	}
	t.Run("none", func(t *testing.T) {
		r, a, b := begin(t)
		r.sleep(10 * r.lease) // nobody needs what A has
		r.reclaimAll(b)
		r.open(b, 0, nfs4.ShareBoth, 0)
		r.crash("before anybody needs what A has")
		r.reclaim(a)
		r.crash("within grace")
		r.reclaimAll(a)
		want(t, "what A has back", a.has(), 5)
		r.reclaimAll(b)
		r.finish()
	})
}

// aProgram is a program of two clients with two crashes.
var aProgram = []func(r *outages, a, b *believer){
	func(r *outages, a, _ *believer) { r.reclaim(a) },
	func(r *outages, a, _ *believer) { r.open(a, 0, nfs4.ShareBoth, 0) },
	func(r *outages, a, _ *believer) { r.lock(a, 0, 0, span{0, 3}, locks.Exclusive) },
	func(r *outages, _, b *believer) { r.reclaim(b) },
	func(r *outages, _, b *believer) { r.open(b, 1, nfs4.ShareRead, nfs4.ShareWrite) },
	func(r *outages, _, _ *believer) { r.special(1, nfs4.ShareWrite) },
	func(r *outages, _, b *believer) { r.open(b, 0, nfs4.ShareBoth, 0) },
	func(r *outages, _, b *believer) { r.lock(b, 0, 0, span{4, 7}, locks.Shared) },
	func(r *outages, _, _ *believer) { r.crash("as it must") },
	func(r *outages, a, _ *believer) { r.reclaim(a) },
	func(r *outages, _, b *believer) { r.reclaim(b) },
	func(r *outages, a, _ *believer) { r.reclaim(a) },
	func(r *outages, _, _ *believer) { r.special(1, nfs4.ShareWrite) },
	func(r *outages, a, _ *believer) { r.reclaim(a) },
	func(r *outages, a, _ *believer) { r.lock(a, 0, 0, span{4, 5}, locks.Exclusive) },
	func(r *outages, _, _ *believer) { r.sleep(r.grace) },
	func(r *outages, a, _ *believer) { r.lock(a, 0, 0, span{4, 5}, locks.Exclusive) },
	func(r *outages, _, _ *believer) { r.special(1, nfs4.ShareWrite) },
	func(r *outages, _, _ *believer) { r.Sweep() },
	func(r *outages, a, _ *believer) { r.close(a, 0) },
	func(r *outages, _, _ *believer) { r.crash("as it must") },
	func(r *outages, _, b *believer) { r.reclaim(b) },
	func(r *outages, _, b *believer) { r.reclaim(b) },
	func(r *outages, a, _ *believer) { r.reclaim(a) },
	func(r *outages, _, b *believer) { r.reclaim(b) },
}

// R8881-8.4.2.1-7: the journal fails, or the server dies, at each step of a program
// and at each call of the journal within, and once more at each later step.
func TestCrashAtEachStep(t *testing.T) {
	const between = crashAfter + 1 // dies between two steps
	for fault := refused; fault <= between; fault++ {
		for first := range aProgram {
			for second := first; second < len(aProgram); second++ {
				r := newOutages(t, fmt.Sprint("fault ", fault, " at steps ", first, " and ", second))
				for i, do := range aProgram {
					if i == first || i == second && second != first {
						if fault == between {
							r.crash("between two steps")
						} else {
							r.journal.next, r.journal.times = fault, 1+second%2
						}
					}
					do(r, &r.clients[0], &r.clients[1])
					r.settle()
				}
				r.finish()
			}
		}
	}
}

// TestJournalCutAtEachByte cuts a journal on disk at each byte behind the last
// record that was stored when a call returned: the clients reclaim what had been
// granted until then. Of a journal that is damaged in its midst, nothing can be
// reclaimed (R8881-8.4.3-5).
func TestJournalCutAtEachByte(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "clients")
	start := func() (*world, *journal.Journal, journal.Found) {
		j, found, err := journal.Open(dir, "clients", JournalHeader)
		if err != nil {
			t.Fatal(err)
		}
		past, err := ReadPast(found.Records)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(manyGoroutines{t})
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
		s := w.client(name)
		_, id := w.open(s, "o", name, nfs4.ShareBoth, uint32(i), nil)
		w.lock(s, newLock(id, name, "l", true, 0, 9))
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
			id, sequence, _ := w.exchange(exchange(name, 1, 0))
			s := w.create(create(id, sequence, 0))
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
// without a word, leave a journal, a table and a queue that do not grow without
// end, even if the server dies again and again, or the journal fails.
func TestRecordsAreBounded(t *testing.T) {
	r := newOutages(t, "bounded")
	n := 0
	come := func(failing bool) {
		n++
		owner := fmt.Sprintf("%900d", n)
		id, sequence, _ := r.exchange(exchange(owner, 1, 0))
		s := r.create(create(id, sequence, 0))
		r.ReclaimComplete(s)
		key := fmt.Sprint(n % 7)
		_, open, status := r.OpenFile(s, &OpenFile{Owner: []byte("o"), Key: key, Access: nfs4.ShareBoth}, nil)
		if failing {
			want(t, "OPEN while the journal fails", status, nfs4.ErrDelay)
			return
		}
		want(t, "OPEN", status, nfs4.OK)
		r.world.lock(s, newLock(open, key, "l", true, uint64(n), uint64(n)))
		if n%10 != 0 {
			want(t, "CLOSE", r.world.Close(s, &open), nfs4.OK)
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
				r.sleep(retryEvery)
			}
			come(failing)
			r.sleep(testLease / 200)
			if i%50 == 0 {
				r.Sweep()
				r.WaitHost()
			}
			most, queue = max(most, int(r.journal.size)), max(queue, len(r.ledger.queue))
		}
		want(t, fmt.Sprint("length of the journal: ", most), most < 5*minCompact, true)
		want(t, fmt.Sprint("records: ", len(r.ledger.records)), len(r.ledger.records) <= 300, true)
		want(t, fmt.Sprint("queue: ", queue), queue < 100, true)
		r.journal.times = 0
		r.crash("under load")
		r.sleep(r.grace)
		r.Sweep()
		want(t, "records after a grace in which nobody came", len(r.ledger.records), 0)
	}
	if r.journal.calls < 100 {
		t.Fatal("the journal was not used")
	}
}
