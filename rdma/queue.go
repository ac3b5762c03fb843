package rdma

import (
	"context"
	"sync"
)

// A queue holds items from connections until they are taken.
type queue[T any] struct {
	mu    sync.Mutex
	items []T // from first on
	first int
	err   error         // returned to takers when no item is left
	more  chan struct{} // holds a token while a taker has a reason to look
	taken func(T)       // or nil: called, with the queue locked, for each taken item
}

func (q *queue[T]) len() int { return len(q.items) - q.first }

// put adds v. The caller holds the lock.
func (q *queue[T]) put(v T) {
	if len(q.items) == cap(q.items) && q.first > len(q.items)/2 {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	q.items = append(q.items, v)
	wake(q.more)
}

// end makes takers get err after the remaining items. The caller holds the
// lock.
func (q *queue[T]) end(err error) {
	q.err = err
	wake(q.more)
}

// poll moves as many items to into as fit. It returns the error only if no item
// was left.
func (q *queue[T]) poll(into []T) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.len() == 0 && len(into) > 0 {
		q.wakeNext()
		return 0, q.err
	}
	n := copy(into, q.items[q.first:])
	clear(q.items[q.first:][:n])
	if q.first += n; q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	}
	if q.taken != nil {
		for _, v := range into[:n] {
			q.taken(v)
		}
	}
	q.wakeNext()
	return n, nil
}

// wakeNext wakes another taker if there is a reason to look. The caller holds
// the lock.
func (q *queue[T]) wakeNext() {
	if q.len() > 0 || q.err != nil {
		wake(q.more)
	}
}

// wait takes the oldest item, waiting for an item if necessary.
func (q *queue[T]) wait(ctx context.Context) (T, error) {
	var one [1]T
	for {
		if n, err := q.poll(one[:]); n > 0 || err != nil {
			return one[0], err
		}
		select {
		case <-q.more:
		case <-ctx.Done():
			return one[0], context.Cause(ctx)
		}
	}
}

// wake leaves a token for a waiting taker, unless a token is there.
func wake(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}
