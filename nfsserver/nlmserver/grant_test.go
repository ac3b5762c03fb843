package nlmserver

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

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// TestGranted: RNLM-LOCK-2, RNLM-LOCK-3, RNLM-LINUX-2, RNLM-GRANTED-1, RNLM-GRANTED-2, RNLM-LINUX-3: a lock that
// is not free is BLOCKED at once (chimera#971), a repeated LOCK finds the owner that waits, and
// one GRANTED follows, with the arguments of LOCK, from the address that the client has called.
func TestGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		h := g.hostAt("192.0.2.2")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		for range 10 {
			assert.Equal(t, nlm4.Blocked, b.waitLock(false, 3, 4))
			time.Sleep(30 * time.Second)
		}
		assert.Empty(t, h.takeGranted())
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 10))
		synctest.Wait()
		granted := h.takeGranted()
		require.Len(t, granted, 1)
		assert.Len(t, granted[0].Cookie, 8)
		granted[0].Cookie = nil
		assert.Equal(t, nlm4.TestArgs{Lock: b.lockOf(3, 4)}, granted[0])
		assert.Equal(t, []netip.Addr{b.peer.Local.Addr()}, h.from)
		assert.Equal(t, nlm4.Denied, a.tryLock(true, 3, 1))
		time.Sleep(time.Hour)
		assert.Empty(t, h.takeGranted(), "GRANTED was answered")
		assert.Equal(t, [2]int{}, g.countOpen())
		assert.Equal(t, 0, g.hostCount(), "no goroutine stays for a host")
	})
}

// TestGrantedLate checks that no client learns of a lock from a host whose tenure is over: the next host
// does not know of the lock.
func TestGrantedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		word := tenure.Now() + int64(time.Hour)
		held := tenure.New(&word)
		g := newTestServer(t, func(_ *nfs4state.Config, c *Config, _ *exportset.Config) { c.Tenure = held })
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		h := g.hostAt("192.0.2.2")
		for range 2 { // by a new connection, and by one that is open
			require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
			require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 10))
			require.Equal(t, nlm4.Granted, a.unlockRange(0, 10))
			synctest.Wait()
			if held.Over() {
				break
			}
			require.Len(t, h.takeGranted(), 1)
			require.Equal(t, nlm4.Granted, b.unlockRange(0, 10))
			held.End()
		}
		assert.Empty(t, h.takeGranted())
		l, err := g.dialHost(t.Context(), machineOf(&b.peer, []byte("b")), nlm4.Program, nlm4.Version)
		require.NoError(t, err)
		defer l.Close()
		assert.ErrorIs(t, gatedLine{l, held}.Call(t.Context(), &oncrpc.Exchange{}), tenure.ErrOver)
	})
}

// TestGrantedOld: RNLM-GRANTED-1: GRANTED of the old versions has the range of LOCK, whatever its 32 bits are.
func TestGrantedOld(t *testing.T) {
	for _, vers := range []uint32{nlm4.Version1, nlm4.Version3} {
		for _, r := range [][2]uint64{{5, 7}, {5, 0}, {0, math.MaxUint32}, {5, math.MaxUint32 - 4}, {5, math.MaxUint32}, {math.MaxUint32, 0}, {math.MaxUint32, 1}, {math.MaxUint32, math.MaxUint32}} {
			synctest.Test(t, func(t *testing.T) {
				g := newTestServer(t)
				a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
				b.vers = vers
				require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 0))
				require.Equal(t, nlm4.Blocked, b.waitLock(true, r[0], r[1]))
				require.Equal(t, nlm4.Granted, a.unlockRange(0, 0))
				synctest.Wait()
				granted := g.hostAt("192.0.2.2").takeGranted()
				require.Len(t, granted, 1)
				assert.Equal(t, b.lockOf(r[0], r[1]), granted[0].Lock, vers)
				g.s.Close()
			})
		}
	}
}

