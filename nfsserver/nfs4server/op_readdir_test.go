package nfs4server

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeLockedFS fails the test if it is called from within its ReadDir. A file system
// that lists with a lock held could wait for itself.
type fakeLockedFS struct {
	*mem.FS
	t       testing.TB
	listing atomic.Bool
	bare    bool // entries have names alone
	owners  bool // each entry has another owner
}

func (fs *fakeLockedFS) checkNotListing() {
	assert.False(fs.t, fs.listing.Load(), "a call from within ReadDir")
}

func (fs *fakeLockedFS) ReadDir(
	ctx context.Context, c *vfs.Cred, dir vfs.Handle, cookie, verf uint64, plus bool, fn func(*vfs.Entry) bool,
) (vfs.MaybeAttr, uint64, bool, error) {
	fs.listing.Store(true)
	defer fs.listing.Store(false)
	return fs.FS.ReadDir(ctx, c, dir, cookie, verf, plus, func(e *vfs.Entry) bool {
		if fs.bare {
			e.HasHandle, e.Attr = false, vfs.MaybeAttr{}
		}
		if fs.owners && !vfs.IsDots(string(e.Name)) {
			e.Attr.Attr.UID = 1000 + uint32(e.FileID)
		}
		return fn(e)
	})
}

func (fs *fakeLockedFS) Lookup(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.Handle, vfs.MaybeAttr, vfs.MaybeAttr, error) {
	fs.checkNotListing()
	return fs.FS.Lookup(ctx, c, dir, name)
}

func (fs *fakeLockedFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	fs.checkNotListing()
	return fs.FS.GetAttr(ctx, c, h)
}

func (fs *fakeLockedFS) StatFS(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.FSStat, vfs.MaybeAttr, error) {
	fs.checkNotListing()
	return fs.FS.StatFS(ctx, c, h)
}

func (fs *fakeLockedFS) PathConf(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.PathConf, vfs.MaybeAttr, error) {
	fs.checkNotListing()
	return fs.FS.PathConf(ctx, c, h)
}

// newLockedServer returns a testServer with n files in a fakeLockedFS, and another export for
// the same file system at one of its directories.
func newLockedServer(t *testing.T, n int) (*testServer, *fakeLockedFS) {
	fs := &fakeLockedFS{FS: mem.New(mem.Options{Size: 1 << 30}), t: t}
	all := exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: all}, exportset.Export{Path: "/x/d", FS: fs, Clients: all}).connectClient().becomeRoot()
	_, err := fs.FS.Mkdir(t.Context(), &vfs.Cred{}, fs.Root(), "d", vfs.SetAttr{})
	require.NoError(t, err)
	for i := range n {
		g.makeFile(fmt.Sprint("f", i), "")
	}
	return g, fs
}

// listEntries lists the export in calls with a size, and returns all entries.
func (g *testServer) listEntries(size uint32, ids ...nfs4.AttrID) (all map[string]nfs4.Attrs, calls int) {
	g.t.Helper()
	all = make(map[string]nfs4.Attrs)
	a := nfs4.ReadDirArgs{MaxCount: size, Request: nfs4.BitmapOf(ids...)}
	for {
		var list dirListing
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &a, &list})
		require.Equal(g.t, nfs4.OK, st)
		calls++
		for name, attrs := range list.attrs {
			_, twice := all[name]
			assert.False(g.t, twice, name)
			attrs.Owner = append([]byte(nil), attrs.Owner...)
			all[name] = attrs
		}
		if list.eof {
			return all, calls
		}
		require.NotEmpty(g.t, list.names)
		a.Cookie, a.Verf = list.cookie, list.Verf
	}
}

// TestReadDirCallsNothing lists with attributes that need further file system calls, none of
// which comes from within its ReadDir.
func TestReadDirCallsNothing(t *testing.T) {
	g, fs := newLockedServer(t, 20)
	for _, fs.bare = range []bool{false, true} {
		for _, id := range []nfs4.AttrID{nfs4.AttrFileID, nfs4.AttrSpaceFree, nfs4.AttrMaxName} {
			for _, size := range []uint32{200, 5000} {
				all, calls := g.listEntries(size, id)
				assert.Len(t, all, 21)
				assert.Equal(t, size < 1000, calls > 1)
				for name, attrs := range all {
					assert.True(t, attrs.Mask.Has(id), "%s has no %v", name, id)
				}
			}
		}
	}
}

// A fakeSlowDatabase is a user database that needs some time for each reply.
type fakeSlowDatabase struct {
	fs   *fakeLockedFS
	time time.Duration
}

func (p fakeSlowDatabase) Name(_ idmap.Kind, id uint32) (string, bool, error) {
	time.Sleep(p.time)
	p.fs.checkNotListing()
	return fmt.Sprint("user", id), true, nil
}

func (p fakeSlowDatabase) User(string) (u idmap.Account, found bool, err error) { return u, false, nil }

func (p fakeSlowDatabase) ID(idmap.Kind, string) (uint32, bool, error) { return 0, false, nil }

// TestReadDirOfManyOwners lists files with many owners, whose names arrive slowly: the file
// system does not wait, and no client call takes long.
func TestReadDirOfManyOwners(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 600 * time.Millisecond, 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g, fs := newLockedServer(t, 20)
			fs.owners = true
			g.s.owners = idmap.New(idmap.Config{Rules: idmap.Rules{Domain: "example.org"}, Database: fakeSlowDatabase{fs, d}})
			defer func() {
				g.s.owners.Close()
				time.Sleep(time.Minute) // questions that Close has abandoned
			}()
			a := nfs4.ReadDirArgs{MaxCount: 10_000, Request: nfs4.BitmapOf(nfs4.AttrOwner)}
			names := 0
			for eof := false; !eof; {
				var list dirListing
				began := time.Now()
				st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &a, &list})
				require.Equal(t, nfs4.OK, st)
				assert.LessOrEqual(t, time.Since(began), maxDirNameWait+2*d)
				require.NotEmpty(t, list.names)
				names += len(list.names)
				a.Cookie, a.Verf, eof = list.cookie, list.Verf, list.eof
			}
			assert.Equal(t, 21, names)
			all, calls := g.listEntries(10_000, nfs4.AttrOwner)
			assert.Equal(t, 1, calls, "all names are known")
			for name, attrs := range all {
				assert.Contains(t, string(attrs.Owner), "@example.org", name)
			}
		})
	}
}
