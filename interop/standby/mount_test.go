//go:build interop

package standby

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop"
)

// A mount is mountrdma in its own process, with the list of servers.
type mount struct {
	*interop.Process
	t     *testing.T
	point string
	said  *output
}

// mountList mounts the export by a transport, until the test ends, and returns the mount point.
func mountList(t *testing.T, transport string) (point string) {
	t.Helper()
	m := &mount{t: t, point: filepath.Join(t.TempDir(), "mount-"+transport), said: new(output)}
	require.NoError(t, unix.Mkdir(m.point, 0o755))
	cmd := exec.Command(filepath.Join(programs, "mountrdma"), servers+":"+export, m.point, "--foreground", "-o", "retry=0,proto="+transport)
	cmd.Stderr = m.said
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	m.Process, err = interop.StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(m.end)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, "%s", m.said)
	require.Contains(t, line, "mounted")
	return m.point
}

func (m *mount) end() {
	_ = unix.Unmount(m.point, unix.MNT_DETACH)
	m.Kill()
	if m.t.Failed() {
		m.t.Logf("mountrdma at %s says:\n%s", m.point, m.said)
	}
}
