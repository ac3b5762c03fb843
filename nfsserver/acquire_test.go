package nfsserver

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestAcquire checks that data and attributes are granted for a file, names and
// attributes for a directory, nothing for other objects, and nothing without
// read permission. The reply has the attributes that GETATTR returns.
func TestAcquire(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		p := g.connectClient()
		defer p.disconnect()
		for _, tt := range []struct {
			name string
			ask  delegation.Types
			want delegation.Types
		}{
			{"f", allTypes, delegation.FileData | delegation.FileAttributes},
			{"g", delegation.FileAttributes, delegation.FileAttributes},
			{"d", allTypes, delegation.Directory},
		} {
			res, err := p.acquire(g.fh[tt.name], tt.ask)
			require.NoError(t, err)
			require.Equal(t, delegation.StatusOK, res.Status)
			assert.Equal(t, tt.want, res.Types)
			assert.EqualValues(t, grantLease.Milliseconds(), res.LeaseMS)
			attr, err := g.fs.GetAttr(context.Background(), new(vfs.Cred), g.hosts[tt.name])
			require.NoError(t, err)
			wire := toWireAttr(&attr)
			assert.Equal(t, wire.AppendTo(nil), res.Attr)
		}
		assert.Equal(t, 3, g.k.Stats().InForce)

		none := func(fh nfs3.FH, types delegation.Types) delegation.AcquireRes {
			res, err := p.acquire(fh, types)
			require.NoError(t, err)
			return res
		}
		refused := func(why delegation.Reason) delegation.AcquireRes {
			return delegation.AcquireRes{Status: delegation.StatusRefused, Reason: why}
		}
		types := refused(delegation.ReasonTypes)
		assert.Equal(t, types, none(g.fh["e"], delegation.FileData|delegation.FileAttributes))
		assert.Equal(t, types, none(g.fh["e"], 0))
		c := vfs.Cred{UID: 1000, GID: 1000}
		made, err := g.fs.Symlink(context.Background(), &c, g.hosts["e"], "s", "to", vfs.SetAttr{})
		require.NoError(t, err)
		assert.Equal(t, types, none(g.s.exports.AppendHandle(nil, g.s.exports.Snapshot().List()[0], &made.Handle), allTypes))
		assert.Equal(t, delegation.AcquireRes{Status: delegation.StatusBadHandle}, none(nil, allTypes))
		mode := uint32(0)
		_, err = g.fs.SetAttr(context.Background(), &c, g.hosts["sub"], vfs.SetAttr{Mode: &mode}, nil)
		require.NoError(t, err)
		assert.Equal(t, delegation.AcquireRes{Status: delegation.StatusAcces}, none(g.fh["sub"], allTypes))
		assert.Equal(t, refused(delegation.ReasonHeld), none(g.fh["d"], allTypes))
		synctest.Wait()
		assert.Equal(t, 2, g.k.Stats().InForce, "the grant was returned")
	})
}

// TestAcquireUnknown checks that the program exists only for connections with
// counters.
func TestAcquireUnknown(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		for _, peer := range []*oncrpc.Peer{nil, {Network: "tcp"}, {Network: "rdma"}} {
			for _, proc := range []uint32{delegation.ProcNull, delegation.ProcAcquire} {
				var msg []byte
				for _, v := range []uint32{7, 0, 2, delegation.Program, delegation.Version, proc, 0, 0, 0, 0} {
					msg = xdr.AppendUint32(msg, v)
				}
				var rep oncrpc.Reply
				require.True(t, g.mux.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: peer, MaxReply: 4096}, &rep))
				assert.Equal(t, []byte{0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, rep.Head)
			}
		}
	})
}

// TestAcquireNotExclusive checks that nothing is granted if the export is not
// exclusive and the file system has no leases, and that changes still succeed.
func TestAcquireNotExclusive(t *testing.T) {
	plain := func(c *Config) { c.Exports[0].Clients = nil }
	runWithGrants(t, plain, func(t *testing.T, g *grantServer) {
		p := g.connectClient()
		defer p.disconnect()
		for name := range g.fh {
			assert.Equal(t, delegation.ReasonTypes, p.refusalReason(name))
		}
		assert.Equal(t, nfs3.OK, p.callNFS(g.writeCall("f")))
	})
}

// TestGrantsAfterSetExports checks that SetExports recalls all delegations if
// it takes away any access, and only then.
func TestGrantsAfterSetExports(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		p := g.connectClient()
		defer p.disconnect()
		p.acquireAll("f", "d")
		list := g.s.Exports()
		require.NoError(t, g.s.exports.SetExports(list))
		assert.Empty(t, p.takeRecalls(), "no change")
		more := append(slices.Clone(list), Export{Path: "/y", FS: newMemFS()})
		require.NoError(t, g.s.exports.SetExports(more))
		assert.Empty(t, p.takeRecalls(), "no object was removed")
		list[0].Clients = exports.Everyone(exports.Options{Insecure: true})
		require.NoError(t, g.s.exports.SetExports(list))
		assert.Equal(t, []string{"d", "f"}, p.takeRecalls())
		assert.Equal(t, delegation.ReasonTypes, p.refusalReason("f"))
		list[0].Clients = exports.Everyone(exports.Options{Insecure: true, Exclusive: true})
		require.NoError(t, g.s.exports.SetExports(list))
		p.acquireAll("f")
		require.NoError(t, g.s.exports.SetExports(nil))
		assert.Equal(t, []string{"f"}, p.takeRecalls())
	})
}

// TestHostileHolder checks that a client that writes arbitrary values into its
// counters loses its delegations, and that a client that returns a delegation
// without a recall loses its connection. Other clients are unaffected.
func TestHostileHolder(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		hostile, holder, other := g.connectClient(), g.connectClient(), g.connectClient()
		defer other.disconnect()
		defer holder.disconnect()
		hostile.acquireAll("f", "d")
		holder.acquireAll("f", "e")
		for n := range uint32(16) {
			for _, v := range []uint64{0, 1<<64 - 1, 1} {
				swap := rdma.Atomic{Operand: v} // without a mask: replaces any value
				require.NoError(t, hostile.link.Atomic(rdma.OpFetchAdd, hostile.link.Counter(n), swap, hostile, 0))
			}
		}
		start := time.Now()
		hostile.stopReturning()
		for _, name := range []string{"f", "d"} {
			attr := nfs3.SetAttrArgs{Object: g.fh[name]}
			status := nfs3.ErrJukebox
			for status == nfs3.ErrJukebox {
				status = other.callNFS(nfs3.ProcSetAttr, &attr)
			}
			assert.Equal(t, nfs3.OK, status)
		}
		assert.Less(t, time.Since(start), 2*grantLease+2*recall.MaxWait)
		assert.Equal(t, []string{"f"}, holder.takeRecalls())
		assert.Equal(t, nfs3.OK, other.callNFS(g.writeCall("g")))

		close(hostile.stop)
		require.NoError(t, hostile.link.PostImmediate([8]byte{2, 7: 9}, nil, 0))
		assert.Error(t, <-hostile.ended)
		assert.Equal(t, uint64(1), g.k.Stats().Cut)
		assert.Equal(t, 1, g.k.Stats().InForce)
		holder.acquireAll("g") // a file, because all clients here are one party
	})
}
