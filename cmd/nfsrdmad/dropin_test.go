package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A dropInTest is an exports file with drop-ins, and directories.
type dropInTest struct {
	t             *testing.T
	root          string
	file, control string
}

func newDropInTest(t *testing.T, text string, dropIns map[string]string) *dropInTest {
	root := t.TempDir()
	g := &dropInTest{t: t, root: root, control: filepath.Join(root, "control")}
	for _, name := range []string{"a", "b", "c", "d"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, name), 0o755))
	}
	g.file = writeExports(t, root, g.expand(text))
	require.NoError(t, os.Mkdir(g.file+".d", 0o755))
	for name, text := range dropIns {
		g.write(name, text)
	}
	return g
}

// expand replaces @ by the directory of the test.
func (g *dropInTest) expand(text string) string { return strings.ReplaceAll(text, "@", g.root) }

func (g *dropInTest) write(name, text string) {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(filepath.Join(g.file+".d", name), []byte(g.expand(text)), 0o644))
}

func (g *dropInTest) read(name string) string {
	g.t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(g.t, err)
	return strings.ReplaceAll(string(text), g.root, "@")
}

func (g *dropInTest) start() {
	startDaemon(g.t, "--exports", g.file, "--listen", "127.0.0.1:0", "--tcp", "", "--control", g.control)
}

// run runs a command for the daemon. In its output, @ is the directory of the test.
func (g *dropInTest) run(args ...string) (status int, out string) {
	g.t.Helper()
	for i := range args {
		args[i] = g.expand(args[i])
	}
	status, stdout, stderr := runCommand(g.t, append(args, "--control", g.control)...)
	return status, strings.ReplaceAll(stdout+stderr, g.root, "@")
}

// origins returns each exported path with its origin.
func (g *dropInTest) origins() []string {
	g.t.Helper()
	var list []string
	for _, e := range getStatus(g.t, g.control).Exports {
		list = append(list, strings.ReplaceAll(e.Path+" "+e.Origin, g.root, "@"))
	}
	return list
}

// TestDropIns checks which drop-ins are read, and that each command knows the file of an export.
func TestDropIns(t *testing.T) {
	g := newDropInTest(t, "@/a *\n", map[string]string{
		"20.exports": "# c\n@/c *(rw)\n", "10.exports": "@/b *", "30.exports~": "@/d *", ".40.exports": "@/d *", "README": "nothing",
	})
	g.start()
	assert.Equal(t, []string{"@/a @/exports:1", "@/b @/exports.d/10.exports:1", "@/c @/exports.d/20.exports:2"}, g.origins())
	_, out := g.run("exports", "list", "-v")
	assert.Regexp(t, `(?m)^@/c  \*\(rw,.*\)  @/exports.d/20.exports:2$`, out)
	_, out, _ = runCommand(t, "exports", "check", g.file)
	assert.Contains(t, out, "# "+g.file+".d/10.exports\n"+g.root+"/b *(ro,")

	status, out := g.run("exports", "remove", "@/c")
	assert.Equal(t, cli.ExitOK, status, out)
	assert.Equal(t, "# c\n", g.read(g.file+".d/20.exports"), "the file that has the line")
	status, out = g.run("exports", "add", "@/c", "*")
	assert.Equal(t, cli.ExitOK, status, out)
	assert.Equal(t, "@/a *\n@/c *\n", g.read(g.file))
	status, out = g.run("exports", "add", "@/b", "*")
	assert.Equal(t, cli.ExitError, status, "the drop-in has that client")
	assert.Contains(t, out, "@/exports.d/10.exports:1:")

	g.write("20.exports", "@/c 192.0.2.1\n")
	status, out = g.run("exports", "remove", "@/c")
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, out, "@/c is exported in @/exports and in @/exports.d/20.exports: remove its lines from all but one of them")
	_, out = g.run("exports", "remove", "@/d")
	assert.Contains(t, out, "@/exports, @/exports.d/10.exports, @/exports.d/20.exports has no line for @/d")
}

// TestDropInErrors checks that errors name the file and the line, that a reload with an error changes
// nothing, and that a start serves the rest.
func TestDropInErrors(t *testing.T) {
	g := newDropInTest(t, "@/a *\n", map[string]string{"1.exports": "\n@/b *(foo)\n"})
	g.start()
	assert.Equal(t, []string{"@/a @/exports:1", "@/b @/exports.d/1.exports:2"}, g.origins())
	assert.False(t, getStatus(t, g.control).Reload.Success, "the start had an error")
	_, out := g.run("reload")
	assert.Contains(t, out, "@/exports.d/1.exports:2:")
	g.write("1.exports", "@/b *\n")
	status, out := g.run("reload")
	require.Equal(t, cli.ExitOK, status, out)
	good := getStatus(t, g.control).Reload
	assert.True(t, good.Success)

	require.NoError(t, unix.Mkfifo(filepath.Join(g.file+".d", "2.exports"), 0o600))
	status, out = g.run("reload")
	assert.Equal(t, cli.ExitError, status, "a pipe")
	assert.Contains(t, out, "@/exports.d/2.exports is not a file: rename it")
	assert.Equal(t, []string{"@/a @/exports:1", "@/b @/exports.d/1.exports:1"}, g.origins())
	bad := getStatus(t, g.control).Reload
	assert.False(t, bad.Success)
	assert.Equal(t, good.LastSuccess, bad.LastSuccess)
}

