package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// childEnv names the function that a child process of a test runs.
const childEnv = "FUSEFS_TEST_CHILD"

var children = map[string]func(args []string) error{
	"mapped": mapped,
}

func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := children[name](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is a process that runs a function of children, as another user perhaps.
func child(t testing.TB, as *syscall.Credential, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	return cmd
}
