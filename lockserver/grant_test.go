package lockserver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
)

// TestGranted: RNLM-LOCK-2, RNLM-LOCK-3, RNLM-LINUX-2, RNLM-GRANTED-1, RNLM-GRANTED-2, RNLM-LINUX-3: a lock that
// is not free is BLOCKED at once (chimera#971), a repeated LOCK finds the owner that waits, and
// one GRANTED follows, with the arguments of LOCK, from the address that the client has called.
func TestGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		h := g.host("192.0.2.2")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 10))
		for range 10 {
			assert.Equal(t, nlm4.Blocked, b.waits(false, 3, 4))
			time.Sleep(30 * time.Second)
		}
		assert.Empty(t, h.grants())
		require.Equal(t, nlm4.Granted, a.unlock(0, 10))
		synctest.Wait()
		granted := h.grants()
		require.Len(t, granted, 1)
		assert.Len(t, granted[0].Cookie, 8)
		granted[0].Cookie = nil
		assert.Equal(t, nlm4.TestArgs{Lock: b.over(3, 4)}, granted[0])
		assert.Equal(t, []netip.Addr{b.peer.Local.Addr()}, h.from)
		assert.Equal(t, nlm4.Denied, a.try(true, 3, 1))
		time.Sleep(time.Hour)
		assert.Empty(t, h.grants(), "GRANTED was answered")
		assert.Equal(t, [2]int{}, g.open())
		assert.Equal(t, 0, g.lines(), "no goroutine stays for a host")
	})
}

// TestGrantedOld: RNLM-GRANTED-1: GRANTED of the old versions has the range of LOCK, whatever its 32 bits are.
func TestGrantedOld(t *testing.T) {
	for _, vers := range []uint32{nlm4.Version1, nlm4.Version3} {
		for _, r := range [][2]uint64{{5, 7}, {5, 0}, {0, math.MaxUint32}, {5, math.MaxUint32 - 4}, {5, math.MaxUint32}, {math.MaxUint32, 0}, {math.MaxUint32, 1}, {math.MaxUint32, math.MaxUint32}} {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t)
				a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
				b.vers = vers
				require.Equal(t, nlm4.Granted, a.try(true, 0, 0))
				require.Equal(t, nlm4.Blocked, b.waits(true, r[0], r[1]))
				require.Equal(t, nlm4.Granted, a.unlock(0, 0))
				synctest.Wait()
				granted := g.host("192.0.2.2").grants()
				require.Len(t, granted, 1)
				assert.Equal(t, b.over(r[0], r[1]), granted[0].Lock, vers)
				g.s.Close()
			})
		}
	}
}

// TestGrantedInOrder: 1,000 owners wait for one byte, of clients of both protocols' state: each is
// granted the lock once, in the order of their calls.
func TestGrantedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		const owners, hosts = 1000, 10
		holder := g.client("192.0.2.200", "holder")
		require.Equal(t, nlm4.Granted, holder.try(true, 7, 1))
		var list []*client
		for i := range owners {
			c := g.client(fmt.Sprintf("192.0.2.%d", 1+i%hosts), fmt.Sprintf("host%d", i%hosts)).process(int32(i))
			require.Equal(t, nlm4.Blocked, c.waits(true, 7, 1))
			list = append(list, c)
		}
		next := holder
		for i, c := range list {
			require.Equal(t, nlm4.Granted, next.unlock(7, 1))
			synctest.Wait()
			granted := g.host(fmt.Sprintf("192.0.2.%d", 1+i%hosts)).grants()
			require.Len(t, granted, 1, i)
			require.Equal(t, int32(i), granted[0].Lock.SVID)
			next = c
		}
		require.Equal(t, nlm4.Granted, next.unlock(7, 1))
		synctest.Wait()
		for i := range hosts {
			assert.Empty(t, g.host(fmt.Sprintf("192.0.2.%d", 1+i)).grants())
		}
		assert.Zero(t, g.locked())
		assert.False(t, g.state.Waits())
	})
}

