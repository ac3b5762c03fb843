package lockserver

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A disk is a journal in memory, which outlives servers.
type disk struct {
	mu      sync.Mutex
	records [][]byte
	full    bool
}

func (d *disk) Append(records ...[]byte) error {
	return d.store(func() { d.records = append(d.records, records...) })
}

func (d *disk) Replace(records func() [][]byte) error {
	list := records()
	return d.store(func() { d.records = list })
}

func (d *disk) store(do func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		return errDown
	}
	do()
	return nil
}

func (d *disk) Size() int64 { return 0 }

// fill makes the disk full, or makes room.
func (d *disk) fill(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// newDiskRig is newRig with a disk.
func newDiskRig(t testing.TB) *rig {
	g := &rig{t: t, hosts: newRig(t).hosts, disk: new(disk)}
	g.start(mem.New(mem.Options{Size: 1 << 20}))
	return g
}

// restart kills the server, and starts another one.
func (g *rig) restart() {
	fs := g.realm.Set().List()[0].FS
	g.s.Close()
	g.start(fs)
}

// notices returns the NOTIFYs to a host since it was called last.
func (h *fakeHost) notices() []nsm.NotifyArgs {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.notified = nil }()
	return h.notified
}

func (c *client) reclaim(block, exclusive bool, start, length uint64) nlm4.Status {
	c.g.t.Helper()
	a := c.lockArgs(block, exclusive, start, length)
	a.Reclaim = true
	return c.status(nlm4.ProcLock, a)
}

// TestRestart: RNLM-GRACE-1, RNLM-GRACE-2, RNLM-GRACE-3, RNSM-NOTIFY-1, RNSM-NOTIFY-2, RNLM-LOCK-6, RNSM-MON-1: a
// server that was killed tells the hosts of clients with locks, and until grace is over serves
// reclaims alone.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		a, b, c := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b"), g.client("192.0.2.3", "c")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 10))
		require.Equal(t, nlm4.Granted, b.try(true, 20, 10))
		require.Equal(t, nlm4.DeniedGrace, a.reclaim(false, true, 50, 1), "there is no grace: ganesha#834")
		first := g.s.nsmState
		g.host("192.0.2.2").set(true)
		g.restart()
		synctest.Wait()
		var names []string
		for _, n := range g.host("192.0.2.1").notices() {
			assert.Equal(t, g.s.nsmState, n.State)
			names = append(names, string(n.Name))
		}
		assert.Equal(t, []string{"192.0.2.100", "server.example", "server"}, names, "the address first: Linux compares it without a name server")
		assert.Greater(t, g.s.nsmState, first)
		assert.Empty(t, g.host("192.0.2.3").notices(), "it had no lock")
		for name, status := range map[string]nlm4.Status{
			"LOCK": c.try(true, 50, 1), "blocking LOCK": c.waits(true, 50, 1), "UNLOCK": a.unlock(0, 10), "CANCEL": c.cancel(true, 50, 1),
			"SHARE": c.share(nlm4.ProcShare, nlm4.Read, nlm4.Write, false), "UNSHARE": c.share(nlm4.ProcUnshare, 0, 0, false),
			"a reclaim of a client without locks": c.reclaim(false, true, 60, 1),
		} {
			assert.Equal(t, nlm4.DeniedGrace, status, name)
		}
		status, _ := c.test(true, 50, 1)
		assert.Equal(t, nlm4.DeniedGrace, status)
		assert.Equal(t, nlm4.Granted, a.reclaim(true, true, 0, 10))
		assert.Equal(t, nlm4.Denied, b.reclaim(true, true, 5, 1), "a reclaim does not wait")
		b.peer.Security = &oncrpc.Security{}
		assert.Equal(t, nlm4.Denied, b.reclaim(true, true, 5, 1), "nor inside of TLS: the lock is lost, and another has it")
		b.peer.Security = nil
		assert.False(t, g.state.Waits())
		g.host("192.0.2.2").set(false)
		time.Sleep(30 * time.Second)
		assert.Len(t, g.host("192.0.2.2").notices(), 3, "a host that was down is told later")
		assert.Equal(t, nlm4.Granted, b.reclaim(false, true, 20, 10))
		time.Sleep(20 * time.Second)
		g.state.Sweep()
		assert.Equal(t, nlm4.Granted, c.try(true, 50, 1))
		assert.Equal(t, nlm4.Denied, c.try(true, 0, 1))
		assert.Equal(t, nlm4.DeniedGrace, a.reclaim(false, true, 51, 1), "too late")
		time.Sleep(time.Hour)
		assert.Empty(t, g.host("192.0.2.1").notices())
		g.restart()
		synctest.Wait()
		assert.Len(t, g.host("192.0.2.3").notices(), 3)
	})
}

