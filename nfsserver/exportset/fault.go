package exportset

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// errHung is the fault of a file system whose storage does not respond.
var errHung = errors.New("the storage does not respond")

// A fault is an error of a file system that an administrator can remedy.
type fault struct {
	err    error
	remedy string
}

var faults = [...]fault{
	{syscall.ENOSPC, "free some space there"},
	{syscall.EDQUOT, "raise the user's quota, or free some space"},
	{syscall.EROFS, "mount the file system for writing, or export it with ro"},
	{syscall.EIO, "look for errors of its disk in the kernel log"},
	{errHung, "check its disk or its server; clients try again later"},
}

// faultInterval is the time after a line about a fault in which there is no other.
const faultInterval = time.Minute

// faultCounts count a file system's faults since the last lines about them.
type faultCounts struct {
	mu     sync.Mutex
	counts [len(faults)]struct {
		logged time.Time
		count  int // calls since then
	}
}

// countCall counts a call that failed with fault i. It reports whether to log a line now, and for how
// many calls.
func (f *faultCounts) countCall(i int) (calls int, isDue bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.counts[i]
	c.count++
	now := time.Now()
	if !c.logged.IsZero() && now.Sub(c.logged) < faultInterval {
		return 0, false
	}
	calls, c.count, c.logged = c.count, 0, now
	return calls, true
}

// LogFault logs a file system's error that an administrator can remedy: for each export and error
// one line in a minute, with the number of calls that have failed since the last line.
func (q *Request) LogFault(err error) {
	if q.Export == nil {
		return
	}
	for i, f := range faults {
		if !errors.Is(err, f.err) {
			continue
		}
		if calls, ok := q.Export.faults.countCall(i); ok {
			q.set.log.Error("calls fail because of an export's file system", "export", q.Export.Path, "err", f.err, "calls", calls, "remedy", f.remedy)
		}
		return
	}
}
