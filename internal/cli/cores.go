package cli

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ForbidCores disables core dumps of the process, which would contain keys, and prevents
// other processes of the user from tracing it.
//
// A limit of 1 byte also disables dumps to a program in /proc/sys/kernel/core_pattern,
// unlike a limit of 0 (core(5)). PR_SET_DUMPABLE alone is not enough: when a thread
// changes its user, the kernel resets it to fs.suid_dumpable, which is 2 on some hosts.
func ForbidCores() error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if errors.Is(err, unix.EPERM) { // the limit is 0 already
		err = nil
	}
	if err == nil {
		err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if err != nil {
		return fmt.Errorf("core dumps, which would contain keys, cannot be disabled (%w)", err)
	}
	return nil
}
