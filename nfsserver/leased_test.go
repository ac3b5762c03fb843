package nfsserver

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeLeaserFS is an FS that gives leases. It fails the test if a file is written
// while leased, by the server too.
type fakeLeaserFS struct {
	*mem.FS
	t *testing.T

	mu     sync.Mutex
	broken map[vfs.Handle]func()
	fail   error
	slow   chan struct{} // Lease waits until it is closed; nil: no wait
	most   int           // bound on leases; 0: none
	looked func()        // called before GetAttr of a leased file, unless nil
}

func (f *fakeLeaserFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if f.looked != nil && f.isLeased(h) {
		f.looked()
	}
	return f.FS.GetAttr(ctx, c, h)
}

func (f *fakeLeaserFS) Lease(_ context.Context, _ *vfs.Cred, h vfs.Handle, _ vfs.LeaseScope, broken func()) (func(), error) {
	f.mu.Lock()
	slow, fail := f.slow, f.fail
	f.mu.Unlock()
	if slow != nil {
		<-slow
	}
	if fail != nil {
		return nil, fail
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.most > 0 && len(f.broken) >= f.most {
		return nil, syscall.EMFILE
	}
	f.broken[h] = broken
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.broken, h)
	}, nil
}

func (f *fakeLeaserFS) isLeased(h vfs.Handle) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken[h] != nil
}

func (f *fakeLeaserFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	assert.False(f.t, f.isLeased(h), "the lease must be released before")
	return f.FS.Write(ctx, c, h, p, off, how)
}

// breakLease acts as another process that is about to write, and waits for the
// release.
func (f *fakeLeaserFS) breakLease(h vfs.Handle) {
	f.mu.Lock()
	broken := f.broken[h]
	f.mu.Unlock()
	broken()
	for f.isLeased(h) {
		time.Sleep(time.Millisecond)
	}
}

// runWithLeases is runWithGrants with an export whose files other processes may
// change.
func runWithLeases(t *testing.T, run func(t *testing.T, g *grantServer, f *fakeLeaserFS)) {
	f := &fakeLeaserFS{t: t, broken: make(map[vfs.Handle]func())}
	lease := func(c *Config) {
		f.FS = mem.New(mem.Options{})
		c.Exports[0] = Export{Path: "/x", FS: f}
	}
	runWithGrants(t, lease, func(t *testing.T, g *grantServer) {
		run(t, g, f)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		assert.Empty(t, f.broken, "leases")
	})
}

// TestLeases checks that only file data is granted, under a lease, and that any change to the
// file, over NFS or not, recalls the delegation.
func TestLeases(t *testing.T) {
	runWithLeases(t, func(t *testing.T, g *grantServer, f *fakeLeaserFS) {
		a, b := g.connectClient(), g.connectClient()
		file := g.hosts["f"]
		res, err := a.acquire(g.fh["g"], allTypes)
		require.NoError(t, err)
		assert.Equal(t, delegation.FileData, res.Types)
		assert.Equal(t, delegation.ReasonTypes, a.refusalReason("d"))
		for range 2 { // everything works again afterwards
			a.acquireAll("f")
			b.acquireAll("f")
			assert.True(t, f.isLeased(file))
			assert.Equal(t, nfs3.OK, a.callNFS(g.writeCall("f")))
			assert.Equal(t, []string{"f"}, a.takeRecalls(), "his own")
			assert.Equal(t, []string{"f"}, b.takeRecalls())
			assert.False(t, f.isLeased(file))

			a.acquireAll("f")
			b.acquireAll("f")
			a.stopReturning()
			done := make(chan struct{})
			go func() {
				f.breakLease(file)
				close(done)
			}()
			assert.Equal(t, []string{"f"}, a.takeRecalls())
			assert.Equal(t, []string{"f"}, b.takeRecalls())
			assert.True(t, f.isLeased(file), "it has a holder")
			assert.Equal(t, delegation.ReasonContended, b.refusalReason("f"))
			a.returnPending()
			<-done
			assert.False(t, f.isLeased(file))
		}
		a.acquireAll("f")
		a.disconnect()
		b.disconnect()
		synctest.Wait()
		assert.False(t, f.isLeased(file), "it has no holder")
	})
}

