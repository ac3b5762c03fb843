package doctor

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// checkFileLimit checks the limit of open files. why is the reason for needing enough files.
func checkFileLimit(limit func() (files uint64, err error), enough uint64, why string) Finding {
	n, err := limit()
	switch {
	case err != nil:
		return Finding{"files", Warn, "the limit of open files is unknown: " + err.Error(), "see ulimit -Hn"}
	case n < enough:
		return Finding{"files", Warn, fmt.Sprintf("a process may open %d files: %s", n, why), fmt.Sprintf("ulimit -Hn %d, or LimitNOFILE= of the unit", enough)}
	}
	return Finding{"files", OK, fmt.Sprintf("a process may open %d files", n), ""}
}

// OpenFiles returns the hard limit of open files. Go raises a process's soft limit to it.
func OpenFiles() (uint64, error) {
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	return r.Max, err
}

// checkClock checks whether the clock is synchronized.
func checkClock(clock func() (state int, err error)) Finding {
	state, err := clock()
	switch {
	case err != nil:
		return Finding{"clock", Warn, "the clock's state is unknown: " + err.Error(), "see timedatectl"}
	case state == unix.TIME_ERROR:
		return Finding{"clock", Warn, "the clock is not synchronized: Kerberos fails if clocks differ by 5 minutes, and certificates have dates", "timedatectl set-ntp true"}
	}
	return Finding{"clock", OK, "the clock is synchronized", ""}
}

// clockState returns the kernel's clock state (adjtimex(2)).
func clockState() (state int, err error) { return unix.Adjtimex(&unix.Timex{}) }

var errNoCapabilities = errors.New("no line CapEff")

// effectiveCapabilities returns the effective set in a file like /proc/self/status.
func effectiveCapabilities(status string) (set uint64, err error) {
	file, err := os.Open(status)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if word, ok := strings.CutPrefix(lines.Text(), "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(word), 16, 64)
		}
	}
	return 0, errNoCapabilities
}
