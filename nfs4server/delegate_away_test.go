package nfs4server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestRestartWithoutHolder checks that after a restart changes wait for a client that
// had a delegation and is cut off, until it can no longer trust it. Once the network is
// back, the client finds that it has lost the delegation.
func TestRestartWithoutHolder(t *testing.T) {
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		g, _ := delegRig(t)
		g.start(state, 8)
		g.callable("client", "192.0.2.1:700")
		put := g.file("f")
		fh := put.args.(*nfs4.HandleArgs).Object
		d, _ := g.delegated("f")
		g.start(state, 9)
		restarted := time.Now()

		o, _ := g.clientAt("other", "192.0.2.2:700")
		chmod := nfs4.SetAttrArgs{}
		chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
		change := func() nfs4.Status {
			st, _ := o.do(put, step{nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)})
			return st
		}
		st := change()
		for ; st == nfs4.ErrDelay; st = change() {
			require.Less(t, time.Since(restarted), 2*recallLease)
			time.Sleep(time.Second)
			g.s.state.Sweep()
		}
		assert.Equal(t, nfs4.OK, st)
		assert.GreaterOrEqual(t, time.Since(restarted), recallLease)

		g.noReclaims = true
		g.callable("client", "192.0.2.1:700")
		_, st = g.reclaim(fh, nfs4.ShareRead, 0, nfs4.DelegateRead)
		assert.Equal(t, nfs4.ErrNoGrace, st)
		st, _ = g.do(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: d.StateID, Count: 100}, new(nfs4.ReadRes)})
		assert.Equal(t, nfs4.ErrBadStateID, st)
		st, _ = g.do(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, status()})
		require.Equal(t, nfs4.OK, st)
		time.Sleep(time.Minute)
		g.delegated("f")
	})
}

// TestReferralsBesideDelegations checks that an export which becomes a referral leaves
// delegations of others alone, and recalls those of its own. The client cannot return
// these, because all that it does there is NFS4ERR_MOVED, and loses them after a lease.
// It is served again once the export is back.
func TestReferralsBesideDelegations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := mem.New(mem.Options{Size: 1 << 20})
		g, back := delegRigOf(t, fs, true)
		here := realm.Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true, Exclusive: true})}
		away := elsewhere(t, "/away", "refer=/there@one.example")
		moved := elsewhere(t, "/x", "refer=/there@one.example")
		moved.FS = fs
		reload := func(list ...realm.Export) {
			require.NoError(t, g.s.realm.SetExports(list))
			g.s.ExportsChanged()
			synctest.Wait()
		}
		put := g.file("f")
		d, _ := g.delegated("f")
		reload(here, away)
		assert.Zero(t, back.count())
		read := func() nfs4.Status {
			st, _ := g.do(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: d.StateID, Count: 10}, new(nfs4.ReadRes)})
			return st
		}
		assert.Equal(t, nfs4.OK, read())

		reload(moved, away)
		assert.Equal(t, 1, back.count())
		assert.Equal(t, nfs4.ErrMoved, read())
		assert.Equal(t, nfs4.ErrMoved, g.give(put, d.StateID))
		for range 5 { // renew the lease
			time.Sleep(recallLease / 4)
			g.do()
		}
		assert.Zero(t, g.s.realm.Holders().Len())
		reload(here)
		assert.Equal(t, nfs4.ErrDelegRevoked, read())
		st, _ := g.do(step{nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: d.StateID}, status()})
		assert.Equal(t, nfs4.OK, st)
		d, _ = g.delegated("f")
		assert.Equal(t, nfs4.OK, g.give(put, d.StateID))
		assert.Equal(t, 1, back.count())
	})
}
