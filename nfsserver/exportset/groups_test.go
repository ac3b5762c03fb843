package exportset

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

	"github.com/nfsrdma/nfsrdma/internal/lookupcache"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		assert.Equal(t, groupLookupTimeout, took)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.Contains(t, log.String(), "uid=200")

		// All lookups hang, although no call waits for them any more.
		_, took, err = ask(7)
		assert.Equal(t, groupLookupTimeout, took)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		gids, took, err = ask(5)
		assert.Equal(t, []uint32{5}, gids, "is known")
		assert.Zero(t, took)
		require.NoError(t, err)

		// Another client group is not affected, even if the first one requests as many users as
		// it may.
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

// TestGroupsOfSameUser checks that a client group does not wait for another's query for the
// same user, which waits for that group's share of the lookups.
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

// TestGroupFailuresFillNoLog asks about very many users while the user database is
// down.
func TestGroupFailuresFillNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		g := NewUserGroups(func(uint32) ([]uint32, error) { return nil, errors.New("down") }, slog.New(slog.NewTextHandler(&log, nil)))
		defer g.Close()
		for uid := range uint32(1000) {
			_, err := g.Of(t.Context(), netip.MustParseAddr("192.0.2.1"), uid)
			assert.ErrorContains(t, err, "down")
		}
		synctest.Wait()
		assert.LessOrEqual(t, strings.Count(log.String(), "\n"), 20)
		assert.Contains(t, log.String(), "uid=0")
	})
}

// TestHostGroups checks that hostGroups returns the groups that id prints for this test's user.
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
