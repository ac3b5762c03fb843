package iwarp

import (
	"runtime"
	"sync/atomic"
)

// threads counts the goroutines that wait in the kernel. Each has a thread, and the
// right to run Go code (a P), which the runtime takes back only after a while. So
// there are fewer than these rights; others wait by the poller.
var threads threadCount

type threadCount struct{ n atomic.Int32 }

// enter makes the caller one of them, if there may be one more.
func (t *threadCount) enter() bool {
	if int(t.n.Add(1)) < runtime.GOMAXPROCS(0) {
		return true
	}
	t.n.Add(-1)
	return false
}

func (t *threadCount) leave() { t.n.Add(-1) }

// turns counts the waits for octets, of all links.
var turns turnCount

type turnCount struct{ n atomic.Uint64 }

// alone counts a wait, and tells whether hardly any other was counted since the
// one numbered last: one link of many would keep a thread that others need.
func (t *turnCount) alone(last *uint64) bool {
	was := *last
	*last = t.n.Add(1)
	return *last-was <= uint64(runtime.GOMAXPROCS(0))
}
