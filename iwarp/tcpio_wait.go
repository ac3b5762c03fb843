package iwarp

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// lookers is the number of goroutines that are busy-polling.
var lookers atomic.Int32

// processors is the number of processors that this process may use: those of the host, or
// fewer if a cgroup or the environment says so. GOMAXPROCS may become more.
var processors = min(runtime.GOMAXPROCS(0), runtime.NumCPU())

// maxLookers returns how many goroutines may be busy-polling.
func maxLookers() int { return max(min(runtime.GOMAXPROCS(0), processors)/2, 1) }

// A lookout tells whether to wait for something busily. After polling in vain
// the next waits skip the poll.
type lookout struct {
	skip int // number of the next waits that skip it
	next int // skip after the next poll in vain
}

// look retries for a moment, if the goroutines that do so leave processors
// free: sleeping and waking cost both ends more than the wait for an answer
// that comes soon. Other work for this processor goes first, in this process
// and in others.
func (o *lookout) look(try func() bool) bool {
	if o.skip > 0 {
		o.skip--
		return false
	}
	defer lookers.Add(-1)
	if int(lookers.Add(1)) > maxLookers() {
		return false
	}
	o.next = max(o.next, 1)
	next := yieldTime
	for start := time.Now(); ; {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		if try() {
			o.next = max(o.next/2, 1)
			return true
		}
		looked := time.Since(start)
		if looked > lookTime {
			o.skip = o.next
			o.next = min(2*o.next, maxSleepier)
			return false
		}
		if looked >= next { // not every time: Gosched wakes a thread, if one sleeps
			runtime.Gosched()
			next += yieldTime
		}
	}
}

// wouldWait counts a wait, and reports whether the caller would wait for a
// moment: by look, or on a thread.
func (o *lookout) wouldWait() bool {
	if o.skip == 0 || runtime.GOMAXPROCS(0) > 1 {
		return true
	}
	o.skip--
	return false
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
