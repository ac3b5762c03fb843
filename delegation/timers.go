package delegation

import (
	"container/heap"
	"time"
)

// A timer is the time at which one of the following is due. It is void if the
// time in its target has changed since.
type timer struct {
	at    time.Duration
	grant *grant // deadline
	conn  *Conn  // nextSample
}

// A timerQueue is a heap with the earliest timer first.
type timerQueue []timer

func (t *timerQueue) addTimer(next timer) { heap.Push((*timerHeap)(t), next) }

// earliestTime returns the earliest time.
func (t *timerQueue) earliestTime() (time.Duration, bool) {
	if len(*t) == 0 {
		return 0, false
	}
	return (*t)[0].at, true
}

// popDue removes and returns the earliest timer, if it is due.
func (t *timerQueue) popDue(now time.Duration) (timer, bool) {
	if at, ok := t.earliestTime(); !ok || at > now {
		return timer{}, false
	}
	return heap.Pop((*timerHeap)(t)).(timer), true
}

// timerHeap implements heap.Interface.
type timerHeap []timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)        { *h = append(*h, x.(timer)) }

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = timer{}
	*h = (*h)[:last]
	return x
}
