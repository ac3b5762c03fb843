package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ForbidCores has the process leave no core, which would have keys in it.
func ForbidCores() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("cores with keys in them cannot be forbidden (%w)", err)
	}
	return nil
}
