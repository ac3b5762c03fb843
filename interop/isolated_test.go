//go:build interop

package interop

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// isolatedPrograms tells a process that isolated has started the directory of
// the programs.
const isolatedPrograms = "INTEROP_ISOLATED_PROGRAMS"

// runIsolated runs test in a separate process, within limit, in namespaces that
// end with the process: port 111 and the socket of rpcbind may be in use on the
// host. The network is only the loopback device, and /run and /dev/shm are
// empty.
func runIsolated(t *testing.T, limit time.Duration, test func(t *testing.T)) {
	buildOnce(t)
	if os.Getenv(isolatedPrograms) != "" {
		bringUpLoopback(t)
		for _, dir := range []string{"/run", "/dev/shm"} {
			require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=1777"))
		}
		test(t)
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	var out sharedBuffer
	cmd := exec.Command("unshare", "--net", "--mount", self, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Stdout, cmd.Stderr = &out, &out
	// The files of a killed process are removed with this test's files.
	cmd.Env = append(os.Environ(), isolatedPrograms+"="+shared.dir, "TMPDIR="+t.TempDir())
	p, err := StartProcess(cmd)
	require.NoError(t, err)
	defer p.Kill()
	select {
	case <-p.Done():
		assert.Zero(t, p.ExitCode())
	case <-time.After(limit):
		t.Errorf("not done after %v", limit)
	}
	t.Logf("in the namespaces:\n%s", outputTail(out.String()))
}

// bringUpLoopback brings up the only device of a new network namespace.
func bringUpLoopback(t *testing.T) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	require.NoError(t, unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, lo))
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	require.NoError(t, unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo))
}