// TestStateNumber: RNSM-STATE-1: the state number is odd, positive, and another one after each restart.
func TestStateNumber(t *testing.T) {
	for _, epoch := range []uint32{1, 2, 3, 1 << 30, 1<<31 - 1, 1 << 31, 1<<32 - 2} {
		n := stateOf(epoch)
		assert.Positive(t, n)
		assert.EqualValues(t, 1, n&1)
		assert.NotEqual(t, n, stateOf(epoch+1))
	}
	assert.Equal(t, []int32{1, 3, 5}, []int32{stateOf(0), stateOf(1), stateOf(2)})
}

// TestNeverTold: RNSM-NOTIFY-1: a host that does not answer is told by the next server too, and the number of attempts
// is bounded.
func TestNeverTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		require.Equal(t, nlm4.Granted, g.client("192.0.2.1", "a").try(true, 0, 10))
		h := g.host("192.0.2.1")
		h.set(true)
		g.restart()
		time.Sleep(time.Hour)
		g.state.Sweep()
		assert.Less(t, h.dialled(), 20)
		require.Equal(t, nlm4.Granted, g.client("192.0.2.2", "b").try(true, 0, 10), "its lock is lost")
		for range 2 {
			dials := h.dialled()
			g.restart()
			time.Sleep(time.Hour)
			g.state.Sweep()
			assert.Greater(t, h.dialled(), dials)
		}
		h.set(false)
		g.restart()
		synctest.Wait()
		assert.Len(t, h.notices(), 3)
		assert.Equal(t, nlm4.DeniedGrace, g.client("192.0.2.1", "a").reclaim(false, true, 0, 10))
		g.restart()
		synctest.Wait()
		assert.Empty(t, h.notices())
	})
}

// TestSilentInGrace: RNLM-GRACE-1, RNSM-NOTIFY-1: a client that has called in grace may reclaim until grace is over, and is
// told of the restart, although it is silent for longer than a lease.
func TestSilentInGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		a := g.client("192.0.2.1", "a")
		h := g.host("192.0.2.1")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 10))
		fs := g.realm.Set().List()[0].FS
		lease := testLease
		shorter := func(c *nfs4state.Config, _ *Config, _ *realm.Config) { c.Lease = lease }
		for _, down := range []bool{false, true} {
			h.set(down)
			g.s.Close()
			lease /= 4
			g.start(fs, shorter)
			require.Equal(t, nlm4.DeniedGrace, a.try(true, 20, 1))
			time.Sleep(lease + time.Second)
			g.state.Sweep()
			assert.Equal(t, nlm4.Granted, a.reclaim(false, true, 0, 10), down)
		}
		g.s.Close()
		g.start(fs, shorter)
		require.Equal(t, nlm4.DeniedGrace, a.try(true, 20, 1))
		time.Sleep(time.Hour) // grace is over, and the host has not answered
		g.state.Sweep()
		h.set(false)
		g.s.Close()
		g.start(fs)
		synctest.Wait()
		assert.NotEmpty(t, h.notices())
	})
}

// TestToldFirst: RNSM-NOTIFY-1, RNSM-NOTIFY-2: hosts that may reclaim are told of the restart before those that have not
// answered since an earlier one.
func TestToldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		for i := range 8 {
			dead := fmt.Sprintf("192.0.2.%d", 100+i)
			require.Equal(t, nlm4.Granted, g.client(dead, "dead").try(false, 0, 10))
			g.host(dead).set(true)
		}
		g.restart()
		time.Sleep(time.Hour)
		g.state.Sweep()
		var live []netip.Addr
		for i := range 8 {
			c := g.client(fmt.Sprintf("192.0.2.%d", 1+i), "live")
			require.Equal(t, nlm4.Granted, c.try(false, 0, 10))
			live = append(live, c.peer.Addr.Addr())
		}
		g.s.Close()
		past, err := nfs4state.ReadPast(g.disk.records)
		require.NoError(t, err)
		list := past.Machines()
		require.Len(t, list, 16)
		for _, m := range list[:8] {
			assert.Contains(t, live, m.Addr)
		}
	})
}

