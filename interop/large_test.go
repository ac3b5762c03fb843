//go:build interop

package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// TestLargeDirectory checks that Linux's client, and mountrdma with attributes
// and without, list each entry of a large directory once, and that neither the
// daemon nor mountrdma has the whole directory in memory.
func TestLargeDirectory(t *testing.T) {
	entries := largeEntries
	if os.Getenv("INTEROP_SOAK") != "" {
		entries = largeEntriesSoak
	}
	d := serve(t, "--no-root-squash")
	dir := filepath.Join(d.dir, "large")
	require.NoError(t, os.Mkdir(dir, 0o755))
	timed(t, "making it", func() {
		for n := range entries {
			require.NoError(t, unix.Mknod(fmt.Sprintf("%s/entry-%07d", dir, n), unix.S_IFREG|0o644, 0))
		}
	})
	s := d.site()
	for _, transport := range []string{"rdma", "tcp"} {
		s.mount(t, "/mnt", s.options(transport))
		timed(t, "Linux, "+transport, func() {
			const count = "find /mnt/large -type f | sort -u | wc -l" // find looks at each entry
			assert.Equal(t, strconv.Itoa(entries), strings.TrimSpace(must(t, count)))
		})
		umount(t, "/mnt")
	}
	for _, flags := range []string{"-U", "-lU"} {
		timed(t, "mountrdma ls "+flags, func() {
			var names bytes.Buffer
			cmd := exec.Command(program("mountrdma"), "ls", flags, shop{addr: d.rdma, site: s}.url("large"))
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
	most := d.peak()
	t.Logf("nfsrdmad: %d bytes at most", most)
	assert.Less(t, most, int64(largeMemory))
	d.stop()
}
