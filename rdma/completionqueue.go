package rdma

import (
	"context"
	"errors"
	"fmt"
)

// ErrOverrun means that completions were lost: more work was under way than the
// CompletionQueue had room for.
var ErrOverrun = errors.New("rdma: completion queue overrun")

// A CompletionQueue is a Completer that keeps completions until they are taken,
// for work requests of any number of connections, like a completion queue of
// the verbs. Its methods are safe for concurrent use.
type CompletionQueue = CQ[Completion]

// NewCompletionQueue returns a queue with room for the given number of
// completions, at least one. The work requests that are posted and not yet
// taken must not exceed room.
func NewCompletionQueue(room int) *CompletionQueue { return NewCQ[Completion](room) }

// A CQ is a CompletionQueue for a service's own type of completion.
type CQ[T any] struct {
	q    queue[T]
	room int
}

// NewCQ is NewCompletionQueue for a service's own completions.
func NewCQ[T any](room int) *CQ[T] {
	room = max(room, 1)
	return &CQ[T]{q: queue[T]{items: make([]T, 0, room), more: make(chan struct{}, 1)}, room: room}
}

// Complete adds a completion. If the queue is full, the completion is lost, and
// the queue returns ErrOverrun after its present content.
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

// Poll moves completions to into, oldest first, and returns how many. It does
// not wait. The error is ErrOverrun.
func (cq *CQ[T]) Poll(into []T) (int, error) {
	return cq.q.poll(into)
}

// Wait takes the oldest completion, waiting for one if necessary. The error is
// ErrOverrun, or the context's cause. The result of the work request is in the
// completion.
func (cq *CQ[T]) Wait(ctx context.Context) (T, error) {
	return cq.q.wait(ctx)
}
