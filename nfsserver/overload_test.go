package nfsserver

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeStuckFS replies to GETATTR and MKDIR once gate is closed, or one call for each
// value sent to gate.
type fakeStuckFS struct {
	*memFS
	gate   chan struct{}
	inside atomic.Int64 // calls
}

func newFakeStuckFS() *fakeStuckFS { return &fakeStuckFS{memFS: newMemFS(), gate: make(chan struct{})} }

// waitForGate waits for the gate.
func (f *fakeStuckFS) waitForGate() {
	f.inside.Add(1)
	<-f.gate
	f.inside.Add(-1)
}

func (f *fakeStuckFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	f.waitForGate()
	return f.memFS.GetAttr(ctx, c, h)
}

func (f *fakeStuckFS) Mkdir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	f.waitForGate()
	return f.memFS.Mkdir(ctx, c, dir, name, s)
}

// A callGroup makes calls that may wait.
type callGroup struct {
	g       *testServer
	waiting sync.WaitGroup
	begun   atomic.Int64

	mu       sync.Mutex
	answered map[nfs3.Status]int
	noReplay int
}

func (c *callGroup) startCall(proc uint32, args message) {
	wire := args.AppendTo(nil)
	c.waiting.Go(func() {
		call := oncrpc.Call{Proc: proc, Peer: c.g.peer, MaxReply: 4096, Args: xdr.NewReader(wire)}
		var rep oncrpc.Reply
		c.begun.Add(1)
		if !assert.NoError(c.g.t, nfsProgram{c.g.server}.ServeRPC(context.Background(), &call, &rep)) {
			return
		}
		r := xdr.NewReader(rep.Head)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answered[nfs3.Status(r.Uint32())]++
		if rep.NoReplay {
			c.noReplay++
		}
	})
}

// TestPatience checks that if many calls wait for storage, half of them for long, further calls
// to that export are rejected before anything is done, and other exports are unaffected. When
// the storage responds again, all calls continue.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStuckFS()
		g := newTestServer(t, fs, func(c *Config) {
			c.Exports = append(c.Exports, Export{Path: "/y", FS: newMemFS()})
		})
		c := &callGroup{g: g, answered: make(map[nfs3.Status]int)}
		getAttr := nfs3.HandleArgs{Object: g.handleOf(memRoot)}
		mkdir := nfs3.MkdirArgs{Where: dirOpArgs(g.handleOf(memRoot), "new")}
		for range maxWaiting - 1 {
			c.startCall(nfs3.ProcGetAttr, &getAttr)
		}
		time.Sleep(time.Hour)
		c.startCall(nfs3.ProcGetAttr, &getAttr)
		synctest.Wait()
		c.startCall(nfs3.ProcMkdir, &mkdir) // the first call after there are many
		synctest.Wait()
		require.Empty(t, c.answered, "how long few have waited is not known")

		time.Sleep(stuckTime)
		c.startCall(nfs3.ProcGetAttr, &getAttr)
		synctest.Wait()
		require.Empty(t, c.answered)

		time.Sleep(time.Nanosecond)
		for range 100 {
			c.startCall(nfs3.ProcGetAttr, &getAttr)
			c.startCall(nfs3.ProcMkdir, &mkdir)
		}
		synctest.Wait()
		assert.Equal(t, map[nfs3.Status]int{nfs3.ErrJukebox: 200}, c.answered)
		assert.Equal(t, 200, c.noReplay)
		var res nfs3.GetAttrRes
		g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.handleOf(memRoot, 1)}, &res)
		assert.Equal(t, nfs3.OK, res.Status)

		close(fs.gate)
		c.waiting.Wait()
		assert.Equal(t, map[nfs3.Status]int{nfs3.ErrJukebox: 200, nfs3.OK: maxWaiting + 2}, c.answered, "one MKDIR was begun and executed")
		g.callNFS(nfs3.ProcGetAttr, &getAttr, &res)
		assert.Equal(t, nfs3.OK, res.Status)
		g.checkIdle()
	})
}

// TestPatienceWithBusy checks that many calls that all end cause no refusal,
// for any duration.
func TestPatienceWithBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStuckFS()
		g := newTestServer(t, fs)
		c := &callGroup{g: g, answered: make(map[nfs3.Status]int)}
		args := nfs3.HandleArgs{Object: g.handleOf(memRoot)}
		const all = 4 * maxWaiting
		for range 10 {
			for range all {
				c.startCall(nfs3.ProcGetAttr, &args)
			}
			synctest.Wait()
			time.Sleep(stuckTime / 2)
			for range all / 2 {
				fs.gate <- struct{}{}
			}
			for range all / 2 {
				c.startCall(nfs3.ProcGetAttr, &args)
			}
			synctest.Wait()
			time.Sleep(stuckTime / 2)
			for range all {
				fs.gate <- struct{}{}
			}
		}
		c.waiting.Wait()
		assert.Equal(t, map[nfs3.Status]int{nfs3.OK: 15 * all}, c.answered)
	})
}

// TestPatienceWithAnother checks that a client group whose own calls complete is not rejected
// because of another group's many slow calls. Otherwise a client could keep all others from an
// export with a directory in which every call is slow.
func TestPatienceWithAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStuckFS()
		g := newTestServer(t, fs)
		a := newCallGroup(g)
		b := a.fromOtherHost()
		args := &nfs3.HandleArgs{Object: g.handleOf(memRoot)}
		for range 2 * maxWaiting {
			a.startCall(nfs3.ProcGetAttr, args)
		}
		a.startCall(nfs3.ProcGetAttr, args)
		for range fewHung {
			time.Sleep(stuckTime)
			for range 3 * maxWaiting {
				b.startCall(nfs3.ProcReadLink, args) // which never hangs
			}
			synctest.Wait()
		}
		assert.Equal(t, map[nfs3.Status]int{nfs3.ErrInval: fewHung * 3 * maxWaiting}, b.answered)

		for range fewHung { // these have not waited long yet
			b.startCall(nfs3.ProcGetAttr, args)
		}
		for range 3 {
			time.Sleep(stuckTime + time.Nanosecond)
			b.startCall(nfs3.ProcReadLink, args)
			synctest.Wait()
		}
		assert.Positive(t, b.answered[nfs3.ErrJukebox], "the busy client waits")
		close(fs.gate)
		a.waiting.Wait()
		b.waiting.Wait()
		assert.Equal(t, fewHung, b.answered[nfs3.OK])
	})
}
