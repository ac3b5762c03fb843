package delegation

import (
	"container/heap"
	"time"
)

// A timer says when one of the following is due. The timer is void if the due
// time in its target has changed since.
type timer struct {
	at     time.Duration
	grant  *grant  // due
	conn   *Conn   // sampled
	object *object // until
	blind  bool    // awaited
}

// timers are a heap, the earliest first.
type timers []timer

func (t *timers) add(next timer) { heap.Push((*heaped)(t), next) }

// next returns the earliest time.
func (t *timers) next() (time.Duration, bool) {
	if len(*t) == 0 {
		return 0, false
	}
	return (*t)[0].at, true
}

// pop takes out the earliest timer, if it is due.
func (t *timers) pop(now time.Duration) (timer, bool) {
	if at, ok := t.next(); !ok || at > now {
		return timer{}, false
	}
	return heap.Pop((*heaped)(t)).(timer), true
}

// heaped implements heap.Interface.
type heaped []timer

func (h heaped) Len() int           { return len(h) }
func (h heaped) Less(i, j int) bool { return h[i].at < h[j].at }
func (h heaped) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heaped) Push(x any)        { *h = append(*h, x.(timer)) }

func (h *heaped) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = timer{}
	*h = (*h)[:last]
	return x
}
