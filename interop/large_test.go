//go:build interop

package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	largeEntries     = 20_000
	largeEntriesSoak = 1_000_000 // in make soak
	// largeMemory is the largest permitted memory of the daemon, and of
	// mountrdma without sorting, for directories of any size.
	largeMemory = 256 << 20 // bytes
)

// TestLargeDirectory checks that Linux's client by versions 3 and 4.2, and
// mountrdma with attributes and without, list each entry of a large directory
// once, and that neither the daemon nor mountrdma has the whole directory in
// memory.
func TestLargeDirectory(t *testing.T) {
	entries := largeEntries
	if os.Getenv("INTEROP_SOAK") != "" {
		entries = largeEntriesSoak
	}
	d := startDaemon(t, "--no-root-squash")
	dir := filepath.Join(d.dir, "large")
	require.NoError(t, os.Mkdir(dir, 0o755))
	logTime(t, "making it", func() {
		for n := range entries {
			require.NoError(t, unix.Mknod(fmt.Sprintf("%s/entry-%07d", dir, n), unix.S_IFREG|0o644, 0))
		}
	})
	s := d.guestSite()
	for _, vers := range []string{"", "4.2"} {
		for _, transport := range []string{"rdma", "tcp"} {
			s := s.withVersion(vers)
			s.mountInGuest(t, "/mnt", s.mountOptions(transport))
			logTime(t, fmt.Sprintf("Linux %s, %s", vers, transport), func() {
				const count = "find /mnt/large -type f >/tmp/list; wc -l </tmp/list; sort -u /tmp/list | wc -l" // find looks at each entry
				assert.Equal(t, fmt.Sprintf("%d\n%[1]d\n", entries), mustInGuest(t, count))
			})
			unmountInGuest(t, "/mnt")
		}
	}
	mustInGuest(t, "rm /tmp/list")
	for _, flags := range []string{"-U", "-lU"} {
		logTime(t, "mountrdma ls "+flags, func() {
			var names bytes.Buffer
			cmd := exec.Command(programPath("mountrdma"), "ls", flags, mountServer{addr: d.rdma, guestSite: s}.fileURL("large"))
			cmd.Stdout = &names
			require.NoError(t, cmd.Run())
			seen := make(map[string]bool)
			for line := range strings.Lines(names.String()) {
				words := strings.Fields(line)
				seen[words[len(words)-1]] = true
			}
			assert.Len(t, seen, entries)
			assert.Equal(t, entries, strings.Count(names.String(), "\n"))
			most := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
			t.Logf("mountrdma ls %s: %d bytes at most", flags, most)
			assert.Less(t, most, int64(largeMemory))
		})
	}
	most := d.peakMemory()
	t.Logf("nfsrdmad: %d bytes at most", most)
	assert.Less(t, most, int64(largeMemory))
	d.stopGracefully()
}
