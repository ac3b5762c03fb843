package iwarp

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// busyPollers counts the goroutines that are busy-polling.
var busyPollers atomic.Int32

// processors is the number of processors that this process may use: the host's, or fewer if a
// cgroup or the environment limits them. GOMAXPROCS may be raised later.
var processors = min(runtime.GOMAXPROCS(0), runtime.NumCPU())

// maxBusyPollers returns the number of goroutines that may busy-poll.
func maxBusyPollers() int { return max(min(runtime.GOMAXPROCS(0), processors)/2, 1) }

// A busyPoller decides whether a wait begins with busy-polling. After a poll
// without success, the next waits skip it.
type busyPoller struct {
	skip     int // number of following waits that skip the poll
	nextSkip int // skip after the next poll without success
}

// poll retries for a moment, if other busy-polling goroutines leave processors
// free: sleeping and waking cost both ends more than waiting for a reply that
// arrives soon. Other work for this processor takes precedence, in this process
// and in others.
func (o *busyPoller) poll(try func() bool) bool {
	if o.skip > 0 {
		o.skip--
		return false
	}
	defer busyPollers.Add(-1)
	if int(busyPollers.Add(1)) > maxBusyPollers() {
		return false
	}
	o.nextSkip = max(o.nextSkip, 1)
	next := yieldInterval
	for start := time.Now(); ; {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		if try() {
			o.nextSkip = max(o.nextSkip/2, 1)
			return true
		}
		looked := time.Since(start)
		if looked > busyPollTime {
			o.skip = o.nextSkip
			o.nextSkip = min(2*o.nextSkip, maxPollSkips)
			return false
		}
		if looked >= next { // not every time: Gosched wakes a sleeping thread
			runtime.Gosched()
			next += yieldInterval
		}
	}
}

// wouldWait counts a wait, and reports whether the caller would wait for a
// moment, by polling or on a thread.
func (o *busyPoller) wouldWait() bool {
	if o.skip == 0 || runtime.GOMAXPROCS(0) > 1 {
		return true
	}
	o.skip--
	return false
}

// threads counts the goroutines that wait in the kernel. Each occupies a
// thread, and the right to run Go code (a P), which the runtime retakes only
// after a while. Therefore their number stays below the number of Ps; the
// others wait by the poller.
var threads threadCount

type threadCount struct{ n atomic.Int32 }

// acquire counts the caller, if another such goroutine is allowed.
func (t *threadCount) acquire() bool {
	if int(t.n.Add(1)) < runtime.GOMAXPROCS(0) {
		return true
	}
	t.n.Add(-1)
	return false
}

func (t *threadCount) release() { t.n.Add(-1) }

// linkWaits counts all links' waits for bytes.
var linkWaits waitCount

type waitCount struct{ n atomic.Uint64 }

// countWait counts a wait, and reports whether hardly any other wait was
// counted since the wait numbered last. Otherwise one link out of many would
// occupy a thread that the others need.
func (t *waitCount) countWait(last *uint64) bool {
	was := *last
	*last = t.n.Add(1)
	return *last-was <= uint64(runtime.GOMAXPROCS(0))
}
