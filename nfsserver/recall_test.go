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
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestRecallDeadline checks that a client that does not answer delays a change
// for one lease. The change is refused with NFS3ERR_JUKEBOX once a second. The
// client then gets nothing for ten leases.
func TestRecallDeadline(t *testing.T) {
	withGrants(t, nil, func(t *testing.T, g *grantRig) {
		holder, other := g.play(), g.play()
		defer other.leave()
		defer holder.leave()
		holder.hold("f")
		holder.hush()
		start := time.Now()
		for n := 1; ; n++ {
			status := other.call(g.write("f"))
			if status == nfs3.OK {
				break
			}
			require.Equal(t, nfs3.ErrJukebox, status)
			assert.Equal(t, time.Duration(n)*delegation.Patience, time.Since(start))
			assert.Zero(t, g.kept.Stats().Replies, "it may be made again")
			assert.Equal(t, delegation.ReasonContended, other.refused("f"))
			require.LessOrEqual(t, time.Since(start), grantLease)
		}
		assert.GreaterOrEqual(t, time.Since(start), grantLease)
		assert.Less(t, time.Since(start), grantLease+delegation.Patience)
		assert.Equal(t, []string{"f"}, holder.recalls(), "once")
		assert.Equal(t, delegation.ReasonLate, holder.refused("g"))
		time.Sleep(9 * grantLease)
		assert.Equal(t, delegation.ReasonLate, holder.refused("g"))
		time.Sleep(grantLease)
		holder.hold("g", "f")
		st := g.k.Stats()
		assert.Equal(t, uint64(1), st.Late)
		assert.Equal(t, 2, st.InForce)
	})
}

// TestMutualRecalls checks that a waiting call blocks neither other calls of
// its connection, nor its caller's answers to recalls there.
func TestMutualRecalls(t *testing.T) {
	withGrants(t, nil, func(t *testing.T, g *grantRig) {
		a, b := g.play(), g.play()
		defer a.leave()
		defer b.leave()
		a.hold("f")
		b.hold("g")
		a.hush()
		b.hush()
		start := time.Now()
		ofA, ofB := a.begin(g.write("g")), b.begin(g.write("f"))
		assert.Equal(t, []string{"f"}, a.recalls())
		assert.Equal(t, []string{"g"}, b.recalls())
		attr := nfs3.HandleArgs{Object: g.fh["f"]}
		assert.Equal(t, nfs3.OK, a.call(nfs3.ProcGetAttr, &attr))
		assert.Zero(t, g.permits(), "they do not wait for storage")
		b.answer()
		assert.Equal(t, nfs3.OK, <-ofA)
		a.answer()
		assert.Equal(t, nfs3.OK, <-ofB)
		assert.Less(t, time.Since(start), delegation.Patience)
	})
}

// TestHolderGone checks that a change stops waiting for a holder that closes
// its connection. If the connection is lost, the change waits until the lease
// runs out, because it is unknown when the holder learns of the loss.
func TestHolderGone(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(p *player)
		wait time.Duration
	}{
		"closed": {(*player).leave, 0},
		"lost": {func(p *player) {
			close(p.stop)
			p.link.Abort(errors.New("lost"))
		}, grantLease * 2 / 3},
	} {
		t.Run(name, func(t *testing.T) {
			withGrants(t, nil, func(t *testing.T, g *grantRig) {
				holder, other := g.play(), g.play()
				defer other.leave()
				holder.hold("f")
				holder.hush()
				done := other.begin(g.write("f"))
				start := time.Now()
				tt.end(holder)
				status := <-done
				for status == nfs3.ErrJukebox {
					status = other.call(g.write("f"))
				}
				assert.Equal(t, nfs3.OK, status)
				assert.GreaterOrEqual(t, time.Since(start), tt.wait)
				assert.Less(t, time.Since(start), tt.wait+delegation.Patience)
			})
		})
	}
}

// TestNameExchanged checks that if another object gets the name while REMOVE
// waits, that object's delegations are recalled too.
func TestNameExchanged(t *testing.T) {
	withGrants(t, nil, func(t *testing.T, g *grantRig) {
		holder, other := g.play(), g.play()
		defer other.leave()
		defer holder.leave()
		holder.hold("f", "g")
		holder.hush()
		name := in(g.fh["d"], "f")
		done := other.begin(nfs3.ProcRemove, &name)
		assert.Equal(t, []string{"f"}, holder.recalls())
		d, e := g.hosts["d"], g.hosts["e"]
		c := vfs.Cred{UID: 1000, GID: 1000}
		_, _, err := g.fs.Rename(context.Background(), &c, e, "g", d, "f")
		require.NoError(t, err)
		holder.answer()
		assert.Equal(t, nfs3.OK, <-done)
		assert.Equal(t, []string{"g"}, holder.recalls())
		attr := nfs3.HandleArgs{Object: g.fh["g"]}
		assert.Equal(t, nfs3.ErrStale, other.call(nfs3.ProcGetAttr, &attr))
	})
}

// TestNameLocked checks that two concurrent changes of one name are made one
// after the other.
func TestNameLocked(t *testing.T) {
	withGrants(t, nil, func(t *testing.T, g *grantRig) {
		holder, other := g.play(), g.play()
		defer other.leave()
		defer holder.leave()
		holder.hold("f", "g")
		holder.hush()
		name := in(g.fh["d"], "f")
		remove := other.begin(nfs3.ProcRemove, &name)
		rename := other.begin(nfs3.ProcRename, &nfs3.RenameArgs{From: in(g.fh["e"], "g"), To: name})
		assert.Equal(t, []string{"f", "g"}, holder.recalls())
		holder.answer()
		assert.Equal(t, nfs3.OK, <-remove)
		assert.Equal(t, nfs3.OK, <-rename)
		other.call(nfs3.ProcRemove, &name)
		assert.Equal(t, nfs3.ErrNoEnt, other.call(nfs3.ProcRemove, &name), "nothing locks the name any more")
	})
}
