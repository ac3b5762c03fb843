package rdma

import (
	"context"
	"fmt"
)

// A ReceiveQueue is a Handler that keeps messages until they are taken. Its
// bound is the number of receives that the connection has posted: after taking
// a message, the taker should post a receive when it can take another message.
// The methods are safe for concurrent use.
type ReceiveQueue struct {
	q         queue[Recv]
	solicited int           // of the messages in q
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

// Closed ends the queue after its present content.
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

// Poll moves messages to into, oldest first, and returns how many. It does not
// wait. The error is ErrClosed with the cause, when the connection has ended
// and no message is left. The caller must release the buffers.
func (rq *ReceiveQueue) Poll(into []Recv) (int, error) {
	return rq.q.poll(into)
}

// Wait takes the oldest message, waiting for a message if necessary. The error
// is that of Poll, or the context's cause.
func (rq *ReceiveQueue) Wait(ctx context.Context) (Recv, error) {
	return rq.q.wait(ctx)
}

// WaitSolicited waits until the queue holds a message that asked for an event
// (RFC 5040, Section 5.3), or the connection has ended. It takes no message:
// the caller must Poll, which also returns earlier messages that asked for no
// event. The error is that of Poll, or the context's cause.
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
	if there || rq.q.err != nil { // for the next waiter
		wake(rq.event)
	}
	if there {
		return true, nil
	}
	return false, rq.q.err
}
