package nlmserver

import (
	"fmt"
	"log/slog"
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
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeDisk is an in-memory journal that survives servers.
type fakeDisk struct {
	mu      sync.Mutex
	records [][]byte
	full    bool
}

func (d *fakeDisk) Append(records ...[]byte) error {
	return d.storeRecords(func() { d.records = append(d.records, records...) })
}

func (d *fakeDisk) Replace(records func() [][]byte) error {
	list := records()
	return d.storeRecords(func() { d.records = list })
}

func (d *fakeDisk) storeRecords(do func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		return errDown
	}
	do()
	return nil
}

func (d *fakeDisk) Size() int64 { return 0 }

// setFull makes the disk full, or frees space.
func (d *fakeDisk) setFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// newDiskServer is newTestServer with a disk.
func newDiskServer(t testing.TB) *testServer {
	g := &testServer{t: t, hosts: newTestServer(t).hosts, disk: new(fakeDisk)}
	g.startServer(mem.New(mem.Options{Size: 1 << 20}))
	return g
}

// restartServer kills the server, and starts another one.
func (g *testServer) restartServer() {
	fs := g.realm.Snapshot().List()[0].FS
	g.s.Close()
	g.startServer(fs)
}

// takeNotifies returns the NOTIFYs to a host since its last call.
func (h *fakeHost) takeNotifies() []nsm.NotifyArgs {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.notified = nil }()
	return h.notified
}

func (c *testClient) reclaimRange(block, exclusive bool, start, length uint64) nlm4.Status {
	c.g.t.Helper()
	a := c.lockArgs(block, exclusive, start, length)
	a.Reclaim = true
	return c.callForStatus(nlm4.ProcLock, a)
}

// TestRestartOnOtherHost checks that a client reclaims its locks at another address of the
// server, which the service has moved to, also after several moves, and that no other client may.
func TestRestartOnOtherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		a, b, c := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "a"), g.newClient("192.0.2.1", "c")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		require.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, nlm4.Write, false))
		for _, local := range []string{"192.0.2.101:2049", "192.0.2.102:2049", "192.0.2.100:2049"} {
			g.restartServer() // twice: the first server is asked for nothing
			g.restartServer()
			for _, client := range []*testClient{a, b, c} {
				client.peer.Local = netip.MustParseAddrPort(local)
			}
			assert.Equal(t, nlm4.DeniedGrace, b.reclaimRange(false, true, 0, 10), "another address")
			assert.Equal(t, nlm4.DeniedGrace, c.reclaimRange(false, true, 0, 10), "another name")
			assert.Equal(t, nlm4.DeniedGrace, a.tryLock(true, 0, 10), "it must reclaim first")
			assert.Equal(t, nlm4.Granted, a.reclaimRange(false, true, 0, 5))
			assert.Equal(t, nlm4.Granted, a.reclaimRange(false, true, 5, 5))
			assert.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, nlm4.Write, true))
			g.restartServer()
			assert.Equal(t, nlm4.Granted, a.reclaimRange(false, true, 0, 10), "it had reclaimed before another restart")
			assert.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, nlm4.Write, true))
			time.Sleep(time.Hour)
			g.state.Sweep()
			assert.Equal(t, nlm4.Denied, b.tryLock(true, 0, 1))
			assert.Equal(t, nlm4.DeniedGrace, a.reclaimRange(false, true, 20, 1), "too late")
		}
		g.restartServer()
		assert.Equal(t, 1, g.state.Grace().Clients, "the records at other addresses are gone")
	})
}

