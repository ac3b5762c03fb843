package fusefs

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tryLimit is the time that a child of these tests may take.
const tryLimit = 30 * time.Second

// tries holds the operations of a child on a path. Each returns its outcome as one
// word.
var tries = map[string]func(path string) string{
	"read":     func(path string) string { return tryOpen(path, unix.O_RDONLY) },
	"write":    func(path string) string { return tryOpen(path, unix.O_WRONLY) },
	"both":     func(path string) string { return tryOpen(path, unix.O_RDWR) },
	"create":   func(path string) string { return tryOpen(path, unix.O_RDWR|unix.O_CREAT) },
	"empty":    func(path string) string { return tryOpen(path, unix.O_WRONLY|unix.O_TRUNC) },
	"truncate": func(path string) string { return errnoName(unix.Truncate(path, 1)) },
	"ftruncate": func(path string) string { // by the creator of the read-only file
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o444)
		if err != nil {
			return errnoName(err)
		}
		defer unix.Close(fd)
		return errnoName(unix.Ftruncate(fd, 1))
	},
	"type":    tryType,
	"connect": tryConnect,
	"mkfifo":  func(path string) string { return errnoName(unix.Mkfifo(path, 0)) },
	"allow":   func(path string) string { return errnoName(unix.Chmod(path, 0o666)) },
	"deny":    func(path string) string { return errnoName(unix.Chmod(path, 0)) },
	"link":    func(path string) string { return errnoName(unix.Link(path, path+".link")) },
	"rename":  func(path string) string { return errnoName(unix.Rename(path, path+".new")) },
	"unlink":  func(path string) string { return errnoName(unix.Unlink(path)) },
	"listen":  tryListen,
	"often":   tryOften,
}

// errnoName returns the system's name for an error.
func errnoName(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func tryOpen(path string, flags int) string {
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(fd)
	}
	return errnoName(err)
}

// runTries is a child process that performs the operations in its arguments, and
// prints each outcome.
func runTries(args []string) error {
	for _, arg := range args {
		name, path, _ := strings.Cut(arg, " ")
		fmt.Printf("%s: %s\n", name, tries[name](path))
	}
	return nil
}

// tryAs performs operations on a file of the mount as a user, sequentially, and
// returns the outcomes.
func (m *testMount) tryAs(uid uint32, name string, what ...string) (list []string) {
	m.t.Helper()
	return m.startTryAs(uid, name, what...)()
}

// startTryAs performs the operations in the background. The returned function waits
// for the outcomes.
func (m *testMount) startTryAs(uid uint32, name string, what ...string) func() []string {
	m.t.Helper()
	args := make([]string, len(what))
	for i := range what {
		args[i] = what[i] + " " + m.path(name)
	}
	cmd := newChild(m.t, &syscall.Credential{Uid: uid, Gid: uid}, "try", args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	stdin, err := cmd.StdinPipe()
	require.NoError(m.t, err)
	require.NoError(m.t, cmd.Start())
	limit := time.AfterFunc(tryLimit, func() { // the child waits for the mount, which hangs
		_ = cmd.Process.Kill()
		_ = unix.Unmount(m.dir, unix.MNT_DETACH|unix.MNT_FORCE)
	})
	wait := sync.OnceValue(func() error {
		defer limit.Stop()
		_ = stdin.Close()
		return cmd.Wait()
	})
	m.t.Cleanup(func() { _ = wait() })
	return func() []string {
		require.NoError(m.t, wait(), out.String())
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
}

// TestTruncateByName truncates files as their owner, for whom servers ignore
// the mode, and as other users.
func TestTruncateByName(t *testing.T) {
	const owner, other = 1001, 1002
	s, m := newMount(t)
	for name, mode := range map[string]uint32{"kept": 0o444, "own": 0o200, "all": 0o666} {
		writeFile(t, s.path(name), randomBytes(100))
		require.NoError(t, unix.Chown(s.path(name), owner, owner))
		require.NoError(t, unix.Chmod(s.path(name), mode))
	}
	for _, tt := range []struct {
		user       uint32
		file, want string
		size       int64
	}{
		{owner, "kept", "EACCES", 100},
		{other, "kept", "EACCES", 100},
		{0, "kept", "ok", 1},
		{other, "own", "EACCES", 100},
		{owner, "own", "ok", 1},
		{other, "all", "ok", 1},
	} {
		assert.Equal(t, []string{"truncate: " + tt.want}, m.tryAs(tt.user, tt.file, "truncate"), "%d, %s", tt.user, tt.file)
		assert.Equal(t, tt.size, mustLstat(t, s.path(tt.file)).Size, tt.file)
	}
	assert.Equal(t, []string{"empty: EACCES"}, m.tryAs(owner, "kept", "empty"))
	assert.Equal(t, []string{"ftruncate: ok", "truncate: EACCES"}, m.tryAs(owner, "new", "ftruncate", "truncate"))
	assert.EqualValues(t, 1, mustLstat(t, s.path("new")).Size)
}
