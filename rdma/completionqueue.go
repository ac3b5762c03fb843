package rdma

import (
	"context"
	"errors"
	"fmt"
)

// ErrOverrun says that completions were lost: more work was under way than the
// CompletionQueue had room for.
var ErrOverrun = errors.New("rdma: completion queue overrun")

// A CompletionQueue is a Completer that keeps completions until they are taken,
// for work requests of one connection or several: what the verbs call by the
// same name. Its methods may be called by several goroutines.
type CompletionQueue = CQ[Completion]

// NewCompletionQueue returns a queue with room for so many completions, at
// least one. No more than that may be posted and not yet taken.
func NewCompletionQueue(room int) *CompletionQueue { return NewCQ[Completion](room) }

// A CQ is a CompletionQueue of what a service has for completions.
type CQ[T any] struct {
	q    queue[T]
	room int
}

// NewCQ is NewCompletionQueue for a service's own completions.
func NewCQ[T any](room int) *CQ[T] {
	room = max(room, 1)
	return &CQ[T]{q: queue[T]{items: make([]T, 0, room), more: make(chan struct{}, 1)}, room: room}
}

// Complete adds a completion. Where there is no room it is lost, and the queue
// gives ErrOverrun behind what it has.
func (cq *CQ[T]) Complete(c T) {
	cq.q.mu.Lock()
	defer cq.q.mu.Unlock()
	switch {
	case cq.q.err != nil:
	case cq.q.len() == cq.room:
		cq.q.end(fmt.Errorf("%w: room for %d", ErrOverrun, cq.room))
	default:
		cq.q.put(c)
	}
}

// Poll moves completions to into, oldest first, and returns how many there
// were. It does not wait. The error is ErrOverrun.
func (cq *CQ[T]) Poll(into []T) (int, error) {
	return cq.q.poll(into)
}

// Wait takes the oldest completion, and waits until there is one. The error is
// ErrOverrun, or the context's cause; the fate of the work request is in the
// completion.
func (cq *CQ[T]) Wait(ctx context.Context) (T, error) {
	return cq.q.wait(ctx)
}
