package nfs4test

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// racerCount is the number of clients that send a call at the same time.
const racerCount = 8

// runRace lets clients send calls at the same time, and counts the statuses.
func (t *T) runRace(call func(i int, s *session) nfs4.Status) map[nfs4.Status]int {
	var sessions []*session
	t.ownDir()
	for range racerCount {
		sessions = append(sessions, t.newClient().newSession().completeReclaim())
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

// oneWinner returns the result of a race that one client wins.
func oneWinner(others nfs4.Status) map[nfs4.Status]int {
	return map[nfs4.Status]int{nfs4.OK: 1, others: racerCount - 1}
}

// races are scenarios for clients that do the same at the same time.
var races = []Scenario{
	{Name: "clients create a file at the same time", By: "RFC 8881, 18.16.3: GUARDED4, EXCLUSIVE4_1", run: func(t *T) {
		for round, how := range []nfs4.CreateMode{nfs4.Guarded, nfs4.Exclusive1, nfs4.Exclusive} {
			name := fmt.Sprint("f", round)
			assert.Equal(t, oneWinner(nfs4.ErrExist), t.runRace(func(i int, s *session) nfs4.Status {
				a := exclusiveOpen(openName(name, "a", nfs4.ShareBoth, 0), how, nfs4.Verifier{byte(i), 1}, nfs4.Attrs{})
				return s.callWithSequence(putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes))).status
			}))
		}
	}},
	{Name: "clients make and remove a directory at the same time", By: "RFC 8881, 18.4.3, 18.25.3", run: func(t *T) {
		for range 5 {
			assert.Equal(t, oneWinner(nfs4.ErrExist), t.runRace(func(_ int, s *session) nfs4.Status {
				return s.callWithSequence(putFH(t.ownDir()), createOp(nfs4.TypeDir, "d", modeAttrs(0o777))).status
			}))
			assert.Equal(t, oneWinner(nfs4.ErrNoEnt), t.runRace(func(_ int, s *session) nfs4.Status {
				return s.callWithSequence(putFH(t.ownDir()), removeOp("d")).status
			}))
		}
	}},
	{Name: "clients rename a file at the same time", By: "RFC 8881, 18.26.3: a rename is atomic", run: func(t *T) {
		t.newObject(nfs4.TypeReg, "f")
		assert.Equal(t, oneWinner(nfs4.ErrNoEnt), t.runRace(func(i int, s *session) nfs4.Status {
			return s.callWithSequence(putFH(t.ownDir()), saveFH(), renameOp("f", fmt.Sprint("g", i))).status
		}))
	}},
	{Name: "clients lock bytes at the same time", By: "RFC 8881, 18.10.3", run: func(t *T) {
		t.awaitGraceEnd()
		fh := t.newObject(nfs4.TypeReg, "f")
		assert.Equal(t, oneWinner(nfs4.ErrDenied), t.runRace(func(_ int, s *session) nfs4.Status {
			var o nfs4.OpenRes
			if rep := s.callWithSequence(putFH(fh), openOp(openFH("a", nfs4.ShareBoth, 0), &o)); rep.status != nfs4.OK {
				return rep.status
			}
			l := &locker{openedFile: &openedFile{fh, o.StateID, s}, owner: "l"}
			return s.callWithSequence(putFH(fh), l.lockOp(nfs4.LockWrite, 0, toEOF, new(nfs4.LockRes))).status
		}))
	}},
	{Name: "clients open with deny modes at the same time", By: "RFC 8881, 9.7", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		assert.Equal(t, oneWinner(nfs4.ErrShareDenied), t.runRace(func(_ int, s *session) nfs4.Status {
			return s.callWithSequence(putFH(fh), openOp(openFH("a", nfs4.ShareBoth, nfs4.ShareBoth), new(nfs4.OpenRes))).status
		}))
	}},
	{Name: "OPENs of one owner at the same time", By: "RFC 8881, 9.10: each advances the seqid once", run: func(t *T) {
		fh := t.newObject(nfs4.TypeReg, "f")
		s := t.ownSession()
		var mu sync.Mutex
		seqs := map[uint32]bool{}
		var wg sync.WaitGroup
		for slot := range s.fore.MaxRequests {
			c := t.dial()
			wg.Go(func() {
				var o nfs4.OpenRes
				c.callCompound(s.sequenceOp(slot), putFH(fh), openOp(openFH("a", nfs4.ShareRead, 0), &o)).checkStatus(t, 3, nfs4.OK)
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
		fh := t.newObject(nfs4.TypeReg, "f")
		assert.Equal(t, map[nfs4.Status]int{nfs4.OK: racerCount}, t.runRace(func(i int, s *session) nfs4.Status {
			text := fmt.Sprintf("%04d", i)
			return s.callWithSequence(putFH(fh), writeOp(nfs4.AnonymousStateID, uint64(4*i), nfs4.Unstable, text, new(nfs4.WriteRes))).status
		}))
		var res nfs4.ReadRes
		t.expectStatus(nfs4.OK, putFH(fh), readOp(nfs4.AnonymousStateID, 0, 100, &res))
		want := ""
		for i := range racerCount {
			want += fmt.Sprintf("%04d", i)
		}
		assert.Equal(t, want, string(res.Data))
	}},
	{Name: "EXCHANGE_ID and CREATE_SESSION of many clients at the same time", By: "RFC 8881, 18.35.3: client IDs differ", run: func(t *T) {
		var mu sync.Mutex
		ids := map[uint64]bool{}
		var wg sync.WaitGroup
		for range racerCount {
			c := t.dial()
			wg.Go(func() {
				for range 5 {
					n := c.newClientID(t.uniqueName())
					n.newSession()
					mu.Lock()
					ids[n.id] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		assert.Len(t, ids, 5*racerCount)
	}},
}