// TestGrantDenied: RNLM-GRANTED-3: a client that does not want the lock loses it, to the next one. What the
// owner had locked before is locked again.
func TestGrantDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, b, c := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b"), g.client("192.0.2.3", "c")
		g.host("192.0.2.2").answer = func(*nlm4.TestArgs) (nlm4.Status, bool) { return nlm4.Denied, true }
		require.Equal(t, nlm4.Granted, a.try(false, 0, 10))
		require.Equal(t, nlm4.Granted, b.try(false, 2, 2))
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 10), "an upgrade")
		require.Equal(t, nlm4.Blocked, c.waits(true, 5, 1))
		require.Equal(t, nlm4.Granted, a.unlock(0, 10))
		synctest.Wait()
		assert.Len(t, g.host("192.0.2.2").grants(), 1)
		assert.Len(t, g.host("192.0.2.3").grants(), 1)
		assert.Equal(t, nlm4.Granted, a.try(false, 2, 2))
		assert.Equal(t, nlm4.Granted, a.unlock(2, 2))
		assert.Equal(t, nlm4.Denied, a.try(true, 2, 1), "the former lock")
		assert.Equal(t, nlm4.Granted, a.try(true, 4, 1))
	})
}

// TestGrantRepeated: RNLM-GRANTED-4, RNLM-GRANTED-5: GRANTED is repeated until the client answers, and while it
// is in its own grace period.
func TestGrantRepeated(t *testing.T) {
	for name, fail := range map[string]func(h *fakeHost, fails bool){
		"no rpcbind": func(h *fakeHost, fails bool) { h.down = fails },
		"no answer": func(h *fakeHost, fails bool) {
			h.answer = func(*nlm4.TestArgs) (nlm4.Status, bool) { return nlm4.Granted, !fails }
		},
		"grace": func(h *fakeHost, fails bool) {
			h.answer = func(*nlm4.TestArgs) (nlm4.Status, bool) {
				if fails {
					return nlm4.DeniedGrace, true
				}
				return nlm4.Granted, true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t)
				a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
				h := g.host("192.0.2.2")
				fail(h, true)
				require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
				require.Equal(t, nlm4.Blocked, b.waits(true, 0, 1))
				require.Equal(t, nlm4.Granted, a.unlock(0, 1))
				time.Sleep(30 * time.Second)
				assert.Equal(t, nlm4.Denied, a.try(true, 0, 1), "the lock is held for the client")
				h.mu.Lock()
				fail(h, false)
				h.mu.Unlock()
				h.grants()
				time.Sleep(20 * time.Second)
				assert.Len(t, h.grants(), 1)
				time.Sleep(time.Hour)
				assert.Empty(t, h.grants())
				assert.Equal(t, nlm4.Denied, a.try(true, 0, 1))
			})
		})
	}
}

// TestGrantUnanswered: RNLM-GRANTED-4: a host that never answers keeps the next one waiting for a bounded time
// (dittofs#1131), for however many locks its processes wait.
func TestGrantUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, dead, c := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "dead"), g.client("192.0.2.3", "c")
		g.host("192.0.2.2").down = true
		require.Equal(t, nlm4.Granted, a.try(true, 0, 0))
		for i := range 100 {
			require.Equal(t, nlm4.Blocked, dead.process(int32(i)).waits(true, uint64(i%10), 1))
		}
		require.Equal(t, nlm4.Blocked, c.waits(true, 0, 100))
		require.Equal(t, nlm4.Granted, a.unlock(0, 0))
		time.Sleep(grantTime - 10*time.Second)
		assert.Empty(t, g.host("192.0.2.3").grants())
		for range 12 {
			time.Sleep(grantTime)
			if len(g.host("192.0.2.3").grants()) > 0 {
				assert.Equal(t, 1, g.locked())
				assert.False(t, g.state.Waits())
				return
			}
		}
		assert.Fail(t, "the next one waits for ever")
	})
}

