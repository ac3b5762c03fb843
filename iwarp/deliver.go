package iwarp

import "github.com/nfsrdma/nfsrdma/rdma"

// A finished work request, whose completion is due.
type finished struct {
	to rdma.Completer
	c  rdma.Completion
}

// deliver tells the completions that are due, in order. Whoever comes while
// another delivers leaves his to that one.
func (q *sendQueue) deliver(byReader bool) {
	q.mu.Lock()
	if q.delivering {
		q.mu.Unlock()
		return
	}
	q.delivering, q.byReader = true, byReader
	turn := q.turn
	for q.turn == turn && q.done.len() > 0 {
		f := q.done.pop()
		q.mu.Unlock()
		f.tell(byReader)
		q.mu.Lock()
	}
	if q.turn == turn {
		q.delivering = false
	}
	q.mu.Unlock()
}

func (f *finished) tell(byReader bool) {
	if to, ok := f.to.(rdma.InlineCompleter); ok && byReader {
		to.CompleteInline(f.c)
		return
	}
	f.to.Complete(f.c)
}

// handOffReader lets others deliver, if it is the reader that does.
func (q *sendQueue) handOffReader() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delivering && q.byReader {
		q.delivering = false
		q.turn++
	}
}

// deliver tells the completions that are due, as hand hands a message over.
func (x *receiver) deliver() error {
	turn := x.turn.Load()
	x.c.tx.deliver(true)
	if x.turn.Load() != turn {
		return errRelieved
	}
	return nil
}
