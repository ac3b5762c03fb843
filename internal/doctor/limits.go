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

// limitOf judges the limit of open files. why says what takes enough of them.
func limitOf(limit func() (files uint64, err error), enough uint64, why string) Finding {
	n, err := limit()
	switch {
	case err != nil:
		return Finding{"files", Warn, "the limit of open files is not known: " + err.Error(), "see ulimit -Hn"}
	case n < enough:
		return Finding{"files", Warn, fmt.Sprintf("a process may have %d files open: %s", n, why), fmt.Sprintf("ulimit -Hn %d, or LimitNOFILE= of the unit", enough)}
	}
	return Finding{"files", OK, fmt.Sprintf("a process may have %d files open", n), ""}
}

// OpenFiles returns how many files a process as this one may have open. Go raises the soft
// limit of a process to this hard one.
func OpenFiles() (uint64, error) {
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	return r.Max, err
}

// clockOf judges the state of the clock.
func clockOf(clock func() (state int, err error)) Finding {
	state, err := clock()
	switch {
	case err != nil:
		return Finding{"clock", Warn, "the clock's state is not known: " + err.Error(), "see timedatectl"}
	case state == unix.TIME_ERROR:
		return Finding{"clock", Warn, "the clock is not synchronized: Kerberos refuses clocks 5 minutes apart, and certificates have dates", "timedatectl set-ntp true"}
	}
	return Finding{"clock", OK, "the clock is synchronized", ""}
}

func clock() (state int, err error) { return unix.Adjtimex(&unix.Timex{}) }

var errNoCapabilities = errors.New("no line CapEff")

// capabilities returns the effective set in a file as /proc/self/status.
func capabilities(status string) (set uint64, err error) {
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