// TestRestart: RNLM-GRACE-1, RNLM-GRACE-2, RNLM-GRACE-3, RNSM-NOTIFY-1, RNSM-NOTIFY-2, RNLM-LOCK-6,
// RNSM-MON-1: a server that was killed notifies the hosts of clients with locks, and serves only
// reclaims until the grace period is over.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		a, b, c := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b"), g.newClient("192.0.2.3", "c")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		require.Equal(t, nlm4.Granted, b.tryLock(true, 20, 10))
		require.Equal(t, nlm4.DeniedGrace, a.reclaimRange(false, true, 50, 1), "there is no grace: ganesha#834")
		first := g.s.nsmState
		g.hostAt("192.0.2.2").setDown(true)
		g.restartServer()
		synctest.Wait()
		var names []string
		for _, n := range g.hostAt("192.0.2.1").takeNotifies() {
			assert.Equal(t, g.s.nsmState, n.State)
			names = append(names, string(n.Name))
		}
		assert.Equal(t, []string{"192.0.2.100", "server.example", "server"}, names, "the address first: Linux compares it without a name server")
		assert.Greater(t, g.s.nsmState, first)
		assert.Empty(t, g.hostAt("192.0.2.3").takeNotifies(), "it had no lock")
		for name, status := range map[string]nlm4.Status{
			"LOCK": c.tryLock(true, 50, 1), "blocking LOCK": c.waitLock(true, 50, 1), "UNLOCK": a.unlockRange(0, 10), "CANCEL": c.cancelLock(true, 50, 1),
			"SHARE": c.shareFile(nlm4.ProcShare, nlm4.Read, nlm4.Write, false), "UNSHARE": c.shareFile(nlm4.ProcUnshare, 0, 0, false),
			"a reclaim of a client without locks": c.reclaimRange(false, true, 60, 1),
		} {
			assert.Equal(t, nlm4.DeniedGrace, status, name)
		}
		status, _ := c.testLock(true, 50, 1)
		assert.Equal(t, nlm4.DeniedGrace, status)
		assert.Equal(t, nlm4.Granted, a.reclaimRange(true, true, 0, 10))
		assert.Equal(t, nlm4.Denied, b.reclaimRange(true, true, 5, 1), "a reclaim does not wait")
		b.peer.Security = &oncrpc.Security{}
		assert.Equal(t, nlm4.Denied, b.reclaimRange(true, true, 5, 1), "nor inside of TLS: the lock is lost, and another has it")
		b.peer.Security = nil
		assert.False(t, g.state.HasLockWaiters())
		g.hostAt("192.0.2.2").setDown(false)
		time.Sleep(30 * time.Second)
		assert.Len(t, g.hostAt("192.0.2.2").takeNotifies(), 3, "a host that was down is told later")
		assert.Equal(t, nlm4.Granted, b.reclaimRange(false, true, 20, 10))
		time.Sleep(20 * time.Second)
		g.state.Sweep()
		assert.Equal(t, nlm4.Granted, c.tryLock(true, 50, 1))
		assert.Equal(t, nlm4.Denied, c.tryLock(true, 0, 1))
		assert.Equal(t, nlm4.DeniedGrace, a.reclaimRange(false, true, 51, 1), "too late")
		time.Sleep(time.Hour)
		assert.Empty(t, g.hostAt("192.0.2.1").takeNotifies())
		g.restartServer()
		synctest.Wait()
		assert.Len(t, g.hostAt("192.0.2.3").takeNotifies(), 3)
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

// TestNeverTold: RNSM-NOTIFY-1: a host that does not reply is also notified by the next server,
// and the number of attempts is bounded.
func TestNeverTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		require.Equal(t, nlm4.Granted, g.newClient("192.0.2.1", "a").tryLock(true, 0, 10))
		h := g.hostAt("192.0.2.1")
		h.setDown(true)
		g.restartServer()
		time.Sleep(time.Hour)
		g.state.Sweep()
		assert.Less(t, h.dialCount(), 20)
		require.Equal(t, nlm4.Granted, g.newClient("192.0.2.2", "b").tryLock(true, 0, 10), "its lock is lost")
		for range 2 {
			dials := h.dialCount()
			g.restartServer()
			time.Sleep(time.Hour)
			g.state.Sweep()
			assert.Greater(t, h.dialCount(), dials)
		}
		h.setDown(false)
		g.restartServer()
		synctest.Wait()
		assert.Len(t, h.takeNotifies(), 3)
		assert.Equal(t, nlm4.DeniedGrace, g.newClient("192.0.2.1", "a").reclaimRange(false, true, 0, 10))
		g.restartServer()
		synctest.Wait()
		assert.Empty(t, h.takeNotifies())
	})
}

