package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// listExports returns the paths that a daemon exports, and those of its file.
func listExports(t *testing.T, control, file string) (daemon, lines []string) {
	t.Helper()
	_, out, _ := runCommand(t, "exports", "list", "--json", "--control", control)
	var d report.ExportList
	require.NoError(t, json.Unmarshal([]byte(out), &d))
	for _, e := range d.Exports {
		daemon = append(daemon, e.Path)
	}
	f, err := readExports(file)
	require.NoError(t, err)
	for _, e := range f.Exports {
		lines = append(lines, e.Path)
	}
	return daemon, lines
}

// A brokenWriter takes no byte.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestExportsEditAgrees checks that the daemon and its file say the same after orders at
// whose side something else fails.
func TestExportsEditAgrees(t *testing.T) {
	root := t.TempDir()
	dir := func(name string) string {
		path := filepath.Join(root, name)
		require.NoError(t, os.Mkdir(path, 0o755))
		return path
	}
	a, b, c, control := dir("a"), dir("b"), dir("c"), filepath.Join(root, "control")
	file := writeExports(t, t.TempDir(), a+" *\n")
	rules := filepath.Join(root, "idmapd.conf")
	require.NoError(t, os.WriteFile(rules, []byte("[General]\nDomain = example.org\n"), 0o644))
	startDaemon(t, "--exports", file, "--idmap", rules, "--listen", "127.0.0.1:0", "--tcp", "", "--control", control)

	require.NoError(t, os.Remove(rules))
	status, out, stderr := runCommand(t, "exports", "add", b, "*", "--control", control)
	assert.Equal(t, cli.ExitOK, status, "another file is wrong: %s%s", out, stderr)
	daemon, lines := listExports(t, control, file)
	assert.Equal(t, []string{a, b}, daemon)
	assert.Equal(t, daemon, lines)

	var errs strings.Builder
	run(t.Context(), []string{"exports", "add", c, "*", "--control", control}, brokenWriter{}, &errs)
	daemon, lines = listExports(t, control, file)
	assert.Equal(t, []string{a, b, c}, daemon, "the answer cannot be printed")
	assert.Equal(t, daemon, lines)

	err := sendOrder(t.Context(), control, "exports/reload?sum="+sumSources(nil), io.Discard)
	assert.ErrorContains(t, err, "sees a different file as "+file)
	status, _, stderr = runCommand(t, "exports", "add", "", "*", "--control", control)
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "the directory is empty")
}

// TestExportsEditTogether adds lines at the same time, of which the daemon refuses half:
// these must not come back, and no other may get lost.
func TestExportsEditTogether(t *testing.T) {
	root := t.TempDir()
	a, control := filepath.Join(root, "a"), filepath.Join(root, "control")
	require.NoError(t, os.Mkdir(a, 0o755))
	file := writeExports(t, t.TempDir(), "")
	startDaemon(t, "--exports", file, "--listen", "127.0.0.1:0", "--tcp", "", "--control", control)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			status, _, stderr := runCommand(t, "exports", "add", a, fmt.Sprint("h", i), "--control", control)
			assert.Equal(t, cli.ExitOK, status, stderr)
		})
		all.Go(func() {
			status, _, _ := runCommand(t, "exports", "add", filepath.Join(root, "none"), fmt.Sprint("h", i), "--control", control)
			assert.Equal(t, cli.ExitError, status)
		})
	}
	all.Wait()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, 8, strings.Count(string(text), a+" h"), "%s", text)
	assert.NotContains(t, string(text), "none")
}

// startFakeDaemon answers at a socket with the name of a file, and does with the orders to read
// it what handle says.
func startFakeDaemon(t *testing.T, file string, handle http.HandlerFunc) (control string) {
	t.Helper()
	control = filepath.Join(t.TempDir(), "control")
	l, err := net.Listen("unix", control)
	require.NoError(t, err)
	m := http.NewServeMux()
	m.HandleFunc("GET /exports", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(&report.ExportList{Version: report.SchemaVersion, File: file})
	})
	m.HandleFunc("POST /exports/reload", handle)
	server := newHTTPServer(m, slog.New(slog.DiscardHandler))
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Close()
		done.Wait()
	})
	return control
}

// TestExportsEditInterrupted ends an order while the daemon applies the file: the old file
// comes back, and the daemon is told to read that.
func TestExportsEditInterrupted(t *testing.T) {
	const text = "# ours\n/a *\n"
	file := writeExports(t, t.TempDir(), text)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	control := startFakeDaemon(t, file, func(w http.ResponseWriter, r *http.Request) {
		now, _ := os.ReadFile(file)
		if seen = append(seen, string(now)); len(seen) == 1 {
			cancel()
			<-r.Context().Done()
		}
	})
	var out, errs strings.Builder
	assert.Equal(t, cli.ExitError, run(ctx, []string{"exports", "add", "/b", "*", "--control", control}, &out, &errs))
	assert.Equal(t, []string{text + "/b *\n", text}, seen, errs.String())
	now, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, text, string(now))
}

// TestExportsEditOthers has another program change the file while the daemon refuses a
// line: that change stays.
func TestExportsEditOthers(t *testing.T) {
	file := writeExports(t, t.TempDir(), "/a *\n")
	control := startFakeDaemon(t, file, func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, os.WriteFile(file, []byte("/other *\n"), 0o644))
		http.Error(w, "no", http.StatusConflict)
	})
	status, _, stderr := runCommand(t, "exports", "add", "/b", "*", "--control", control)
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "another program has changed")
	now, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "/other *\n", string(now))
}

// TestExportsEditLocked checks that a lock on the directory, which every user can take,
// does not block the command forever.
func TestExportsEditLocked(t *testing.T) {
	file := writeExports(t, t.TempDir(), "/a *\n")
	lock, err := lockDir(t.Context(), filepath.Dir(file))
	require.NoError(t, err)
	defer lock.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockDir(ctx, filepath.Dir(file))
	assert.ErrorContains(t, err, "lslocks")
}