// TestCommonGrace: RNLM-GRACE-4: clients of version 4 wait for those of NLM, and the reverse. The administrator
// ends grace for both.
func TestCommonGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		a := g.client("192.0.2.1", "a")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 10))
		g.restart()
		four, id, key := g.four()
		lock := &nfs4state.Lock{StateID: id, New: true, Owner: []byte("o"), Key: key}
		_, _, status := g.state.Lock(four, lock)
		assert.Equal(t, nfs4.ErrGrace, status)
		assert.True(t, g.state.EndGrace())
		_, _, status = g.state.Lock(four, lock)
		assert.Equal(t, nfs4.OK, status)
		g.restart()
		assert.Equal(t, nlm4.DeniedGrace, a.try(true, 50, 1))
		assert.Equal(t, nlm4.DeniedGrace, a.reclaim(false, true, 0, 10), "its lock was lost in the last grace")
	})
}

// TestNoJournal: RNLM-LOCK-6: without a record on stable storage no lock is granted.
func TestNoJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		a := g.client("192.0.2.1", "a")
		g.disk.full = true
		assert.Equal(t, nlm4.DeniedNoLocks, a.try(true, 0, 10))
		assert.Zero(t, g.locked())
		g.disk.full = false
		time.Sleep(time.Minute)
		assert.Equal(t, nlm4.Granted, a.try(true, 0, 10))
		assert.Contains(t, string(g.disk.records[len(g.disk.records)-1]), "192.0.2.1 192.0.2.100 a")
	})
}

// TestReclaimedShares: SHARE is reclaimed as LOCK is, and holds up others.
func TestReclaimedShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.share(nlm4.ProcShare, nlm4.Read, nlm4.Write, false))
		g.restart()
		assert.Equal(t, nlm4.DeniedGrace, b.share(nlm4.ProcShare, nlm4.Write, 0, false))
		assert.Equal(t, nlm4.Granted, a.share(nlm4.ProcShare, nlm4.Read, nlm4.Write, true))
		time.Sleep(time.Minute)
		assert.Equal(t, nlm4.Denied, b.share(nlm4.ProcShare, nlm4.Write, 0, false))
		assert.Equal(t, nlm4.Granted, b.share(nlm4.ProcShare, nlm4.Read, 0, false))
	})
}

// TestSharesInGrace: RNLM-GRACE-1: a client that may reclaim nothing but a share waits with new locks until grace is over, and
// keeps no other client waiting.
func TestSharesInGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.share(nlm4.ProcShare, nlm4.Read, 0, false))
		g.restart()
		assert.Equal(t, nlm4.DeniedGrace, a.try(true, 0, 1))
		assert.Equal(t, nlm4.Granted, b.try(true, 0, 1))
		assert.Equal(t, nlm4.Granted, a.share(nlm4.ProcShare, nlm4.Read, 0, true))
	})
}

// TestNotify: RNSM-NOTIFY-3, RNSM-NOTIFY-4, RNSM-NOTIFY-5, RNSM-NOTIFY-6, RNSM-LINUX-4, RNLM-LOCK-7: which NOTIFY frees whose
// locks (chimera#1012).
func TestNotify(t *testing.T) {
	for name, tt := range map[string]struct {
		clients []string // names at one address
		from    string
		name    string
		freed   int
	}{
		"the same name":                      {[]string{"a", "b"}, "192.0.2.1", "a", 1},
		"with a domain":                      {[]string{"a", "b"}, "192.0.2.1", "A.example", 1},
		"without its domain":                 {[]string{"a.example", "b"}, "192.0.2.1", "a", 1},
		"another name, of the only client":   {[]string{"a"}, "192.0.2.1", "x", 1},
		"another name, of one of the two":    {[]string{"a", "b"}, "192.0.2.1", "x", 0},
		"the name, from another address":     {[]string{"a"}, "192.0.2.2", "a", 0},
		"a name that nobody has, from there": {[]string{"a"}, "192.0.2.2", "x", 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			for i, n := range tt.clients {
				require.Equal(t, nlm4.Granted, g.client("192.0.2.1", n).try(true, uint64(i), 1))
			}
			sender := g.client(tt.from, "sender")
			sender.notify(tt.name, 5)
			assert.Equal(t, len(tt.clients)-tt.freed, g.locked())
		})
	}
}

