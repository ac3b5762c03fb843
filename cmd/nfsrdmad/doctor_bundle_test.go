package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// TestDoctorBundle writes a bundle by the command: it has the exports without their comments, and
// a second one does not replace it.
func TestDoctorBundle(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir := t.TempDir()
	file, bundle := filepath.Join(dir, "exports"), filepath.Join(dir, "doctor.tar.gz")
	require.NoError(t, os.WriteFile(file, []byte("# the password is hunter2\n"+dir+" *(ro)\n"), 0o600))
	args := []string{"doctor", "--exports", file, "--state", dir, "--listen", "127.0.0.1:0", "--tcp", "", "--bundle", bundle}
	_, stdout, _ := runCommand(t, args...)
	for _, name := range []string{"doctor.txt", "host.txt", "status.json", "command.txt", "units.txt", "unit-state.txt", "journal.txt"} {
		assert.Regexp(t, `(?m)^  `+name+` +\d+ bytes  `, stdout)
	}
	text, err := exec.CommandContext(t.Context(), "tar", "-xOzf", bundle).Output()
	require.NoError(t, err)
	assert.Contains(t, string(text), dir+" *(ro)\n")
	assert.NotContains(t, string(text), "hunter2")

	status, _, stderr := runCommand(t, args...)
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, stderr, bundle+" exists already: remove it, or give --bundle another name")
}