// TestSilentInGrace: RNLM-GRACE-1, RNSM-NOTIFY-1: a client that has called in the grace period may
// reclaim until it is over, and is notified of the restart, although it is silent for longer than a
// lease.
func TestSilentInGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		a := g.newClient("192.0.2.1", "a")
		h := g.hostAt("192.0.2.1")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		fs := g.realm.Snapshot().List()[0].FS
		lease := testLease
		shorter := func(c *nfs4state.Config, _ *Config, _ *exportset.Config) { c.Lease = lease }
		for _, down := range []bool{false, true} {
			h.setDown(down)
			g.s.Close()
			lease /= 4
			g.startServer(fs, shorter)
			require.Equal(t, nlm4.DeniedGrace, a.tryLock(true, 20, 1))
			time.Sleep(lease + time.Second)
			g.state.Sweep()
			assert.Equal(t, nlm4.Granted, a.reclaimRange(false, true, 0, 10), down)
		}
		g.s.Close()
		g.startServer(fs, shorter)
		require.Equal(t, nlm4.DeniedGrace, a.tryLock(true, 20, 1))
		time.Sleep(time.Hour) // the grace period is over, and the host has not replied
		g.state.Sweep()
		h.setDown(false)
		g.s.Close()
		g.startServer(fs)
		synctest.Wait()
		assert.NotEmpty(t, h.takeNotifies())
	})
}

// TestToldFirst: RNSM-NOTIFY-1, RNSM-NOTIFY-2: hosts that may reclaim are notified of the restart
// before those that have not replied since an earlier one.
func TestToldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		for i := range 8 {
			dead := fmt.Sprintf("192.0.2.%d", 100+i)
			require.Equal(t, nlm4.Granted, g.newClient(dead, "dead").tryLock(false, 0, 10))
			g.hostAt(dead).setDown(true)
		}
		g.restartServer()
		time.Sleep(time.Hour)
		g.state.Sweep()
		var live []netip.Addr
		for i := range 8 {
			c := g.newClient(fmt.Sprintf("192.0.2.%d", 1+i), "live")
			require.Equal(t, nlm4.Granted, c.tryLock(false, 0, 10))
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

// TestCommonGrace: RNLM-GRACE-4: NFSv4 clients wait for those of NLM, and the reverse. The
// administrator ends the grace period for both.
func TestCommonGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		a := g.newClient("192.0.2.1", "a")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		g.restartServer()
		four, id, key := g.newClient4()
		lock := &nfs4state.Lock{StateID: id, New: true, Owner: []byte("o"), Key: key}
		_, _, status := g.state.Lock(four, lock)
		assert.Equal(t, nfs4.ErrGrace, status)
		assert.True(t, g.state.EndGrace())
		_, _, status = g.state.Lock(four, lock)
		assert.Equal(t, nfs4.OK, status)
		g.restartServer()
		assert.Equal(t, nlm4.DeniedGrace, a.tryLock(true, 50, 1))
		assert.Equal(t, nlm4.DeniedGrace, a.reclaimRange(false, true, 0, 10), "its lock was lost in the last grace")
	})
}

// TestNoJournal: RNLM-LOCK-6: without a record on stable storage no lock is granted.
func TestNoJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		a := g.newClient("192.0.2.1", "a")
		g.disk.full = true
		assert.Equal(t, nlm4.DeniedNoLocks, a.tryLock(true, 0, 10))
		assert.Zero(t, g.lockCount())
		g.disk.full = false
		time.Sleep(time.Minute)
		assert.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		assert.Contains(t, string(g.disk.records[len(g.disk.records)-1]), "192.0.2.1 192.0.2.100 a")
	})
}

// TestReclaimedShares: SHARE is reclaimed like LOCK, and delays others.
func TestReclaimedShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, nlm4.Write, false))
		g.restartServer()
		assert.Equal(t, nlm4.DeniedGrace, b.shareFile(nlm4.ProcShare, nlm4.Write, 0, false))
		assert.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, nlm4.Write, true))
		time.Sleep(time.Minute)
		assert.Equal(t, nlm4.Denied, b.shareFile(nlm4.ProcShare, nlm4.Write, 0, false))
		assert.Equal(t, nlm4.Granted, b.shareFile(nlm4.ProcShare, nlm4.Read, 0, false))
	})
}

