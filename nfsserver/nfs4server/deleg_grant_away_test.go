package nfs4server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestRestartWithoutHolder checks that after a restart changes wait for a client that
// had a delegation and is cut off, until it can no longer trust it. Once the network is
// back, the client finds that it has lost the delegation.
func TestRestartWithoutHolder(t *testing.T) {
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newDelegServer(t)
		g.restartServer(state, 8)
		g.newCallableClient("client", "192.0.2.1:700")
		put := g.makeFileStep("f")
		fh := put.args.(*nfs4.HandleArgs).Object
		d, _ := g.openDelegated("f")
		g.restartServer(state, 9)
		restarted := time.Now()

		o, _ := g.newClientAt("other", "192.0.2.2:700")
		chmod := nfs4.SetAttrArgs{}
		chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
		change := func() nfs4.Status {
			st, _ := o.sendSteps(put, step{nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)})
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
		g.newCallableClient("client", "192.0.2.1:700")
		_, st = g.reclaimOpen(fh, nfs4.ShareRead, 0, nfs4.DelegateRead)
		assert.Equal(t, nfs4.ErrNoGrace, st)
		st, _ = g.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: d.StateID, Count: 100}, new(nfs4.ReadRes)})
		assert.Equal(t, nfs4.ErrBadStateID, st)
		st, _ = g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
		require.Equal(t, nfs4.OK, st)
		time.Sleep(time.Minute)
		g.openDelegated("f")
	})
}

// TestReferralsBesideDelegations checks that an export that becomes a referral does not affect
// other exports' delegations, and recalls its own. The client cannot return these, because
// everything it does there fails with NFS4ERR_MOVED, and loses them after a lease. It is served
// again once the export is back.
func TestReferralsBesideDelegations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := mem.New(mem.Options{Size: 1 << 20})
		g, back := newDelegServerFor(t, fs, true)
		here := exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true, Exclusive: true})}
		away := newReferralExport(t, "/away", "refer=/there@one.example")
		moved := newReferralExport(t, "/x", "refer=/there@one.example")
		moved.FS = fs
		reload := func(list ...exportset.Export) {
			require.NoError(t, g.s.exports.SetExports(list))
			synctest.Wait()
		}
		put := g.makeFileStep("f")
		d, _ := g.openDelegated("f")
		reload(here, away)
		assert.Zero(t, back.callCount())
		read := func() nfs4.Status {
			st, _ := g.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: d.StateID, Count: 10}, new(nfs4.ReadRes)})
			return st
		}
		assert.Equal(t, nfs4.OK, read())

		reload(moved, away)
		assert.Equal(t, 1, back.callCount())
		assert.Equal(t, nfs4.ErrMoved, read())
		assert.Equal(t, nfs4.ErrMoved, g.returnDelegation(put, d.StateID))
		for range 5 { // renew the lease
			time.Sleep(recallLease / 4)
			g.sendSteps()
		}
		assert.Zero(t, g.s.exports.Holders().Len())
		reload(here)
		assert.Equal(t, nfs4.ErrDelegRevoked, read())
		st, _ := g.sendSteps(step{nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: d.StateID}, newStatusRes()})
		assert.Equal(t, nfs4.OK, st)
		d, _ = g.openDelegated("f")
		assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
		assert.Equal(t, 1, back.callCount())
	})
}

// TestDrain checks that a server which ends has clients return their delegations, grants no
// other ones, and waits no longer than a change would. After the next start, changes wait for
// none of these clients, whether they come back or not.
func TestDrain(t *testing.T) {
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newDelegServer(t)
		g.restartServer(state, 8)
		back := g.newCallableClient("client", "192.0.2.1:700")
		g.makeFileStep("f")
		d, put := g.openDelegated("f")
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
		}
		begun := time.Now()
		g.s.Drain()
		assert.Less(t, time.Since(begun), recall.MaxWait)
		assert.Zero(t, g.s.state.Counts().Delegations)
		g.makeFileStep("g")
		opened, _ := g.openFile("g", nfs4.ShareRead, 0)
		assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type)

		g.restartServer(state, 9)
		assert.Zero(t, g.s.state.Grace().Reads)
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		st, _ := o.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
		assert.Equal(t, nfs4.OK, st)

		require.True(t, g.s.state.EndGrace())
		o.makeFileStep("h")
		o.openDelegated("h")
		begun = time.Now()
		g.s.Drain()
		assert.Equal(t, recall.MaxWait, time.Since(begun).Round(drainPoll), "the client does not return it")
		assert.Equal(t, 1, g.s.state.Counts().Delegations)
	})
}

// A fakeKeyFS calls a function before each use of an object's key.
type fakeKeyFS struct {
	*mem.FS
	beforeKey func()
}

func (f *fakeKeyFS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	f.beforeKey()
	return f.FS.AppendKey(b, h)
}

// TestDrainOpens checks that a server which ends grants no delegation to an open, whatever its access, nor
// to one that began before.
func TestDrainOpens(t *testing.T) {
	for _, access := range []uint32{nfs4.ShareRead, nfs4.ShareBoth} {
		fs := &fakeKeyFS{mem.New(mem.Options{Size: 1 << 20}), func() {}}
		for drainAt := 1; ; drainAt++ {
			g, _ := newDelegServerFor(t, fs, true)
			g.s.writeDelegations = true
			g.makeFileStep("f")
			keys := 0
			fs.beforeKey = func() {
				if keys++; keys == drainAt {
					g.s.Drain()
				}
			}
			opened, _ := g.openFile("f", access, 0)
			fs.beforeKey = func() {}
			if keys < drainAt {
				assert.NotEqual(t, nfs4.DelegateNone, opened.Delegation.Type)
				assert.Greater(t, drainAt, 1)
				break
			}
			assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type, "access %d, key %d", access, drainAt)
			assert.Zero(t, g.s.exports.Holders().Len())
		}
	}
}
