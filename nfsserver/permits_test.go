package nfsserver

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func peerAt(host int) *oncrpc.Peer {
	addr := netip.AddrFrom4([4]byte{192, 0, byte(host >> 8), byte(host)})
	return &oncrpc.Peer{Addr: netip.AddrPortFrom(addr, 700), Network: "tcp"}
}

// fromOtherHost returns a callGroup from another host that counts as another client group: two
// hosts may hash to the same counter.
func (c *callGroup) fromOtherHost() *callGroup {
	g := *c.g
	for host := 2; g.peer == c.g.peer || g.sharesCounter(c.g.peer); host++ {
		g.peer = peerAt(host)
	}
	return &callGroup{g: &g, answered: make(map[nfs3.Status]int)}
}

// sharesCounter reports whether p's calls count as calls from g's peer.
func (g *testServer) sharesCounter(p *oncrpc.Peer) (same bool) {
	before := g.countPermits()
	_ = g.server.exports.RunWithPermit(g.t.Context(), p, g.exportAt(0), func() { same = g.countPermits() > before })
	return same
}

func newCallGroup(g *testServer) *callGroup {
	return &callGroup{g: g, answered: make(map[nfs3.Status]int)}
}

// TestPermitsOfHungStorage checks that any number of calls to a file system that does not
// respond take a bounded number of threads, and keep neither their own client from other file
// systems, nor other clients from this one. Calls that wait for a permit are told to try again
// later.
func TestPermitsOfHungStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStuckFS()
		g := newTestServer(t, fs, func(c *Config) {
			c.Exports = append(c.Exports, Export{Path: "/y", FS: newMemFS()})
		})
		x, y := &nfs3.HandleArgs{Object: g.handleOf(memRoot)}, &nfs3.HandleArgs{Object: g.handleOf(memRoot, 1)}
		a := newCallGroup(g)
		for range 2000 {
			a.startCall(nfs3.ProcGetAttr, x)
		}
		synctest.Wait()
		require.EqualValues(t, 256, fs.inside.Load())
		a.startCall(nfs3.ProcGetAttr, y)
		b := a.fromOtherHost()
		b.startCall(nfs3.ProcGetAttr, y)
		synctest.Wait()
		assert.Equal(t, 1, a.answered[nfs3.OK])
		assert.Equal(t, 1, b.answered[nfs3.OK])
		b.startCall(nfs3.ProcGetAttr, x)
		synctest.Wait()
		assert.EqualValues(t, 257, fs.inside.Load())

		time.Sleep(3 * stuckTime)
		synctest.Wait()
		assert.Equal(t, 2000-256, a.answered[nfs3.ErrJukebox])
		assert.EqualValues(t, 257, fs.inside.Load(), "calls that have begun finish")
		close(fs.gate)
		a.waiting.Wait()
		b.waiting.Wait()
		assert.Equal(t, map[nfs3.Status]int{nfs3.OK: 257, nfs3.ErrJukebox: 2000 - 256}, a.answered)
		assert.Zero(t, a.g.countPermits())
		assert.Zero(t, b.g.countPermits())
		g.checkIdle()
	})
}

// TestPermitsComeBack checks that waiting calls get returned permits, alternately with other
// client groups, and that no permit is lost.
func TestPermitsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStuckFS()
		g := newTestServer(t, fs)
		args := &nfs3.HandleArgs{Object: g.handleOf(memRoot)}
		a := newCallGroup(g)
		b := a.fromOtherHost()
		for range 1000 {
			a.startCall(nfs3.ProcGetAttr, args)
			b.startCall(nfs3.ProcGetAttr, args)
		}
		synctest.Wait()
		const least = maxWorking / 3 // a sixth each with equal numbers, and more together otherwise
		taken := &fs.inside
		assert.LessOrEqual(t, taken.Load(), int64(maxWorking/2))
		assert.GreaterOrEqual(t, taken.Load(), int64(least))
		for range 500 {
			fs.gate <- struct{}{}
			synctest.Wait()
		}
		assert.GreaterOrEqual(t, taken.Load(), int64(least), "as long as any wait, all are taken")
		assert.InDelta(t, a.answered[nfs3.OK], b.answered[nfs3.OK], 150)
		close(fs.gate)
		a.waiting.Wait()
		b.waiting.Wait()
		assert.Equal(t, 1000, a.answered[nfs3.OK])
		assert.Equal(t, 1000, b.answered[nfs3.OK])
		assert.Zero(t, a.g.countPermits())
		assert.Zero(t, b.g.countPermits())
		g.checkIdle()
	})
}