// TestNotifyAgain: RNSM-NOTIFY-4: a NOTIFY with the same state number, or by the host's other name, does not free what the
// host has locked since.
func TestNotifyAgain(t *testing.T) {
	g := newRig(t)
	a := g.client("192.0.2.1", "a")
	require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
	a.notify("a.example", 5)
	require.Zero(t, g.locked())
	require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
	a.notify("a.example", 5)
	a.notify("a", 5)
	assert.Equal(t, 1, g.locked())
	a.notify("a", 7)
	assert.Zero(t, g.locked())
}

// TestNotifyMeetsCall: RNSM-NOTIFY-3, RNLM-FREE-1: the locks of a host that restarts while one of its calls runs end
// with that call, and those that the host gets after its restart do not.
func TestNotifyMeetsCall(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"NOTIFY":   func(c *client) { c.notify("a", 5) },
		"FREE_ALL": func(c *client) { c.do(nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte("a")}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t)
				a, other := g.client("192.0.2.1", "a"), g.client("192.0.2.1", "a")
				other.peer.Local = netip.MustParseAddrPort("192.0.2.101:2049")
				require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
				require.Equal(t, nlm4.Granted, other.try(true, 1, 1))
				call, status := g.state.EnterMachine(machine(&a.peer, []byte("a")), fairshare.Name{})
				require.Equal(t, nfs4.OK, status)
				end(a)
				assert.Equal(t, 1, g.locked())
				assert.Equal(t, nlm4.Granted, other.try(true, 1, 1), "by the server's other address")
				assert.Equal(t, nlm4.DeniedGrace, a.try(true, 2, 1), "the call runs")
				call.Leave()
				assert.Equal(t, 1, g.locked())
				assert.Equal(t, nlm4.Granted, a.try(true, 2, 1))
				time.Sleep(time.Hour)
				assert.Equal(t, 2, g.locked())
			})
		})
	}
}

// TestManyAddresses: RNLM-LOCK-5: datagrams with false addresses keep no client out.
func TestManyAddresses(t *testing.T) {
	g := newRig(t)
	c := g.client("192.0.2.1", "stranger")
	for i := range 1 << 14 {
		c.peer.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 700)
		c.unlock(0, 1)
	}
	assert.Equal(t, nlm4.Granted, g.client("192.0.2.2", "a").try(true, 0, 1))
	g.four()
}

