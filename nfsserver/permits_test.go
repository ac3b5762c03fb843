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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func peerOf(host int) *oncrpc.Peer {
	addr := netip.AddrFrom4([4]byte{192, 0, byte(host >> 8), byte(host)})
	return &oncrpc.Peer{Addr: netip.AddrPortFrom(addr, 700), Network: "tcp"}
}

// another returns a crowd of another host that counts as another party: two
// hosts may hash to the same counter.
func (c *crowd) another() *crowd {
	g := *c.g
	for host := 2; g.peer == c.g.peer || g.counts(c.g.peer); host++ {
		g.peer = peerOf(host)
	}
	return &crowd{g: &g, answered: make(map[nfs3.Status]int)}
}

// counts reports whether p's calls count as those of g's peer.
func (g *rig) counts(p *oncrpc.Peer) (same bool) {
	before := g.permits()
	_ = g.server.realm.Visit(g.t.Context(), p, g.export(0), func() { same = g.permits() > before })
	return same
}

func newCrowd(g *rig) *crowd { return &crowd{g: g, answered: make(map[nfs3.Status]int)} }

// TestPermitsOfHungStorage checks that any number of calls to a file system
// that does not answer take a bounded number of threads, and keep neither their
// own client from other file systems, nor other clients from this one. Calls
// that wait for a permit are told to try again later.
func TestPermitsOfHungStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newStuckFS()
		g := newRig(t, fs, func(c *Config) {
			c.Exports = append(c.Exports, Export{Path: "/y", FS: newMemFS()})
		})
		x, y := &nfs3.HandleArgs{Object: g.fh(memRoot)}, &nfs3.HandleArgs{Object: g.fh(memRoot, 1)}
		a := newCrowd(g)
		for range 2000 {
			a.call(nfs3.ProcGetAttr, x)
		}
		synctest.Wait()
		require.EqualValues(t, 256, fs.inside.Load())
		a.call(nfs3.ProcGetAttr, y)
		b := a.another()
		b.call(nfs3.ProcGetAttr, y)
		synctest.Wait()
		assert.Equal(t, 1, a.answered[nfs3.OK])
		assert.Equal(t, 1, b.answered[nfs3.OK])
		b.call(nfs3.ProcGetAttr, x)
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
		assert.Zero(t, a.g.permits())
		assert.Zero(t, b.g.permits())
		g.idle()
	})
}

// TestPermitsComeBack checks that waiting calls get returned permits,
// alternately with other parties, and that no permit is lost.
func TestPermitsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newStuckFS()
		g := newRig(t, fs)
		args := &nfs3.HandleArgs{Object: g.fh(memRoot)}
		a := newCrowd(g)
		b := a.another()
		for range 1000 {
			a.call(nfs3.ProcGetAttr, args)
			b.call(nfs3.ProcGetAttr, args)
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
		assert.Zero(t, a.g.permits())
		assert.Zero(t, b.g.permits())
		g.idle()
	})
}

// TestPermitsNotWhileWaiting checks that a call has no permit while it waits
// for memory or for a user's groups.
func TestPermitsNotWhileWaiting(t *testing.T) {
	free := func(t *testing.T, g *rig) {
		assert.Zero(t, g.permits())
	}
	t.Run("groups", func(t *testing.T) {
		var g *rig
		g = newRig(t, newMemFS(), func(c *Config) {
			c.Groups = func(context.Context, netip.Addr, uint32) ([]uint32, error) {
				free(t, g)
				return nil, nil
			}
		})
		var res nfs3.GetAttrRes
		g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.fh(memRoot)}, &res)
		assert.Equal(t, nfs3.OK, res.Status)
	})
	t.Run("memory", func(t *testing.T) {
		g := newRig(t, newMemFS())
		lent := 0
		for proc, args := range map[uint32]message{
			nfs3.ProcRead:        &nfs3.ReadArgs{File: g.fh(memRoot), Count: 100000},
			nfs3.ProcReadDir:     &nfs3.ReadDirArgs{Dir: g.fh(memRoot), Count: 100000},
			nfs3.ProcReadDirPlus: &nfs3.ReadDirPlusArgs{Dir: g.fh(memRoot), DirCount: 1000, MaxCount: 100000},
		} {
			rep := oncrpc.Reply{
				Lend: func(n int) *buf.Buf { lent++; free(t, g); return buf.Default.Get(n) },
				Hold: func(int) { lent++; free(t, g) },
			}
			msg := args.AppendTo(g.header(nfs3.Program, nfs3.Version, proc))
			require.True(t, g.mux.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: g.peer, MaxReply: g.maxReply}, &rep))
			rep.DropItem()
		}
		assert.Equal(t, 3, lent)
	})
}

// TestPermitOfMnt checks that MNT takes a permit too.
func TestPermitOfMnt(t *testing.T) {
	var g *rig
	fs := lookingFS{newMemFS(), func() { assert.Equal(t, 1, g.permits()) }}
	g = newRig(t, fs)
	assert.Zero(t, g.mnt("/x").Status)
	assert.Zero(t, g.permits())
}

// A lookingFS calls look in each GetAttr.
type lookingFS struct {
	*memFS
	look func()
}

func (f lookingFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	f.look()
	return f.memFS.GetAttr(ctx, c, h)
}

// TestPatienceWithOneHung checks that one call that hangs forever causes no
// refusal, for any number of calls.
func TestPatienceWithOneHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newStuckFS()
		hung := &slowFS{stuckFS: fs, first: make(chan struct{})}
		g := newRig(t, hung)
		args := &nfs3.HandleArgs{Object: g.fh(memRoot)}
		c := newCrowd(g)
		c.call(nfs3.ProcGetAttr, args)
		synctest.Wait()
		for range 20 {
			for range maxWaiting + 50 {
				c.call(nfs3.ProcGetAttr, args)
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

// A slowFS answers its first call once first is closed and the stuckFS lets it
// continue.
type slowFS struct {
	*stuckFS
	first chan struct{}
	begun atomic.Bool
}

func (f *slowFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if !f.begun.Swap(true) {
		<-f.first
	}
	return f.stuckFS.GetAttr(ctx, c, h)
}
