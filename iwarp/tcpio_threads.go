package iwarp

import (
	"runtime"
	"sync/atomic"
)

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
