package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
)

// TestStateOfRemovedExport removes an export in which a client has a file open and
// locked, in each way that an administrator can, and adds the export again: the client
// has lost both, and another client locks the file.
//
// R8881-8.5-1.
func TestStateOfRemovedExport(t *testing.T) {
	for how, args := range map[string][]string{"exports remove": {"exports", "remove"}, "reload": {"reload"}, "SIGHUP": nil} {
		t.Run(how, func(t *testing.T) {
			g := newExportRemovalTest(t)
			session, opened := g.openFile(g.removedDir)
			g.lockFile(opened)
			_, kept := g.openFile(g.keptDir)

			switch how {
			case "exports remove":
				g.mustRun(append(args, g.removedDir)...)
			default:
				require.NoError(t, os.WriteFile(g.file, []byte(g.keptDir+g.clients), 0o600))
				g.reloadExports(args, 1)
			}
			_, err := opened.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
			assert.ErrorIs(t, err, nfs4.ErrStale)
			require.NoError(t, session.Sequence(t.Context()))
			assert.NotZero(t, session.Flags()&nfs4.SeqAdminStateRevoked)
			_, err = kept.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
			assert.NoError(t, err)

			if how == "exports remove" {
				g.mustRun("exports", "add", g.removedDir, g.client)
			} else {
				require.NoError(t, os.WriteFile(g.file, []byte(g.keptDir+g.clients+g.removedDir+g.clients), 0o600))
				g.reloadExports(args, 2)
			}
			_, again := g.openFile(g.removedDir)
			g.lockFile(again)
			_, err = opened.WriteAt(t.Context(), []byte("data"), 0, nfs4.FileSync)
			assert.ErrorIs(t, err, nfs4client.ErrRevoked)
		})
	}
}

// An exportRemovalTest is a daemon with two exports, kept and gone.
type exportRemovalTest struct {
	t                   *testing.T
	server              *testDaemon
	file, control       string
	keptDir, removedDir string
	client, clients     string
}

func newExportRemovalTest(t *testing.T) *exportRemovalTest {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGHUP) // in any case this process survives the signal
	t.Cleanup(func() { signal.Stop(caught) })
	root := t.TempDir()
	g := &exportRemovalTest{
		t: t, control: filepath.Join(root, "control"), keptDir: filepath.Join(root, "kept"), removedDir: filepath.Join(root, "gone"),
		client: "127.0.0.1(rw,insecure,no_root_squash)",
	}
	g.clients = " " + g.client + "\n"
	for _, dir := range []string{g.keptDir, g.removedDir} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	g.file = writeExports(t, root, g.keptDir+g.clients+g.removedDir+g.clients)
	g.server = startDaemon(t, "--exports", g.file, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--control", g.control)
	return g
}

// mustRun runs a command that must succeed.
func (g *exportRemovalTest) mustRun(args ...string) {
	g.t.Helper()
	code, stdout, stderr := runCommand(g.t, append(args, "--control", g.control)...)
	require.Equal(g.t, cli.ExitOK, code, stdout+stderr)
}

// reloadExports has the daemon read the file of exports, by a command or by SIGHUP, which then
// has n exports.
func (g *exportRemovalTest) reloadExports(args []string, n int) {
	g.t.Helper()
	if args != nil {
		g.mustRun(args...)
	} else {
		require.NoError(g.t, unix.Kill(unix.Getpid(), unix.SIGHUP))
	}
	require.Eventually(g.t, func() bool { return len(getStatus(g.t, g.control).Exports) == n }, 30*time.Second, time.Millisecond)
}

// openFile opens a file of an export for a new client.
func (g *exportRemovalTest) openFile(export string) (*nfs4client.Session, *nfs4client.File) {
	g.t.Helper()
	s, err := nfsrdma.DialV4(g.t.Context(), g.server.transportAddr(g.t, "tcp"), nfs4.Minor2, nfsrdma.ClientConfig{TCP: true})
	require.NoError(g.t, err)
	g.t.Cleanup(func() { s.Close(g.t.Context()) })
	h, err := s.Walk(g.t.Context(), export)
	require.NoError(g.t, err)
	f, err := s.Open(g.t.Context(), h, "f", nfs4client.OpenFlags{Read: true, Write: true, Create: true, Mode: 0o666})
	require.NoError(g.t, err)
	return s, f
}

// lockFile locks a file as soon as the host has released the locks of others.
func (g *exportRemovalTest) lockFile(f *nfs4client.File) {
	g.t.Helper()
	require.Eventually(g.t, func() bool { return f.Lock(g.t.Context(), nfs4client.Range{End: 9}, true) == nil }, 10*time.Second, 10*time.Millisecond)
}
