//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHoles4 checks holes, copies and clones over NFSv4.2 of Linux's client, against the
// same work in a directory of the file system that is served: ext4, and XFS, whose files
// can share storage, each over one transport, and with INTEROP_SOAK over both. A copy
// moves no data over the network.
func TestHoles4(t *testing.T) {
	sharedGuest(t)
	transports := map[string][]string{"ext4": {"tcp"}, "xfs": {"rdma"}}
	if os.Getenv("INTEROP_SOAK") != "" {
		transports = map[string][]string{"ext4": {"rdma", "tcp"}, "xfs": {"rdma", "tcp"}}
	}
	for kind, transports := range transports {
		t.Run(kind, func(t *testing.T) {
			disk := newDiskOf(t, kind)
			local, dir := filepath.Join(disk.dir, "local"), filepath.Join(disk.dir, "served")
			for _, at := range []string{local, dir} {
				require.NoError(t, os.Mkdir(at, 0o755))
			}
			reference, err := tryOnHost("/", programPath("guestwork")+" holes "+local)
			require.NoError(t, err, reference)
			d := serveDir(t, dir, "--no-root-squash")
			s := d.guestSite().withVersion("4.2")
			for _, transport := range transports {
				t.Run(transport, func(t *testing.T) {
					s.mountInGuest(t, "/mnt", s.mountOptions(transport))
					mustInGuest(t, "mkdir /mnt/"+transport)
					sameLines(t, reference, mustInGuest(t, "guestwork holes /mnt/"+transport))
					for _, op := range []string{"SEEK", "ALLOCATE", "DEALLOCATE", "COPY", "CLONE"} {
						assert.Positive(t, countCalls4(t, op), op)
					}
					mustInGuest(t, "dd if=/dev/urandom of=/mnt/big bs=1M count=40 2>/dev/null && sync && echo 3 >/proc/sys/vm/drop_caches")
					reads, writes, copies := countCalls4(t, "READ"), countCalls4(t, "WRITE"), countCalls4(t, "COPY")
					mustInGuest(t, "guestwork copy /mnt/big /mnt/"+transport+"/big")
					assert.Equal(t, [2]int{reads, writes}, [2]int{countCalls4(t, "READ"), countCalls4(t, "WRITE")}, "no data is moved")
					assert.Greater(t, countCalls4(t, "COPY"), copies)
					mustInGuest(t, "cmp /mnt/big /mnt/"+transport+"/big && rm /mnt/big")
					unmountInGuest(t, "/mnt")
				})
			}
			d.stopGracefully()
			onHost(t, "/", "rm -r "+dir)
		})
	}
}

// countCalls4 returns how many calls of an operation the mount /mnt has made.
func countCalls4(t *testing.T, op string) int {
	t.Helper()
	stats := mustInGuest(t, `sed -n '/ mounted on \/mnt with /,/^device/p' /proc/self/mountstats`)
	m := regexp.MustCompile(fmt.Sprintf(`(?m)^\s+%s: (\d+) `, op)).FindStringSubmatch(stats)
	require.NotNil(t, m, "%s in\n%s", op, stats)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}
