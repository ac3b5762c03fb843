package rdma

import (
	"context"
	"sync"
)

// A queue holds items from connections until they are polled.
type queue[T any] struct {
	mu     sync.Mutex
	items  []T // items[first:] are queued
	first  int
	err    error         // returned when no item is left
	signal chan struct{} // holds a token while there may be something to poll
	onTake func(T)       // if not nil, called, with the queue locked, for each removed item
}

func (q *queue[T]) len() int { return len(q.items) - q.first }

// putItem adds v. The caller holds the lock.
func (q *queue[T]) putItem(v T) {
	if len(q.items) == cap(q.items) && q.first > len(q.items)/2 {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	q.items = append(q.items, v)
	wakeTaker(q.signal)
}

// endWith makes the queue return err after the remaining items. The caller
// holds the lock.
func (q *queue[T]) endWith(err error) {
	q.err = err
	wakeTaker(q.signal)
}

// pollItems moves as many items to into as fit, and returns their number. It returns the error only
// if no item was left.
func (q *queue[T]) pollItems(into []T) (int, error) {
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
	if q.onTake != nil {
		for _, v := range into[:n] {
			q.onTake(v)
		}
	}
	q.wakeNext()
	return n, nil
}

// wakeNext wakes another taker if there is more to poll. The caller holds the
// lock.
func (q *queue[T]) wakeNext() {
	if q.len() > 0 || q.err != nil {
		wakeTaker(q.signal)
	}
}

// waitForItem removes and returns the oldest item, waiting for one if
// necessary.
func (q *queue[T]) waitForItem(ctx context.Context) (T, error) {
	var one [1]T
	for {
		if n, err := q.pollItems(one[:]); n > 0 || err != nil {
			return one[0], err
		}
		select {
		case <-q.signal:
		case <-ctx.Done():
			return one[0], context.Cause(ctx)
		}
	}
}

// wakeTaker leaves a token for a waiting taker, unless a token is there.
func wakeTaker(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}
