package nfsserver

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/stretchr/testify/assert"
)

// TestGroups checks that a user's groups on this host replace the call's, if the call has a
// user.
func TestGroups(t *testing.T) {
	var many []uint32
	for g := range uint32(40) {
		many = append(many, 1000+g)
	}
	errDown := errors.New("no answer")
	host := map[uint32][]uint32{0: {0, 6}, 5: {50, 51}, 6: many, 7: {0, 70}, 65534: {4}}
	all := exports.Options{AllSquash: true, AnonUID: exports.NewID(5)}
	for _, tt := range []struct {
		name     string
		options  exports.Options
		authNone bool
		uid, gid uint32
		want     vfs.Cred
		asked    bool
	}{
		{"user", exports.Options{}, false, 5, 6, vfs.Cred{UID: 5, GID: 6, Groups: []uint32{50, 51}}, true},
		{"in many groups", exports.Options{}, false, 6, 6, vfs.Cred{UID: 6, GID: 6, Groups: many}, true},
		{"in root's group", exports.Options{}, false, 7, 6, vfs.Cred{UID: 7, GID: 6, Groups: []uint32{65534, 70}}, true},
		{"in root's group, trusted", exports.Options{NoRootSquash: true}, false, 7, 0, vfs.Cred{UID: 7, Groups: []uint32{0, 70}}, true},
		{"unknown", exports.Options{}, false, 8, 6, vfs.Cred{UID: 8, GID: 6}, true},
		{"root", exports.Options{}, false, 0, 0, vfs.Cred{UID: 65534, GID: 65534}, false},
		{"root, trusted", exports.Options{NoRootSquash: true}, false, 0, 0, vfs.Cred{Groups: []uint32{0, 6}}, true},
		{"no id", exports.Options{NoRootSquash: true}, false, 1<<32 - 1, 6, vfs.Cred{UID: 65534, GID: 6}, false},
		{"all, as the caller", all, false, 5, 6, vfs.Cred{UID: 5, GID: 65534}, false},
		{"no credential", exports.Options{}, true, 6, 6, vfs.Cred{UID: 65534, GID: 65534}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fs := newMemFS()
			asked := false
			g := newTestServer(t, fs, withOptions(tt.options), func(c *Config) {
				c.Groups = func(_ context.Context, _ netip.Addr, uid uint32) ([]uint32, error) {
					assert.Equal(t, tt.uid, uid)
					asked = true
					return host[uid], nil
				}
			})
			g.authNone, g.uid, g.gid, g.gids = tt.authNone, tt.uid, tt.gid, []uint32{1, 2, 3}
			var res nfs3.GetAttrRes
			g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.handleOf(memRoot)}, &res)
			assert.Equal(t, nfs3.OK, res.Status)
			assert.Equal(t, tt.want.UID, fs.cred.UID)
			assert.Equal(t, tt.want.GID, fs.cred.GID)
			assert.ElementsMatch(t, tt.want.Groups, fs.cred.Groups)
			assert.Equal(t, tt.asked, asked)
			if tt.asked {
				assert.Equal(t, []uint32{0, 70}, host[7], "the host's list is unchanged")
			}
		})
	}
	t.Run("no answer", func(t *testing.T) {
		err := errDown
		g := newTestServer(t, newMemFS(), func(c *Config) {
			c.Groups = func(context.Context, netip.Addr, uint32) ([]uint32, error) { return nil, err }
		})
		var res nfs3.GetAttrRes
		for _, want := range []nfs3.Status{nfs3.ErrJukebox, nfs3.OK} {
			g.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.handleOf(memRoot)}, &res)
			assert.Equal(t, want, res.Status)
			err = nil
		}
	})
}

// TestGroupsAllocate checks that cached groups cost no allocation.
func TestGroupsAllocate(t *testing.T) {
	groups := exportset.NewUserGroups(func(uint32) ([]uint32, error) { return make([]uint32, 16), nil }, nil)
	defer groups.Close()
	g := newTestServer(t, newMemFS(), func(c *Config) { c.Groups = groups.Of })
	wire := (&nfs3.HandleArgs{Object: g.handleOf(memRoot)}).AppendTo(nil)
	call := oncrpc.Call{Proc: nfs3.ProcGetAttr, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 5}, Peer: g.peer, MaxReply: 1 << 20}
	rep := oncrpc.Reply{Head: make([]byte, 0, 512)}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		call.Args, rep.Head = xdr.NewReader(wire), rep.Head[:0]
		assert.NoError(t, nfsProgram{g.server}.ServeRPC(t.Context(), &call, &rep))
	}))
}
