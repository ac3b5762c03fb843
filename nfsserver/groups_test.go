package nfsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os/exec"
	"os/user"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/lookupcache"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGroups checks that this host's groups of a user replace the call's, if
// the call has a user.
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
			g := newRig(t, fs, options(tt.options), func(c *Config) {
				c.Groups = func(_ context.Context, _ netip.Addr, uid uint32) ([]uint32, error) {
					assert.Equal(t, tt.uid, uid)
					asked = true
					return host[uid], nil
				}
			})
			g.authNone, g.uid, g.gid, g.gids = tt.authNone, tt.uid, tt.gid, []uint32{1, 2, 3}
			var res nfs3.GetAttrRes
			g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.fh(memRoot)}, &res)
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
		g := newRig(t, newMemFS(), func(c *Config) {
			c.Groups = func(context.Context, netip.Addr, uint32) ([]uint32, error) { return nil, err }
		})
		var res nfs3.GetAttrRes
		for _, want := range []nfs3.Status{nfs3.ErrJukebox, nfs3.OK} {
			g.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.fh(memRoot)}, &res)
			assert.Equal(t, want, res.Status)
			err = nil
		}
	})
}

// TestUserGroups checks that a hanging user database delays only calls that
// need it, and for a bounded time.
func TestUserGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var log strings.Builder
		g := NewUserGroups(func(uid uint32) ([]uint32, error) {
			switch {
			case uid >= 100:
				<-hang
				return nil, errors.New("in vain")
			case uid == 8:
				return nil, fmt.Errorf("lookup: %w", user.UnknownUserIdError(8))
			}
			return []uint32{uid}, nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		client := netip.MustParseAddr("192.0.2.1")
		ask := func(uid uint32) (gids []uint32, took time.Duration, err error) {
			start := time.Now()
			gids, err = g.Of(t.Context(), client, uid)
			return gids, time.Since(start), err
		}
		gids, took, err := ask(5)
		assert.Equal(t, []uint32{5}, gids)
		assert.Zero(t, took)
		require.NoError(t, err)
		gids, _, err = ask(8)
		assert.Empty(t, gids)
		require.NoError(t, err)

		for uid := range uint32(maxGroupLookups/2 - 1) {
			go func() { _, _ = g.Of(t.Context(), client, 100+uid) }()
		}
		synctest.Wait()
		gids, took, err = ask(6)
		assert.Equal(t, []uint32{6}, gids)
		assert.Zero(t, took)
		require.NoError(t, err)
		_, took, err = ask(200)
		assert.Equal(t, groupsTime, took)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Contains(t, log.String(), "uid=200")

		// All lookups hang, although no call waits for them any more.
		_, took, err = ask(7)
		assert.Equal(t, groupsTime, took)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		gids, took, err = ask(5)
		assert.Equal(t, []uint32{5}, gids, "is known")
		assert.Zero(t, took)
		require.NoError(t, err)

		// Another party is not affected, even if the first one asks for as many
		// users as it may.
		for uid := range uint32(maxGroupWaits) {
			go func() { _, _ = g.Of(t.Context(), client, 1000+uid) }()
		}
		synctest.Wait()
		_, took, err = ask(9)
		assert.Zero(t, took)
		assert.ErrorIs(t, err, lookupcache.ErrBusy)
		client = netip.MustParseAddr("192.0.2.2")
		gids, took, err = ask(10)
		assert.Equal(t, []uint32{10}, gids)
		assert.Zero(t, took)
		require.NoError(t, err)

		g.Close() // does not wait for the lookups
		close(hang)
		synctest.Wait()
	})
}

// TestGroupsOfSameUser checks that a party does not wait for another's question
// for the same user, which waits for that party's share of the lookups.
func TestGroupsOfSameUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		g := NewUserGroups(func(uid uint32) ([]uint32, error) {
			if uid >= 100 {
				<-hang
			}
			return []uint32{uid}, nil
		}, nil)
		defer func() {
			g.Close()
			close(hang)
			synctest.Wait()
		}()
		many, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		for uid := range uint32(maxGroupLookups / 2) {
			go func() { _, _ = g.Of(t.Context(), many, 100+uid) }()
		}
		synctest.Wait()
		waits := make(chan error, 1)
		go func() {
			_, err := g.Of(t.Context(), many, 9)
			waits <- err
		}()
		synctest.Wait()
		start := time.Now()
		gids, err := g.Of(t.Context(), other, 9)
		require.NoError(t, err)
		assert.Equal(t, []uint32{9}, gids)
		assert.Zero(t, time.Since(start))
		assert.ErrorIs(t, <-waits, context.DeadlineExceeded)
		gids, err = g.Of(t.Context(), many, 9)
		require.NoError(t, err, "is known, whatever happened to the other question")
		assert.Equal(t, []uint32{9}, gids)
	})
}

// TestGroupsAllocate checks that cached groups cost no allocation.
func TestGroupsAllocate(t *testing.T) {
	groups := NewUserGroups(func(uint32) ([]uint32, error) { return make([]uint32, maxGroups), nil }, nil)
	defer groups.Close()
	g := newRig(t, newMemFS(), func(c *Config) { c.Groups = groups.Of })
	wire := (&nfs3.HandleArgs{Object: g.fh(memRoot)}).AppendTo(nil)
	call := oncrpc.Call{Proc: nfs3.ProcGetAttr, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 5}, Peer: g.peer, MaxReply: 1 << 20}
	rep := oncrpc.Reply{Head: make([]byte, 0, 512)}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		call.Args, rep.Head = xdr.NewReader(wire), rep.Head[:0]
		assert.NoError(t, nfsProgram{g.server}.ServeRPC(t.Context(), &call, &rep))
	}))
}

// TestHostGroups checks that hostGroups returns the groups that id prints for
// the user of this test.
func TestHostGroups(t *testing.T) {
	u, err := user.Current()
	require.NoError(t, err)
	out, err := exec.Command("id", "-G", u.Username).Output()
	require.NoError(t, err)
	var uid uint32
	_, err = fmt.Sscan(u.Uid, &uid)
	require.NoError(t, err)
	got, err := hostGroups(uid)
	require.NoError(t, err)
	assert.ElementsMatch(t, strings.Fields(string(out)), strings.Fields(strings.Trim(fmt.Sprint(got), "[]")))
	_, err = hostGroups(1<<32 - 2)
	assert.ErrorAs(t, err, new(user.UnknownUserIdError))
}
