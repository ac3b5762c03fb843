package exportset

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// openByID begins a peer's call with the handle of an export's root.
func openByID(t *testing.T, s *Set, p *oncrpc.Peer, id uint32) error {
	var q Request
	q.Begin(s, p, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, new(oncrpc.Reply))
	defer q.End()
	_, err := q.Open(t.Context(), s.AppendHandle(nil, &Exported{ID: id}, new(vfs.Handle)))
	return err
}

// TestUnavailable checks that calls to an unavailable export get no further than to Later, except
// from clients for which it is not.
func TestUnavailable(t *testing.T) {
	s := newTestSet(t, Unavailable{Reason: "missing"}, func(c *Config) {
		c.Exports[0].ID, c.Exports[0].Clients = 7, clientsOf(exports.Options{}, "192.0.0.1/32")
	})
	assert.Equal(t, Later, openByID(t, s, peerAt(1), 7))
	assert.Equal(t, Access, openByID(t, s, peerAt(2), 7))
	assert.Equal(t, Later, openByID(t, s, peerAt(1), 8), "it may be a submount's")
	e := s.Snapshot().List()[0]
	assert.Equal(t, Later, s.RunWithPermit(t.Context(), peerAt(1), e, func() { t.Error("the file system was called") }))
}

// TestClientsUnknown checks an export whose line has an error: it lists no client, and every handle
// with an unknown ID may be one of it.
func TestClientsUnknown(t *testing.T) {
	broken := Export{Path: "/y", FS: Unavailable{Reason: "broken", ClientsUnknown: true}}
	s := newTestSet(t, &fakeRootFS{}, func(c *Config) {
		c.Exports[0].Clients = clientsOf(exports.Options{}, "192.0.0.1/32")
		c.Exports = append(c.Exports, broken)
	})
	assert.NoError(t, s.CheckListed(t.Context(), peerAt(1)))
	assert.Equal(t, Later, s.CheckListed(t.Context(), peerAt(2)))
	assert.Equal(t, Later, openByID(t, s, peerAt(1), 8))
	require.NoError(t, s.SetExports(s.Exports()[:1]))
	assert.Equal(t, Access, s.CheckListed(t.Context(), peerAt(2)))
	assert.Equal(t, Stale, openByID(t, s, peerAt(1), 8))
}

// TestSubmountNotYetThere checks the handles of submounts that are not exported: while they may still
// appear, because their export is unavailable or the server has just started, clients must try again.
// Those of a submount that was there are stale.
func TestSubmountNotYetThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := Export{Path: "/x", FS: &fakeRootFS{}, Clients: exports.Everyone(exports.Options{CrossMnt: true})}
		late, gone := top, top
		late.Path, late.ID, late.Submount, late.FS = "/x/late", 8, true, &fakeRootFS{}
		gone.Path, gone.ID, gone.Submount, gone.FS = "/x/gone", 9, true, &fakeRootFS{}
		s := newTestSet(t, top.FS, func(c *Config) { c.Exports = []Export{top, gone} })
		require.NoError(t, s.SetExports([]Export{top}))
		assert.Equal(t, Later, openByID(t, s, peerAt(1), 8))
		assert.Equal(t, Stale, openByID(t, s, peerAt(1), 9))
		require.NoError(t, s.SetExports([]Export{top, late, gone}))
		assert.NoError(t, openByID(t, s, peerAt(1), 8))
		assert.NoError(t, openByID(t, s, peerAt(1), 9), "mounted again")
		require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: top.FS}}))
		assert.Equal(t, Stale, openByID(t, s, peerAt(1), 7), "no export has crossmnt")

		time.Sleep(appearTime)
		require.NoError(t, s.SetExports([]Export{top}))
		assert.Equal(t, Stale, openByID(t, s, peerAt(1), 7))
		require.NoError(t, s.SetExports([]Export{{Path: "/x", FS: Unavailable{Reason: "no disk"}}}))
		assert.Equal(t, Later, openByID(t, s, peerAt(1), 7))
		assert.Equal(t, Stale, openByID(t, s, peerAt(1), 8))
	})
}

// TestCrossingAllocates checks that a LOOKUP of a name that leads to no export allocates nothing,
// however many exports are below.
func TestCrossingAllocates(t *testing.T) {
	s := newTestSet(t, &fakeRootFS{}, func(c *Config) {
		c.Exports = append(c.Exports, Export{Path: "/x/a/b", FS: &fakeRootFS{}}, Export{Path: "/x/c/d/e", FS: &fakeRootFS{}})
	})
	var q Request
	q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, new(oncrpc.Reply))
	defer q.End()
	require.NoError(t, q.EnterExport(s.Snapshot().List()[0].ID))
	assert.Zero(t, testing.AllocsPerRun(100, func() { q.FindCrossing(t.Context(), vfs.Handle{}, []byte("name")) }))
}

// TestUnavailableKeepsDelegations checks that a client's delegations are not recalled when an
// export is unavailable for another reason, or becomes available.
func TestUnavailableKeepsDelegations(t *testing.T) {
	s := newTestSet(t, &fakeRootFS{}, func(c *Config) {
		c.Exports = append(c.Exports, Export{Path: "/y", FS: Unavailable{Reason: "hung"}})
	})
	for _, next := range []vfs.FS{Unavailable{Reason: "missing"}, &fakeRootFS{}} {
		list, before := s.Exports(), s.Snapshot()
		list[1].FS = next
		require.NoError(t, s.SetExports(list))
		assert.False(t, s.Snapshot().reducesAccess(before))
	}
	list, before := s.Exports(), s.Snapshot()
	list[1].FS = &fakeRootFS{}
	list[1].FS.(*fakeRootFS).gate = make(chan struct{})
	require.NoError(t, s.SetExports(list))
	assert.True(t, s.Snapshot().reducesAccess(before))
}

// TestServedMountNotLogged checks that a mount through the upper export is not logged as rejected.
func TestServedMountNotLogged(t *testing.T) {
	var log bytes.Buffer
	s := newTestSet(t, &fakeRootFS{}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.Exports = append(c.Exports, Export{Path: "/x/y", FS: &fakeRootFS{}, Clients: clientsOf(exports.Options{}, "198.51.100.0/24")})
	})
	e, err := s.FindExport(t.Context(), peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, "/x/y/z")
	require.NoError(t, err)
	e.Leave()
	assert.Equal(t, "/x", e.Path)
	assert.Empty(t, log.String())
}
