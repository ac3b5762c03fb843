package iwarp

import "github.com/nfsrdma/nfsrdma/rdma"

// A finished is a work request whose completion is due.
type finished struct {
	to rdma.Completer
	c  rdma.Completion
}

// deliver delivers the due completions in order. If another goroutine is
// delivering, that goroutine delivers these too.
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

// handOffReader lets other goroutines deliver if the reader is delivering now.
func (q *sendQueue) handOffReader() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delivering && q.byReader {
		q.delivering = false
		q.turn++
	}
}

// deliver delivers the due completions, as hand hands over a message.
func (x *receiver) deliver() error {
	turn := x.turn.Load()
	x.c.tx.deliver(true)
	if x.turn.Load() != turn {
		return errRelieved
	}
	return nil
}
