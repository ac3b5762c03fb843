package nfsserver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestRecallDeadline checks that a client that does not respond delays a change
// for one lease. The change is refused with NFS3ERR_JUKEBOX once a second. The
// client then gets nothing for ten leases.
func TestRecallDeadline(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		holder, other := g.connectClient(), g.connectClient()
		defer other.disconnect()
		defer holder.disconnect()
		holder.acquireAll("f")
		holder.stopReturning()
		start := time.Now()
		for n := 1; ; n++ {
			status := other.callNFS(g.writeCall("f"))
			if status == nfs3.OK {
				break
			}
			require.Equal(t, nfs3.ErrJukebox, status)
			assert.Equal(t, time.Duration(n)*recall.MaxWait, time.Since(start))
			assert.Zero(t, g.kept.Stats().Replies, "it may be made again")
			assert.Equal(t, delegation.ReasonContended, other.refusalReason("f"))
			require.LessOrEqual(t, time.Since(start), grantLease)
		}
		assert.GreaterOrEqual(t, time.Since(start), grantLease)
		assert.Less(t, time.Since(start), grantLease+recall.MaxWait)
		assert.Equal(t, []string{"f"}, holder.takeRecalls(), "once")
		assert.Equal(t, delegation.ReasonLate, holder.refusalReason("g"))
		time.Sleep(9 * grantLease)
		assert.Equal(t, delegation.ReasonLate, holder.refusalReason("g"))
		time.Sleep(grantLease)
		holder.acquireAll("g", "f")
		st := g.k.Stats()
		assert.Equal(t, uint64(1), st.Late)
		assert.Equal(t, 2, st.InForce)
	})
}

// TestMutualRecalls checks that a waiting call blocks neither other calls on its connection,
// nor its caller's replies to recalls there.
func TestMutualRecalls(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		a, b := g.connectClient(), g.connectClient()
		defer a.disconnect()
		defer b.disconnect()
		a.acquireAll("f")
		b.acquireAll("g")
		a.stopReturning()
		b.stopReturning()
		start := time.Now()
		ofA, ofB := a.startCall(g.writeCall("g")), b.startCall(g.writeCall("f"))
		assert.Equal(t, []string{"f"}, a.takeRecalls())
		assert.Equal(t, []string{"g"}, b.takeRecalls())
		attr := nfs3.HandleArgs{Object: g.fh["f"]}
		assert.Equal(t, nfs3.OK, a.callNFS(nfs3.ProcGetAttr, &attr))
		assert.Zero(t, g.countPermits(), "they do not wait for storage")
		b.returnPending()
		assert.Equal(t, nfs3.OK, <-ofA)
		a.returnPending()
		assert.Equal(t, nfs3.OK, <-ofB)
		assert.Less(t, time.Since(start), recall.MaxWait)
	})
}

// TestHolderGone checks that a change stops waiting for a holder that closes
// its connection. If the connection is lost, the change waits until the lease
// runs out, because it is unknown when the holder learns of the loss.
func TestHolderGone(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(p *delegClient)
		wait time.Duration
	}{
		"closed": {(*delegClient).disconnect, 0},
		"lost": {func(p *delegClient) {
			close(p.stop)
			p.link.Abort(errors.New("lost"))
		}, grantLease * 2 / 3},
	} {
		t.Run(name, func(t *testing.T) {
			runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
				holder, other := g.connectClient(), g.connectClient()
				defer other.disconnect()
				holder.acquireAll("f")
				holder.stopReturning()
				done := other.startCall(g.writeCall("f"))
				start := time.Now()
				tt.end(holder)
				status := <-done
				for status == nfs3.ErrJukebox {
					status = other.callNFS(g.writeCall("f"))
				}
				assert.Equal(t, nfs3.OK, status)
				assert.GreaterOrEqual(t, time.Since(start), tt.wait)
				assert.Less(t, time.Since(start), tt.wait+recall.MaxWait)
			})
		})
	}
}

// TestNameExchanged checks that if another object gets the name while REMOVE
// waits, that object's delegations are recalled too.
func TestNameExchanged(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		holder, other := g.connectClient(), g.connectClient()
		defer other.disconnect()
		defer holder.disconnect()
		holder.acquireAll("f", "g")
		holder.stopReturning()
		name := dirOpArgs(g.fh["d"], "f")
		done := other.startCall(nfs3.ProcRemove, &name)
		assert.Equal(t, []string{"f"}, holder.takeRecalls())
		d, e := g.hosts["d"], g.hosts["e"]
		c := vfs.Cred{UID: 1000, GID: 1000}
		_, _, err := g.fs.Rename(context.Background(), &c, e, "g", d, "f")
		require.NoError(t, err)
		holder.returnPending()
		assert.Equal(t, nfs3.OK, <-done)
		assert.Equal(t, []string{"g"}, holder.takeRecalls())
		attr := nfs3.HandleArgs{Object: g.fh["g"]}
		assert.Equal(t, nfs3.ErrStale, other.callNFS(nfs3.ProcGetAttr, &attr))
	})
}

// TestNameLocked checks that two concurrent changes to one name are made one after the other.
func TestNameLocked(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		holder, other := g.connectClient(), g.connectClient()
		defer other.disconnect()
		defer holder.disconnect()
		holder.acquireAll("f", "g")
		holder.stopReturning()
		name := dirOpArgs(g.fh["d"], "f")
		remove := other.startCall(nfs3.ProcRemove, &name)
		rename := other.startCall(nfs3.ProcRename, &nfs3.RenameArgs{From: dirOpArgs(g.fh["e"], "g"), To: name})
		assert.Equal(t, []string{"f", "g"}, holder.takeRecalls())
		holder.returnPending()
		assert.Equal(t, nfs3.OK, <-remove)
		assert.Equal(t, nfs3.OK, <-rename)
		other.callNFS(nfs3.ProcRemove, &name)
		assert.Equal(t, nfs3.ErrNoEnt, other.callNFS(nfs3.ProcRemove, &name), "nothing locks the name any more")
	})
}
