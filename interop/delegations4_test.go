//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// delegatedFiles is how many files TestDelegations4 opens again and again.
const delegatedFiles = 300

// TestDelegations4 opens files again and again over NFSv4.2: Linux does so without a
// call, and still sees each change by others at its next open.
//
// R8267-6.5.2-1, R8881-10.2-4.
func TestDelegations4(t *testing.T) {
	sharedGuest(t)
	for _, c := range []struct {
		transport string
		flags     []string
	}{{"rdma", nil}, {"tcp", nil}, {"rdma", []string{"--exclusive"}}} {
		t.Run(strings.Join(append([]string{c.transport}, c.flags...), " "), func(t *testing.T) {
			d := startDaemon(t, append(c.flags, "--no-root-squash")...)
			onHost(t, d.dir, fmt.Sprintf("mkdir d; for n in $(seq %d); do echo content $n >d/$n; done", delegatedFiles))
			s := d.guestSite()
			s.withVersion("4.2").mountInGuest(t, "/mnt", s.withVersion("4.2").mountOptions(c.transport))
			s.mountInGuest(t, "/mnt2", s.mountOptions("tcp", "actimeo=0"))
			read := "cat /mnt/d/* >/dev/null"
			mustInGuest(t, "sleep 1; "+read) // files that were young
			mustInGuest(t, read)
			before := callsOf(t, "/mnt")
			for range 3 {
				mustInGuest(t, read)
			}
			after := callsOf(t, "/mnt")
			assert.Zero(t, after["OPEN"]-before["OPEN"])
			assert.Zero(t, after["READ"]-before["READ"])
			assert.Less(t, sumCalls(after)-sumCalls(before), 3*delegatedFiles/20)

			changes := map[string]func(t *testing.T, n int){
				"by version 3": func(t *testing.T, n int) { mustInGuest(t, fmt.Sprintf("echo changed >/mnt2/d/%d", n)) },
				"renamed by version 3": func(t *testing.T, n int) {
					mustInGuest(t, fmt.Sprintf("echo changed >/mnt2/new; mv /mnt2/new /mnt2/d/%d", n))
				},
			}
			if c.flags == nil {
				path := func(n int) string { return filepath.Join(d.dir, "d", strconv.Itoa(n)) }
				changes["by a process of the host"] = func(t *testing.T, n int) {
					require.NoError(t, os.WriteFile(path(n), []byte("changed\n"), 0o644))
				}
				changes["renamed by a process of the host"] = func(t *testing.T, n int) {
					file := filepath.Join(d.dir, "new")
					require.NoError(t, os.WriteFile(file, []byte("changed\n"), 0o644))
					require.NoError(t, unix.Rename(file, path(n)))
				}
			}
			n := 0
			for name, change := range changes {
				t.Run(name, func(t *testing.T) {
					for range 5 {
						n++
						require.Equal(t, fmt.Sprintf("content %d\n", n), mustInGuest(t, fmt.Sprintf("cat /mnt/d/%d", n)))
						change(t, n)
						eventually(t, func() bool { return mustInGuest(t, fmt.Sprintf("cat /mnt/d/%d", n)) == "changed\n" }, daemonLimit, pollEvery)
					}
				})
			}
			unmountInGuest(t, "/mnt2")
			unmountInGuest(t, "/mnt")
			d.stopGracefully()
			assert.NotContains(t, d.stderr.String(), "level=WARN")
		})
	}
}

// callsOf returns how many calls of each kind a mount of the guest has made.
func callsOf(t *testing.T, point string) map[string]int {
	t.Helper()
	out := mustInGuest(t, "cat /proc/self/mountstats")
	_, out, ok := strings.Cut(out, " mounted on "+point+" ")
	require.True(t, ok)
	_, out, _ = strings.Cut(out, "per-op statistics\n")
	n := make(map[string]int)
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasSuffix(f[0], ":") {
			break
		}
		count, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		n[strings.TrimSuffix(f[0], ":")] = count
	}
	return n
}

// sumCalls returns the sum of calls.
func sumCalls(n map[string]int) (sum int) {
	for _, count := range n {
		sum += count
	}
	return sum
}
