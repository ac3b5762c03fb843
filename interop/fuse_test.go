//go:build interop

package interop

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	mountLimit = 30 * time.Second // for a mount to appear or disappear
	workLimit  = 3 * time.Minute  // for one program on a mount
)

// A fuseMount is a mount of this host, by mountrdma.
type fuseMount struct {
	t     *testing.T
	point string
	proc  *Process
	said  *sharedBuffer
}

// mountFUSE mounts the shop's export, until the test ends or umount.
func (s mountServer) mountFUSE(t *testing.T, options ...string) *fuseMount {
	t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	require.NoError(t, err)
	options = append(options, "retry=0", "port="+port)
	if s.mount != 0 {
		options = append(options, fmt.Sprintf("mountport=%d", s.mount))
	}
	m := &fuseMount{t: t, point: reachableDir(t), said: new(sharedBuffer)}
	m.startProgram(exec.Command(programPath("mountrdma"), host+":"+s.export, m.point, "--foreground", "-o", strings.Join(options, ",")))
	return m
}

// startProgram runs the program and waits for its ready line.
func (m *fuseMount) startProgram(cmd *exec.Cmd) {
	m.t.Helper()
	r, w, err := os.Pipe()
	require.NoError(m.t, err)
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, m.said
	m.proc, err = StartProcess(cmd)
	w.Close()
	require.NoError(m.t, err)
	m.t.Cleanup(m.forceUnmount)
	require.NoError(m.t, r.SetReadDeadline(time.Now().Add(mountLimit)))
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(m.t, err, "%s says: %s", cmd, m.said)
	require.Contains(m.t, line, "mounted")
}

// forceUnmount removes the mount, even if it is in use.
func (m *fuseMount) forceUnmount() {
	_ = unix.Unmount(m.point, unix.MNT_DETACH)
	m.proc.Kill()
	if m.t.Failed() {
		m.t.Logf("mountrdma at %s says:\n%s", m.point, outputTail(m.said.String()))
	}
}

// unmountFUSE unmounts; afterwards the server has all written data.
func (m *fuseMount) unmountFUSE() {
	m.t.Helper()
	require.NoError(m.t, unix.Unmount(m.point, 0))
	select {
	case <-m.proc.Done():
		assert.Zero(m.t, m.proc.ExitCode(), "%s", m.said)
	case <-time.After(mountLimit):
		m.proc.Signal(syscall.SIGQUIT) // for its stacks
		<-m.proc.Done()
		m.t.Fatalf("mountrdma still ran %v after the unmount", mountLimit)
	}
}

// reachableDir makes a directory that all users can reach, in contrast to
// t.TempDir's.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nfsrdma-mount-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// onHost runs a shell script in a directory of this host. A script that hangs
// is killed, as far as possible.
func onHost(t *testing.T, dir, script string) string {
	t.Helper()
	out, err := tryOnHost(dir, script)
	require.NoError(t, err, "%s\n%s", script, outputTail(out))
	return out
}

// tryOnHost is onHost for scripts that may fail, and for goroutines other than
// the test's.
func tryOnHost(dir, script string) (string, error) {
	var out sharedBuffer
	cmd := exec.Command("sh", "-euc", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.WaitDelay = time.Second // for leftover processes of the script
	p, err := StartProcess(cmd)
	if err != nil {
		return "", err
	}
	select {
	case <-p.Done():
	case <-time.After(workLimit):
		p.Kill()
		return out.String(), fmt.Errorf("not done after %v", workLimit)
	}
	if p.ExitCode() != 0 {
		return out.String(), fmt.Errorf("exit status %d", p.ExitCode())
	}
	return out.String(), nil
}