// TestPolled: a client whose GRANTED never arrives gets the lock by asking again, and no GRANTED follows.
func TestPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		h := g.host("192.0.2.2")
		h.down = true
		require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlock(0, 1))
		time.Sleep(5 * time.Second)
		require.Equal(t, nlm4.Granted, b.waits(true, 0, 1))
		h.set(false)
		time.Sleep(time.Hour)
		assert.Empty(t, h.grants())
		assert.Equal(t, nlm4.Denied, a.try(true, 0, 1))
	})
}

// TestCancel: RNLM-CANCEL-1, RNLM-UNLOCK-1: what CANCEL and UNLOCK do with an owner that waits.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 10))
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 5))
		assert.Equal(t, nlm4.Denied, b.cancel(true, 0, 4))
		assert.Equal(t, nlm4.Denied, b.cancel(false, 0, 5))
		assert.Equal(t, nlm4.Denied, b.process(2).cancel(true, 0, 5))
		assert.Equal(t, nlm4.Granted, b.cancel(true, 0, 5))
		assert.Equal(t, nlm4.Denied, b.cancel(true, 0, 5))
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 5))
		assert.Equal(t, nlm4.Granted, b.unlock(0, 4))
		assert.True(t, g.state.Waits(), "of other bytes")
		assert.Equal(t, nlm4.Granted, b.unlock(0, 5))
		assert.False(t, g.state.Waits())
		require.Equal(t, nlm4.Granted, a.unlock(0, 10))
		synctest.Wait()
		assert.Empty(t, g.host("192.0.2.2").grants())
		assert.Zero(t, g.locked())
	})
}

// TestCancelMeetsGrant: RNLM-CANCEL-2: CANCEL and UNLOCK come at any moment of a grant. The lock is then free, and
// no callback tells of it later.
func TestCancelMeetsGrant(t *testing.T) {
	for name, end := range map[string]func(c *client) nlm4.Status{
		"CANCEL": func(c *client) nlm4.Status { return c.cancel(true, 0, 1) },
		"UNLOCK": func(c *client) nlm4.Status { return c.unlock(0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t)
				a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
				h := g.host("192.0.2.2")
				answers := make(chan struct{})
				h.answer = func(*nlm4.TestArgs) (nlm4.Status, bool) { <-answers; return nlm4.Granted, true }
				require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
				require.Equal(t, nlm4.Blocked, b.waits(true, 0, 1))
				require.Equal(t, nlm4.Granted, a.unlock(0, 1))
				synctest.Wait() // GRANTED is under way
				assert.Equal(t, nlm4.Granted, end(b))
				assert.Equal(t, nlm4.Granted, a.try(true, 0, 1))
				close(answers)
				time.Sleep(time.Hour)
				assert.Len(t, h.grants(), 1)
				assert.Equal(t, 1, g.locked())
			})
		})
	}
}

// TestUnlockPartMeetsGrant: RNLM-UNLOCK-2, RNLM-GRANTED-3: a process unlocks a part of what another of its threads is being
// granted. The rest is locked as the client believes: by the grant if the client has answered, and otherwise as before.
func TestUnlockPartMeetsGrant(t *testing.T) {
	for name, tt := range map[string]struct {
		answers bool
		others  nlm4.Status // to a shared lock of the rest
	}{"answered": {true, nlm4.Denied}, "unanswered": {false, nlm4.Granted}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t)
				a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
				answer := make(chan struct{})
				g.host("192.0.2.2").answer = func(*nlm4.TestArgs) (nlm4.Status, bool) { <-answer; return nlm4.Granted, tt.answers }
				require.Equal(t, nlm4.Granted, a.try(false, 0, 10))
				require.Equal(t, nlm4.Granted, b.try(false, 0, 10))
				require.Equal(t, nlm4.Blocked, b.waits(true, 0, 10), "an upgrade")
				require.Equal(t, nlm4.Granted, a.unlock(0, 10))
				synctest.Wait() // GRANTED is under way
				go func() {
					time.Sleep(time.Second)
					close(answer)
				}()
				assert.Equal(t, nlm4.Granted, b.unlock(0, 5))
				time.Sleep(time.Hour)
				assert.Equal(t, nlm4.Granted, a.try(true, 0, 5))
				assert.Equal(t, nlm4.Denied, a.try(true, 5, 5))
				assert.Equal(t, tt.others, a.try(false, 5, 5))
				assert.Equal(t, [2]int{}, g.open())
			})
		})
	}
}

