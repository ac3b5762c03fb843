// Package bootahead runs a test in a process whose CLOCK_BOOTTIME is ahead of
// CLOCK_MONOTONIC, as after a suspend of the machine. It is for tests only.
package bootahead

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// By is the minimum difference between the clocks; the actual difference is twice
// that.
const By = time.Hour

// env is set in the process.
const env = "BOOTAHEAD_CHILD"

// limit is the maximum run time of the process.
const limit = time.Minute

// Run runs f, the test t, in another process with a separate time namespace.
func Run(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if os.Getenv(env) != "" {
		if clockDifference() < By {
			t.Skip("this kernel puts no process into a time namespace at execve")
		}
		f(t)
		return
	}
	out, err := runInTimeNamespace(t)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		t.Skipf("cannot create a time namespace: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// clockDifference returns the difference between the clocks.
func clockDifference() time.Duration {
	var boot, mono unix.Timespec
	if err := errors.Join(unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot), unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono)); err != nil {
		panic(err)
	}
	return time.Duration(boot.Nano() - mono.Nano())
}

// runInTimeNamespace runs the test again, from a thread whose children are in
// another namespace. The thread exits with its goroutine.
func runInTimeNamespace(t *testing.T) (out []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Unshare(unix.CLONE_NEWTIME); err != nil {
			return
		}
		offsets := fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid())
		if err = os.WriteFile(offsets, fmt.Appendf(nil, "boottime %d 0\n", int(2*By.Seconds())), 0); err != nil {
			return
		}
		c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.timeout="+limit.String(), "-test.v")
		c.Env = append(os.Environ(), env+"=1")
		c.WaitDelay = time.Second
		out, err = c.CombinedOutput()
	}()
	<-done
	return out, err
}
