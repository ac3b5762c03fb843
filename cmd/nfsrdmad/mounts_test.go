package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
)

// TestHiddenMounts checks that an administrator learns of mounts that clients do not see: one line
// for each export, which names the mounts and the remedy.
func TestHiddenMounts(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		dir, state := t.TempDir(), t.TempDir()
		for _, name := range []string{"a", "own", "proc", "plain"} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		}
		nstest.Script(t, "cd "+dir+"; mount -t tmpfs t a; mount -t tmpfs t own; mount -t proc p proc; mkdir own/in; mount -t tmpfs t own/in")
		defer nstest.Script(t, "cd "+dir+"; umount own/in own proc a")
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(dir, link))
		text := link + " *\n" + dir + "/own *\n" + dir + "/plain *\n"
		name := writeExports(t, t.TempDir(), text)
		upper := name + ":1: clients of " + link + " see empty directories in place of the mounts below it (" + dir + "/a): add crossmnt to its clients, or export each on its own line (warning)\n"
		lower := name + ":2: clients of " + dir + "/own see empty directories in place of the mounts below it (" + dir + "/own/in): add crossmnt to its clients, or export each on its own line (warning)\n"
		status, _, stderr := runCommand(t, "exports", "check", name)
		assert.Equal(t, []any{cli.ExitOK, upper + lower}, []any{status, stderr})

		_, stdout, _ := runCommand(t, "doctor", "--exports", name, "--state", state, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0")
		assert.Contains(t, stdout, "clients of "+link+" see empty directories in place of the mounts below it ("+dir+"/a): add crossmnt to its clients, or export each on its own line\n")
		assert.Contains(t, stdout, "clients of "+dir+"/own see")
		assert.NotContains(t, stdout, "clients of "+dir+"/plain")

		other := filepath.Join(t.TempDir(), "exports")
		status, _, stderr = runCommand(t, "exports", "add", "--control", state+"/none", "--exports", other, dir, "*(ro)")
		assert.Equal(t, []any{cli.ExitOK, other + ":1: clients of " + dir + " see empty directories in place of the mounts below it (" +
			dir + "/a, " + dir + "/own, " + dir + "/own/in): add crossmnt to its clients, or export each on its own line (warning)\n"}, []any{status, stderr})
		status, _, stderr = runCommand(t, "exports", "add", "--control", state+"/none", "--exports", other, dir+"/plain", "*(ro)")
		assert.Equal(t, []any{cli.ExitOK, ""}, []any{status, stderr}, "other lines were warned about when they were added")

		var d *testDaemon
		t.Run("log", func(t *testing.T) {
			d = startDaemon(t, "--exports", name, "--listen", "127.0.0.1:0", "--tcp", "")
		})
		assert.Contains(t, d.stderr.String(), "clients of "+dir+"/own see empty directories in place of the mounts below it ("+dir+"/own/in)")
	})
}
