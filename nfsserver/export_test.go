package nfsserver

import (
	"context"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/stretchr/testify/assert"
)

func TestSquash(t *testing.T) {
	anon := withOptions(exports.Options{AnonUID: exports.NewID(99), AnonGID: exports.NewID(98)})
	trust := withOptions(exports.Options{NoRootSquash: true})
	all := withOptions(exports.Options{NoRootSquash: true, AllSquash: true, AnonUID: exports.NewID(0), AnonGID: exports.NewID(7)})
	for _, tt := range []struct {
		name     string
		change   func(*Config)
		authNone bool
		uid, gid uint32
		gids     []uint32
		want     vfs.Cred
	}{
		{"user", nil, false, 5, 6, []uint32{7, 8}, vfs.Cred{UID: 5, GID: 6, Groups: []uint32{7, 8}}},
		{"root", nil, false, 0, 0, []uint32{0, 8}, vfs.Cred{UID: 65534, GID: 65534, Groups: []uint32{65534, 8}}},
		{"group 0 of a user", nil, false, 5, 0, nil, vfs.Cred{UID: 5, GID: 65534}},
		{"root, other nobody", anon, false, 0, 0, []uint32{0}, vfs.Cred{UID: 99, GID: 98, Groups: []uint32{98}}},
		{"root, trusted", trust, false, 0, 0, []uint32{0, 1}, vfs.Cred{Groups: []uint32{0, 1}}},
		{"no id, trusted", trust, false, 1<<32 - 1, 1<<32 - 1, []uint32{1<<32 - 1}, vfs.Cred{UID: 65534, GID: 65534, Groups: []uint32{65534}}},
		{"all", all, false, 5, 6, []uint32{7, 8}, vfs.Cred{UID: 0, GID: 7}},
		{"no credential", nil, true, 0, 0, nil, vfs.Cred{UID: 65534, GID: 65534}},
		{"no credential, trusted", trust, true, 0, 0, nil, vfs.Cred{UID: 65534, GID: 65534}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fs := newMemFS()
			var changes []func(*Config)
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			g := newTestServer(t, fs, changes...)
			g.authNone, g.uid, g.gid, g.gids = tt.authNone, tt.uid, tt.gid, tt.gids
			var res nfs3.GetAttrRes
			g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.handleOf(memRoot)}, &res)
			assert.Equal(t, nfs3.OK, res.Status)
			assert.Equal(t, tt.want.UID, fs.cred.UID)
			assert.Equal(t, tt.want.GID, fs.cred.GID)
			assert.ElementsMatch(t, tt.want.Groups, fs.cred.Groups)
		})
	}
}

// A fakeCallerFS checks that the tests' callers have one number for user, group and
// groups, and returns it as a size.
type fakeCallerFS struct{ *memFS }

func (fakeCallerFS) GetAttr(_ context.Context, c *vfs.Cred, _ vfs.Handle) (vfs.Attr, error) {
	runtime.Gosched() // lets the next call use this one's memory, if it can
	for _, id := range append([]uint32{c.GID}, c.Groups...) {
		if id != c.UID {
			return vfs.Attr{}, syscall.EPERM
		}
	}
	return vfs.Attr{Type: vfs.TypeDir, Size: uint64(c.UID)}, nil
}

// TestCallersApart checks that concurrent calls do not mix their callers.
func TestCallersApart(t *testing.T) {
	g := newTestServer(t, fakeCallerFS{newMemFS()})
	args := nfs3.HandleArgs{Object: g.handleOf(memRoot)}
	wire := args.AppendTo(nil)
	var wg sync.WaitGroup
	for id := range uint32(8) {
		wg.Go(func() {
			id += 1000
			cred := rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: id, GID: id, GIDs: []uint32{id, id, id}}
			for range 300 {
				call := oncrpc.Call{Proc: nfs3.ProcGetAttr, Cred: cred, Args: xdr.NewReader(wire)}
				var rep oncrpc.Reply
				var res nfs3.GetAttrRes
				if assert.NoError(t, nfsProgram{g.server}.ServeRPC(t.Context(), &call, &rep)) {
					r := xdr.NewReader(rep.Head)
					res.Decode(&r)
				}
				assert.Equal(t, nfs3.OK, res.Status)
				assert.EqualValues(t, id, res.Attr.Size)
			}
		})
	}
	wg.Wait()
}