// TestPermitsNotWhileWaiting checks that a call has no permit while it waits
// for memory or for a user's groups.
func TestPermitsNotWhileWaiting(t *testing.T) {
	free := func(t *testing.T, g *testServer) {
		assert.Zero(t, g.countPermits())
	}
	t.Run("groups", func(t *testing.T) {
		var g *testServer
		g = newTestServer(t, newMemFS(), func(c *Config) {
			c.Groups = func(context.Context, netip.Addr, uint32) ([]uint32, error) {
				free(t, g)
				return nil, nil
			}
		})
		var res nfs3.GetAttrRes
		g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.handleOf(memRoot)}, &res)
		assert.Equal(t, nfs3.OK, res.Status)
	})
	t.Run("memory", func(t *testing.T) {
		g := newTestServer(t, newMemFS())
		lent := 0
		for proc, args := range map[uint32]message{
			nfs3.ProcRead:        &nfs3.ReadArgs{File: g.handleOf(memRoot), Count: 100000},
			nfs3.ProcReadDir:     &nfs3.ReadDirArgs{Dir: g.handleOf(memRoot), Count: 100000},
			nfs3.ProcReadDirPlus: &nfs3.ReadDirPlusArgs{Dir: g.handleOf(memRoot), DirCount: 1000, MaxCount: 100000},
		} {
			rep := oncrpc.Reply{
				Lend: func(n int) *buf.Buf { lent++; free(t, g); return buf.Default.Get(n) },
				Hold: func(int) { lent++; free(t, g) },
			}
			msg := args.AppendTo(g.callHeader(nfs3.Program, nfs3.Version, proc))
			require.True(t, g.mux.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: g.peer, MaxReply: g.maxReply}, &rep))
			rep.DropItem()
		}
		assert.Equal(t, 3, lent)
	})
}

// TestPermitOfMnt checks that MNT takes a permit too.
func TestPermitOfMnt(t *testing.T) {
	var g *testServer
	fs := fakeLookingFS{newMemFS(), func() { assert.Equal(t, 1, g.countPermits()) }}
	g = newTestServer(t, fs)
	assert.Zero(t, g.callMnt("/x").Status)
	assert.Zero(t, g.countPermits())
}

// A fakeLookingFS calls look in each GetAttr.
type fakeLookingFS struct {
	*memFS
	look func()
}

func (f fakeLookingFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	f.look()
	return f.memFS.GetAttr(ctx, c, h)
}

// TestPatienceWithOneHung checks that one call that hangs forever causes no rejection, for any
// number of calls.
func TestPatienceWithOneHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStuckFS()
		hung := &fakeSlowFS{fakeStuckFS: fs, first: make(chan struct{})}
		g := newTestServer(t, hung)
		args := &nfs3.HandleArgs{Object: g.handleOf(memRoot)}
		c := newCallGroup(g)
		c.startCall(nfs3.ProcGetAttr, args)
		synctest.Wait()
		for range 20 {
			for range maxWaiting + 50 {
				c.startCall(nfs3.ProcGetAttr, args)
			}
			synctest.Wait()
			time.Sleep(stuckTime / 2)
			for range maxWaiting + 50 {
				fs.gate <- struct{}{}
			}
			synctest.Wait()
		}
		close(hung.first)
		fs.gate <- struct{}{}
		c.waiting.Wait()
		assert.Equal(t, map[nfs3.Status]int{nfs3.OK: 20*(maxWaiting+50) + 1}, c.answered)
	})
}

// A fakeSlowFS replies to its first call once first is closed and the fakeStuckFS lets it
// continue.
type fakeSlowFS struct {
	*fakeStuckFS
	first chan struct{}
	begun atomic.Bool
}

func (f *fakeSlowFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if !f.begun.Swap(true) {
		<-f.first
	}
	return f.fakeStuckFS.GetAttr(ctx, c, h)
}
