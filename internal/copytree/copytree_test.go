package copytree

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// newServer returns an empty export on a server in this process.
func newServer(t *testing.T) Remote {
	t.Helper()
	s, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{
		Path: "/x", FS: mem.New(mem.Options{}), Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true}),
	}}})
	require.NoError(t, err)
	mux := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
	s.Register(mux)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv, served := &oncrpc.Server{Handler: mux}, make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	conn, err := oncrpc.DialTCP(t.Context(), l.Addr().String(), oncrpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, conn.Close())
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	root, err := nfsclient.NewMount(conn, nil).Mnt(t.Context(), "/x")
	require.NoError(t, err)
	fs, err := nfsclient.New(conn, nfsclient.Config{Window: WriteWindow}).FS(t.Context(), root, "")
	require.NoError(t, err)
	return Remote{FS: fs, Server: "server", Explain: func(path string, err error) error { return fmt.Errorf("%s: %w", path, err) }, Name: func(path string) string { return path }}
}

// writeRemoteFile creates a file on the server.
func writeRemoteFile(t *testing.T, r Remote, path string, data []byte) {
	t.Helper()
	f, err := r.FS.Create(t.Context(), path, 0o644)
	require.NoError(t, err)
	_, err = f.CopyFrom(t.Context(), bytes.NewReader(data), 0)
	require.NoError(t, err)
}

// localTree is this machine's files.
func localTree() Tree {
	return Host(func(name string, err error) error { return fmt.Errorf("%s: %w", name, err) })
}

// newCopier returns a Copier that adds the errors to the list, and reports none as
// lost.
func newCopier(t *testing.T, errs *[]error) *Copier {
	t.Helper()
	return New(t.Context(), Config{
		Recursive: true, Jobs: 1, Report: func(err error) { *errs = append(*errs, err) },
		Lost: func(context.Context, error) error { return nil },
	})
}

// TestSync checks that a copy puts each local file on stable storage before it
// is done, and reports a failure. Pipes and devices are not synced.
func TestSync(t *testing.T) {
	r := newServer(t)
	require.NoError(t, r.FS.Mkdir(t.Context(), "d", 0o755))
	writeRemoteFile(t, r, "d/a", bytes.Repeat([]byte("x"), 100000))
	writeRemoteFile(t, r, "d/empty", nil)
	there := t.TempDir()
	var mu sync.Mutex
	synced, syncedDirs := make(map[string]bool), make(map[string]bool)
	t.Cleanup(func() { syncFile = (*os.File).Sync })
	syncFile = func(f *os.File) error {
		info, err := f.Stat()
		mu.Lock()
		defer mu.Unlock()
		if info.IsDir() {
			syncedDirs[filepath.Base(f.Name())] = true
			return err
		}
		synced[fmt.Sprint(filepath.Base(f.Name()), " ", info.Size())] = true
		return err
	}
	var errs []error
	copyOne := func(from Tree, path string, to Tree, target string) error {
		c := newCopier(t, &errs)
		c.Copy(from, path, to, target)
		return c.Wait()
	}
	require.NoError(t, copyOne(r.Tree(), "d", localTree(), filepath.Join(there, "d")))
	assert.Equal(t, map[string]bool{"a.part 100000": true, "empty.part 0": true}, synced)
	assert.Equal(t, map[string]bool{filepath.Base(there): true, ".": true}, syncedDirs, "the names in them")
	require.NoError(t, copyOne(r.Tree(), "d/a", localTree(), "/dev/null"))
	require.NoError(t, copyOne(localTree(), filepath.Join(there, "d", "a"), r.Tree(), "up"))
	assert.Len(t, synced, 2)
	assert.Empty(t, errs)

	syncFile = func(*os.File) error { return unix.EIO }
	require.Error(t, copyOne(r.Tree(), "d/a", localTree(), filepath.Join(there, "b")))
	require.Len(t, errs, 1)
	assert.ErrorIs(t, errs[0], unix.EIO)
}

// TestGrown checks a file that has grown since it was listed.
func TestGrown(t *testing.T) {
	r := newServer(t)
	data := bytes.Repeat([]byte("0123456"), 3<<20/7)
	writeRemoteFile(t, r, "f", data)
	out := filepath.Join(t.TempDir(), "f")
	e, err := r.Tree().stat(t.Context(), "f", true)
	require.NoError(t, err)
	for _, size := range []int64{0, 1, 4096, 1<<20 - 1, 1 << 20, 3 << 20, 4 << 20} {
		e.size = size
		c := newCopier(t, new([]error))
		require.NoError(t, c.copyFile(r.Tree(), e, localTree(), out))
		require.NoError(t, c.Wait())
		got, err := os.ReadFile(out)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, got), size)
	}
}

// TestLost checks that an error that all further calls would share stops the copy,
// and is not reported.
func TestLost(t *testing.T) {
	lost := fmt.Errorf("lost")
	c := New(t.Context(), Config{
		Jobs: 1, Report: func(err error) { t.Error(err) },
		Lost: func(_ context.Context, err error) error { return fmt.Errorf("%w: %w", lost, err) },
	})
	c.Copy(localTree(), "/no/such", localTree(), "/no/such/either")
	assert.ErrorIs(t, c.Context().Err(), context.Canceled)
	err := c.Wait()
	assert.ErrorIs(t, err, lost)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestProgressMoves(t *testing.T) {
	var tty bytes.Buffer
	p := newProgress(&tty)
	for range 2 {
		p.addFile(100 << 20)
	}
	time.Sleep(redrawInterval)
	p.addBytes(50 << 20)
	p.countFile()
	time.Sleep(redrawInterval)
	p.addBytes(1)
	p.close(true)
	got := tty.String()
	assert.Contains(t, got, "1/2 files  25%")
	assert.Contains(t, got, "(50/200 MiB")
	assert.Contains(t, got, "100%", "at the end")
}

// TestSyncSparse checks that a growing copy with holes is put on stable storage too:
// Resume trusts all but its end.
func TestSyncSparse(t *testing.T) {
	r := newServer(t)
	writeRemoteFile(t, r, "f", bytes.Repeat([]byte("x"), syncInterval+1))
	e, err := r.Tree().stat(t.Context(), "f", true)
	require.NoError(t, err)
	e.used = 0
	var synced atomic.Int32
	t.Cleanup(func() { syncFile = (*os.File).Sync })
	syncFile = func(*os.File) error { synced.Add(1); return nil }
	c := newCopier(t, new([]error))
	require.NoError(t, c.copyFile(r.Tree(), e, localTree(), filepath.Join(t.TempDir(), "f")))
	require.NoError(t, c.Wait())
	assert.EqualValues(t, 3, synced.Load(), "while it grows, when it is complete, and its name")
}

// TestPartReplaced checks that attributes of a partial file never change the file to which
// a symbolic link leads that another user has put in its place.
func TestPartReplaced(t *testing.T) {
	dir := t.TempDir()
	victim, part := filepath.Join(dir, "victim"), filepath.Join(dir, "f.part")
	require.NoError(t, os.WriteFile(victim, nil, 0o600))
	f, err := localTree().createPart(t.Context(), part, 0o600, new(entry))
	require.NoError(t, err)
	defer f.closeFile()
	require.NoError(t, os.Remove(part))
	require.NoError(t, os.Symlink(victim, part))
	require.NoError(t, f.setAttr(t.Context(), attrChange{setMode: true, mode: 0o666}))
	info, err := os.Stat(victim)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode())
}
