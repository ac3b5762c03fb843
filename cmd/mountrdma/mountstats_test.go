package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMountStats checks that each line of the counters has the format and length
// that the kernel's lines have, and the right values.
func TestMountStats(t *testing.T) {
	r, point := newMountTest(t)
	cmd := startForeground(t, r.addr+":/x/d", point, "-o", "soft")
	writeFile(t, make([]byte, 5000), point, "g")
	_, err := os.Stat(filepath.Join(point, "nosuch"))
	require.ErrorIs(t, err, os.ErrNotExist)
	text := mustRun(t, "mountstats", point)

	forms := []string{
		`device ` + regexp.QuoteMeta(r.addr) + `:/x/d mounted on ` + point + ` with fstype nfs statvers=1\.1`,
		`\topts:\trw,vers=3,rsize=\d+,wsize=\d+,namlen=255,acregmin=3,acregmax=60,acdirmin=30,acdirmax=60,soft,proto=rdma,nconnect=1,port=\d+,timeo=600,retrans=2,sec=sys,addr=127\.0\.0\.1`,
		`\tage:\t\d+`,
		`\tcaps:\tcaps=0x0,wtmult=4096,dtsize=\d+,bsize=0,namlen=255`,
		`\tsec:\tflavor=1,pseudoflavor=1`,
		`\tevents:\t\d+( \d+){26}`,
		`\tbytes:\t0 0 0 0 \d+ \d+ \d+ \d+`,
		`\tdelegation:\theld=0,asked=0,granted=0,refused=0,recalled=0,served=0,atomics=0`,
		`\tRPC iostats version: 1\.1  p/v: 100003/3 \(nfs\)`,
		`\txprt:\trdma \d+( \d+){26}`,
		`\tper-op statistics`,
	}
	lines := strings.Split(text, "\n")
	require.Len(t, lines, len(forms)+22+2)
	for i, form := range forms {
		assert.Regexp(t, "^"+form+"$", lines[i])
	}
	ops := make(map[string][]int)
	for _, line := range lines[len(forms) : len(forms)+22] {
		require.Regexp(t, `^\t +[A-Z0-9]+: \d+( \d+){8}$`, line)
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for _, n := range strings.Fields(rest) {
			number, err := strconv.Atoi(n)
			require.NoError(t, err)
			ops[name] = append(ops[name], number)
		}
	}
	assert.Positive(t, ops["WRITE"][0])
	assert.GreaterOrEqual(t, ops["WRITE"][3], 5000, "bytes sent")
	assert.Positive(t, ops["LOOKUP"][8], "errors")
	assert.Zero(t, ops["WRITE"][8])

	assertToolsParse(t, text, point)
	mustRun(t, "umount", point)
	require.NoError(t, cmd.Wait())
}

// assertToolsParse checks that the programs from nfs-utils, if installed, can read
// text.
func assertToolsParse(t *testing.T, text, point string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mountstats")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	if program, err := exec.LookPath("mountstats"); err != nil {
		t.Log("mountstats is not installed")
	} else {
		out, err := exec.CommandContext(t.Context(), program, "mountstats", "--file", file, point).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "Stats for")
		assert.Regexp(t, `WRITE:\n\t[1-9]\d* ops`, string(out))
	}
	program, err := exec.LookPath("nfsiostat")
	if err != nil {
		t.Log("nfsiostat is not installed")
		return
	}
	script, err := os.ReadFile(program) // it reads only this file
	require.NoError(t, err)
	moved := filepath.Join(t.TempDir(), "nfsiostat")
	require.NoError(t, os.WriteFile(moved, []byte(strings.ReplaceAll(string(script), "/proc/self/mountstats", file)), 0o700))
	out, err := exec.CommandContext(t.Context(), moved, point).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), " mounted on "+point+":")
}

// TestMountStatsErrors checks the errors for directories without counters.
func TestMountStatsErrors(t *testing.T) {
	dir := t.TempDir()
	status, _, stderr := runProcess(t, "mountrdma", "mountstats", dir)
	assert.Equal(t, 1, status)
	assert.Equal(t, "mountrdma: nothing is mounted on "+dir+"\n", stderr)
	status, _, stderr = runProcess(t, "mountrdma", "mountstats")
	assert.Equal(t, 2, status)
	assert.Equal(t, "mountrdma: mountstats needs one mount point\n", stderr)
	assert.Equal(t, `/a\040b\134c`, escapeOctal(`/a b\c`))
}
