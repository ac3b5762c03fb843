package nfs4server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A meddler is a file system in which something happens while a file is opened.
type meddler struct {
	*mem.FS
	meddle func() // at the next open, once
}

func (m *meddler) Access(ctx context.Context, c *vfs.Cred, h vfs.Handle, mask uint32) (uint32, vfs.MaybeAttr, error) {
	if f := m.meddle; f != nil {
		m.meddle = nil
		f()
	}
	return m.FS.Access(ctx, c, h, mask)
}

// TestDelegationOfOldExport checks that an OPEN which runs while the exports change
// gets no delegation: the new options may not permit it, and nothing would recall it.
func TestDelegationOfOldExport(t *testing.T) {
	fs := &meddler{FS: mem.New(mem.Options{Size: 1 << 20})}
	g, _ := delegRigOf(t, fs, true)
	g.file("f")
	fs.meddle = func() {
		require.NoError(t, g.s.realm.SetExports([]realm.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{
			NoRootSquash: true, Insecure: true,
		})}}))
		g.s.ExportsChanged()
	}
	opened, _ := g.openFile("f", nfs4.ShareRead, 0)
	require.Nil(t, fs.meddle)
	assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type)
	assert.Zero(t, g.s.realm.Holders().Len())
}

// TestRecallByCreation checks that an exclusive OPEN which finds the file that the
// client has made before is an OPEN of an existing file: it recalls delegations.
func TestRecallByCreation(t *testing.T) {
	for name, open := range map[string]func(a *nfs4.OpenArgs){
		"to write":            func(*nfs4.OpenArgs) {},
		"that denies to read": func(a *nfs4.OpenArgs) { a.ShareAccess, a.ShareDeny = nfs4.ShareRead, nfs4.ShareRead },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := delegRig(t)
				o, _ := g.clientAt("other", "192.0.2.2:700")
				a := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Exclusive1)
				opened, fh, st := o.open(a)
				require.Equal(t, nfs4.OK, st)
				require.Equal(t, nfs4.OK, o.close(fh, opened.StateID))
				reading, put := g.openFile("f", nfs4.ShareRead, 0)
				d := reading.Delegation
				require.Equal(t, nfs4.DelegateRead, d.Type)
				require.Equal(t, nfs4.OK, g.close(fh, reading.StateID))
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, g.give(put, d.StateID))
				}
				open(a)
				start := time.Now()
				_, _, st = o.open(a)
				require.Equal(t, nfs4.OK, st)
				assert.Equal(t, 300*time.Millisecond, time.Since(start))
				assert.Equal(t, 1, back.count())
			})
		})
	}
}
