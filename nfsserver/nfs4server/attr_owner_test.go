package nfs4server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeUserDatabase is a user database that knows 1234 and 4321. It fails if down.
type fakeUserDatabase struct {
	down  atomic.Bool
	open  chan struct{} // if not nil, replies wait for it
	asked atomic.Int32
}

var errDown = errors.New("down")

func (p *fakeUserDatabase) downError() error {
	p.asked.Add(1)
	if p.open != nil {
		<-p.open
	}
	if p.down.Load() {
		return errDown
	}
	return nil
}

func (p *fakeUserDatabase) Name(kind idmap.Kind, id uint32) (string, bool, error) {
	err := p.downError()
	switch {
	case kind == idmap.User && id == 1234:
		return "alice", true, err
	case kind == idmap.Group && id == 4321:
		return "staff", true, err
	}
	return "", false, err
}

func (p *fakeUserDatabase) User(string) (u idmap.Account, found bool, err error) {
	return u, false, nil
}

func (p *fakeUserDatabase) ID(kind idmap.Kind, name string) (uint32, bool, error) {
	err := p.downError()
	switch {
	case kind == idmap.User && name == "alice":
		return 1234, true, err
	case kind == idmap.Group && name == "staff":
		return 4321, true, err
	}
	return 0, false, err
}

// newNamedServer returns a testServer whose owner strings have a domain.
func newNamedServer(t *testing.T, p *fakeUserDatabase) *testServer {
	g := newTestServer(t, newMemoryExport("/x", exports.Options{Insecure: true, NoRootSquash: true}))
	g.s.owners = idmap.New(idmap.Config{Rules: idmap.Rules{Domain: "example.org"}, Database: p})
	t.Cleanup(g.s.owners.Close)
	return g.connectClient().becomeRoot()
}

// setOwners sets a file's owner and group and gets them.
func (g *testServer) setOwners(fh []byte, owner, group string) (nfs4.Status, string, string) {
	mask := nfs4.BitmapOf(nfs4.AttrOwner, nfs4.AttrOwnerGroup)
	set := nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: mask, Owner: []byte(owner), OwnerGroup: []byte(group)}}
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, &set, new(nfs4.SetAttrRes)})
	var res nfs4.GetAttrRes
	got, _ := g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: mask}, &res})
	require.Equal(g.t, nfs4.OK, got)
	return st, string(res.Attrs.Owner), string(res.Attrs.OwnerGroup)
}

// TestOwnerNames checks owner strings in both directions: names if the user
// database has them, numbers always (R8881-5.9-1, R8881-5.9-2).
func TestOwnerNames(t *testing.T) {
	g := newNamedServer(t, new(fakeUserDatabase))
	fh := g.makeFile("f", "content")
	for _, tt := range []struct {
		owner, group         string
		st                   nfs4.Status
		wantOwner, wantGroup string
	}{
		{"alice@example.org", "staff@EXAMPLE.ORG", nfs4.OK, "alice@example.org", "staff@example.org"},
		{"5", "6", nfs4.OK, "5", "6"},
		{"1234", "4321", nfs4.OK, "alice@example.org", "staff@example.org"},
		{"bob@example.org", "5", nfs4.ErrBadOwner, "alice@example.org", "staff@example.org"},
		{"5", "alice@example.org", nfs4.ErrBadOwner, "alice@example.org", "staff@example.org"},
		{"alice@elsewhere.org", "5", nfs4.ErrBadOwner, "alice@example.org", "staff@example.org"},
		{"alice", "5", nfs4.ErrBadOwner, "alice@example.org", "staff@example.org"},
		{"", "5", nfs4.ErrInval, "alice@example.org", "staff@example.org"},
		{"5", "", nfs4.ErrInval, "alice@example.org", "staff@example.org"},
	} {
		st, owner, group := g.setOwners(fh, tt.owner, tt.group)
		assert.Equal(t, tt.st, st, "%+v", tt)
		assert.Equal(t, tt.wantOwner, owner, "%+v", tt)
		assert.Equal(t, tt.wantGroup, group, "%+v", tt)
	}
}

// TestVerifyOwners checks that owners are compared by users and groups, and not by
// their spelling (R8881-18.15.4-2).
func TestVerifyOwners(t *testing.T) {
	p := new(fakeUserDatabase)
	g := newNamedServer(t, p)
	fh := g.makeFile("f", "content")
	g.setOwners(fh, "1234", "4321")
	verify := func(owner, group string) nfs4.Status {
		a := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner, nfs4.AttrOwnerGroup), Owner: []byte(owner), OwnerGroup: []byte(group)}
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: a}, newStatusRes()})
		return st
	}
	assert.Equal(t, nfs4.OK, verify("alice@example.org", "staff@EXAMPLE.ORG"))
	assert.Equal(t, nfs4.OK, verify("1234", "4321"))
	assert.Equal(t, nfs4.ErrNotSame, verify("1234", "4322"))
	assert.Equal(t, nfs4.ErrNotSame, verify("bob@example.org", "4321"))
	assert.Equal(t, nfs4.ErrNotSame, verify("", "4321"))
	p.down.Store(true)
	assert.Equal(t, nfs4.ErrDelay, verify("carol@example.org", "4321"))
}

