package rdma

import (
	"context"
	"errors"
	"fmt"
)

// ErrOverrun means that completions were lost: more work was in flight than the
// CompletionQueue's capacity.
var ErrOverrun = errors.New("rdma: completion queue overrun")

// A CompletionQueue is a Completer that keeps completions until they are
// polled, for work requests on any number of connections, like a verbs
// completion queue. Its methods are safe for concurrent use.
type CompletionQueue = CQ[Completion]

// NewCompletionQueue returns a queue that holds capacity completions, at least one.
// The work requests that are posted and whose completions are not yet polled
// must not exceed capacity.
func NewCompletionQueue(capacity int) *CompletionQueue { return NewCQ[Completion](capacity) }

// A CQ is a CompletionQueue for a service's own completion type.
type CQ[T any] struct {
	q        queue[T]
	capacity int
}

// NewCQ is like NewCompletionQueue, but for a service's own completions.
func NewCQ[T any](capacity int) *CQ[T] {
	capacity = max(capacity, 1)
	return &CQ[T]{q: queue[T]{items: make([]T, 0, capacity), signal: make(chan struct{}, 1)}, capacity: capacity}
}

// Complete adds a completion. If the queue is full, the completion is lost, and
// the queue returns ErrOverrun after its current content.
func (cq *CQ[T]) Complete(c T) {
	cq.q.mu.Lock()
	defer cq.q.mu.Unlock()
	switch {
	case cq.q.err != nil:
	case cq.q.len() == cq.capacity:
		cq.q.endWith(fmt.Errorf("%w: capacity %d", ErrOverrun, cq.capacity))
	default:
		cq.q.putItem(c)
	}
}

// Poll moves completions to into, oldest first, and returns their number. It
// does not wait. The error is ErrOverrun.
func (cq *CQ[T]) Poll(into []T) (int, error) {
	return cq.q.pollItems(into)
}

// Wait removes and returns the oldest completion, waiting for one if necessary.
// The error is ErrOverrun, or the context's cause. The work request's result is
// in the completion.
func (cq *CQ[T]) Wait(ctx context.Context) (T, error) {
	return cq.q.waitForItem(ctx)
}