// TestSharesInGrace: RNLM-GRACE-1: a client that may reclaim nothing but a share waits with new
// locks until the grace period is over, and delays no other client.
func TestSharesInGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		require.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, 0, false))
		g.restartServer()
		assert.Equal(t, nlm4.DeniedGrace, a.tryLock(true, 0, 1))
		assert.Equal(t, nlm4.Granted, b.tryLock(true, 0, 1))
		assert.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, 0, true))
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
		"another name, of the only client":   {[]string{"a"}, "192.0.2.1", "x", 0},
		"another name, of one of the two":    {[]string{"a", "b"}, "192.0.2.1", "x", 0},
		"the name, from another address":     {[]string{"a"}, "192.0.2.2", "a", 0},
		"a name that nobody has, from there": {[]string{"a"}, "192.0.2.2", "x", 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestServer(t)
			for i, n := range tt.clients {
				require.Equal(t, nlm4.Granted, g.newClient("192.0.2.1", n).tryLock(true, uint64(i), 1))
			}
			sender := g.newClient(tt.from, "sender")
			sender.sendNotify(tt.name, 5)
			assert.Equal(t, len(tt.clients)-tt.freed, g.lockCount())
		})
	}
}

// TestFreedByWhom: NOTIFY and FREE_ALL release the locks of the named client, and of no other
// client on its host (RNLM-FREE-1). If these came from a privileged port, an ordinary user of the
// host releases none, and does not prevent the host's own NOTIFY with the same state number from
// doing so.
func TestFreedByWhom(t *testing.T) {
	for _, tt := range []struct {
		name       string
		locks      []uint16 // ports of the calls that lock
		free       uint16
		freed, log string
	}{
		{"the superuser's locks, by a user", []uint16{700}, 40000, "", "not released"},
		{"the superuser's locks, by the superuser", []uint16{700}, 800, "a", "released all locks"},
		{"a user's locks, by a user", []uint16{40000}, 50000, "a", "released all locks"},
		{"both ports' locks, by a user", []uint16{700, 40000}, 50000, "", "not released"},
		{"both ports' locks, in the other order", []uint16{40000, 700}, 50000, "", "not released"},
	} {
		for by, free := range map[string]func(c *testClient){
			"NOTIFY":   func(c *testClient) { c.sendNotify("a", 5) },
			"FREE_ALL": func(c *testClient) { c.mustCall(nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte("a")}) },
		} {
			t.Run(tt.name+", "+by, func(t *testing.T) {
				var log strings.Builder
				g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, r *exportset.Config) {
					r.Log = slog.New(slog.NewTextHandler(&log, nil))
				})
				from := func(name string, port uint16) *testClient {
					c := g.newClient("192.0.2.1", name)
					c.peer.Addr = netip.AddrPortFrom(c.peer.Addr.Addr(), port)
					return c
				}
				for i, port := range tt.locks {
					require.Equal(t, nlm4.Granted, from("a", port).tryLock(true, uint64(2*i), 1))
				}
				require.Equal(t, nlm4.Granted, from("another", 700).tryLock(true, 10, 1))
				free(from("sender", tt.free))
				want := 1
				if tt.freed == "" {
					want += len(tt.locks)
				}
				assert.Equal(t, want, g.lockCount())
				assert.Contains(t, log.String(), tt.log)
				free(from("sender", 800))
				assert.Equal(t, 1, g.lockCount(), "after the host's own")
			})
		}
	}
}

// TestFreedByDatagram: anyone can send a datagram in a host's name. Locks are released when the
// host itself confirms that it has restarted, by the state number of its status monitor, or by
// having none yet; until then NOTIFY gets no reply, so that it is repeated.
func TestFreedByDatagram(t *testing.T) {
	for _, tt := range []struct {
		name            string
		change          func(h *fakeHost)
		notify, freeAll bool // frees
	}{
		{"a monitor of the same state", func(h *fakeHost) { h.state = 5 }, true, false},
		{"a monitor of another state", func(h *fakeHost) { h.state = 3 }, false, false},
		{"no monitor yet", func(h *fakeHost) { h.unmonitor = true }, true, true},
		{"no host that answers", func(h *fakeHost) { h.down = true }, false, false},
	} {
		for by, args := range map[string]struct {
			prog, vers, proc uint32
			args             []byte
			frees            bool
		}{
			"NOTIFY":   {nsm.Program, nsm.Version, nsm.ProcNotify, (&nsm.NotifyArgs{Name: []byte("a.example"), State: 5}).AppendTo(nil), tt.notify},
			"FREE_ALL": {nlm4.Program, nlm4.Version, nlm4.ProcFreeAll, (&nlm4.Notify{Name: []byte("a")}).AppendTo(nil, nlm4.Version), tt.freeAll},
		} {
			t.Run(tt.name+", "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newTestServer(t)
					require.Equal(t, nlm4.Granted, g.newClient("192.0.2.1", "a").tryLock(true, 0, 1))
					h := g.hostAt("192.0.2.1")
					tt.change(h)
					peer := oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700"), Network: "udp"}
					send := func() bool {
						x := oncrpc.Exchange{Prog: args.prog, Vers: args.vers, Proc: args.proc, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}}
						msg := append(oncrpc.AppendCall(nil, 1, &x, "host"), args.args...)
						return g.mux.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: &peer, MaxReply: 8192}, new(oncrpc.Reply))
					}
					assert.Equal(t, by == "FREE_ALL", send(), "the first has an answer")
					synctest.Wait()
					want := 1
					if args.frees {
						want = 0
					}
					assert.Equal(t, want, g.lockCount())
					assert.Equal(t, by == "FREE_ALL" || args.frees, send(), "the second has an answer")
					synctest.Wait()
					g.s.Close()
				})
			})
		}
	}
}

