//go:build linux

package posix

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// LeaseBreakTime returns for how long the host lets who breaks a lease wait, before
// it takes the lease from its holder (/proc/sys/fs/lease-break-time). 0: for ever.
func LeaseBreakTime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/sys/fs/lease-break-time")
	if err != nil {
		return 0, err
	}
	s, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("lease-break-time: %w", err)
	}
	return time.Duration(s) * time.Second, nil
}
