package nfs4server

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
)

// TestRemovedOperations checks the operations that minor version 2 must not have: their numbers
// are known (R7862-13-1).
func TestRemovedOperations(t *testing.T) {
	g := newTestServer(t).connectClient()
	for _, op := range []nfs4.Op{
		nfs4.OpGetDeviceList, nfs4.OpOpenConfirm, nfs4.OpReleaseLockOwner, nfs4.OpRenew, nfs4.OpSetClientID, nfs4.OpSetClientIDConfirm,
	} {
		st, n := g.sendSteps(putRootStep(), step{op, cutArgs(make([]byte, 200)), newStatusRes()}, putRootStep())
		assert.Equal(t, nfs4.ErrNotSupp, st, "R7862-13-1: %s", op)
		assert.Equal(t, 2, n, op)
	}
}

// TestStatusesOfMinor2 checks that the check which every COMPOUND of these tests passes rejects
// the statuses of minor version 2 in the others (R7862-11.1-2).
func TestStatusesOfMinor2(t *testing.T) {
	for op := nfs4.OpAccess; op < nfs4.OpAllocate; op++ {
		for status := nfs4.ErrPartnerNotSupp; status <= nfs4.ErrOffloadNoReqs; status++ {
			for minor := nfs4.Minor0; minor <= nfs4.Minor1; minor++ {
				assert.False(t, isPermittedIn(minor, op, status), "R7862-11.1-2: %s %s in minor version %d", op, status, minor)
			}
		}
	}
}

// TestMinorOfClient checks that a client keeps the minor version of its EXCHANGE_ID, and that a
// COMPOUND has the operations of its own (R7862-2-3).
func TestMinorOfClient(t *testing.T) {
	g := newTestServer(t).connectClient()
	seek := step{nfs4.OpSeek, &nfs4.SeekArgs{}, new(nfs4.SeekRes)}
	g.minor = nfs4.Minor1
	st, _ := g.sendSteps(putRootStep(), seek)
	assert.Equal(t, nfs4.ErrOpIllegal, st, "R7862-2-3")
	_, st = g.exchangeID("client", 0, 0)
	require.Equal(t, nfs4.OK, st)
	list, _ := g.s.Clients(10)
	require.Len(t, list, 1)
	assert.Equal(t, nfs4.Minor2, list[0].Minor, "R7862-2-3")
}

// TestAttributesOfMinor2 checks space_used, and that space_freed (R7862-7-1) and sec_label
// (R7862-9-1) are not offered.
func TestAttributesOfMinor2(t *testing.T) {
	g, dir := newDiskServer(t)
	sparse, err := os.Create(filepath.Join(dir, "f"))
	require.NoError(t, err)
	defer sparse.Close()
	require.NoError(t, sparse.Truncate(1<<30))
	_, err = sparse.WriteAt(make([]byte, 1<<20), 1<<20)
	require.NoError(t, err)
	require.NoError(t, sparse.Sync())
	var host syscall.Stat_t
	require.NoError(t, syscall.Fstat(int(sparse.Fd()), &host))
	fh := g.lookupPath("x", "f")
	got := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrSpaceUsed, nfs4.AttrSpaceFreed, nfs4.AttrSecLabel))
	assert.Equal(t, nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrSpaceUsed), got.Mask, "R7862-7-1, R7862-9-1")
	assert.EqualValues(t, host.Blocks*512, got.SpaceUsed, "R7862-7-1")
	assert.False(t, got.SupportedAttrs.Has(nfs4.AttrSpaceFreed), "R7862-7-1")
	assert.False(t, got.SupportedAttrs.Has(nfs4.AttrSecLabel), "R7862-9-1")

	set := append(make(cutArgs, 16), // a stateid; then the mask, and a label of 3 bytes
		0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0,
		0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c', 0)
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, set, newStatusRes()})
	assert.Equal(t, nfs4.ErrAttrNotSupp, st, "R7862-9-1")
}

// TestForeignHandle checks that a handle of another server is rejected also before COPY: there
// is no COPY between servers (R7862-15.2-5).
func TestForeignHandle(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	dst := g.makeFile("dst", "")
	foreign := newTestServer(t).connectClient().becomeRoot().makeFile("src", "content")
	st, n := g.sendSteps(copySteps(foreign, dst, 0, new(nfs4.CopyRes))...)
	assert.Contains(t, []nfs4.Status{nfs4.ErrBadHandle, nfs4.ErrStale}, st, "R7862-15.2-5")
	assert.Equal(t, 1, n)
}

// TestFence checks that a client of minor version 2 that asks is told (R7862-14.1-1) that no session is
// destroyed, and no new instance gets a client ID, while a call runs (R7862-14.1-2). A client of
// minor version 1 is not told (R7862-14.1-3), and may get a client ID.
func TestFence(t *testing.T) {
	for minor := nfs4.Minor1; minor <= nfs4.Minor2; minor++ {
		synctest.Test(t, func(t *testing.T) {
			fs := newFakeHeldFS()
			g := newTestServer(t, exportset.Export{Path: "/x", FS: fakePlainFS{fs}, Clients: anyClient()}).becomeRoot()
			g.minor = minor
			g.connectClient()
			fenced := minor == nfs4.Minor2
			for _, flags := range []uint32{0, nfs4.ExchangeSuppFenceOps} {
				id, st := g.exchangeID("client", 0, flags)
				if !fenced && flags != 0 {
					assert.Equal(t, nfs4.ErrInval, st, "R7862-14.1-3")
					continue
				}
				require.Equal(t, nfs4.OK, st)
				assert.Equal(t, flags, id.Flags&nfs4.ExchangeSuppFenceOps, "R7862-14.1-1, R7862-14.1-3")
			}
			put := putStep(g.makeFile("f", "content"))
			fs.from.Store(1)
			reader, ended := *g, make(chan nfs4.Status)
			go func() {
				st, _ := reader.sendSteps(put.withNewResults(), step{nfs4.OpRead, &nfs4.ReadArgs{Offset: 1, Count: 1}, new(nfs4.ReadRes)})
				ended <- st
			}()
			synctest.Wait()
			destroy := step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.session}, newStatusRes()}
			st, _ := g.sendRaw(destroy)
			assert.Equal(t, nfs4.ErrDelay, st, "R7862-14.1-2")
			_, st = g.exchangeID("client", 0, 0)
			assert.Equal(t, nfs4.OK, st, "the same instance")
			want := map[bool]nfs4.Status{false: nfs4.OK, true: nfs4.ErrDelay}
			_, st = g.exchangeID("client", 9, 0)
			assert.Equal(t, want[fenced], st, "R7862-14.1-2")
			close(fs.release)
			assert.Equal(t, nfs4.OK, <-ended)
			g.seq = reader.seq
			again := &nfs4.ExchangeIDArgs{Owner: []byte("client"), Verifier: nfs4.Verifier{8}}
			st, _ = g.sendSteps(step{nfs4.OpExchangeID, again, new(nfs4.ExchangeIDRes)})
			assert.Equal(t, nfs4.OK, st, "this call is the only one")
			_, st = g.exchangeID("client", 9, 0)
			assert.Equal(t, nfs4.OK, st, "R7862-14.1-2")
			st, _ = g.sendRaw(destroy)
			assert.Equal(t, nfs4.OK, st, "R7862-14.1-2")
		})
	}
}