// TestLeaseRefused checks that without a lease there is no grant, and that the
// reason tells the client whether to ask again.
func TestLeaseRefused(t *testing.T) {
	runWithLeases(t, func(t *testing.T, g *grantServer, f *fakeLeaserFS) {
		p := g.connectClient()
		defer p.disconnect()
		for err, want := range map[error]delegation.Reason{
			syscall.EAGAIN: delegation.ReasonContended, syscall.EMFILE: delegation.ReasonLimit, syscall.EOPNOTSUPP: delegation.ReasonTypes,
		} {
			f.fail = err
			assert.Equal(t, want, p.refusalReason("f"))
		}
		f.fail = syscall.EACCES
		res, err := p.acquire(g.fh["f"], allTypes)
		require.NoError(t, err)
		assert.Equal(t, delegation.AcquireRes{Status: delegation.StatusAcces}, res)
		f.fail = nil
		p.acquireAll("f")
	})
}

// TestLeaseRoom checks that if there is no room for a lease, an unused
// delegation makes room.
func TestLeaseRoom(t *testing.T) {
	runWithLeases(t, func(t *testing.T, g *grantServer, f *fakeLeaserFS) {
		p := g.connectClient()
		defer p.disconnect()
		f.most = 1
		p.acquireAll("f")
		assert.Equal(t, delegation.ReasonLimit, p.refusalReason("g"), "it is in use")
		require.NoError(t, p.link.Atomic(rdma.OpFetchAdd, p.link.Counter(1), delegation.OpClose.Operands(), p, 0))
		synctest.Wait()
		p.acquireAll("g")
		assert.False(t, f.isLeased(g.hosts["f"]))
		assert.Empty(t, p.takeRecalls(), "no message is needed")
	})
}

// TestLeaseInTheWay checks that a change that comes while a lease is being
// taken waits for the lease, and causes its release.
func TestLeaseInTheWay(t *testing.T) {
	runWithLeases(t, func(t *testing.T, g *grantServer, f *fakeLeaserFS) {
		a, b := g.connectClient(), g.connectClient()
		defer a.disconnect()
		defer b.disconnect()
		f.slow = make(chan struct{})
		asked := make(chan delegation.Reason, 1)
		go func() { asked <- a.refusalReason("f") }()
		synctest.Wait()
		assert.Equal(t, delegation.ReasonContended, b.refusalReason("f"), "one grant at a time")
		done := b.startCall(g.writeCall("f"))
		assert.Empty(t, done)
		close(f.slow)
		assert.Equal(t, nfs3.OK, <-done)
		assert.Equal(t, delegation.ReasonContended, <-asked)
	})
}

// TestSetExportsWhileAsked checks that a grant in progress fails if the exports
// change, because the client may have lost its access.
func TestSetExportsWhileAsked(t *testing.T) {
	runWithLeases(t, func(t *testing.T, g *grantServer, f *fakeLeaserFS) {
		p := g.connectClient()
		defer p.disconnect()
		f.slow = make(chan struct{})
		asked := make(chan delegation.Reason, 1)
		go func() { asked <- p.refusalReason("f") }()
		synctest.Wait()
		list := g.s.Exports()
		list[0].Clients = exports.Everyone(exports.Options{Insecure: true, ReadOnly: true})
		require.NoError(t, g.s.exports.SetExports(list))
		assert.Empty(t, asked)
		close(f.slow)
		assert.Equal(t, delegation.ReasonContended, <-asked)
		assert.Zero(t, g.k.Stats().InForce)
		p.acquireAll("f")
	})
}
