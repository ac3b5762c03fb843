package iwarp

import "github.com/nfsrdma/nfsrdma/rdma"

// A dueCompletion is a completion that has not been delivered yet.
type dueCompletion struct {
	completer  rdma.Completer
	completion rdma.Completion
}

// deliverCompletions delivers the due completions in order. If another goroutine is
// delivering, that goroutine delivers these too.
func (q *sendQueue) deliverCompletions(byReader bool) {
	q.mu.Lock()
	if q.delivering {
		q.mu.Unlock()
		return
	}
	q.delivering, q.byReader = true, byReader
	turn := q.deliverTurn
	for q.deliverTurn == turn && q.completions.len() > 0 {
		f := q.completions.pop()
		q.mu.Unlock()
		f.deliver(byReader)
		q.mu.Lock()
	}
	if q.deliverTurn == turn {
		q.delivering = false
	}
	q.mu.Unlock()
}

func (f *dueCompletion) deliver(byReader bool) {
	if to, ok := f.completer.(rdma.InlineCompleter); ok && byReader {
		to.CompleteInline(f.completion)
		return
	}
	f.completer.Complete(f.completion)
}

// handOffReader allows other goroutines to deliver completions if the reader is
// delivering now.
func (q *sendQueue) handOffReader() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delivering && q.byReader {
		q.delivering = false
		q.deliverTurn++
	}
}

// deliverCompletions delivers the due completions. It returns errHandedOff if
// another goroutine took over reading during a delivery.
func (x *receiver) deliverCompletions() error {
	turn := x.readerTurn.Load()
	x.c.tx.deliverCompletions(true)
	if x.readerTurn.Load() != turn {
		return errHandedOff
	}
	return nil
}
