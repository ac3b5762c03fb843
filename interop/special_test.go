//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSpecialRestart opens FIFOs and devices on a mount before, during and
// after the daemon's death by SIGKILL. It checks that an ordinary user opens
// only what the server allows, and that root opens all.
func TestSpecialRestart(t *testing.T) {
	const uid = 1001
	d := startDaemon(t, "--no-root-squash")
	require.NoError(t, os.Chmod(d.dir, 0o755))
	for name, f := range map[string]struct {
		mode uint32
		dev  uint64
	}{
		"closed": {unix.S_IFIFO | 0o600, 0},
		"open":   {unix.S_IFIFO | 0o666, 0},
		"kept":   {unix.S_IFCHR | 0o600, unix.Mkdev(1, 3)},
		"null":   {unix.S_IFCHR | 0o666, unix.Mkdev(1, 3)},
	} {
		require.NoError(t, unix.Mknod(filepath.Join(d.dir, name), f.mode, int(f.dev)))
		require.NoError(t, os.Chmod(filepath.Join(d.dir, name), os.FileMode(f.mode&0o777)))
	}
	m := mountServer{addr: d.rdma, guestSite: d.guestSite()}.mountFUSE(t, "allow_dev")

	// The shell enters the mount, rather than begins there: to start a process
	// there would wait for a dead daemon, and keep others from starting.
	const opens = `cd %s; for f in closed open kept null; do
out=$( (exec 3<>$f) 2>&1 && echo opened || true)
echo "$f: ${out##*: }"
done`
	script := fmt.Sprintf(opens, m.point)
	asUser := fmt.Sprintf("setpriv --reuid=%d --regid=%d --clear-groups sh -euc '%s'", uid, uid, script)
	const (
		wantUser = "closed: Permission denied\nopen: opened\nkept: Permission denied\nnull: opened\n"
		wantRoot = "closed: opened\nopen: opened\nkept: opened\nnull: opened\n"
	)
	check := func(when string) {
		t.Helper()
		assert.Equal(t, wantUser, onHost(t, "/", asUser), when)
		assert.Equal(t, wantRoot, onHost(t, "/", script), when)
		assert.Equal(t, wantUser, onHost(t, "/", asUser), "%s, after root", when)
	}
	descriptors := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.proc.PID()))
		require.NoError(t, err)
		return len(list)
	}
	check("before")
	had := descriptors()

	d.proc.Kill()
	type result struct {
		out string
		err error
	}
	byUser, byRoot := make(chan result, 1), make(chan result, 1)
	for script, to := range map[string]chan result{asUser: byUser, script: byRoot} {
		go func() {
			out, err := tryOnHost("/", script)
			to <- result{out, err}
		}()
	}
	d.startProcess()
	assert.Equal(t, result{out: wantUser}, <-byUser)
	assert.Equal(t, result{out: wantRoot}, <-byRoot)
	check("after")
	assert.Eventually(t, func() bool { return descriptors() <= had }, mountLimit, pollEvery, "files are left open")
	m.unmountFUSE()
}