// TestOwnerNamesDown checks that a user database which does not respond makes
// owners numbers, and is queried in vain once per COMPOUND; names that are to be set
// are deferred.
func TestOwnerNamesDown(t *testing.T) {
	p := new(fakeUserDatabase)
	p.down.Store(true)
	g := newNamedServer(t, p)
	fh := g.makeFile("f", "content")
	before := p.asked.Load()
	st, owner, group := g.setOwners(fh, "1234", "4321")
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, "1234", owner)
	assert.Equal(t, "4321", group)
	assert.LessOrEqual(t, p.asked.Load()-before, int32(2))
	st, _, _ = g.setOwners(fh, "alice@example.org", "5")
	assert.Equal(t, nfs4.ErrDelay, st)
}

// TestOwnerNamesHang checks that a COMPOUND waits once for a user database that
// hangs, however many names it wants.
func TestOwnerNamesHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeUserDatabase{open: make(chan struct{})}
		g := newNamedServer(t, p)
		fh := g.makeFile("f", "content")
		start := time.Now()
		st, owner, group := g.setOwners(fh, "1234", "4321")
		assert.Equal(t, []any{nfs4.OK, "1234", "4321"}, []any{st, owner, group})
		assert.Equal(t, 5*time.Second, time.Since(start))
		close(p.open)
	})
}

// A slowUserDatabase is a user database that knows all numbers, and takes a second for each
// reply.
type slowUserDatabase struct{}

func (slowUserDatabase) Name(_ idmap.Kind, id uint32) (string, bool, error) {
	time.Sleep(time.Second)
	return fmt.Sprint("user", id), true, nil
}

func (slowUserDatabase) User(string) (u idmap.Account, found bool, err error) { return u, false, nil }

func (slowUserDatabase) ID(_ idmap.Kind, name string) (id uint32, found bool, err error) {
	time.Sleep(time.Second)
	_, err = fmt.Sscanf(name, "user%d", &id)
	return id, err == nil, nil
}

// A fakeListedFS is a file system whose objects all have one list.
type fakeListedFS struct {
	vfs.FS
	list vfs.ACL
}

func (fakeListedFS) HasACLs() bool { return true }

func (fs fakeListedFS) GetACL(context.Context, *vfs.Cred, vfs.Handle) (access, def vfs.ACL, _ vfs.MaybeAttr, _ error) {
	return fs.list, nil, vfs.MaybeAttr{}, nil
}

func (fakeListedFS) SetACL(context.Context, *vfs.Cred, vfs.Handle, *vfs.ACL, *vfs.ACL) (vfs.MaybeAttr, error) {
	return vfs.MaybeAttr{}, nil
}

// TestListOfSlowNames checks that one COMPOUND waits for few names in a list, however many it
// has: numbers replace the other names, and a list that is to be set or compared is deferred
// until they are known.
func TestListOfSlowNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users = 12
		list := vfs.ModeACL(0o640)[:1]
		acl := nfs4.ACL{}
		for id := range uint32(users) {
			list = append(list, vfs.ACLEntry{Tag: vfs.ACLUser, ID: 5000 + id, Perm: 4})
			acl = append(acl, nfs4.ACE{Mask: nfs4.ACEReadData, Who: fmt.Append(nil, "user", 5000+id, "@example.org")})
		}
		list = append(list, vfs.ACLEntry{Tag: vfs.ACLGroupObj}, vfs.ACLEntry{Tag: vfs.ACLMask, Perm: 4}, vfs.ACLEntry{Tag: vfs.ACLOther})
		export := newMemoryExport("/x", exports.Options{Insecure: true, NoRootSquash: true})
		export.FS = fakeListedFS{export.FS, list}
		g := newTestServer(t, export)
		g.s.owners = idmap.New(idmap.Config{Rules: idmap.Rules{Domain: "example.org"}, Database: slowUserDatabase{}})
		defer func() {
			g.s.owners.Close()
			time.Sleep(time.Minute) // questions that Close has abandoned
		}()
		g.connectClient().becomeRoot()
		fh := g.makeFile("f", "")
		quick := func(what string, do func()) {
			start := time.Now()
			do()
			assert.Less(t, time.Since(start), maxNameWait+2*time.Second, what)
		}
		names := func() (n int) {
			quick("GETATTR", func() {
				for _, e := range g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrACL)).ACL {
					if bytes.HasSuffix(e.Who, []byte("@example.org")) {
						n++
					}
				}
			})
			return n
		}
		assert.Equal(t, 5, names())
		time.Sleep(time.Minute) // the replies come, but no call waits for them
		assert.Equal(t, users, names())
		a := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrACL), ACL: acl}
		var last nfs4.Status
		calls := 0
		for last = nfs4.ErrDelay; last == nfs4.ErrDelay && calls < users; calls++ {
			quick("SETATTR", func() { last = g.setAttrs(fh, a) })
		}
		assert.Equal(t, nfs4.OK, last)
		assert.Greater(t, calls, 1)
		for i := range a.ACL {
			a.ACL[i].Who = fmt.Append(nil, "nobody", i, "@example.org")
		}
		quick("VERIFY", func() {
			st, _ := g.sendSteps(putStep(fh), step{nfs4.OpVerify, &nfs4.VerifyArgs{Attrs: a}, newStatusRes()})
			assert.Equal(t, nfs4.ErrDelay, st)
		})
	})
}

// TestOwnerNamesAllocs checks that names which are known cost no allocation.
func TestOwnerNamesAllocs(t *testing.T) {
	g := newNamedServer(t, new(fakeUserDatabase))
	fh := g.makeFile("f", "content")
	g.setOwners(fh, "1234", "4321")
	request := nfs4.BitmapOf(nfs4.AttrOwner, nfs4.AttrOwnerGroup)
	call := g.repeatCompound(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, nil})
	call()
	assert.LessOrEqual(t, testing.AllocsPerRun(100, call), racetest.PoolLosses(4))
}