// TestGrantedInOrder: 1,000 owners wait for one byte, of clients of both protocols' state: each is
// granted the lock once, in the order of their calls.
func TestGrantedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		const owners, hosts = 1000, 10
		holder := g.newClient("192.0.2.200", "holder")
		require.Equal(t, nlm4.Granted, holder.tryLock(true, 7, 1))
		var list []*testClient
		for i := range owners {
			c := g.newClient(fmt.Sprintf("192.0.2.%d", 1+i%hosts), fmt.Sprintf("host%d", i%hosts)).otherProcess(int32(i))
			require.Equal(t, nlm4.Blocked, c.waitLock(true, 7, 1))
			list = append(list, c)
		}
		next := holder
		for i, c := range list {
			require.Equal(t, nlm4.Granted, next.unlockRange(7, 1))
			synctest.Wait()
			granted := g.hostAt(fmt.Sprintf("192.0.2.%d", 1+i%hosts)).takeGranted()
			require.Len(t, granted, 1, i)
			require.Equal(t, int32(i), granted[0].Lock.SVID)
			next = c
		}
		require.Equal(t, nlm4.Granted, next.unlockRange(7, 1))
		synctest.Wait()
		for i := range hosts {
			assert.Empty(t, g.hostAt(fmt.Sprintf("192.0.2.%d", 1+i)).takeGranted())
		}
		assert.Zero(t, g.lockCount())
		assert.False(t, g.state.HasLockWaiters())
	})
}

// TestGrantDenied: RNLM-GRANTED-3: a client that does not want the lock loses it to the next one.
// The owner's earlier locks are restored.
func TestGrantDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b, c := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b"), g.newClient("192.0.2.3", "c")
		g.hostAt("192.0.2.2").answer = func(*nlm4.TestArgs) (nlm4.Status, bool) { return nlm4.Denied, true }
		require.Equal(t, nlm4.Granted, a.tryLock(false, 0, 10))
		require.Equal(t, nlm4.Granted, b.tryLock(false, 2, 2))
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 10), "an upgrade")
		require.Equal(t, nlm4.Blocked, c.waitLock(true, 5, 1))
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 10))
		synctest.Wait()
		assert.Len(t, g.hostAt("192.0.2.2").takeGranted(), 1)
		assert.Len(t, g.hostAt("192.0.2.3").takeGranted(), 1)
		assert.Equal(t, nlm4.Granted, a.tryLock(false, 2, 2))
		assert.Equal(t, nlm4.Granted, a.unlockRange(2, 2))
		assert.Equal(t, nlm4.Denied, a.tryLock(true, 2, 1), "the former lock")
		assert.Equal(t, nlm4.Granted, a.tryLock(true, 4, 1))
	})
}

// TestGrantRepeated: RNLM-GRANTED-4, RNLM-GRANTED-5: GRANTED is repeated until the client replies,
// and while it is in its own grace period.
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
				g := newTestServer(t)
				a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
				h := g.hostAt("192.0.2.2")
				fail(h, true)
				require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
				require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
				require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
				time.Sleep(30 * time.Second)
				assert.Equal(t, nlm4.Denied, a.tryLock(true, 0, 1), "the lock is held for the client")
				h.mu.Lock()
				fail(h, false)
				h.mu.Unlock()
				h.takeGranted()
				time.Sleep(20 * time.Second)
				assert.Len(t, h.takeGranted(), 1)
				time.Sleep(time.Hour)
				assert.Empty(t, h.takeGranted())
				assert.Equal(t, nlm4.Denied, a.tryLock(true, 0, 1))
			})
		})
	}
}

