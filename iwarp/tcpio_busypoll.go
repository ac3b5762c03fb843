package iwarp

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// lookers is the number of goroutines that are busy-polling.
var lookers atomic.Int32

// busyPoll retries the read for a moment, if few goroutines do so: sleeping and
// waking cost both ends more than the wait for an answer that comes soon. Other
// work for this processor goes first, in this process and in others. After
// polling in vain the next waits skip the poll.
func (l *tcpLink) busyPoll() (int, error) {
	if l.pollBackoff > 0 {
		l.pollBackoff--
		return 0, errWouldBlock
	}
	defer lookers.Add(-1)
	if int(lookers.Add(1)) > max(runtime.GOMAXPROCS(0)/2, 1) {
		return 0, errWouldBlock
	}
	next := yieldTime
	for start := time.Now(); ; {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		n, err := l.try(&l.rd, unix.MSG_DONTWAIT)
		if err != errWouldBlock {
			l.nextBackoff = max(l.nextBackoff/2, 1)
			return n, err
		}
		looked := time.Since(start)
		if looked > lookTime {
			l.pollBackoff = l.nextBackoff
			l.nextBackoff = min(2*l.nextBackoff, maxSleepier)
			return 0, errWouldBlock
		}
		if looked >= next { // not every time: Gosched wakes a thread, if one sleeps
			runtime.Gosched()
			next += yieldTime
		}
	}
}
