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
type CompletionQueue struct {
	q    queue[Completion]
	room int
}

// NewCompletionQueue returns a queue with room for so many completions, at
// least one. No more than that may be posted and not yet taken.
func NewCompletionQueue(room int) *CompletionQueue {
	room = max(room, 1)
	return &CompletionQueue{
		q:    queue[Completion]{items: make([]Completion, 0, room), more: make(chan struct{}, 1)},
		room: room,
	}
}

// Complete adds a completion. Where there is no room it is lost, and the queue
// gives ErrOverrun behind what it has.
func (cq *CompletionQueue) Complete(c Completion) {
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
func (cq *CompletionQueue) Poll(into []Completion) (int, error) {
	return cq.q.poll(into)
}

// Wait takes the oldest completion, and waits until there is one. The error is
// ErrOverrun, or the context's cause; the fate of the work request is in the
// completion.
func (cq *CompletionQueue) Wait(ctx context.Context) (Completion, error) {
	return cq.q.wait(ctx)
}