// TestGrantUnanswered: RNLM-GRANTED-4: a host that never replies delays the next one for a bounded
// time (dittofs#1131), for however many locks its processes wait.
func TestGrantUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, dead, c := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "dead"), g.newClient("192.0.2.3", "c")
		g.hostAt("192.0.2.2").down = true
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 0))
		for i := range 100 {
			require.Equal(t, nlm4.Blocked, dead.otherProcess(int32(i)).waitLock(true, uint64(i%10), 1))
		}
		require.Equal(t, nlm4.Blocked, c.waitLock(true, 0, 100))
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 0))
		time.Sleep(grantTime - 10*time.Second)
		assert.Empty(t, g.hostAt("192.0.2.3").takeGranted())
		for range 12 {
			time.Sleep(grantTime)
			if len(g.hostAt("192.0.2.3").takeGranted()) > 0 {
				assert.Equal(t, 1, g.lockCount())
				assert.False(t, g.state.HasLockWaiters())
				return
			}
		}
		assert.Fail(t, "the next one waits forever")
	})
}

// TestPolled: a client whose GRANTED never arrives gets the lock by polling, and no GRANTED
// follows.
func TestPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		h := g.hostAt("192.0.2.2")
		h.down = true
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
		time.Sleep(5 * time.Second)
		require.Equal(t, nlm4.Granted, b.waitLock(true, 0, 1))
		h.setDown(false)
		time.Sleep(time.Hour)
		assert.Empty(t, h.takeGranted())
		assert.Equal(t, nlm4.Denied, a.tryLock(true, 0, 1))
	})
}

// TestCancel: RNLM-CANCEL-1, RNLM-UNLOCK-1: what CANCEL and UNLOCK do with an owner that waits.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 5))
		assert.Equal(t, nlm4.Denied, b.cancelLock(true, 0, 4))
		assert.Equal(t, nlm4.Denied, b.cancelLock(false, 0, 5))
		assert.Equal(t, nlm4.Denied, b.otherProcess(2).cancelLock(true, 0, 5))
		assert.Equal(t, nlm4.Granted, b.cancelLock(true, 0, 5))
		assert.Equal(t, nlm4.Denied, b.cancelLock(true, 0, 5))
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 5))
		assert.Equal(t, nlm4.Granted, b.unlockRange(0, 4))
		assert.True(t, g.state.HasLockWaiters(), "of other bytes")
		assert.Equal(t, nlm4.Granted, b.unlockRange(0, 5))
		assert.False(t, g.state.HasLockWaiters())
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 10))
		synctest.Wait()
		assert.Empty(t, g.hostAt("192.0.2.2").takeGranted())
		assert.Zero(t, g.lockCount())
	})
}

// TestCancelMeetsGrant: RNLM-CANCEL-2: CANCEL and UNLOCK come at any moment of a grant. The lock is
// then free, and no callback for it follows.
func TestCancelMeetsGrant(t *testing.T) {
	for name, end := range map[string]func(c *testClient) nlm4.Status{
		"CANCEL": func(c *testClient) nlm4.Status { return c.cancelLock(true, 0, 1) },
		"UNLOCK": func(c *testClient) nlm4.Status { return c.unlockRange(0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTestServer(t)
				a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
				h := g.hostAt("192.0.2.2")
				answers := make(chan struct{})
				h.answer = func(*nlm4.TestArgs) (nlm4.Status, bool) { <-answers; return nlm4.Granted, true }
				require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
				require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
				require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
				synctest.Wait() // GRANTED is in flight
				assert.Equal(t, nlm4.Granted, end(b))
				assert.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
				close(answers)
				time.Sleep(time.Hour)
				assert.Len(t, h.takeGranted(), 1)
				assert.Equal(t, 1, g.lockCount())
			})
		})
	}
}