// TestUnlockPartMeetsDelay: an owner that unlocks a part of the bytes for which it waits, while the server cannot lock them
// yet, is granted them as soon as the server can.
func TestUnlockPartMeetsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 10))
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 10))
		g.disk.fill(true)
		require.Equal(t, nlm4.Granted, a.unlock(0, 10))
		synctest.Wait()
		require.Equal(t, nlm4.Granted, b.unlock(0, 5))
		g.disk.fill(false)
		time.Sleep(3 * time.Second)
		assert.Len(t, g.host("192.0.2.2").grants(), 1)
	})
}

// TestUnlockMeetsAttempt: RNLM-CANCEL-2: the server gives back a lock that it has got for a waiting owner, who has unlocked it
// meanwhile. What the owner locks after that stays.
func TestUnlockMeetsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.try(true, 5, 1))
		require.Equal(t, nlm4.Granted, b.try(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waits(false, 0, 10), "a downgrade of the first byte")
		four, id, key := g.four()
		resume := make(chan struct{})
		_, _, status := g.state.Lock(four, &nfs4state.Lock{
			StateID: id, New: true, Owner: []byte("o"), Key: key, Range: locks.Range{Start: 0, End: 0},
			Tell: func(*nfs4state.Waiting) { <-resume }, // an attempt that has got the lock is held up here
		})
		require.Equal(t, nfs4.ErrDenied, status)
		require.Equal(t, nlm4.Granted, a.unlock(5, 1))
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			close(resume)
		}()
		require.Equal(t, nlm4.Granted, b.unlock(0, 10))
		require.Equal(t, nlm4.Granted, b.try(true, 0, 10))
		time.Sleep(time.Hour)
		assert.Equal(t, nlm4.Denied, a.try(true, 3, 1))
		assert.Empty(t, g.host("192.0.2.2").grants())
	})
}

// TestSchedules: RNLM-CANCEL-2, RNLM-GRANTED-3: in random schedules of calls of three clients no byte has two
// holders, and a client that the server believes to be the holder believes that too.
func TestSchedules(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { schedule(t, seed) })
	}
}

// A waiter is a client of a schedule, with what it believes.
type waiter struct {
	*client
	mu sync.Mutex
	belief
}

type belief struct{ waiting, holds bool }

func (w *waiter) believe(b belief) (before belief) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.belief = w.belief, b
	return before
}

func (w *waiter) believes() belief {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.belief
}

// step makes the client do something.
func (w *waiter) step(t *testing.T, r *rand.Rand) {
	switch b := w.believes(); {
	case b.holds:
		w.believe(belief{})
		require.Equal(t, nlm4.Granted, w.unlock(0, 1))
	case b.waiting && r.IntN(2) == 0:
		before := w.believe(belief{})
		w.cancel(true, 0, 1)
		if before.holds { // GRANTED came first
			w.unlock(0, 1)
		}
	default:
		w.believe(belief{waiting: true})
		if w.waits(true, 0, 1) == nlm4.Granted {
			w.believe(belief{holds: true})
		}
	}
}

