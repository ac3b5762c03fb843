package fusefs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// childEnv names the function that a child process of a test runs.
const childEnv = "FUSEFS_TEST_CHILD"

var children = map[string]func(args []string) error{
	"act":    actWhenTold,
	"fsync":  fsyncInherited,
	"lock":   lockFile,
	"mapped": writeMapped,
	"try":    runTries,
	"user":   mountAsUser,
	"watch":  forceLateUnmounts,
	"write":  writeBetween,
}

// afterTimeout is the time between the tests' timeout and the forced end of
// their mounts.
const afterTimeout = 5 * time.Second

// ownNamespaceChild names the child that runs the tests, with mounts of its own.
const ownNamespaceChild = "alone"

func TestMain(m *testing.M) {
	var err error
	switch name := os.Getenv(childEnv); {
	case name == ownNamespaceChild, name == "" && os.Geteuid() != 0: // the tests then report what they need
		os.Exit(m.Run())
	case name == "":
		err = runInOwnNamespace()
	default:
		err = children[name](os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runInOwnNamespace runs the tests in a mount namespace of their own. A process elsewhere
// that copied their mounts to its own namespace would keep the mounts from
// ending.
func runInOwnNamespace() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	watch := exec.Command(self, os.Args[1:]...)
	watch.Env = append(os.Environ(), childEnv+"=watch")
	watch.Stderr = os.Stderr
	if err := watch.Start(); err != nil {
		return err
	}
	return unix.Exec(self, os.Args, append(os.Environ(), childEnv+"="+ownNamespaceChild))
}

// forceLateUnmounts forces the unmount of the mounts of its parent's tests if they
// still exist after the tests' timeout. A test that waits for a mount of its own
// process, which cannot reply at that time, is beyond the reach of the test's
// timeout and of SIGKILL.
func forceLateUnmounts([]string) error {
	flag.Parse()
	limit := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if limit == 0 {
		return nil
	}
	parent, err := unix.PidfdOpen(os.Getppid(), 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	fds := []unix.PollFd{{Fd: int32(parent), Events: unix.POLLIN}}
	for end := time.Now().Add(limit + afterTimeout); ; {
		n, err := unix.Poll(fds, int(max(0, time.Until(end)).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n > 0 || err != nil {
			return os.NewSyscallError("poll", err)
		}
		break
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.HasPrefix(f[2], "fuse.nfsrdma") {
			fmt.Fprintln(os.Stderr, "a test waits for its own mount at", f[1])
			_ = unix.Unmount(f[1], unix.MNT_FORCE|unix.MNT_DETACH)
		}
	}
	return nil
}

// newChild returns a process that runs a function of children, possibly as another
// user.
func newChild(t testing.TB, as *syscall.Credential, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	t.Cleanup(func() { self.Close() })
	require.NoError(t, self.Chmod(0o755))           // go test created the file with any umask
	cmd := exec.Command("/proc/self/fd/3", args...) // the directory may be for root only
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = append(os.Environ(), childEnv+"="+name, "GORACE=atexit_sleep_ms=0") // saves a second per child
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return cmd
}