// TestUnlockPartMeetsGrant: RNLM-UNLOCK-2, RNLM-GRANTED-3: a process unlocks a part of what another
// of its threads is being granted. The rest is locked as the client believes: by the grant if the
// client has replied, and otherwise as before.
func TestUnlockPartMeetsGrant(t *testing.T) {
	for name, tt := range map[string]struct {
		answers bool
		others  nlm4.Status // the status of a shared lock of the rest
	}{"answered": {true, nlm4.Denied}, "unanswered": {false, nlm4.Granted}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTestServer(t)
				a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
				answer := make(chan struct{})
				g.hostAt("192.0.2.2").answer = func(*nlm4.TestArgs) (nlm4.Status, bool) { <-answer; return nlm4.Granted, tt.answers }
				require.Equal(t, nlm4.Granted, a.tryLock(false, 0, 10))
				require.Equal(t, nlm4.Granted, b.tryLock(false, 0, 10))
				require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 10), "an upgrade")
				require.Equal(t, nlm4.Granted, a.unlockRange(0, 10))
				synctest.Wait() // GRANTED is in flight
				go func() {
					time.Sleep(time.Second)
					close(answer)
				}()
				assert.Equal(t, nlm4.Granted, b.unlockRange(0, 5))
				time.Sleep(time.Hour)
				assert.Equal(t, nlm4.Granted, a.tryLock(true, 0, 5))
				assert.Equal(t, nlm4.Denied, a.tryLock(true, 5, 5))
				assert.Equal(t, tt.others, a.tryLock(false, 5, 5))
				assert.Equal(t, [2]int{}, g.countOpen())
			})
		})
	}
}

// TestUnlockPartMeetsDelay: an owner that unlocks a part of the bytes for which it waits, while the server cannot lock them
// yet, is granted them as soon as the server can.
func TestUnlockPartMeetsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 10))
		g.disk.setFull(true)
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 10))
		synctest.Wait()
		require.Equal(t, nlm4.Granted, b.unlockRange(0, 5))
		g.disk.setFull(false)
		time.Sleep(3 * time.Second)
		assert.Len(t, g.hostAt("192.0.2.2").takeGranted(), 1)
	})
}

// TestUnlockMeetsAttempt: RNLM-CANCEL-2: the server releases a lock that it has set for a waiting
// owner that has unlocked it in the meantime. What the owner locks after that stays.
func TestUnlockMeetsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 5, 1))
		require.Equal(t, nlm4.Granted, b.tryLock(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waitLock(false, 0, 10), "a downgrade of the first byte")
		four, id, key := g.newClient4()
		resume := make(chan struct{})
		_, _, status := g.state.Lock(four, &nfs4state.Lock{
			StateID: id, New: true, Owner: []byte("o"), Key: key, Range: locks.Range{Start: 0, End: 0},
			Tell: func(*nfs4state.Waiting) { <-resume }, // delays an attempt that has set the lock
		})
		require.Equal(t, nfs4.ErrDenied, status)
		require.Equal(t, nlm4.Granted, a.unlockRange(5, 1))
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			close(resume)
		}()
		require.Equal(t, nlm4.Granted, b.unlockRange(0, 10))
		require.Equal(t, nlm4.Granted, b.tryLock(true, 0, 10))
		time.Sleep(time.Hour)
		assert.Equal(t, nlm4.Denied, a.tryLock(true, 3, 1))
		assert.Empty(t, g.hostAt("192.0.2.2").takeGranted())
	})
}

// TestSchedules: RNLM-CANCEL-2, RNLM-GRANTED-3: in random schedules of calls of three clients no
// byte has two holders, and the server and the clients agree about the holder.
func TestSchedules(t *testing.T) {
	for seed := range uint64(racetest.Schedules(300)) {
		synctest.Test(t, func(t *testing.T) { runSchedule(t, seed) })
	}
}

// A waitingClient is a client in a schedule, with the state that it believes it
// has.
type waitingClient struct {
	*testClient
	mu sync.Mutex
	belief
}

type belief struct{ waiting, holds bool }

func (w *waitingClient) setBelief(b belief) (before belief) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.belief = w.belief, b
	return before
}

func (w *waitingClient) currentBelief() belief {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.belief
}

