package nfsrdma

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/journal"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/billy"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// someClient is the record of a client with locks.
var someClient = append([]byte{2, 0, 2, 2, 0, 0, 0, 1, 0, 0, 0, 0}, "client"...)

// newClientsFile creates a list of clients with records.
func newClientsFile(t *testing.T, records ...[]byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "clients")
	j, _, err := journal.Open(filepath.Dir(path), "clients", nfs4state.JournalHeader, nil)
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, j.Append(r))
	}
	require.NoError(t, j.Close())
	return path
}

// TestClientsDamaged checks that no client may reclaim if the list of clients is corrupt or
// of another version, and that the log says so; and that only the end is lost if a crash
// interrupted a write (R8881-8.4.3-5).
func TestClientsDamaged(t *testing.T) {
	damage := func(change func(b []byte) []byte) func(t *testing.T) string {
		return func(t *testing.T) string {
			path := newClientsFile(t, someClient, []byte{3, 0, 'x'}, []byte{3, 0, 'y'})
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, change(b), 0o600))
			return path
		}
	}
	for name, c := range map[string]struct {
		path    func(t *testing.T) string
		clients int
		says    bool
	}{
		"whole":   {damage(func(b []byte) []byte { return b }), 1, false},
		"torn":    {damage(func(b []byte) []byte { return b[:len(b)-1] }), 1, false},
		"damaged": {damage(func(b []byte) []byte { b[len(b)-50]++; return b }), 0, true},
		"header":  {damage(func(b []byte) []byte { b[0]++; return b }), 0, true},
		"unknown": {func(t *testing.T) string { return newClientsFile(t, someClient, []byte{200}) }, 0, true},
		"none":    {func(t *testing.T) string { return filepath.Join(t.TempDir(), "clients") }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			path := c.path(t)
			list, past, err := openClientList(path, nil, slog.New(slog.NewTextHandler(&said, nil)))
			require.NoError(t, err)
			defer list.Close()
			assert.Equal(t, c.clients, past.Clients())
			assert.Equal(t, c.says, bytes.Contains(said.Bytes(), []byte("cannot reclaim")), said.String())
		})
	}
	list, past, err := openClientList("", nil, slog.Default())
	require.NoError(t, err)
	assert.Nil(t, list)
	assert.Zero(t, past.Clients())
	list.Close()
	_, _, err = openClientList(filepath.Join(t.TempDir(), "missing", "clients"), nil, slog.Default())
	assert.ErrorContains(t, err, "missing/clients")
}

// TestCountersRestored checks what earlier servers' records say about this project's delegations.
// With an unreadable list, their lease may have been the longest. The file of development versions
// counts once: then the list has its lease. Any other file with that name is not touched.
func TestCountersRestored(t *testing.T) {
	for name, c := range map[string]struct {
		records [][]byte
		marker  string
		want    time.Duration
	}{
		"none":             {nil, "", 0},
		"recorded":         {[][]byte{nfs4state.AppendCounters(nil, time.Minute)}, "", time.Minute},
		"removed":          {[][]byte{nfs4state.AppendCounters(nil, time.Minute), nfs4state.AppendCounters(nil, 0)}, "", 0},
		"unknown":          {[][]byte{{200}}, "", delegserver.MaxLease},
		"old file":         {nil, "20s\n", 20 * time.Second},
		"older and longer": {[][]byte{nfs4state.AppendCounters(nil, time.Second)}, "20s\n", 20 * time.Second},
		"older, shorter":   {[][]byte{nfs4state.AppendCounters(nil, time.Minute)}, "20s\n", time.Minute},
		"another file":     {nil, "alice 20s\n", 0},
		"too long":         {nil, "1h\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := newClientsFile(t, c.records...)
			marker := filepath.Join(filepath.Dir(path), "grants")
			if c.marker != "" {
				require.NoError(t, os.WriteFile(marker, []byte(c.marker), 0o600))
			}
			for range 2 { // a crash before the first State has begun changes nothing
				list, past, err := openClientList(path, nil, silent)
				require.NoError(t, err)
				assert.Equal(t, c.want, past.Counters)
				list.Close()
			}
			if c.marker != "" && c.want == 0 {
				assert.FileExists(t, marker)
			} else {
				assert.NoFileExists(t, marker)
			}
		})
	}
}