func schedule(t *testing.T, seed uint64) {
	g := newRig(t)
	r := rand.New(rand.NewPCG(seed, 1))
	var list []*waiter
	for i := range 3 {
		addr := fmt.Sprintf("192.0.2.%d", i+1)
		w := &waiter{client: g.client(addr, addr)}
		list = append(list, w)
		delay := time.Duration(r.IntN(3)) * 500 * time.Millisecond
		g.host(addr).answer = func(*nlm4.TestArgs) (nlm4.Status, bool) {
			time.Sleep(delay)
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.belief == (belief{}) {
				return nlm4.Denied, true
			}
			w.belief = belief{holds: true}
			return nlm4.Granted, true
		}
	}
	for range 60 {
		list[r.IntN(len(list))].step(t, r)
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
		}
		synctest.Wait()
		holders := 0
		for _, w := range list {
			if w.believes().holds {
				holders++
				require.Equal(t, 1, g.locked(), "seed %d: a client believes that it has the lock", seed)
			}
		}
		require.LessOrEqual(t, holders, 1, "seed %d", seed)
	}
	for _, w := range list {
		w.believe(belief{})
		w.cancel(true, 0, 1)
		w.unlock(0, 1)
	}
	time.Sleep(time.Minute)
	require.Zero(t, g.locked(), "seed %d", seed)
	require.False(t, g.state.Waits())
	require.Equal(t, [2]int{}, g.open())
	g.s.Close()
}

// TestEnds: the locks and the waiting owners of a client end with it: by its NOTIFY, by FREE_ALL and by the
// administrator, and others get the lock.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(g *rig, c *client){
		"NOTIFY":   func(_ *rig, c *client) { c.notify("a", 5) },
		"FREE_ALL": func(_ *rig, c *client) { c.do(nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte("a")}) },
		"administrator": func(g *rig, _ *client) {
			list, _ := g.state.Clients(10)
			for _, c := range list {
				if c.Owner == "a" {
					assert.True(g.t, c.Machine)
					assert.Equal(g.t, nfs4.OK, g.state.Expire(c.ID))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t)
				a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
				require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
				require.Equal(t, nlm4.Granted, b.try(true, 5, 1))
				require.Equal(t, nlm4.Blocked, a.process(2).waits(true, 5, 1))
				require.Equal(t, nlm4.Blocked, b.waits(true, 0, 1))
				end(g, a)
				synctest.Wait()
				assert.Len(t, g.host("192.0.2.2").grants(), 1)
				require.Equal(t, nlm4.Granted, b.unlock(0, 0))
				time.Sleep(time.Hour)
				assert.Empty(t, g.host("192.0.2.1").grants())
				assert.Zero(t, g.locked())
				assert.False(t, g.state.Waits())
			})
		})
	}
}

// TestEndsWhileGranted: a client that restarts while GRANTED is under way has no lock afterwards.
func TestEndsWhileGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		g.host("192.0.2.2").down = true
		require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlock(0, 1))
		time.Sleep(2 * time.Second)
		b.notify("b", 5)
		assert.Equal(t, nlm4.Granted, a.try(true, 0, 1))
		time.Sleep(time.Hour)
		assert.Equal(t, [2]int{}, g.open())
		assert.Equal(t, 1, g.locked())
	})
}

// TestWaitsWithVersion4: RNLM-6.3.2-1: owners of both protocols are in one queue, in the order of their calls.
func TestWaitsWithVersion4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
		four, id, key := g.four()
		told := 0
		ask := func() nfs4.Status {
			_, _, status := g.state.Lock(four, &nfs4state.Lock{
				StateID: id, New: true, Owner: []byte("o"), Key: key, Exclusive: true, Range: locks.Range{Start: 0, End: 0},
				Tell: func(*nfs4state.Waiting) { told++ },
			})
			return status
		}
		require.Equal(t, nfs4.ErrDenied, ask())
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlock(0, 1))
		synctest.Wait()
		assert.Equal(t, 1, told)
		assert.Empty(t, g.host("192.0.2.2").grants(), "it is not its turn")
		require.Equal(t, nfs4.OK, ask())
		status, holder := a.test(true, 0, 1)
		assert.Equal(t, nlm4.Denied, status)
		assert.Equal(t, nlm4.Holder{Exclusive: true, Owner: []byte("o"), Length: 1}, holder)
		require.Equal(t, nlm4.Denied, a.try(true, 0, 1))
		require.Equal(t, nfs4.OK, g.state.Expire(four.ClientID()))
		synctest.Wait()
		assert.Len(t, g.host("192.0.2.2").grants(), 1)
	})
}