// randomStep makes the client do something.
func (w *waitingClient) randomStep(t *testing.T, r *rand.Rand) {
	switch b := w.currentBelief(); {
	case b.holds:
		w.setBelief(belief{})
		require.Equal(t, nlm4.Granted, w.unlockRange(0, 1))
	case b.waiting && r.IntN(2) == 0:
		before := w.setBelief(belief{})
		w.cancelLock(true, 0, 1)
		if before.holds { // GRANTED came first
			w.unlockRange(0, 1)
		}
	default:
		w.setBelief(belief{waiting: true})
		if w.waitLock(true, 0, 1) == nlm4.Granted {
			w.setBelief(belief{holds: true})
		}
	}
}

func runSchedule(t *testing.T, seed uint64) {
	g := newTestServer(t)
	r := rand.New(rand.NewPCG(seed, 1))
	var list []*waitingClient
	for i := range 3 {
		addr := fmt.Sprintf("192.0.2.%d", i+1)
		w := &waitingClient{testClient: g.newClient(addr, addr)}
		list = append(list, w)
		delay := time.Duration(r.IntN(3)) * 500 * time.Millisecond
		g.hostAt(addr).answer = func(*nlm4.TestArgs) (nlm4.Status, bool) {
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
		list[r.IntN(len(list))].randomStep(t, r)
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
		}
		synctest.Wait()
		holders := 0
		for _, w := range list {
			if w.currentBelief().holds {
				holders++
				require.Equal(t, 1, g.lockCount(), "seed %d: a client believes that it has the lock", seed)
			}
		}
		require.LessOrEqual(t, holders, 1, "seed %d", seed)
	}
	for _, w := range list {
		w.setBelief(belief{})
		w.cancelLock(true, 0, 1)
		w.unlockRange(0, 1)
	}
	time.Sleep(time.Minute)
	require.Zero(t, g.lockCount(), "seed %d", seed)
	require.False(t, g.state.HasLockWaiters())
	require.Equal(t, [2]int{}, g.countOpen())
	g.s.Close()
}

// TestEnds: the locks and the waiting owners of a client end with it: by its NOTIFY, by FREE_ALL and by the
// administrator, and others get the lock.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(g *testServer, c *testClient){
		"NOTIFY":   func(_ *testServer, c *testClient) { c.sendNotify("a", 5) },
		"FREE_ALL": func(_ *testServer, c *testClient) { c.mustCall(nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte("a")}) },
		"administrator": func(g *testServer, _ *testClient) {
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
				g := newTestServer(t)
				a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
				require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
				require.Equal(t, nlm4.Granted, b.tryLock(true, 5, 1))
				require.Equal(t, nlm4.Blocked, a.otherProcess(2).waitLock(true, 5, 1))
				require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
				end(g, a)
				synctest.Wait()
				assert.Len(t, g.hostAt("192.0.2.2").takeGranted(), 1)
				require.Equal(t, nlm4.Granted, b.unlockRange(0, 0))
				time.Sleep(time.Hour)
				assert.Empty(t, g.hostAt("192.0.2.1").takeGranted())
				assert.Zero(t, g.lockCount())
				assert.False(t, g.state.HasLockWaiters())
			})
		})
	}
}

// TestEndsWhileGranted: a client that restarts while GRANTED is in flight has no lock afterwards.
func TestEndsWhileGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		g.hostAt("192.0.2.2").down = true
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
		time.Sleep(2 * time.Second)
		b.sendNotify("b", 5)
		assert.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		time.Sleep(time.Hour)
		assert.Equal(t, [2]int{}, g.countOpen())
		assert.Equal(t, 1, g.lockCount())
	})
}

