package cli

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestForbidCores checks that the process writes no core dump, neither to a file nor to a
// program, and that a thread that acts for another user can still read /proc/self.
func TestForbidCores(t *testing.T) {
	require.NoError(t, ForbidCores())
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	assert.LessOrEqual(t, limit.Max, uint64(1))
	assert.Equal(t, limit.Max, limit.Cur)
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	require.NoError(t, err)
	assert.Zero(t, dumpable)

	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 4001, ^uintptr(0))
			assert.Zero(t, errno)
		}
		_, err := os.ReadDir("/proc/self/fd")
		assert.NoError(t, err)
		for _, name := range []string{"/proc/self/status", "/proc/self/mountinfo", "/proc/thread-self/status"} {
			_, err := os.ReadFile(name)
			assert.NoError(t, err)
		}
		f, err := os.Open("/proc/self/exe")
		if assert.NoError(t, err) {
			f.Close()
		}
	}()
	<-done
}
