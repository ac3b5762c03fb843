//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
)

// A gatedClient client reaches the server only while its gate is open.
type gatedClient struct {
	*nfs4client.Session
	line tcpLine
	shut atomic.Bool
}

func newGated(t *testing.T, d *daemon) *gatedClient {
	g := new(gatedClient)
	g.Session = dialTCP4(t, func(ctx context.Context) (nfs4client.Conn, error) {
		for g.shut.Load() {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(time.Millisecond):
			}
		}
		return g.line.dialConn(ctx, d.tcp)
	})
	t.Cleanup(func() { closeSession(t, g.Session) })
	return g
}

// shutOut cuts the client off until its gate is open again.
func (g *gatedClient) shutOut() {
	g.shut.Store(true)
	g.line.resetConn()
}

// TestReclaimFull fills the file system of the state directory before the clients
// reclaim: those whose record finds no room wait until there is some, and lose
// nothing.
func TestReclaimFull(t *testing.T) {
	const clients = 96 // their records need more than a page, of which a full tmpfs still fills the rest
	d := startDaemon(t, "--no-root-squash")
	d.stopGracefully()
	state := d.flags[len(d.flags)-1]
	require.NoError(t, unix.Mount("tmpfs", state, "tmpfs", 0, "size=1m"))
	defer func() { assert.NoError(t, unix.Unmount(state, unix.MNT_DETACH)) }()
	d.startProcess()
	all := make([]*gatedClient, clients)
	files := make([]*nfs4client.File, clients)
	at := func(i int) nfs4client.Range { return nfs4client.Range{Start: uint64(i), End: uint64(i)} }
	for i := range all {
		all[i] = newGated(t, d)
		files[i] = openFile(t, all[i].Session, exportRoot(t, all[i].Session), "f", nfs4client.OpenFlags{})
		require.NoError(t, files[i].Lock(t.Context(), at(i), true))
	}
	for _, g := range all {
		g.shutOut()
	}
	d.proc.Kill()
	d.startProcess()
	ballast := filepath.Join(state, "ballast")
	require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 2<<20), 0o600), unix.ENOSPC)
	for _, g := range all {
		g.shut.Store(false)
	}
	var done atomic.Int64
	eventuallyWithin(t, progressLimit, func() error {
		var writes errgroup.Group
		for i, f := range files {
			writes.Go(func() error {
				_, err := f.WriteAt(t.Context(), []byte{byte(i)}, uint64(i), nfs4.FileSync)
				done.Add(1)
				return err
			})
		}
		return writes.Wait()
	}, func() {
		t.Logf("%d of %d clients have reclaimed before", done.Load(), clients)
		assert.Contains(t, d.stderr.String(), "level=ERROR")
		require.NoError(t, os.Remove(ballast))
	})
	other := newSession4(t, d, "tcp")
	f := openFile(t, other, exportRoot(t, other), "f", nfs4client.OpenFlags{})
	for i := range files {
		assert.ErrorIs(t, f.Lock(t.Context(), at(i), true), nfs4.ErrDenied, "the lock of client %d", i)
	}
}

// TestExportGoneInGrace takes an export away at SIGHUP before a client reclaims its
// files there: the client loses these and no others. When the export is back, it
// opens and locks them anew, and grace goes on for the client that is still away.
func TestExportGoneInGrace(t *testing.T) {
	dir := Served(t)
	for _, name := range []string{"kept", "gone"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o777))
	}
	file := filepath.Join(t.TempDir(), "exports")
	write := func(names ...string) {
		var lines strings.Builder
		for _, name := range names {
			fmt.Fprintf(&lines, "%s/%s *(rw,insecure,no_root_squash)\n", dir, name)
		}
		require.NoError(t, os.WriteFile(file, []byte(lines.String()), 0o644))
	}
	write("kept", "gone")
	socket := filepath.Join(t.TempDir(), "control")
	d := serveExports(t, dir, file, "--control", socket)
	reloads := 0
	reload := func(names ...string) {
		t.Helper()
		write(names...)
		d.proc.Signal(syscall.SIGHUP)
		reloads++
		require.Eventually(t, func() bool {
			return strings.Count(d.stderr.String(), "the exports were reloaded") == reloads
		}, daemonLimit, pollEvery, "%s", d.stderr)
	}
	in := func(s *nfs4client.Session, name string) *nfs4client.File {
		t.Helper()
		h, err := s.Walk(t.Context(), dir+"/"+name)
		require.NoError(t, err)
		return openFile(t, s, h, "f", nfs4client.OpenFlags{})
	}
	g, away, other := newGated(t, d), newGated(t, d), newSession4(t, d, "tcp")
	first, second := nfs4client.Range{End: 9}, nfs4client.Range{Start: 10, End: 19}
	kept, gone := in(g.Session, "kept"), in(g.Session, "gone")
	require.NoError(t, kept.Lock(t.Context(), first, true))
	require.NoError(t, gone.Lock(t.Context(), first, true))
	require.NoError(t, in(away.Session, "kept").Lock(t.Context(), second, true))
	g.shutOut()
	away.shutOut()
	d.proc.Kill()
	d.startProcess()
	reload("kept")
	g.shut.Store(false)
	require.NoError(t, useFile(t.Context(), kept))
	err := useFile(t.Context(), gone)
	require.Error(t, err)
	assert.False(t, errors.Is(err, errLost), "%v", err)
	t.Logf("the file in the export that is away: %v", err)

	reload("kept", "gone")
	again := in(g.Session, "gone")
	require.NoError(t, useFile(t.Context(), again))
	waitForRelease(t, func() error { return again.Lock(t.Context(), first, true) }, func() {
		out := onHost(t, "/", programPath("nfsrdmad")+" clients --control "+socket+" --end-grace")
		assert.Contains(t, out, "the grace period has ended")
	})
	assert.ErrorIs(t, in(other, "gone").Lock(t.Context(), first, false), nfs4.ErrDenied)
	theirs := in(other, "kept")
	assert.ErrorIs(t, theirs.Lock(t.Context(), first, false), nfs4.ErrDenied)
	assert.NoError(t, theirs.Lock(t.Context(), second, false), "of the client that is away")
	away.shut.Store(false)
}