// TestWaitsWithVersion4: RNLM-6.3.2-1: owners of both protocols are in one queue, in the order of their calls.
func TestWaitsWithVersion4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		four, id, key := g.newClient4()
		told := 0
		ask := func() nfs4.Status {
			_, _, status := g.state.Lock(four, &nfs4state.Lock{
				StateID: id, New: true, Owner: []byte("o"), Key: key, Exclusive: true, Range: locks.Range{Start: 0, End: 0},
				Tell: func(*nfs4state.Waiting) { told++ },
			})
			return status
		}
		require.Equal(t, nfs4.ErrDenied, ask())
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
		synctest.Wait()
		assert.Equal(t, 1, told)
		assert.Empty(t, g.hostAt("192.0.2.2").takeGranted(), "it is not its turn")
		require.Equal(t, nfs4.OK, ask())
		status, holder := a.testLock(true, 0, 1)
		assert.Equal(t, nlm4.Denied, status)
		assert.Equal(t, nlm4.Holder{Exclusive: true, Owner: []byte("o"), Length: 1}, holder)
		require.Equal(t, nlm4.Denied, a.tryLock(true, 0, 1))
		require.Equal(t, nfs4.OK, g.state.Expire(four.ClientID()))
		synctest.Wait()
		assert.Len(t, g.hostAt("192.0.2.2").takeGranted(), 1)
	})
}

// newClient4 creates an NFSv4 client that can be notified of locks, and opens the
// file.
func (g *testServer) newClient4() (s *nfs4state.Session, id nfs4.StateID, key string) {
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
	mark, key := g.newMark()
	o, id, status := g.state.OpenFile(s, &nfs4state.OpenFile{Owner: []byte("o"), Key: key, Access: nfs4.ShareBoth}, mark)
	require.Equal(g.t, nfs4.OK, status)
	require.True(g.t, g.state.MayNotify(o))
	return s, id, key
}

// TestSharesAndOpens: RNLM-SHARE-3: SHARE and NFSv4 opens conflict with each other.
func TestSharesAndOpens(t *testing.T) {
	g := newTestServer(t)
	a := g.newClient("192.0.2.1", "a")
	four, id, key := g.newClient4()
	assert.Equal(t, nlm4.Denied, a.shareFile(nlm4.ProcShare, nlm4.Read, nlm4.Write, false))
	require.Equal(t, nfs4.OK, g.state.Close(four, &id))
	assert.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, nlm4.Write, false))
	open := nfs4state.OpenFile{Owner: []byte("p"), Key: key, Access: nfs4.ShareWrite}
	mark, _ := g.newMark()
	_, _, status := g.state.OpenFile(four, &open, mark)
	assert.Equal(t, nfs4.ErrShareDenied, status)
	assert.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcUnshare, 0, 0, false))
	mark, _ = g.newMark()
	_, _, status = g.state.OpenFile(four, &open, mark)
	assert.Equal(t, nfs4.OK, status)
}

// TestDelegations: no delegation is granted while an NFSv3 client has a lock, which its holder
// could not know of.
func TestDelegations(t *testing.T) {
	g := newTestServer(t)
	a := g.newClient("192.0.2.1", "a")
	four, id, key := g.newClient4()
	require.Equal(t, nfs4.OK, g.state.Close(four, &id))
	mark, _ := g.newMark()
	_, _, status := g.state.OpenFile(four, &nfs4state.OpenFile{Owner: []byte("p"), Key: key, Access: nfs4.ShareRead}, mark)
	require.Equal(t, nfs4.OK, status)
	assert.Equal(t, nfs4.OK, g.state.MayDelegate(four, key, false))
	require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
	assert.Equal(t, nfs4.ErrShareDenied, g.state.MayDelegate(four, key, false))
	require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
	assert.Equal(t, nfs4.OK, g.state.MayDelegate(four, key, false))
}

// TestGraceForEver: RNLM-GRANTED-4, RNLM-GRANTED-5: a client that is in its grace period forever
// does not keep the lock.
func TestGraceForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		g.hostAt("192.0.2.2").answer = func(*nlm4.TestArgs) (nlm4.Status, bool) { return nlm4.DeniedGrace, true }
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
		time.Sleep(grantTime - time.Second)
		assert.Equal(t, nlm4.Denied, a.tryLock(true, 0, 1))
		time.Sleep(2 * maxGrantInterval)
		assert.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
	})
}