// TestNotifyOfSameState: RNSM-NOTIFY-4: a NOTIFY with the state number with which a host made its
// locks reports no restart since, whatever its source, although the host's status monitor confirms
// the number. Before the host has locks, a datagram is not believed either: the next restart may
// have its number.
func TestNotifyOfSameState(t *testing.T) {
	for _, network := range []string{"udp", "tcp"} {
		synctest.Test(t, func(t *testing.T) {
			g := newTestServer(t)
			a, h := g.newClient("192.0.2.1", "a"), g.hostAt("192.0.2.1")
			a.peer.Addr, a.peer.Network = netip.MustParseAddrPort("192.0.2.1:700"), network
			notify := func(state int32) {
				a.callRaw(nsm.Program, nsm.Version, nsm.ProcNotify, (&nsm.NotifyArgs{Name: []byte("a"), State: state}).AppendTo(nil))
				synctest.Wait()
			}
			h.state = 3
			if network == "udp" {
				notify(5)
			}
			require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1)) // with number 3
			notify(3)
			assert.Equal(t, 1, g.lockCount())
			h.state = 5
			notify(5)
			assert.Zero(t, g.lockCount(), "the host has restarted")

			// What a client has reclaimed may be older than its next lock.
			require.Equal(t, nlm4.Granted, a.shareFile(nlm4.ProcShare, nlm4.Read, 0, false))
			require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
			h.state = 3
			notify(3)
			assert.Zero(t, g.lockCount(), "the number of the share is unknown")
			g.s.Close()
		})
	}
}

// A host without clients is not queried about a restart.
func TestFreedByDatagramOfStranger(t *testing.T) {
	g := newTestServer(t)
	stranger := g.newClient("192.0.2.9", "x")
	stranger.peer.Network = "udp"
	stranger.sendNotify("x", 5)
	assert.Zero(t, g.hostAt("192.0.2.9").dials)
}

// TestNotifyAgain: RNSM-NOTIFY-4: a NOTIFY with the same state number, or by the host's other name,
// does not release what the host has locked since.
func TestNotifyAgain(t *testing.T) {
	g := newTestServer(t)
	a := g.newClient("192.0.2.1", "a")
	require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
	a.sendNotify("a.example", 5)
	require.Zero(t, g.lockCount())
	require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
	a.sendNotify("a.example", 5)
	a.sendNotify("a", 5)
	assert.Equal(t, 1, g.lockCount())
	a.sendNotify("a", 7)
	assert.Zero(t, g.lockCount())
}

// TestNotifyMeetsCall: RNSM-NOTIFY-3, RNLM-FREE-1: the locks of a host that restarts while one of
// its calls is running are released after that call, and those that the host gets after its restart
// do not.
func TestNotifyMeetsCall(t *testing.T) {
	for name, end := range map[string]func(c *testClient){
		"NOTIFY":   func(c *testClient) { c.sendNotify("a", 5) },
		"FREE_ALL": func(c *testClient) { c.mustCall(nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte("a")}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTestServer(t)
				a, other := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.1", "a")
				other.peer.Local = netip.MustParseAddrPort("192.0.2.101:2049")
				require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
				require.Equal(t, nlm4.Granted, other.tryLock(true, 1, 1))
				call, status := g.state.EnterMachine(machineOf(&a.peer, []byte("a")), fairshare.Name{})
				require.Equal(t, nfs4.OK, status)
				end(a)
				assert.Equal(t, 1, g.lockCount())
				assert.Equal(t, nlm4.Granted, other.tryLock(true, 1, 1), "by the server's other address")
				assert.Equal(t, nlm4.DeniedGrace, a.tryLock(true, 2, 1), "the call runs")
				call.Leave()
				assert.Equal(t, 1, g.lockCount())
				assert.Equal(t, nlm4.Granted, a.tryLock(true, 2, 1))
				time.Sleep(time.Hour)
				assert.Equal(t, 2, g.lockCount())
			})
		})
	}
}

