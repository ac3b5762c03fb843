package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUnits checks that the units start existing programs with known flags, and
// that systemd accepts them if systemd-analyze is installed.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"nfsrdmad.service", "nfsrdmad.socket", "nfsrdma-bridge@.service", "nfsrdmad-tcp.socket", "nfsrdma-bridge@.socket", "nfsrdmad-cert-renew.service", "nfsrdmad-cert-renew.timer"} {
		text, err := os.ReadFile(filepath.Join("../../contrib/systemd", name))
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^FileDescriptorName=(.*)$`).FindAllStringSubmatch(string(text), -1) {
			assert.Contains(t, passableSockets, m[1])
		}
		if strings.HasSuffix(name, ".service") && !strings.Contains(string(text), "\nType=oneshot\n") {
			assert.Contains(t, string(text), "\nFileDescriptorStoreMax=", "%s: the ports must stay taken during a restart", name)
		}
		if m := regexp.MustCompile(`(?m)^ExecStart=\S*/nfsrdmad (.*)$`).FindStringSubmatch(string(text)); m != nil {
			args := strings.Fields(strings.ReplaceAll(m[1], `""`, ""))
			cmd, rest, err := newRoot().Find(args)
			require.NoError(t, err)
			assert.True(t, cmd.Runnable(), m[1])
			for _, a := range rest {
				if word, ok := strings.CutPrefix(a, "--"); ok {
					assert.NotNil(t, cmd.Flags().Lookup(word), a)
				}
			}
		}
		// The program may be missing on this host, and its systemd may be older than 254.
		text = regexp.MustCompile(`(?m)^(ExecStart|ExecReload|ExecCondition)=\S*/(nfsrdmad|mountrdma)`).ReplaceAll(text, []byte("$1=/bin/true"))
		text = regexp.MustCompile(`(?m)^(RestartSteps|RestartMaxDelaySec)=.*\n`).ReplaceAll(text, nil)
		files = append(files, filepath.Join(dir, name))
		require.NoError(t, os.WriteFile(files[len(files)-1], text, 0o600))
	}
	// The instances of templates are what is verified.
	for i, name := range files {
		files[i] = strings.Replace(name, "@.", "@x.", 1)
		require.NoError(t, os.Rename(name, files[i]))
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed")
		return
	}
	out, err := exec.CommandContext(t.Context(), analyze, append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
	assert.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), dir, "a complaint about a unit")
}

// TestPackagedExports checks that an installation serves nothing.
func TestPackagedExports(t *testing.T) {
	exports, err := readExports("../../contrib/package/exports")
	require.NoError(t, err)
	assert.Empty(t, exports.Exports)
}
