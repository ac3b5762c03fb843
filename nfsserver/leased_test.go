package nfsserver

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A leaserFS is an FS that gives leases. It fails the test if a file is written
// while leased, by the server too.
type leaserFS struct {
	*mem.FS
	t *testing.T

	mu     sync.Mutex
	broken map[vfs.Handle]func()
	fail   error
	slow   chan struct{} // Lease waits until it is closed; nil: no wait
	most   int           // bound on leases; 0: none
	looked func()        // called before GetAttr of a leased file, unless nil
}

func (f *leaserFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if f.looked != nil && f.leased(h) {
		f.looked()
	}
	return f.FS.GetAttr(ctx, c, h)
}

func (f *leaserFS) Lease(_ context.Context, _ *vfs.Cred, h vfs.Handle, _ vfs.LeaseScope, broken func()) (func(), error) {
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

func (f *leaserFS) leased(h vfs.Handle) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken[h] != nil
}

func (f *leaserFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	assert.False(f.t, f.leased(h), "the lease must be released before")
	return f.FS.Write(ctx, c, h, p, off, how)
}

// breakLease acts as another process that is about to write, and waits for the
// release.
func (f *leaserFS) breakLease(h vfs.Handle) {
	f.mu.Lock()
	broken := f.broken[h]
	f.mu.Unlock()
	broken()
}

// withLeases is withGrants with an export whose files other processes may
// change.
func withLeases(t *testing.T, run func(t *testing.T, g *grantRig, f *leaserFS)) {
	f := &leaserFS{t: t, broken: make(map[vfs.Handle]func())}
	lease := func(c *Config) {
		f.FS = mem.New(mem.Options{})
		c.Exports[0] = Export{Path: "/x", FS: f}
	}
	withGrants(t, lease, func(t *testing.T, g *grantRig) {
		run(t, g, f)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		assert.Empty(t, f.broken, "leases")
	})
}

// TestLeases checks that only the data of files is granted, under a lease, and
// that any change of the file, over NFS or not, recalls the delegation.
func TestLeases(t *testing.T) {
	withLeases(t, func(t *testing.T, g *grantRig, f *leaserFS) {
		a, b := g.play(), g.play()
		file := g.hosts["f"]
		res, err := a.ask(g.fh["g"], allTypes)
		require.NoError(t, err)
		assert.Equal(t, delegation.FileData, res.Types)
		assert.Equal(t, delegation.ReasonTypes, a.refused("d"))
		for range 2 { // everything works again afterwards
			a.hold("f")
			b.hold("f")
			assert.True(t, f.leased(file))
			assert.Equal(t, nfs3.OK, a.call(g.write("f")))
			assert.Equal(t, []string{"f"}, a.recalls(), "his own")
			assert.Equal(t, []string{"f"}, b.recalls())
			assert.False(t, f.leased(file))

			a.hold("f")
			b.hold("f")
			a.hush()
			done := make(chan struct{})
			go func() {
				f.breakLease(file)
				close(done)
			}()
			assert.Equal(t, []string{"f"}, a.recalls())
			assert.Equal(t, []string{"f"}, b.recalls())
			assert.True(t, f.leased(file), "it has a holder")
			assert.Equal(t, delegation.ReasonContended, b.refused("f"))
			a.answer()
			<-done
			assert.False(t, f.leased(file))
		}
		a.hold("f")
		a.leave()
		b.leave()
		synctest.Wait()
		assert.False(t, f.leased(file), "it has no holder")
	})
}

// TestLeaseRefused checks that without a lease there is no grant, and that the
// reason tells the client whether to ask again.
func TestLeaseRefused(t *testing.T) {
	withLeases(t, func(t *testing.T, g *grantRig, f *leaserFS) {
		p := g.play()
		defer p.leave()
		for err, want := range map[error]delegation.Reason{
			syscall.EAGAIN: delegation.ReasonContended, syscall.EMFILE: delegation.ReasonLimit, syscall.EOPNOTSUPP: delegation.ReasonTypes,
		} {
			f.fail = err
			assert.Equal(t, want, p.refused("f"))
		}
		f.fail = syscall.EACCES
		res, err := p.ask(g.fh["f"], allTypes)
		require.NoError(t, err)
		assert.Equal(t, delegation.AcquireRes{Status: delegation.StatusAcces}, res)
		f.fail = nil
		p.hold("f")
	})
}

// TestLeaseRoom checks that if there is no room for a lease, an unused
// delegation makes room.
func TestLeaseRoom(t *testing.T) {
	withLeases(t, func(t *testing.T, g *grantRig, f *leaserFS) {
		p := g.play()
		defer p.leave()
		f.most = 1
		p.hold("f")
		assert.Equal(t, delegation.ReasonLimit, p.refused("g"), "it is in use")
		require.NoError(t, p.link.Atomic(rdma.OpFetchAdd, p.link.Counter(1), delegation.OpClose.Operands(), p, 0))
		synctest.Wait()
		p.hold("g")
		assert.False(t, f.leased(g.hosts["f"]))
		assert.Empty(t, p.recalls(), "no message is needed")
	})
}

// TestLeaseInTheWay checks that a change that comes while a lease is being
// taken waits for the lease, and causes its release.
func TestLeaseInTheWay(t *testing.T) {
	withLeases(t, func(t *testing.T, g *grantRig, f *leaserFS) {
		a, b := g.play(), g.play()
		defer a.leave()
		defer b.leave()
		f.slow = make(chan struct{})
		asked := make(chan delegation.Reason, 1)
		go func() { asked <- a.refused("f") }()
		synctest.Wait()
		assert.Equal(t, delegation.ReasonContended, b.refused("f"), "one grant at a time")
		done := b.begin(g.write("f"))
		assert.Empty(t, done)
		close(f.slow)
		assert.Equal(t, nfs3.OK, <-done)
		assert.Equal(t, delegation.ReasonContended, <-asked)
	})
}

// TestSetExportsWhileAsked checks that a grant in progress fails if the exports
// change, because the client may have lost its access.
func TestSetExportsWhileAsked(t *testing.T) {
	withLeases(t, func(t *testing.T, g *grantRig, f *leaserFS) {
		p := g.play()
		defer p.leave()
		f.slow = make(chan struct{})
		asked := make(chan delegation.Reason, 1)
		go func() { asked <- p.refused("f") }()
		synctest.Wait()
		list := g.s.Exports()
		list[0].Clients = exports.Everyone(exports.Options{Insecure: true, ReadOnly: true})
		require.NoError(t, g.s.SetExports(list))
		assert.Empty(t, asked)
		close(f.slow)
		assert.Equal(t, delegation.ReasonContended, <-asked)
		assert.Zero(t, g.k.Stats().InForce)
		p.hold("f")
	})
}