// TestExportsUntilRestart checks that an export until restart survives reloads, but no restart, and
// that no file has it.
func TestExportsUntilRestart(t *testing.T) {
	g := newDropInTest(t, "@/a *\n", nil)
	g.start()
	status, out := g.run("exports", "add", "--until-restart", "@/b", "192.0.2.1(rw)")
	require.Equal(t, cli.ExitOK, status, out)
	status, out = g.run("exports", "add", "--until-restart", "@/b", "192.0.2.1(ro)")
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, out, "until restart:2:")
	status, out = g.run("exports", "add", "--until-restart", "@/none", "*")
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, out, "until restart: @/none: no such directory")
	for range 2 {
		assert.Equal(t, []string{"@/a @/exports:1", "@/b until restart"}, g.origins())
		status, out = g.run("reload")
		require.Equal(t, cli.ExitOK, status, out)
	}
	_, out = g.run("exports", "list")
	assert.Regexp(t, `(?m)^@/b  192.0.2.1\(rw\)  until restart$`, out)
	assert.Equal(t, "@/a *\n", g.read(g.file))

	status, out = g.run("exports", "remove", "@/b")
	assert.Equal(t, cli.ExitOK, status, out)
	assert.Equal(t, []string{"@/a @/exports:1"}, g.origins())
	status, out = g.run("exports", "remove", "@/b")
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, out, "@/exports has no line for @/b")
}

// TestExportsUntilRestartConflicts checks that a line of a file wins over one until restart, in
// whichever order they come, and that an export until restart can be removed when its directory is
// gone.
func TestExportsUntilRestartConflicts(t *testing.T) {
	g := newDropInTest(t, "@/a *\n", nil)
	g.start()
	run := func(args ...string) {
		t.Helper()
		status, out := g.run(args...)
		require.Equal(t, cli.ExitOK, status, out)
	}
	run("exports", "add", "--until-restart", "@/b", "192.0.2.1(rw)", "192.0.2.2(rw)")
	g.write("1.exports", "@/b 192.0.2.1(ro)\n")
	run("reload")
	_, out := g.run("exports", "list")
	assert.Regexp(t, `(?m)^@/b +192.0.2.1\(ro\)\n +192.0.2.2\(rw\)$`, out)
	require.NoError(t, os.Remove(filepath.Join(g.file+".d", "1.exports")))
	require.NoError(t, os.Remove(filepath.Join(g.root, "b")))
	run("reload")
	run("exports", "remove", "@/b")
	assert.Equal(t, []string{"@/a @/exports:1"}, g.origins())

	run("exports", "add", "--until-restart", "@/c", "*(fsid=7)")
	g.write("1.exports", "@/d *(fsid=7)\n")
	status, out := g.run("reload")
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, out, "until restart:1:")
	assert.Equal(t, []string{"@/a @/exports:1", "@/c until restart"}, g.origins(), "nothing has changed")
}

// TestExportsUntilRestartArguments checks the answer of a daemon whose exports are arguments.
func TestExportsUntilRestartArguments(t *testing.T) {
	control := filepath.Join(t.TempDir(), "control")
	startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--control", control, "mem:=/x")
	status, _, stderr := runCommand(t, "exports", "add", "--until-restart", "/srv", "*", "--control", control)
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, "start it with nfsrdmad serve --exports FILE")
	_, err := requestDaemon(t.Context(), control, http.MethodGet, "exports/temporary")
	assert.ErrorContains(t, err, "not nfsrdmad", "only by POST")
}

// TestExportsAny checks with which files nfsrdmad.service starts.
func TestExportsAny(t *testing.T) {
	g := newDropInTest(t, "# nothing\n", nil)
	status, _, stderr := runCommand(t, "exports", "any", g.file)
	assert.Equal(t, cli.ExitError, status)
	assert.Equal(t, "nfsrdmad: no export yet: nfsrdmad exports add /srv/data '192.0.2.0/24(rw)' adds one\n", stderr)
	assert.False(t, hasExport(filepath.Join(g.root, "none")))
	g.write("1.exports", "@/a *")
	assert.True(t, hasExport(g.file))
	g.write("1.exports", "a *")
	assert.True(t, hasExport(g.file), "the daemon names the error")
}
