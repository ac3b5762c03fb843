package nfsserver

import (
	"context"
	"net/netip"
	"sync"
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
	counter := func(p *oncrpc.Peer) *partyWork {
		return g.server.permits.of(&g.export(0).work, p)
	}
	for host := 2; g.peer == c.g.peer || counter(g.peer) == counter(c.g.peer); host++ {
		g.peer = peerOf(host)
	}
	return &crowd{g: &g, answered: make(map[nfs3.Status]int)}
}

func newCrowd(g *rig) *crowd { return &crowd{g: g, answered: make(map[nfs3.Status]int)} }

// TestPermitsShared checks that a file system may have half of all permits, and
// a party half of the permits left to the file system.
func TestPermitsShared(t *testing.T) {
	var p permits
	p.init()
	var x, y work
	all := func(w *work, host int) (n int) {
		for p.try(w, p.of(w, peerOf(host))) {
			n++
		}
		return n
	}
	hosts := make([]int, 0, 20) // with separate counters
	seen := make(map[*partyWork]bool)
	for h := range 100 {
		if by := p.of(&x, peerOf(h)); !seen[by] && len(hosts) < cap(hosts) {
			seen[by] = true
			hosts = append(hosts, h)
		}
	}
	assert.Equal(t, 256, all(&x, hosts[0]))
	assert.Equal(t, 128, all(&x, hosts[1]))
	assert.Equal(t, 160, all(&y, hosts[0]))
	for i, h := range hosts[2:] {
		n := all(&x, h)
		assert.True(t, i > 4 || n > 0, "five parties get permits")
	}
	assert.LessOrEqual(t, x.taken.Load(), int64(maxWorking/2))
	for range 20 {
		for _, h := range hosts {
			all(new(work), h)
			all(&y, h)
		}
	}
	assert.LessOrEqual(t, p.taken.Load(), int64(maxWorking), "for any number of file systems and parties")
}

// TestPermitsOfHungStorage checks that any number of calls to a file system
// that does not answer take a bounded number of threads, and keep neither their
// own client from other file systems, nor other clients from this one. Calls
// that wait for a permit are told to try again later.
func TestPermitsOfHungStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &stuckFS{newMemFS(), make(chan struct{})}
		g := newRig(t, fs, func(c *Config) {
			c.Exports = append(c.Exports, Export{Path: "/y", FS: newMemFS()})
		})
		x, y := &nfs3.HandleArgs{Object: g.fh(memRoot)}, &nfs3.HandleArgs{Object: g.fh(memRoot, 1)}
		a := newCrowd(g)
		for range 2000 {
			a.call(nfs3.ProcGetAttr, x)
		}
		synctest.Wait()
		require.EqualValues(t, 256, g.export(0).work.taken.Load())
		a.call(nfs3.ProcGetAttr, y)
		b := a.another()
		b.call(nfs3.ProcGetAttr, y)
		synctest.Wait()
		assert.Equal(t, 1, a.answered[nfs3.OK])
		assert.Equal(t, 1, b.answered[nfs3.OK])
		b.call(nfs3.ProcGetAttr, x)
		synctest.Wait()
		assert.EqualValues(t, 257, g.export(0).work.taken.Load())

		time.Sleep(3 * stuckTime)
		synctest.Wait()
		assert.Equal(t, 2000-256, a.answered[nfs3.ErrJukebox])
		assert.EqualValues(t, 257, g.export(0).work.taken.Load(), "calls that have begun finish")
		close(fs.gate)
		a.waiting.Wait()
		b.waiting.Wait()
		assert.Equal(t, map[nfs3.Status]int{nfs3.OK: 257, nfs3.ErrJukebox: 2000 - 256}, a.answered)
		assert.Zero(t, g.server.permits.taken.Load())
		assert.Zero(t, g.server.permits.queues.Len())
	})
}

// TestPermitsComeBack checks that waiting calls get returned permits,
// alternately with other parties, and that no permit is lost.
func TestPermitsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &stuckFS{newMemFS(), make(chan struct{})}
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
		taken := &g.server.permits.taken
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
		assert.Zero(t, g.server.permits.taken.Load())
		assert.Zero(t, g.server.permits.waiting.Load())
	})
}

// TestPermitsNotWanted checks that a call stops waiting for a permit when its
// context ends, or after stuckTime if wanted returns false.
func TestPermitsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p permits
		p.init()
		var w work
		by := p.of(&w, nil)
		for p.try(&w, by) {
		}
		taken := p.taken.Load()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan bool)
		go func() { got <- p.acquire(ctx, &w, by, func() bool { return true }) }()
		synctest.Wait()
		assert.EqualValues(t, 1, p.waiting.Load())
		cancel()
		assert.False(t, <-got)
		start := time.Now()
		assert.False(t, p.acquire(t.Context(), &w, by, func() bool { return false }))
		assert.Equal(t, stuckTime, time.Since(start))
		assert.Zero(t, p.waiting.Load())
		assert.Equal(t, taken, p.taken.Load())
	})
}

// TestPermitsRace checks that no permit is lost and no waiting call is
// forgotten, in any order.
func TestPermitsRace(t *testing.T) {
	var p permits
	p.init()
	var fs [2]work
	var all sync.WaitGroup
	for i := range 700 {
		w := &fs[i%2]
		by := p.of(w, peerOf(i%5))
		all.Go(func() {
			for range 5 {
				if assert.True(t, p.acquire(t.Context(), w, by, func() bool { return true })) {
					p.give(w, by)
				}
			}
		})
	}
	all.Wait()
	assert.Zero(t, p.taken.Load())
	assert.Zero(t, p.waiting.Load())
}

// TestPermitsNotWhileWaiting checks that a call has no permit while it waits
// for memory or for a user's groups.
func TestPermitsNotWhileWaiting(t *testing.T) {
	free := func(t *testing.T, g *rig) {
		assert.Zero(t, g.server.permits.taken.Load())
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
	fs := lookingFS{newMemFS(), func() { assert.EqualValues(t, 1, g.server.permits.taken.Load()) }}
	g = newRig(t, fs)
	assert.Zero(t, g.mnt("/x").Status)
	assert.Zero(t, g.server.permits.taken.Load())
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
		fs := &stuckFS{newMemFS(), make(chan struct{})}
		g := newRig(t, fs)
		args := &nfs3.HandleArgs{Object: g.fh(memRoot)}
		hung := &slowFS{stuckFS: fs, first: make(chan struct{})}
		g.export(0).fs = hung
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