// TestManyAddresses: RNLM-LOCK-5: datagrams with forged addresses lock no client
// out.
func TestManyAddresses(t *testing.T) {
	g := newTestServer(t)
	c := g.newClient("192.0.2.1", "stranger")
	for i := range 1 << 14 {
		c.peer.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 700)
		c.unlockRange(0, 1)
	}
	assert.Equal(t, nlm4.Granted, g.newClient("192.0.2.2", "a").tryLock(true, 0, 1))
	g.newClient4()
}

// TestMonitor: RNSM-1-1, RNSM-1-2, RNSM-MON-2, RNSM-MON-3, RNSM-MON-4, RNSM-UNMON-1, RNSM-STAT-1: the other procedures,
// from this host and from others.
func TestMonitor(t *testing.T) {
	g := newTestServer(t)
	asker := nsm.Asker{Name: []byte("me"), Prog: nlm4.Program, Vers: 4, Proc: 16}
	for _, from := range []string{"127.0.0.1", "192.0.2.1"} {
		c := g.newClient(from, "a")
		call := func(proc uint32, args []byte) (xdr.Reader, error) {
			r := xdr.NewReader(append([]byte{0, 0, 0, 1}, c.callRaw(nsm.Program, nsm.Version, proc, args)...))
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

// TestBounds: RNLM-LOCK-5: owners, clients and waiting owners beyond the limits get
// DENIED_NOLOCKS, and others are served.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		other := g.newClient("192.0.2.2", "other")
		require.Equal(t, nlm4.Granted, other.tryLock(true, 1<<40, 1))
		refused := func(n int, call func(i int) nlm4.Status) {
			t.Helper()
			for i := range n {
				if status := call(i); status == nlm4.DeniedNoLocks {
					return
				}
			}
			assert.Fail(t, "there is no bound")
		}
		c := g.newClient("192.0.2.1", "a")
		refused(1<<17, func(i int) nlm4.Status { return c.tryLock(false, uint64(2*i), 1) })
		refused(1<<12, func(i int) nlm4.Status { return c.otherProcess(int32(i+2)).waitLock(true, 1<<40, 1) })
		refused(1<<13, func(i int) nlm4.Status {
			return g.newClient("192.0.2.1", strings.Repeat("x", 1+i%500)+string(rune(i))).tryLock(false, 0, 1)
		})
		assert.Equal(t, nlm4.Blocked, g.newClient("192.0.2.3", "third").waitLock(true, 1<<40, 1))
		assert.Equal(t, nlm4.Granted, c.unlockRange(0, 0))
		c.sendNotify("a", 9)
		require.Equal(t, nlm4.Granted, other.unlockRange(1<<40, 1))
		synctest.Wait()
		assert.Len(t, g.hostAt("192.0.2.3").takeGranted(), 1)
	})
}

// TestIdle: clients without locks are removed after a lease, with their records.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskServer(t)
		a := g.newClient("192.0.2.1", "a")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		time.Sleep(24 * time.Hour)
		g.state.Sweep()
		assert.Equal(t, 1, g.lockCount(), "a lock has no lease")
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
		time.Sleep(2 * testLease)
		g.state.Sweep()
		assert.Zero(t, g.state.Counts().Clients)
		assert.Zero(t, g.state.Counts().Records)
	})
}

// TestRemovedExport: the locks on a removed export are released.
func TestRemovedExport(t *testing.T) {
	g := newTestServer(t)
	a := g.newClient("192.0.2.1", "a")
	require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
	require.NoError(t, g.realm.SetExports([]exportset.Export{{Path: "/y", FS: mem.New(mem.Options{})}}))
	g.state.Revoke(func(file any) bool { return file.(*exportset.Open).IsRemoved() })
	assert.Zero(t, g.lockCount())
	assert.Equal(t, nlm4.StaleFH, a.tryLock(true, 0, 1))
	assert.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
}
