//go:build interop

package interop

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/workload"
)

// TestCredits runs with few and many calls in flight: Linux's client at nfsrdmad, both
// with the same number, and mountrdma at knfsd, which grants 64. With INTEROP_SOAK, also
// with a number between, and with calls one after the other.
func TestCredits(t *testing.T) {
	const (
		slots  = "/proc/sys/sunrpc/rdma_slot_table_entries"
		fewest = 4 // the least that Linux accepts; the server grants fewer anyway
	)
	sharedGuest(t)
	before := mustInGuest(t, "cat "+slots)
	t.Cleanup(func() { mustInGuest(t, "echo "+before+" >"+slots) })
	here := t.TempDir()
	require.NoError(t, workload.Run(here, &bytes.Buffer{}, "names"))
	want := hostDir(here).readManifest(t, "")

	credits, steps := []int{2, 256}, "parallel"
	if os.Getenv("INTEROP_SOAK") != "" {
		credits, steps = append(credits, 16), "parallel offsets"
	}
	for _, n := range credits {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			mustInGuest(t, fmt.Sprintf("echo %d >%s", max(n, fewest), slots))
			s := startDaemon(t, "--no-root-squash", fmt.Sprintf("--credits=%d", n)).guestSite()
			s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
			mustInGuest(t, "mkdir /mnt/work && guestwork run /mnt/work "+steps)
			unmountInGuest(t, "/mnt")

			k := knfsdShop(t)
			t.Cleanup(func() { k.runShell(t, "rm -rf there") })
			runMountrdma(t, "cp", "-r", "-p", "--jobs=64", fmt.Sprintf("--credits=%d", n), here, k.fileURL("there"))
			sameLines(t, want, k.readManifest(t, "there"))
		})
	}
}
