package nfs4test

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// racers is how many clients make a call at the same time.
const racers = 8

// race lets clients make calls at the same time, and returns how many ended
// with each status.
func (t *T) race(call func(i int, s *session) nfs4.Status) map[nfs4.Status]int {
	var sessions []*session
	t.dir()
	for range racers {
		sessions = append(sessions, t.client().session().ready())
	}
	var mu sync.Mutex
	got := map[nfs4.Status]int{}
	var wg sync.WaitGroup
	for i, s := range sessions {
		wg.Go(func() {
			st := call(i, s)
			mu.Lock()
			defer mu.Unlock()
			got[st]++
		})
	}
	wg.Wait()
	return got
}

// one is the result of a race that one client wins.
func one(others nfs4.Status) map[nfs4.Status]int {
	return map[nfs4.Status]int{nfs4.OK: 1, others: racers - 1}
}

// races are scenarios of clients that do the same at the same time.
var races = []Scenario{
	{Name: "clients create a file at the same time", By: "RFC 8881, 18.16.3: GUARDED4, EXCLUSIVE4_1", run: func(t *T) {
		for round, how := range []nfs4.CreateMode{nfs4.Guarded, nfs4.Exclusive1, nfs4.Exclusive} {
			name := fmt.Sprint("f", round)
			assert.Equal(t, one(nfs4.ErrExist), t.race(func(i int, s *session) nfs4.Status {
				a := exclusively(openName(name, "a", nfs4.ShareBoth, 0), how, nfs4.Verifier{byte(i), 1}, nfs4.Attrs{})
				return s.do(putFH(t.dir()), open(a, new(nfs4.OpenRes))).status
			}))
		}
	}},
	{Name: "clients make and remove a directory at the same time", By: "RFC 8881, 18.4.3, 18.25.3", run: func(t *T) {
		for range 5 {
			assert.Equal(t, one(nfs4.ErrExist), t.race(func(_ int, s *session) nfs4.Status {
				return s.do(putFH(t.dir()), create(nfs4.TypeDir, "d", mode(0o777))).status
			}))
			assert.Equal(t, one(nfs4.ErrNoEnt), t.race(func(_ int, s *session) nfs4.Status {
				return s.do(putFH(t.dir()), remove("d")).status
			}))
		}
	}},
	{Name: "clients rename a file at the same time", By: "RFC 8881, 18.26.3: a rename is atomic", run: func(t *T) {
		t.object(nfs4.TypeReg, "f")
		assert.Equal(t, one(nfs4.ErrNoEnt), t.race(func(i int, s *session) nfs4.Status {
			return s.do(putFH(t.dir()), saveFH(), rename("f", fmt.Sprint("g", i))).status
		}))
	}},
	{Name: "clients lock bytes at the same time", By: "RFC 8881, 18.10.3", run: func(t *T) {
		t.afterGrace()
		fh := t.object(nfs4.TypeReg, "f")
		assert.Equal(t, one(nfs4.ErrDenied), t.race(func(_ int, s *session) nfs4.Status {
			var o nfs4.OpenRes
			if rep := s.do(putFH(fh), open(openFH("a", nfs4.ShareBoth, 0), &o)); rep.status != nfs4.OK {
				return rep.status
			}
			l := &locker{opened: &opened{fh, o.StateID, s}, owner: "l"}
			return s.do(putFH(fh), l.lockOp(nfs4.LockWrite, 0, toEnd, new(nfs4.LockRes))).status
		}))
	}},
	{Name: "clients open with deny modes at the same time", By: "RFC 8881, 9.7", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		assert.Equal(t, one(nfs4.ErrShareDenied), t.race(func(_ int, s *session) nfs4.Status {
			return s.do(putFH(fh), open(openFH("a", nfs4.ShareBoth, nfs4.ShareBoth), new(nfs4.OpenRes))).status
		}))
	}},
	{Name: "OPENs of one owner at the same time", By: "RFC 8881, 9.10: each advances the seqid once", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		s := t.session()
		var mu sync.Mutex
		seqs := map[uint32]bool{}
		var wg sync.WaitGroup
		for slot := range s.fore.MaxRequests {
			c := t.dial()
			wg.Go(func() {
				var o nfs4.OpenRes
				c.compound(s.sequenceOp(slot), putFH(fh), open(openFH("a", nfs4.ShareRead, 0), &o)).is(t, 3, nfs4.OK)
				mu.Lock()
				defer mu.Unlock()
				seqs[o.StateID.SeqID] = true
			})
		}
		wg.Wait()
		for slot := range s.fore.MaxRequests {
			s.seq[slot]++
			assert.True(t, seqs[slot+1], "%v", seqs)
		}
	}},
	{Name: "WRITEs to one file at the same time", By: "RFC 8881, 18.32.3", run: func(t *T) {
		fh := t.object(nfs4.TypeReg, "f")
		assert.Equal(t, map[nfs4.Status]int{nfs4.OK: racers}, t.race(func(i int, s *session) nfs4.Status {
			text := fmt.Sprintf("%04d", i)
			return s.do(putFH(fh), write(nfs4.AnonymousStateID, uint64(4*i), nfs4.Unstable, text, new(nfs4.WriteRes))).status
		}))
		var res nfs4.ReadRes
		t.want(nfs4.OK, putFH(fh), read(nfs4.AnonymousStateID, 0, 100, &res))
		want := ""
		for i := range racers {
			want += fmt.Sprintf("%04d", i)
		}
		assert.Equal(t, want, string(res.Data))
	}},
	{Name: "EXCHANGE_ID and CREATE_SESSION of many clients at the same time", By: "RFC 8881, 18.35.3: client IDs differ", run: func(t *T) {
		var mu sync.Mutex
		ids := map[uint64]bool{}
		var wg sync.WaitGroup
		for range racers {
			c := t.dial()
			wg.Go(func() {
				for range 5 {
					n := c.client(t.unique())
					n.session()
					mu.Lock()
					ids[n.id] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		assert.Len(t, ids, 5*racers)
	}},
}
