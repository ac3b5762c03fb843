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

// threads counts the goroutines that wait in the kernel. Each occupies a
// thread, and the right to run Go code (a P), which the runtime takes back only
// after a while. Therefore their number stays below the number of Ps; the
// others wait by the poller.
var threads threadCount

type threadCount struct{ n atomic.Int32 }

// enter counts the caller, if there may be another such goroutine.
func (t *threadCount) enter() bool {
	if int(t.n.Add(1)) < runtime.GOMAXPROCS(0) {
		return true
	}
	t.n.Add(-1)
	return false
}

func (t *threadCount) leave() { t.n.Add(-1) }

// turns counts the waits for bytes, of all links.
var turns turnCount

type turnCount struct{ n atomic.Uint64 }

// alone counts a wait, and reports whether hardly any other wait was counted
// since the wait numbered last. Otherwise one of many links would keep a thread
// that the others need.
func (t *turnCount) alone(last *uint64) bool {
	was := *last
	*last = t.n.Add(1)
	return *last-was <= uint64(runtime.GOMAXPROCS(0))
}
