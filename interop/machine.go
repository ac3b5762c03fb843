//go:build interop

package interop

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// scriptLimit is the time for one script in the guest.
const scriptLimit = 4 * time.Minute

// A Machine is a guest in a test.
type Machine struct {
	*testing.T
	*Guest
}

// Try runs a script in the guest.
func (m Machine) Try(script string, args ...any) (out string, status int) {
	m.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), scriptLimit, fmt.Errorf("not done after %v", scriptLimit))
	defer cancel()
	out, status, err := m.Exec(ctx, fmt.Sprintf(script, args...))
	require.NoError(m, err, "%s\n%s", script, out)
	return out, status
}

// Must runs a script in the guest that must succeed.
func (m Machine) Must(script string, args ...any) string {
	m.Helper()
	out, status := m.Try(script, args...)
	require.Zero(m, status, "%s\n%s", fmt.Sprintf(script, args...), out)
	return out
}

// As runs a command as a user in the guest.
func (m Machine) As(user, command string, args ...any) (out string, status int) {
	m.Helper()
	return m.Try("su -s /bin/sh -c '%s' %s", fmt.Sprintf(command, args...), user)
}

// May runs a command as a user in the guest, which must succeed.
func (m Machine) May(user, command string, args ...any) {
	m.Helper()
	out, status := m.As(user, command, args...)
	assert.Zero(m, status, "%s, as %s: %s", fmt.Sprintf(command, args...), user, out)
}

// MayNot runs a command as a user in the guest, which must be rejected.
func (m Machine) MayNot(user, command string, args ...any) {
	m.Helper()
	out, status := m.As(user, command, args...)
	assert.NotZero(m, status, "%s, as %s", fmt.Sprintf(command, args...), user)
	assert.Regexp(m, "Permission denied|Operation not permitted", out)
}

// Mount mounts until the test ends or the guest unmounts.
func (m Machine) Mount(source, point, options string) {
	m.Helper()
	m.Must("mkdir -p %[2]s; mount.nfs %[1]s %[2]s -o %[3]s", source, point, options)
	m.Cleanup(func() {
		if m.Failed() { // open files on the mount may hang; nothing waits for them
			m.Try("umount -f %[1]s; umount -l %[1]s; :", point)
		}
	})
}

// Served makes a directory to serve until the test ends. It is in memory if directories of tmpfs
// keep their offsets when entries are removed, as since Linux 6.6, and
// otherwise on disk.
func Served(t testing.TB) string {
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	require.NoError(t, err)
	parent := t.TempDir()
	if unix.Access("/dev/shm", unix.W_OK) == nil && major*100+minor >= 606 {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "nfsrdma-served-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}
