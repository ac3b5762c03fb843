package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// TestExportsAlone changes an exports file while no daemon runs.
func TestExportsAlone(t *testing.T) {
	root := t.TempDir()
	a, control := filepath.Join(root, "a"), filepath.Join(root, "control")
	require.NoError(t, os.Mkdir(a, 0o755))
	file := filepath.Join(root, "exports")
	order := func(args ...string) (int, string) {
		status, stdout, stderr := runCommand(t, append(append([]string{"exports"}, args...), "--control", control, "--exports", file)...)
		return status, stdout + stderr
	}
	for _, wrong := range []struct {
		args []string
		want string
	}{
		{[]string{"add", a, "h(nonsense)"}, "nonsense"},
		{[]string{"add", filepath.Join(root, "none"), "*"}, "no such directory: create it"},
		{[]string{"remove", a}, "has no line for " + a},
	} {
		status, out := order(wrong.args...)
		assert.Equal(t, cli.ExitError, status)
		assert.Contains(t, out, wrong.want)
		assert.NoFileExists(t, file, "%v", wrong.args)
	}

	status, out := order("add", a, "192.0.2.0/24(rw)")
	assert.Equal(t, cli.ExitOK, status, out)
	assert.Equal(t, file+" was written; no nfsrdmad responds at "+control+
		", so the change takes effect at the next start: nfsrdmad serve --exports "+file+"\n", out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, a+" 192.0.2.0/24(rw)\n", string(text))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode(), "as /etc/exports")

	status, out = order("add", a, "192.0.2.0/24(ro)")
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, out, "twice")
	status, out = order("remove", a)
	assert.Equal(t, cli.ExitOK, status, out)
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Empty(t, text)

	file = filepath.Join(root, "none", "exports")
	status, out = order("add", a, "*")
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, out, "directory "+filepath.Dir(file))
	assert.Equal(t, "systemctl enable --now nfsrdmad", (&exportsEdit{file: defaultExports}).startCommand())
}

// TestExportsAloneNoLonger starts a daemon between the look for one and the write of its
// file: the daemon is told.
func TestExportsAloneNoLonger(t *testing.T) {
	root := t.TempDir()
	a, control := filepath.Join(root, "a"), filepath.Join(root, "control")
	require.NoError(t, os.Mkdir(a, 0o755))
	file := writeExports(t, root, "# none yet\n")
	e := exportsEdit{control: control, file: file}
	var out strings.Builder
	require.NoError(t, e.editFile(t.Context(), &out, func(f *exportsFile) error {
		startDaemon(t, "--exports", file, "--listen", "127.0.0.1:0", "--tcp", "", "--control", control)
		return f.addExport(a, []string{"*"})
	}))
	assert.Equal(t, "the files were reloaded\n", out.String())
	daemon, lines := listExports(t, control, file)
	assert.Equal(t, []string{a}, daemon)
	assert.Equal(t, daemon, lines)
}

// TestExportsAloneRefused starts a daemon between the look for one and the write of a new
// file, which the daemon refuses: the file goes. The same if the daemon ends instead.
func TestExportsAloneRefused(t *testing.T) {
	root := t.TempDir()
	file, control := filepath.Join(root, "exports"), filepath.Join(root, "control")
	e := exportsEdit{control: control, file: file}
	err := e.editFile(t.Context(), io.Discard, func(f *exportsFile) error {
		refuses := startFakeDaemon(t, file, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "refused", http.StatusConflict) })
		require.NoError(t, os.Symlink(refuses, control))
		return f.addExport(root, []string{"*"})
	})
	assert.ErrorContains(t, err, "refused")
	assert.NoFileExists(t, file)

	file = writeExports(t, root, "/a *\n")
	control = startFakeDaemon(t, file, http.NotFound)
	e = exportsEdit{control: control}
	err = e.editFile(t.Context(), io.Discard, func(f *exportsFile) error {
		require.NoError(t, os.Remove(control))
		return f.addExport("/b", []string{"*"})
	})
	assert.ErrorAs(t, err, new(noDaemonError))
	assert.NotContains(t, err.Error(), "may have the change")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "/a *\n", string(text))
}

// TestExportsChangedAtStart replaces the exports file when a daemon has read it, before
// the daemon takes orders: the daemon reads the new file without one.
func TestExportsChangedAtStart(t *testing.T) {
	root := t.TempDir()
	a, control, file := filepath.Join(root, "a"), filepath.Join(root, "control"), filepath.Join(root, "exports")
	require.NoError(t, os.Mkdir(a, 0o755))
	require.NoError(t, unix.Mkfifo(file, 0o600))
	next := writeExports(t, t.TempDir(), a+" *\n")
	replaced := make(chan error, 1)
	go func() {
		pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // waits for the daemon
		if err == nil {
			err = os.Rename(next, file)
			pipe.Close() // now the daemon has read the old file
		}
		replaced <- err
	}()
	startDaemon(t, "--exports", file, "--listen", "127.0.0.1:0", "--tcp", "", "--control", control)
	require.NoError(t, <-replaced)
	assert.Eventually(t, func() bool {
		daemon, _ := listExports(t, control, file)
		return len(daemon) == 1 && daemon[0] == a
	}, time.Minute, 10*time.Millisecond)
}

// TestOrderWhileStarting checks that an order waits until the daemon takes orders.
func TestOrderWhileStarting(t *testing.T) {
	p := &runningDaemon{reloadsReady: make(chan struct{})}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.handleReload(httptest.NewRequestWithContext(gone, "POST", "/reload", nil))
	assert.ErrorIs(t, err, context.Canceled)

	result := make(chan error)
	go func() {
		_, err := p.handleReload(httptest.NewRequestWithContext(t.Context(), "POST", "/reload", nil))
		result <- err
	}()
	select {
	case err := <-result:
		require.Fail(t, "the order has not waited", "%v", err)
	case <-time.After(10 * time.Millisecond):
	}
	orders := make(chan reloadOrder, 1)
	p.orders.Store(&orders)
	close(p.reloadsReady)
	(<-orders).done <- nil
	assert.NoError(t, <-result)
}
