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

// TestCredits runs with few and many calls under way: Linux's client at
// nfsrdmad, both with the same number, and mountrdma at knfsd, which grants 64.
// With INTEROP_SOAK, also with a number between, and with calls one after the other.
func TestCredits(t *testing.T) {
	const (
		slots  = "/proc/sys/sunrpc/rdma_slot_table_entries"
		fewest = 4 // the least that Linux accepts; the server grants fewer anyway
	)
	guest(t)
	before := must(t, "cat "+slots)
	t.Cleanup(func() { must(t, "echo "+before+" >"+slots) })
	here := t.TempDir()
	require.NoError(t, workload.Run(here, &bytes.Buffer{}, "names"))
	want := hostDir(here).manifest(t, "")

	credits, steps := []int{2, 256}, "parallel"
	if os.Getenv("INTEROP_SOAK") != "" {
		credits, steps = append(credits, 16), "parallel offsets"
	}
	for _, n := range credits {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			must(t, fmt.Sprintf("echo %d >%s", max(n, fewest), slots))
			s := serve(t, "--no-root-squash", fmt.Sprintf("--credits=%d", n)).site()
			s.mount(t, "/mnt", s.options("rdma"))
			must(t, "mkdir /mnt/work && guestwork run /mnt/work "+steps)
			umount(t, "/mnt")

			k := knfsdShop(t)
			t.Cleanup(func() { k.shell(t, "rm -rf there") })
			mountrdma(t, "cp", "-r", "-p", "--jobs=64", fmt.Sprintf("--credits=%d", n), here, k.url("there"))
			sameLines(t, want, k.manifest(t, "there"))
		})
	}
}
