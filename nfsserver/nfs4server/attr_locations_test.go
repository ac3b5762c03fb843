package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
)

// TestReferrals checks referrals within an export and in the pseudo file system, for some
// clients only, and replicas, as SetExports changes them. Server names are sent as the
// administrator has written them (R8881-21-2, R8881-11.16-3), in the administrator's order
// (R8881-11.5.1-1).
func TestReferrals(t *testing.T) {
	top := newMemoryExport("/srv", free)
	away := newReferralExport(t, "/srv/away", "refer=/there@one.example+[2001:db8::1]")
	replicated := newReferralExport(t, "/copied", "replicas=/b@two.example:/a@one.example")
	others := newReferralExport(t, "/others", "rw")
	others.Clients = append(newMemoryExport("", exports.Options{Insecure: true, Refer: away.Clients[0].Options.Refer}, "198.51.100.0/24").Clients, others.Clients...)
	g := newTestServer(t, top, away, replicated, others).connectClient().becomeRoot()
	st, _ := g.sendSteps(putRootStep(), lookupStep("srv"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("away")}, new(nfs4.CreateRes)})
	require.Equal(t, nfs4.ErrExist, st, "the name is taken")
	var res nfs4.GetAttrRes
	places := func(path ...string) ([]nfs4.FSLocation, nfs4.Status) {
		steps := []step{putRootStep()}
		for _, p := range path {
			steps = append(steps, lookupStep(p))
		}
		res.Attrs = nfs4.Attrs{}
		st, _ := g.sendSteps(append(steps, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrFSLocations, nfs4.AttrFSID, nfs4.AttrMountedOnFileID)}, &res})...)
		return res.Attrs.FSLocations.Locations, st
	}
	list, st := places("srv", "away")
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, []nfs4.FSLocation{{Servers: [][]byte{[]byte("one.example"), []byte("2001:db8::1")}, Root: nfs4.Pathname{[]byte("there")}}}, list)
	assert.Equal(t, nfs4.Pathname{[]byte("srv"), []byte("away")}, res.Attrs.FSLocations.Root)
	own := res.Attrs.FSID
	list, st = places("copied")
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, []nfs4.FSLocation{
		{Servers: [][]byte{[]byte("two.example")}, Root: nfs4.Pathname{[]byte("b")}},
		{Servers: [][]byte{[]byte("one.example")}, Root: nfs4.Pathname{[]byte("a")}},
	}, list)
	assert.NotEqual(t, own, res.Attrs.FSID)
	for _, path := range [][]string{{}, {"srv"}, {"others"}} {
		list, st := places(path...)
		assert.Equal(t, nfs4.OK, st)
		assert.Empty(t, list, path)
		assert.Len(t, res.Attrs.FSLocations.Root, len(path))
		assert.NotEqual(t, own, res.Attrs.FSID, path)
	}
	g.listNames("others")

	// A handle from the time before the file system went away leads to its places.
	fh := g.lookupPath("others")
	gone := newReferralExport(t, "/others", "refer=/there@one.example")
	gone.FS = others.FS
	require.NoError(t, g.s.exports.SetExports([]exportset.Export{top, away, replicated, gone}))
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrFSLocations)}, &res})
	assert.Equal(t, nfs4.OK, st)
	assert.Len(t, res.Attrs.FSLocations.Locations, 1)
	st, n := g.sendSteps(putStep(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 1}, new(nfs4.AccessRes)})
	assert.Equal(t, nfs4.ErrMoved, st)
	assert.Equal(t, 2, n)
	require.NoError(t, g.s.exports.SetExports([]exportset.Export{top, away, replicated, others}))
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 1}, new(nfs4.AccessRes)})
	assert.Equal(t, nfs4.OK, st)
}

// TestReferralsAround checks exports below a referral, which clients cannot reach by name, the
// way up from them, and a referral at the tree's root.
func TestReferralsAround(t *testing.T) {
	top, deep, deeper := newMemoryExport("/srv", free), newMemoryExport("/srv/away/deep", free), newMemoryExport("/srv/away/no/deeper", free)
	here, away := newMemoryExport("/srv/away", free), newReferralExport(t, "/srv/away", "refer=/there@one.example")
	away.FS = here.FS
	g := newTestServer(t, top, here, deep).connectClient().becomeRoot()
	fh := g.lookupPath("srv", "away", "deep")
	require.NoError(t, g.s.exports.SetExports([]exportset.Export{top, away, deep, deeper}))
	locations := step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrFSLocations)}, new(nfs4.GetAttrRes)}
	up := step{nfs4.OpLookupP, &void, newStatusRes()}

	st, n := g.sendSteps(putRootStep(), lookupStep("srv"), lookupStep("away"), lookupStep("deep"))
	assert.Equal(t, nfs4.ErrMoved, st)
	assert.Equal(t, 4, n)
	st, n = g.sendSteps(putRootStep(), lookupStep("srv"), lookupStep("away"), up)
	assert.Equal(t, nfs4.ErrMoved, st)
	assert.Equal(t, 4, n)
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 1}, new(nfs4.AccessRes)})
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.sendSteps(putStep(fh), up, locations)
	assert.Equal(t, nfs4.OK, st)
	assert.Len(t, locations.res.(*nfs4.GetAttrRes).Attrs.FSLocations.Root, 2)
	st, n = g.sendSteps(putStep(fh), up, up)
	assert.Equal(t, nfs4.ErrMoved, st)
	assert.Equal(t, 3, n)

	rooted := newReferralExport(t, "/srv", "fsid=0,refer=/there@one.example")
	g = newTestServer(t, rooted, newMemoryExport("/srv/a", free)).connectClient().becomeRoot()
	st, _ = g.sendSteps(putRootStep(), locations)
	assert.Equal(t, nfs4.OK, st)
	assert.Empty(t, locations.res.(*nfs4.GetAttrRes).Attrs.FSLocations.Root)
	for _, s := range []step{lookupStep("a"), up, {nfs4.OpGetFH, &void, new(nfs4.HandleRes)}, {nfs4.OpSaveFH, &void, newStatusRes()}} {
		st, n = g.sendSteps(putRootStep(), s)
		assert.Equal(t, nfs4.ErrMoved, st, s.op)
		assert.Equal(t, 2, n)
	}
}
