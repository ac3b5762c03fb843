package main

import (
	"encoding/json"
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

// TestExportsOrders adds and removes exports of a running daemon: the file and the daemon
// always say the same, and what is wrong changes neither.
func TestExportsOrders(t *testing.T) {
	root := t.TempDir()
	a, b, control := filepath.Join(root, "a"), filepath.Join(root, "b c"), filepath.Join(root, "control")
	require.NoError(t, os.Mkdir(a, 0o755))
	require.NoError(t, os.Mkdir(b, 0o755))
	text := "# ours\n" + a + " *(ro)\n"
	real := writeExports(t, t.TempDir(), text)
	require.NoError(t, os.Chmod(real, 0o644))
	link := filepath.Join(root, "link")
	require.NoError(t, os.Symlink(real, link))
	startDaemon(t, "--exports", link, "--listen", "127.0.0.1:0", "--tcp", "", "--control", control)
	run := func(args ...string) (int, string) {
		status, stdout, stderr := runCommand(t, append(args, "--control", control)...)
		return status, stdout + stderr
	}
	file := func() string {
		b, err := os.ReadFile(real)
		require.NoError(t, err)
		return string(b)
	}
	list := func() (paths []string) {
		_, out := run("exports", "list", "--json")
		var d report.ExportList
		require.NoError(t, json.Unmarshal([]byte(out), &d))
		assert.Equal(t, link, d.File)
		for _, e := range d.Exports {
			paths = append(paths, e.Path)
		}
		return paths
	}
	assert.Equal(t, []string{a}, list())

	status, out := run("exports", "add", b, "192.0.2.0/24(rw)", "*")
	require.Equal(t, cli.ExitOK, status, out)
	assert.Equal(t, "the files were reloaded\n", out)
	added := text + root + "/b\\040c 192.0.2.0/24(rw) *\n"
	assert.Equal(t, added, file())
	assert.Equal(t, []string{a, b}, list())
	info, err := os.Lstat(real)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode(), "readers of the file")
	_, out = run("exports", "list")
	assert.Contains(t, out, `b c"  192.0.2.0/24(rw)`)

	for _, wrong := range []struct {
		args []string
		want string
	}{
		{[]string{"add", b, "192.0.2.0/24(ro)"}, "is exported to 192.0.2.0/24 twice"},
		{[]string{"add", a, "h(nonsense)"}, "nonsense"},
		{[]string{"add", a, "h(rw"}, "the options have no"},
		{[]string{"add", filepath.Join(root, "none"), "*(rw)"}, "the exports are unchanged"},
		{[]string{"add", a}, "'*(ro)' means every host"},
		{[]string{"remove", "/none"}, "has no line for /none"},
	} {
		status, out := run(append([]string{"exports"}, wrong.args...)...)
		assert.NotEqual(t, cli.ExitOK, status)
		assert.Contains(t, out, wrong.want)
		assert.Equal(t, added, file(), "%v", wrong.args)
		assert.Equal(t, []string{a, b}, list())
	}

	status, out = run("exports", "remove", b)
	require.Equal(t, cli.ExitOK, status, out)
	assert.Equal(t, text, file())
	assert.Equal(t, []string{a}, list())

	require.NoError(t, os.WriteFile(real, []byte(text+"nonsense\n"), 0o644))
	status, out = run("reload")
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, out, "the exports are unchanged:\n"+link+":3:1: ")
	assert.Equal(t, []string{a}, list())
	require.NoError(t, os.WriteFile(real, []byte(escapeSpaces(b)+" *\n"), 0o644))
	status, out = run("reload")
	assert.Equal(t, cli.ExitOK, status, out)
	assert.Equal(t, []string{b}, list())

	var all sync.WaitGroup
	for _, client := range strings.Fields("h1 h2 h3 h4 h5 h6 h7 h8") {
		all.Go(func() {
			status, out := run("exports", "add", a, client)
			assert.Equal(t, cli.ExitOK, status, out)
		})
	}
	all.Wait()
	assert.Equal(t, 8, strings.Count(file(), a+" h"), "lines added at the same time: %s", file())
}

// escapeSpaces writes a path for a file of exports.
func escapeSpaces(path string) string { return strings.ReplaceAll(path, " ", `\040`) }

// TestExportsOrdersWithoutFile checks that exports that would not outlive the daemon are
// refused.
func TestExportsOrdersWithoutFile(t *testing.T) {
	control := filepath.Join(t.TempDir(), "control")
	startDaemon(t, t.TempDir()+"=/x", "--listen", "127.0.0.1:0", "--tcp", "", "--control", control)
	for _, args := range [][]string{{"exports", "add", "/a", "*"}, {"exports", "remove", "/x"}} {
		status, _, stderr := runCommand(t, append(args, "--control", control)...)
		assert.Equal(t, cli.ExitError, status)
		assert.Contains(t, stderr, "start it with nfsrdmad serve --exports FILE")
	}
	status, _, stderr := runCommand(t, "reload", "--control", control)
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "no files to reload")
	status, stdout, _ := runCommand(t, "exports", "list", "--control", control)
	assert.Equal(t, cli.ExitOK, status)
	assert.True(t, strings.HasPrefix(stdout, "/x  *(rw,"), stdout)
}
