//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWriteDelegationsLocal4 makes processes of the server's host use files that Linux
// has under delegations for writing, over NFSv4.2. A process waits until Linux has
// returned the file, sees what was written before, and loses no byte of its own; if Linux
// is cut off, a process waits a lease at most.
func TestWriteDelegationsLocal4(t *testing.T) {
	const lease = 10 * time.Second
	sharedGuest(t)
	control := filepath.Join(t.TempDir(), "control")
	d := startDaemon(t, "--no-root-squash", "--delegations", "all", "--control", control, "--nfs4-lease", lease.String())
	r := newRelay(t, d.rdma, hiddenSupport{})
	s := d.guestSite().withVersion("4.2")
	s.rdma = portOf(t, r.addr)
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	path := func(name string) string { return filepath.Join(d.dir, name) }
	eventually(t, func() bool { // the backchannel is up
		mustInGuest(t, "echo x >/mnt/first")
		return statusOf(t, control).NFS4.Writes > 0
	}, daemonLimit, pollEvery)

	n := 0
	// closed makes a file of so many lines that has been closed.
	closed := func(t *testing.T, lines int) (name, content string) {
		t.Helper()
		n++
		name = fmt.Sprint("f", n)
		before := statusOf(t, control).NFS4.Granted
		mustInGuest(t, fmt.Sprintf("seq %d >/mnt/%s", lines, name))
		require.Equal(t, before+1, statusOf(t, control).NFS4.Granted, "a delegation of %s", name)
		var b strings.Builder
		for i := range lines {
			fmt.Fprintln(&b, i+1)
		}
		return name, b.String()
	}
	for _, lines := range []int{1, 1000, 300_000} {
		for range 4 {
			name, content := closed(t, lines)
			recalled := statusOf(t, control).NFS4.Recalled
			start := time.Now()
			got, err := exec.Command("cat", path(name)).Output()
			require.NoError(t, err)
			t.Logf("%d bytes: read after %.2f s", len(content), time.Since(start).Seconds())
			assert.True(t, content == string(got), "%d of %d bytes, or others", len(got), len(content))
			assert.Equal(t, recalled+1, statusOf(t, control).NFS4.Recalled)
			info, err := os.Stat(path(name))
			require.NoError(t, err)
			assert.EqualValues(t, len(content), info.Size())
		}
	}
	for range 4 {
		name, content := closed(t, 1000)
		out, err := exec.Command("sh", "-c", "echo by the host >>"+path(name)).CombinedOutput()
		require.NoError(t, err, "%s", out)
		mustInGuest(t, "echo by the client >>/mnt/"+name)
		want := content + "by the host\nby the client\n"
		assert.Equal(t, want, mustInGuest(t, "cat /mnt/"+name))
		got, err := os.ReadFile(path(name))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}

	name, _ := closed(t, 1000)
	r.silent.Lock()
	start := time.Now()
	got, err := os.ReadFile(path(name))
	waited := time.Since(start)
	r.silent.Unlock()
	r.resetAll()
	require.NoError(t, err)
	t.Logf("cut off: %d bytes after %.1f s", len(got), waited.Seconds())
	assert.Less(t, waited, lease+lease/2)
	assert.Equal(t, 1, statusOf(t, control).NFS4.Revoked)
	mustInGuest(t, "cat /mnt/"+name+"; echo more >/mnt/last")
	unmountInGuest(t, "/mnt")
	d.stopGracefully()
}
