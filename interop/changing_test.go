//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	staying  = 1000 // entries
	changing = 250
)

// TestChangingDirectory4 lists a large directory over NFSv4.2 while a process of the host
// makes, renames and removes entries in it: each listing must have each entry that stays,
// once.
func TestChangingDirectory4(t *testing.T) {
	sharedGuest(t)
	d := startDaemon(t, "--no-root-squash")
	dir := filepath.Join(d.dir, "large")
	require.NoError(t, os.Mkdir(dir, 0o755))
	mknod := func(name string, n int) error {
		return unix.Mknod(fmt.Sprintf("%s/%s-%05d", dir, name, n), unix.S_IFREG|0o644, 0)
	}
	var want strings.Builder
	for n := range staying {
		require.NoError(t, mknod("stays", n))
		fmt.Fprintf(&want, "stays-%05d\n", n)
		if n%(staying/changing) == 0 {
			require.NoError(t, mknod("old", n))
		}
	}
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for n := 0; ; n++ {
			at := n % staying
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Remove(fmt.Sprintf("%s/old-%05d", dir, at)) // most do not exist
			assert.NoError(t, mknod("new", at))
			assert.NoError(t, os.Rename(fmt.Sprintf("%s/new-%05d", dir, at), fmt.Sprintf("%s/moved-%05d", dir, at)))
			if at == staying/2 {
				for n := range staying {
					_ = os.Remove(fmt.Sprintf("%s/moved-%05d", dir, n))
				}
			}
		}
	})
	defer work.Wait()
	defer close(stop)
	s := d.guestSite().withVersion("4.2")
	for _, transport := range []string{"rdma", "tcp"} {
		s.mountInGuest(t, "/mnt", s.mountOptions(transport))
		// ls complains of entries that are gone before it looks at them.
		out, status := tryInGuest(t, "ls -1 /mnt/large >/tmp/list 2>/dev/null; grep stays /tmp/list | sort")
		assert.Zero(t, status)
		sameLines(t, want.String(), out)
		unmountInGuest(t, "/mnt")
	}
}