// TestMonitor: RNSM-1-1, RNSM-1-2, RNSM-MON-2, RNSM-MON-3, RNSM-MON-4, RNSM-UNMON-1, RNSM-STAT-1: the other procedures,
// from this host and from others.
func TestMonitor(t *testing.T) {
	g := newRig(t)
	asker := nsm.Asker{Name: []byte("me"), Prog: nlm4.Program, Vers: 4, Proc: 16}
	for _, from := range []string{"127.0.0.1", "192.0.2.1"} {
		c := g.client(from, "a")
		call := func(proc uint32, args []byte) (xdr.Reader, error) {
			r := xdr.NewReader(append([]byte{0, 0, 0, 1}, c.raw(nsm.Program, nsm.Version, proc, args)...))
			return r, oncrpc.ReadReply(&r, 1)
		}
		for _, name := range []string{"host", "../x", ".x", strings.Repeat("x", nsm.NameLen)} {
			for proc, args := range map[uint32][]byte{
				nsm.ProcStat: (&nsm.StatArgs{Name: []byte(name)}).AppendTo(nil),
				nsm.ProcMon:  (&nsm.MonArgs{Name: []byte(name), Asker: asker}).AppendTo(nil),
			} {
				r, err := call(proc, args)
				require.NoError(t, err)
				var res nsm.StatRes
				res.Decode(&r)
				require.NoError(t, r.Done())
				assert.Equal(t, nsm.StatRes{Failed: true, State: g.s.nsmState}, res, "nobody is monitored for others")
			}
		}
		for proc, args := range map[uint32][]byte{
			nsm.ProcUnmon: (&nsm.UnmonArgs{Name: []byte("host"), Asker: asker}).AppendTo(nil), nsm.ProcUnmonAll: asker.AppendTo(nil),
		} {
			r, err := call(proc, args)
			require.NoError(t, err)
			var res nsm.State
			res.Decode(&r)
			require.NoError(t, r.Done())
			assert.EqualValues(t, g.s.nsmState, res)
		}
		for proc, args := range map[uint32][]byte{nsm.ProcNull: nil, nsm.ProcSimuCrash: nil} {
			r, err := call(proc, args)
			require.NoError(t, err)
			require.NoError(t, r.Done())
		}
		_, err := call(7, nil)
		assert.ErrorIs(t, err, oncrpc.ErrProcUnavail)
		_, err = call(nsm.ProcNotify, []byte{0, 0, 0, 9})
		assert.ErrorIs(t, err, oncrpc.ErrGarbageArgs)
		_, err = call(nsm.ProcMon, (&nsm.MonArgs{Name: make([]byte, nsm.NameLen+1)}).AppendTo(nil))
		assert.ErrorIs(t, err, oncrpc.ErrGarbageArgs)
	}
}

// TestBounds: RNLM-LOCK-5: owners, clients and waiting owners without end find DENIED_NOLOCKS, and others are served.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		other := g.client("192.0.2.2", "other")
		require.Equal(t, nlm4.Granted, other.try(true, 1<<40, 1))
		refused := func(n int, call func(i int) nlm4.Status) {
			t.Helper()
			for i := range n {
				if status := call(i); status == nlm4.DeniedNoLocks {
					return
				}
			}
			assert.Fail(t, "there is no bound")
		}
		c := g.client("192.0.2.1", "a")
		refused(1<<17, func(i int) nlm4.Status { return c.try(false, uint64(2*i), 1) })
		refused(1<<12, func(i int) nlm4.Status { return c.process(int32(i+2)).waits(true, 1<<40, 1) })
		refused(1<<13, func(i int) nlm4.Status {
			return g.client("192.0.2.1", strings.Repeat("x", 1+i%500)+string(rune(i))).try(false, 0, 1)
		})
		assert.Equal(t, nlm4.Blocked, g.client("192.0.2.3", "third").waits(true, 1<<40, 1))
		assert.Equal(t, nlm4.Granted, c.unlock(0, 0))
		c.notify("a", 9)
		require.Equal(t, nlm4.Granted, other.unlock(1<<40, 1))
		synctest.Wait()
		assert.Len(t, g.host("192.0.2.3").grants(), 1)
	})
}

// TestIdle: clients that hold nothing are forgotten after a lease, with their records.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskRig(t)
		a := g.client("192.0.2.1", "a")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
		time.Sleep(24 * time.Hour)
		g.state.Sweep()
		assert.Equal(t, 1, g.locked(), "a lock has no lease")
		require.Equal(t, nlm4.Granted, a.unlock(0, 1))
		time.Sleep(2 * testLease)
		g.state.Sweep()
		assert.Zero(t, g.state.Counts().Clients)
		assert.Zero(t, g.state.Counts().Records)
	})
}

// TestRemovedExport: the locks of an export that has been removed are free.
func TestRemovedExport(t *testing.T) {
	g := newRig(t)
	a := g.client("192.0.2.1", "a")
	require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
	require.NoError(t, g.realm.SetExports([]realm.Export{{Path: "/y", FS: mem.New(mem.Options{})}}))
	g.state.Revoke(func(file any) bool { return file.(*realm.Open).Removed() })
	assert.Zero(t, g.locked())
	assert.Equal(t, nlm4.StaleFH, a.try(true, 0, 1))
	assert.Equal(t, nlm4.Granted, a.unlock(0, 1))
}
