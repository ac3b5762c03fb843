//go:build interop

package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDelegationLocal makes processes of the server's host change files that a
// mount of an ordinary export caches under a lease of the kernel. The lease
// must be returned before a process continues, and the change must show at the
// next open.
func TestDelegationLocal(t *testing.T) {
	const lease = time.Second
	d := startDaemon(t, "--no-root-squash", fmt.Sprintf("--lease=%v", lease))
	m := mountServer{addr: d.rdma, guestSite: d.guestSite()}.mountFUSE(t)
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
	eventually(t, func() bool { see("again"); return leasesOf(t, here) == 1 }, mountLimit, pollEvery, "no delegation is held")
	reads := m.countCalls("READ")
	for range 20 {
		see("from the cache")
	}
	assert.Equal(t, reads, m.countCalls("READ"), "calls for held objects")

	for n := range 20 {
		open, err := os.Open(there) // otherwise the lease may be taken without a recall
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

	// A client that does not answer delays a process, but not forever. This file
	// has not been recalled yet: the more often a file was, the longer the client
	// does not ask for it.
	// The process exists before the file is open: a child that begins would close its copy
	// of the descriptor, and wait for the client to hear of that.
	here, there = filepath.Join(d.dir, "late"), filepath.Join(m.point, "late")
	write("echo early >late")
	late := exec.Command("sh", "-c", "read go; echo late >>late")
	late.Dir = d.dir
	begin, err := late.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, late.Start())
	open, err := os.Open(there)
	require.NoError(t, err)
	eventually(t, func() bool { see("again"); return leasesOf(t, here) == 1 }, mountLimit, pollEvery, "no delegation is held")
	m.proc.Stop()
	began, done := time.Now(), make(chan error, 1)
	go func() {
		_, _ = fmt.Fprintln(begin, "go")
		done <- late.Wait()
	}()
	require.Eventually(t, func() bool { return isLeaseBreaking(t, here) }, mountLimit, time.Millisecond, "a process does not wait")
	require.NoError(t, <-done)
	t.Logf("a process waited %v for a client that was stopped", time.Since(began))
	m.proc.Signal(unix.SIGCONT)
	see("data written meanwhile")
	require.NoError(t, open.Close())

	m.unmountFUSE()
	require.Eventually(t, func() bool { return leasesOf(t, here) == 0 }, closeLimit, pollEvery, "a lease is left")
	d.stopGracefully()
}

// TestDelegationLocalReaders makes a process of the server's host count in a
// file while two mounts open and read the file repeatedly. No reader may see
// less than the content at its open.
func TestDelegationLocalReaders(t *testing.T) {
	const writes, readers = 400, 2
	d := startDaemon(t, "--no-root-squash", "--lease=1s")
	s := mountServer{addr: d.rdma, guestSite: d.guestSite()}
	var begun, done atomic.Int64
	here := filepath.Join(d.dir, "f")
	write := func(n int64) error {
		begun.Store(n)
		f, err := os.OpenFile(here, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f, "%08d", n)
		err = errors.Join(err, f.Close())
		done.Store(n)
		return err
	}
	require.NoError(t, write(0))

	var wg sync.WaitGroup
	var reads atomic.Int64
	var mounts []*fuseMount
	for range 2 {
		m := s.mountFUSE(t)
		mounts = append(mounts, m)
		for range readers {
			wg.Go(func() {
				for done.Load() < writes {
					least := done.Load()
					b, err := os.ReadFile(filepath.Join(m.point, "f"))
					most := begun.Load()
					if !assert.NoError(t, err) {
						return
					}
					n, err := strconv.ParseInt(string(b), 10, 64)
					assert.NoError(t, err)
					assert.True(t, least <= n && n <= most, "%d, after %d complete and %d begun writes", n, least, most)
					reads.Add(1)
				}
			})
		}
	}
	for n := range int64(writes) {
		for before := reads.Load(); reads.Load() < before+readers && !t.Failed(); {
			runtime.Gosched()
		}
		if err := write(n + 1); !assert.NoError(t, err) {
			done.Store(writes)
		}
	}
	wg.Wait()
	t.Logf("%d reads", reads.Load())
	for _, m := range mounts {
		t.Logf("%d READ", m.countCalls("READ"))
		m.unmountFUSE()
	}
	d.stopGracefully()
}

// leasesOf returns the number of leases on a file of this host.
func leasesOf(t *testing.T, file string) int { return len(leaseLines(t, file, "")) }

// isLeaseBreaking reports whether a process waits for a file's lease.
func isLeaseBreaking(t *testing.T, file string) bool { return len(leaseLines(t, file, "BREAKING")) > 0 }

func leaseLines(t *testing.T, file, state string) [][]byte {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(file, &st))
	locks, err := os.ReadFile("/proc/locks")
	require.NoError(t, err)
	line := fmt.Sprintf(`(?m)^\d+: LEASE +%s.* %02x:%02x:%d `, state, unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	return regexp.MustCompile(line).FindAll(locks, -1)
}

// countCalls returns how often the mount has called a procedure.
func (m *fuseMount) countCalls(proc string) int {
	m.t.Helper()
	out, err := exec.Command(programPath("mountrdma"), "mountstats", m.point).Output()
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