// TestClientsDamagedAgain checks that a crash between the opening of a damaged list and the first
// State's records does not hide the damage.
func TestClientsDamagedAgain(t *testing.T) {
	path := newClientsFile(t, nfs4state.AppendCounters(nil, time.Minute))
	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	for range 2 {
		list, past, err := openClientList(path, nil, silent)
		require.NoError(t, err)
		assert.True(t, past.Unknown)
		assert.Equal(t, delegserver.MaxLease, past.Counters)
		list.Close()
	}
	assert.FileExists(t, path+".damaged")
}

// TestClientsFull checks that the list is created as soon as there is disk space.
func TestClientsFull(t *testing.T) {
	vfstest.NeedRoot(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("nfsrdma-test", dir, "tmpfs", 0, "size=16k"))
	defer func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	ballast := filepath.Join(dir, "ballast")
	require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600), unix.ENOSPC)
	marker := filepath.Join(dir, "grants")
	require.NoError(t, os.Truncate(ballast, 0))
	require.NoError(t, os.WriteFile(marker, []byte("20s\n"), 0o600))
	require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600), unix.ENOSPC)
	list, past, err := openClientList(filepath.Join(dir, "clients"), nil, slog.Default())
	require.NoError(t, err)
	defer list.Close()
	assert.Zero(t, past.Clients())
	assert.Equal(t, 20*time.Second, past.Counters)
	assert.FileExists(t, marker, "its lease is not in the list yet")
	records := func() [][]byte { return [][]byte{someClient} }
	require.ErrorIs(t, list.Replace(records), unix.ENOSPC)
	require.NoError(t, os.Remove(ballast))
	require.NoError(t, list.Replace(records))
	require.NoError(t, list.Append(someClient))
	assert.Positive(t, list.Size())

	var said bytes.Buffer
	list.log = slog.New(slog.NewTextHandler(&said, nil))
	list.reportStorage(errors.New("the disk is full"))
	list.reportStorage(nil)
	assert.Regexp(t, `level=ERROR.*the disk is full"?\n.*level=INFO.*written again`, said.String())
}

func TestEpoch4(t *testing.T) {
	now := time.Unix(1000, 0)
	assert.EqualValues(t, 1000, nextEpoch(&nfs4state.Past{}, now))
	assert.EqualValues(t, 1001, nextEpoch(&nfs4state.Past{Epoch: 1000}, now), "two starts in one second")
	assert.EqualValues(t, 5001, nextEpoch(&nfs4state.Past{Epoch: 5000}, now), "a clock that was reset")
	assert.EqualValues(t, 1, nextEpoch(&nfs4state.Past{}, time.Unix(0, 0)))
}

// TestRecoveryBilly checks that files and locks of a file system other than posix are
// reclaimed after a restart.
func TestRecoveryBilly(t *testing.T) {
	fs, err := billy.New(memfs.New(), billy.Options{Volatile: true})
	require.NoError(t, err)
	cfg := ServerConfig{
		Exports: []nfsserver.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}},
		Key:     [32]byte{1}, Clients: filepath.Join(t.TempDir(), "clients"),
	}
	r := startServer(t, cfg)
	var at atomic.Pointer[string]
	at.Store(&r.tcp)
	dial := func() *nfs4client.Session {
		s, err := nfs4client.Dial(t.Context(), nfs4client.Config{
			Dial: func(ctx context.Context) (nfs4client.Conn, error) {
				c, err := oncrpc.DialTCP(ctx, *at.Load(), oncrpc.ClientConfig{})
				if err != nil {
					return nil, err
				}
				return c, nil
			},
			Network: "tcp", Minor: nfs4.Minor2, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, Log: silent,
		})
		require.NoError(t, err)
		return s
	}
	open := func(s *nfs4client.Session) *nfs4client.File {
		dir, err := s.Walk(t.Context(), "/x")
		require.NoError(t, err)
		f, err := s.Open(t.Context(), dir, "f", nfs4client.OpenFlags{Read: true, Write: true, Create: true, Mode: 0o666})
		require.NoError(t, err)
		return f
	}
	holder := dial()
	f := open(holder)
	byHolder := nfs4client.Range{End: 9}
	require.NoError(t, f.Lock(t.Context(), byHolder, true))
	require.NoError(t, r.Close())
	again := startServer(t, cfg)
	at.Store(&again.tcp)
	_, err = f.WriteAt(t.Context(), []byte("after"), 0, nfs4.FileSync)
	require.NoError(t, err)
	other := dial()
	assert.ErrorIs(t, open(other).Lock(t.Context(), byHolder, false), nfs4.ErrDenied)
	require.NoError(t, f.Close(t.Context()))
	assert.NoError(t, holder.Close(t.Context()))
	assert.NoError(t, other.Close(t.Context()))
}
