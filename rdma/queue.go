package rdma

import (
	"context"
	"sync"
)

// A queue stands between connections and those who take from it.
type queue[T any] struct {
	mu    sync.Mutex
	items []T // from first on
	first int
	err   error         // what takers get when nothing is left
	more  chan struct{} // holds a token while somebody has a reason to look
	taken func(T)       // or nil: called, with the queue locked, for each that is taken
}

func (q *queue[T]) len() int { return len(q.items) - q.first }

// put, with the queue locked, adds v.
func (q *queue[T]) put(v T) {
	if len(q.items) == cap(q.items) && q.first > len(q.items)/2 {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	q.items = append(q.items, v)
	wake(q.more)
}

// end, with the queue locked, gives takers err behind what is left.
func (q *queue[T]) end(err error) {
	q.err = err
	wake(q.more)
}

// poll moves what there is to into, as much as it holds. The error comes only
// where nothing was left.
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

// wakeNext, with the queue locked, has somebody else look if there is a reason.
func (q *queue[T]) wakeNext() {
	if q.len() > 0 || q.err != nil {
		wake(q.more)
	}
}

// wait takes the oldest, and waits until there is one.
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

// wake leaves a token for one of those who wait, if there is none.
func wake(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}
