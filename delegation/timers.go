package delegation

import (
	"container/heap"
	"time"
)

// A timer is the time at which one of the following is due. It is void if the
// time in its target has changed since. A target has at most one timer.
type timer struct {
	at    time.Duration
	grant *grant // deadline
	conn  *Conn  // nextSample
}

// A timerPosition is the position of a target's timer in the queue, plus 1; 0 if it
// has none.
type timerPosition int

// position returns where t's target records the position.
func (t timer) position() *timerPosition {
	if t.grant != nil {
		return &t.grant.timerAt
	}
	return &t.conn.timerAt
}

// A timerQueue is a heap with the earliest timer first.
type timerQueue []timer

// setTimer adds a timer, in place of its target's earlier one.
func (t *timerQueue) setTimer(next timer) {
	t.removeTimer(*next.position())
	heap.Push((*timerHeap)(t), next)
}

// removeTimer removes a target's timer, if it has one: otherwise ended grants would
// occupy memory until then, however many clients make in that time.
func (t *timerQueue) removeTimer(at timerPosition) {
	if at > 0 {
		heap.Remove((*timerHeap)(t), int(at-1))
	}
}

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

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].position(), *h[j].position() = timerPosition(i+1), timerPosition(j+1)
}

func (h *timerHeap) Push(x any) {
	*h = append(*h, x.(timer))
	*x.(timer).position() = timerPosition(len(*h))
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*x.position() = 0
	(*h)[last] = timer{}
	*h = (*h)[:last]
	return x
}
