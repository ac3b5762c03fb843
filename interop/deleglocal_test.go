//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDelegationLocal has processes of the server's host change what a mount of an
// ordinary export keeps: under a lease of the kernel's, which is given back before they
// go on. What they have done shows at the next open.
func TestDelegationLocal(t *testing.T) {
	const lease = time.Second
	d := serve(t, "--no-root-squash", fmt.Sprintf("--lease=%v", lease))
	m := shop{addr: d.rdma, site: d.site()}.fuse(t)
	here, there := filepath.Join(d.dir, "f"), filepath.Join(m.point, "f")
	write := func(script string) {
		t.Helper()
		onHost(t, d.dir, script)
	}
	see := func(what string) {
		t.Helper()
		want, err := os.ReadFile(here)
		require.NoError(t, err)
		got, err := os.ReadFile(there)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), what)
	}

	write("seq 10000 >f; cp -p f reference")
	see("at first")
	require.Eventually(t, func() bool { see("again"); return leasesOf(t, here) == 1 }, mountLimit, pollEvery, "nothing is held")
	reads := m.calls("READ")
	for range 20 {
		see("from the cache")
	}
	assert.Equal(t, reads, m.calls("READ"), "calls for what is held")

	for n := range 20 {
		open, err := os.Open(there) // so that it must be asked for; else it may be taken
		require.NoError(t, err)
		if n%2 == 0 {
			require.NoError(t, open.Close())
		}
		for what, script := range map[string]string{
			"append":         "echo %d >>f",
			"overwrite":      "printf %04d | dd of=f conv=notrunc status=none",
			"cut and write":  "seq %d 9999 >f",
			"same times":     "printf %04d | dd of=f conv=notrunc status=none; touch -r reference f",
			"read and write": "exec 3<>f; printf %04d >&3",
		} {
			write(fmt.Sprintf(script, n))
			see(what)
		}
		require.NoError(t, os.Truncate(here, int64(n)))
		see("cut")
		_ = open.Close()
	}

	// A client that does not answer holds a process up, and not for ever.
	open, err := os.Open(there)
	require.NoError(t, err)
	require.Eventually(t, func() bool { see("again"); return leasesOf(t, here) == 1 }, mountLimit, pollEvery, "nothing is held")
	m.proc.Signal(unix.SIGSTOP)
	began, done := time.Now(), make(chan error, 1)
	go func() {
		_, err := tryOnHost(d.dir, "echo late >>f")
		done <- err
	}()
	require.Eventually(t, func() bool { return breaking(t, here) }, mountLimit, time.Millisecond, "a process does not wait")
	require.NoError(t, <-done)
	t.Logf("a process waited %v for a client that was stopped", time.Since(began))
	m.proc.Signal(unix.SIGCONT)
	see("what was written meanwhile")
	require.NoError(t, open.Close())

	m.umount()
	require.Eventually(t, func() bool { return leasesOf(t, here) == 0 }, closeLimit, pollEvery, "a lease is left")
	d.stop()
}

// leasesOf returns how many leases there are of a file of this host.
func leasesOf(t *testing.T, file string) int { return len(leaseLines(t, file, "")) }

// breaking tells whether somebody waits for the lease of a file.
func breaking(t *testing.T, file string) bool { return len(leaseLines(t, file, "BREAKING")) > 0 }

func leaseLines(t *testing.T, file, state string) [][]byte {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(file, &st))
	locks, err := os.ReadFile("/proc/locks")
	require.NoError(t, err)
	line := fmt.Sprintf(`(?m)^\d+: LEASE +%s.* %02x:%02x:%d `, state, unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	return regexp.MustCompile(line).FindAll(locks, -1)
}

// calls returns how often the mount has called a procedure.
func (m *fuseMount) calls(proc string) int {
	m.t.Helper()
	out, err := exec.Command(program("mountrdma"), "mountstats", m.point).Output()
	require.NoError(m.t, err)
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == proc+":" {
			n, err := strconv.Atoi(f[1])
			require.NoError(m.t, err)
			return n
		}
	}
	m.t.Fatalf("mountstats has no %s:\n%s", proc, out)
	return 0
}
