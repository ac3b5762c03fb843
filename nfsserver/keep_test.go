package nfsserver

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestKeepable checks the types that can be granted, on an exclusive export, on
// a file system with leases, and on others.
func TestKeepable(t *testing.T) {
	const file, data, names = delegation.FileData | delegation.FileAttributes, delegation.FileData, delegation.Directory
	for _, tt := range []struct {
		exclusive, leaser bool
		t                 vfs.Type
		want              delegation.Types
		leased            bool
	}{
		{true, true, vfs.TypeReg, file, false},
		{true, false, vfs.TypeReg, file, false},
		{false, true, vfs.TypeReg, data, true},
		{false, false, vfs.TypeReg, 0, false},
		{true, true, vfs.TypeDir, names, false},
		{true, false, vfs.TypeDir, names, false},
		{false, true, vfs.TypeDir, 0, false},
		{false, false, vfs.TypeDir, 0, false},
		{true, true, vfs.TypeLnk, 0, false},
		{true, false, vfs.TypeLnk, 0, false},
		{false, true, vfs.TypeLnk, 0, false},
		{false, false, vfs.TypeLnk, 0, false},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			e := Export{Path: "/x", FS: newMemFS()}
			if tt.leaser {
				e.FS = new(fakeLeaserFS)
			}
			r, err := exportset.New(Config{Exports: []Export{e}})
			require.NoError(t, err)
			q := &request{Request: exportset.Request{Export: r.Snapshot().List()[0], Options: &exports.Options{Exclusive: tt.exclusive}}}
			types, leased := q.grantableTypes(tt.t, allTypes)
			assert.Equal(t, tt.want, types)
			assert.Equal(t, tt.leased, leased)
			for _, none := range []delegation.Types{0, allTypes &^ tt.want} {
				types, _ := q.grantableTypes(tt.t, none)
				assert.Zero(t, types)
			}
		})
	}
}

// TestAcquireUnreadable checks that a caller without read permission gets no
// delegation.
func TestAcquireUnreadable(t *testing.T) {
	check := func(t *testing.T, g *grantServer, names ...string) {
		p := g.connectClient()
		defer p.disconnect()
		for _, name := range names {
			mode := uint32(0o333) // even the owner has no permission
			_, err := g.fs.SetAttr(t.Context(), &vfs.Cred{UID: 1000}, g.hosts[name], vfs.SetAttr{Mode: &mode}, nil)
			require.NoError(t, err)
			res, err := p.acquire(g.fh[name], allTypes)
			require.NoError(t, err)
			assert.Equal(t, delegation.AcquireRes{Status: delegation.StatusAcces}, res, name)
		}
	}
	t.Run("exclusive", func(t *testing.T) {
		runWithGrants(t, nil, func(t *testing.T, g *grantServer) { check(t, g, "f", "d") })
	})
	t.Run("leased", func(t *testing.T) {
		runWithLeases(t, func(t *testing.T, g *grantServer, _ *fakeLeaserFS) { check(t, g, "f") })
	})
}

// TestLeaseRoomTwice checks that a lease is released for another one only once; if
// there is still none, nothing is granted, and no lease stays.
func TestLeaseRoomTwice(t *testing.T) {
	runWithLeases(t, func(t *testing.T, g *grantServer, f *fakeLeaserFS) {
		p := g.connectClient()
		defer p.disconnect()
		p.acquireAll("f")
		require.NoError(t, p.link.Atomic(rdma.OpFetchAdd, p.link.Counter(1), delegation.OpClose.Operands(), p, 0))
		p.takeRecalls()
		f.fail = syscall.EMFILE
		assert.Equal(t, delegation.ReasonLimit, p.refusalReason("g"))
		assert.False(t, f.isLeased(g.hosts["f"]), "its lease was released for another")
		assert.Equal(t, delegation.ReasonLimit, p.refusalReason("g"), "no grant available")
		f.fail = nil
		p.acquireAll("g")
	})
}

// TestLeaseSpoiled checks that a change between the lease and the grant
// prevents the grant, and that the lease is released.
func TestLeaseSpoiled(t *testing.T) {
	runWithLeases(t, func(t *testing.T, g *grantServer, f *fakeLeaserFS) {
		a, b := g.connectClient(), g.connectClient()
		defer a.disconnect()
		defer b.disconnect()
		write := func() (done func()) {
			written := b.startCall(g.writeCall("f"))
			time.Sleep(time.Millisecond)
			assert.Empty(t, written, "the lease is released first")
			return func() { assert.Equal(t, nfs3.OK, <-written) }
		}
		recallAll := func() (done func()) {
			g.k.Holders().RecallAll()
			return func() {}
		}
		for _, meanwhile := range []func() func(){write, recallAll} {
			var done func()
			f.looked = func() {
				f.looked = nil
				done = meanwhile()
			}
			assert.Equal(t, delegation.ReasonContended, a.refusalReason("f"))
			done()
			assert.False(t, f.isLeased(g.hosts["f"]))
		}
		a.acquireAll("f")
	})
}
