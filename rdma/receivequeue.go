package rdma

import (
	"context"
	"fmt"
)

// A ReceiveQueue is a Handler that keeps messages until they are taken. It is
// bounded by the receives that its connection has posted: whoever takes a
// message posts another receive, when he can take another message. Its methods
// may be called by several goroutines.
type ReceiveQueue struct {
	q         queue[Recv]
	solicited int           // of those in q
	event     chan struct{} // holds a token while WaitSolicited has a reason to look
}

var _ Handler = (*ReceiveQueue)(nil)

// NewReceiveQueue returns an empty queue, for the ConnConfig of one connection.
func NewReceiveQueue() *ReceiveQueue {
	rq := &ReceiveQueue{event: make(chan struct{}, 1)}
	rq.q.more = make(chan struct{}, 1)
	rq.q.taken = func(m Recv) {
		if m.Solicited {
			rq.solicited--
		}
	}
	return rq
}

// Receive adds a message.
func (rq *ReceiveQueue) Receive(m Recv) {
	rq.q.mu.Lock()
	defer rq.q.mu.Unlock()
	rq.q.put(m)
	if m.Solicited {
		rq.solicited++
		wake(rq.event)
	}
}

// Closed ends the queue, behind what it has.
func (rq *ReceiveQueue) Closed(cause error) {
	rq.q.mu.Lock()
	defer rq.q.mu.Unlock()
	if cause == nil {
		rq.q.end(ErrClosed)
	} else {
		rq.q.end(fmt.Errorf("%w: %w", ErrClosed, cause))
	}
	wake(rq.event)
}

// Poll moves messages to into, oldest first, and returns how many there were.
// It does not wait. The error is ErrClosed with the cause, when the connection
// has ended and nothing is left. The buffers are the caller's to release.
func (rq *ReceiveQueue) Poll(into []Recv) (int, error) {
	return rq.q.poll(into)
}

// Wait takes the oldest message, and waits until there is one. The error is
// that of Poll, or the context's cause.
func (rq *ReceiveQueue) Wait(ctx context.Context) (Recv, error) {
	return rq.q.wait(ctx)
}

// WaitSolicited waits until the queue holds a message that asked for an event
// (RFC 5040, Section 5.3), or the connection has ended, and takes nothing: Poll
// does, also those that came before and asked for none. The error is that of
// Poll, or the context's cause.
func (rq *ReceiveQueue) WaitSolicited(ctx context.Context) error {
	for {
		if there, err := rq.hasSolicited(); there || err != nil {
			return err
		}
		select {
		case <-rq.event:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (rq *ReceiveQueue) hasSolicited() (bool, error) {
	rq.q.mu.Lock()
	defer rq.q.mu.Unlock()
	there := rq.solicited > 0
	if there || rq.q.err != nil { // for the next who waits
		wake(rq.event)
	}
	if there {
		return true, nil
	}
	return false, rq.q.err
}
