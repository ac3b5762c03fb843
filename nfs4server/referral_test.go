package nfs4server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
)

// TestReferrals checks referrals within an export and in the pseudo file system, of
// some clients only, and replicas, as SetExports changes them. The names of servers
// are sent as the administrator has written them (R8881-21-2, R8881-11.16-3), in the
// administrator's order (R8881-11.5.1-1).
func TestReferrals(t *testing.T) {
	top := memory("/srv", free)
	away := elsewhere(t, "/srv/away", "refer=/there@one.example+[2001:db8::1]")
	replicated := elsewhere(t, "/copied", "replicas=/b@two.example:/a@one.example")
	others := elsewhere(t, "/others", "rw")
	others.Clients = append(memory("", exports.Options{Insecure: true, Refer: away.Clients[0].Options.Refer}, "198.51.100.0/24").Clients, others.Clients...)
	g := newRig(t, top, away, replicated, others).connect().asRoot()
	st, _ := g.do(root(), look("srv"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("away")}, new(nfs4.CreateRes)})
	require.Equal(t, nfs4.ErrExist, st, "the name is taken")
	var res nfs4.GetAttrRes
	places := func(path ...string) ([]nfs4.FSLocation, nfs4.Status) {
		steps := []step{root()}
		for _, p := range path {
			steps = append(steps, look(p))
		}
		res.Attrs = nfs4.Attrs{}
		st, _ := g.do(append(steps, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrFSLocations, nfs4.AttrFSID, nfs4.AttrMountedOnFileID)}, &res})...)
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
	g.names("others")

	// A handle from the time before the file system went away leads to its places.
	fh := g.lookup("others")
	gone := elsewhere(t, "/others", "refer=/there@one.example")
	gone.FS = others.FS
	require.NoError(t, g.s.realm.SetExports([]realm.Export{top, away, replicated, gone}))
	st, _ = g.do(put(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrFSLocations)}, &res})
	assert.Equal(t, nfs4.OK, st)
	assert.Len(t, res.Attrs.FSLocations.Locations, 1)
	st, n := g.do(put(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 1}, new(nfs4.AccessRes)})
	assert.Equal(t, nfs4.ErrMoved, st)
	assert.Equal(t, 2, n)
	require.NoError(t, g.s.realm.SetExports([]realm.Export{top, away, replicated, others}))
	st, _ = g.do(put(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 1}, new(nfs4.AccessRes)})
	assert.Equal(t, nfs4.OK, st)
}

// TestReferralsAround checks exports below a referral, which clients cannot reach by name,
// the way up from them, and a referral as the root of the tree.
func TestReferralsAround(t *testing.T) {
	top, deep, deeper := memory("/srv", free), memory("/srv/away/deep", free), memory("/srv/away/no/deeper", free)
	here, away := memory("/srv/away", free), elsewhere(t, "/srv/away", "refer=/there@one.example")
	away.FS = here.FS
	g := newRig(t, top, here, deep).connect().asRoot()
	fh := g.lookup("srv", "away", "deep")
	require.NoError(t, g.s.realm.SetExports([]realm.Export{top, away, deep, deeper}))
	locations := step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrFSLocations)}, new(nfs4.GetAttrRes)}
	up := step{nfs4.OpLookupP, &void, status()}

	st, n := g.do(root(), look("srv"), look("away"), look("deep"))
	assert.Equal(t, nfs4.ErrMoved, st)
	assert.Equal(t, 4, n)
	st, n = g.do(root(), look("srv"), look("away"), up)
	assert.Equal(t, nfs4.ErrMoved, st)
	assert.Equal(t, 4, n)
	st, _ = g.do(put(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 1}, new(nfs4.AccessRes)})
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.do(put(fh), up, locations)
	assert.Equal(t, nfs4.OK, st)
	assert.Len(t, locations.res.(*nfs4.GetAttrRes).Attrs.FSLocations.Root, 2)
	st, n = g.do(put(fh), up, up)
	assert.Equal(t, nfs4.ErrMoved, st)
	assert.Equal(t, 3, n)

	rooted := elsewhere(t, "/srv", "fsid=0,refer=/there@one.example")
	g = newRig(t, rooted, memory("/srv/a", free)).connect().asRoot()
	st, _ = g.do(root(), locations)
	assert.Equal(t, nfs4.OK, st)
	assert.Empty(t, locations.res.(*nfs4.GetAttrRes).Attrs.FSLocations.Root)
	for _, s := range []step{look("a"), up, {nfs4.OpGetFH, &void, new(nfs4.HandleRes)}, {nfs4.OpSaveFH, &void, status()}} {
		st, n = g.do(root(), s)
		assert.Equal(t, nfs4.ErrMoved, st, s.op)
		assert.Equal(t, 2, n)
	}
}
