package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// childEnv names the function that a child process of a test runs.
const childEnv = "FUSEFS_TEST_CHILD"

var children = map[string]func(args []string) error{
	"mapped": mapped,
	"try":    try,
	"user":   mountAsUser,
}

// alone names the child that runs the tests, with mounts of its own.
const alone = "alone"

func TestMain(m *testing.M) {
	var err error
	switch name := os.Getenv(childEnv); {
	case name == alone, name == "" && os.Geteuid() != 0: // and then the tests say what they need
		os.Exit(m.Run())
	case name == "":
		err = beAlone()
	default:
		err = children[name](os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beAlone runs the tests where nobody sees their mounts: who copied them for a
// namespace of his own would keep them from ending.
func beAlone() error {
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
	return unix.Exec(self, os.Args, append(os.Environ(), childEnv+"="+alone))
}

// child is a process that runs a function of children, as another user perhaps.
func child(t testing.TB, as *syscall.Credential, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	t.Cleanup(func() { self.Close() })
	cmd := exec.Command("/proc/self/fd/3", args...) // its directory may be for root only
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return cmd
}