// four makes a client of version 4 that can be told of locks, and has the file open.
func (g *rig) four() (s *nfs4state.Session, id nfs4.StateID, key string) {
	g.t.Helper()
	x := nfs4state.Exchange{Owner: []byte("four"), Principal: nfs4state.Principal{Flavor: 1}}
	client, sequence, _, status := g.state.ExchangeID(&x)
	require.Equal(g.t, nfs4.OK, status)
	res := g.state.CreateSession(&nfs4state.Create{
		Principal: x.Principal, ClientID: client, Sequence: sequence, Flags: nfs4.SessionConnBackChan, Conn: "c",
		Fore: nfs4.ChannelAttrs{MaxRequests: 8}, Back: nfs4.ChannelAttrs{MaxRequests: 2}, SecParms: nfs4.SecParms{None: true},
	})
	require.Equal(g.t, nfs4.OK, res.Status)
	s = g.state.Session(res.Session)
	g.state.ReclaimComplete(s)
	mark, key := g.mark()
	o, id, status := g.state.OpenFile(s, &nfs4state.OpenFile{Owner: []byte("o"), Key: key, Access: nfs4.ShareBoth}, mark)
	require.Equal(g.t, nfs4.OK, status)
	require.True(g.t, g.state.MayNotify(o))
	return s, id, key
}

// TestSharesAndOpens: RNLM-SHARE-3: SHARE and opens of version 4 are in each other's way.
func TestSharesAndOpens(t *testing.T) {
	g := newRig(t)
	a := g.client("192.0.2.1", "a")
	four, id, key := g.four()
	assert.Equal(t, nlm4.Denied, a.share(nlm4.ProcShare, nlm4.Read, nlm4.Write, false))
	require.Equal(t, nfs4.OK, g.state.Close(four, &id))
	assert.Equal(t, nlm4.Granted, a.share(nlm4.ProcShare, nlm4.Read, nlm4.Write, false))
	open := nfs4state.OpenFile{Owner: []byte("p"), Key: key, Access: nfs4.ShareWrite}
	mark, _ := g.mark()
	_, _, status := g.state.OpenFile(four, &open, mark)
	assert.Equal(t, nfs4.ErrShareDenied, status)
	assert.Equal(t, nlm4.Granted, a.share(nlm4.ProcUnshare, 0, 0, false))
	mark, _ = g.mark()
	_, _, status = g.state.OpenFile(four, &open, mark)
	assert.Equal(t, nfs4.OK, status)
}

// TestDelegations: no delegation is granted while a client of version 3 has a lock, which its holder could not know of.
func TestDelegations(t *testing.T) {
	g := newRig(t)
	a := g.client("192.0.2.1", "a")
	four, id, key := g.four()
	require.Equal(t, nfs4.OK, g.state.Close(four, &id))
	mark, _ := g.mark()
	_, _, status := g.state.OpenFile(four, &nfs4state.OpenFile{Owner: []byte("p"), Key: key, Access: nfs4.ShareRead}, mark)
	require.Equal(t, nfs4.OK, status)
	assert.Equal(t, nfs4.OK, g.state.MayDelegate(four, key, false))
	require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
	assert.Equal(t, nfs4.ErrShareDenied, g.state.MayDelegate(four, key, false))
	require.Equal(t, nlm4.Granted, a.unlock(0, 1))
	assert.Equal(t, nfs4.OK, g.state.MayDelegate(four, key, false))
}

// TestGraceForEver: RNLM-GRANTED-4, RNLM-GRANTED-5: a client that is in its grace period for ever does not keep the lock.
func TestGraceForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		g.host("192.0.2.2").answer = func(*nlm4.TestArgs) (nlm4.Status, bool) { return nlm4.DeniedGrace, true }
		require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlock(0, 1))
		time.Sleep(grantTime - time.Second)
		assert.Equal(t, nlm4.Denied, a.try(true, 0, 1))
		time.Sleep(2 * grantEvery)
		assert.Equal(t, nlm4.Granted, a.try(true, 0, 1))
	})
}
