package rdma

import (
	"context"
	"fmt"
)

// A ReceiveQueue is a Handler that keeps messages until they are polled. Its
// bound is the number of receives that the connection has posted: after
// removing a message, the caller should post a receive when it can process
// another. The methods are safe for concurrent use.
type ReceiveQueue struct {
	q         queue[Recv]
	solicited int           // number of solicited messages in q
	event     chan struct{} // holds a token while WaitSolicited should check the queue
}

var _ Handler = (*ReceiveQueue)(nil)

// NewReceiveQueue returns an empty queue, for one connection's ConnConfig.
func NewReceiveQueue() *ReceiveQueue {
	rq := &ReceiveQueue{event: make(chan struct{}, 1)}
	rq.q.signal = make(chan struct{}, 1)
	rq.q.onTake = func(m Recv) {
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
	rq.q.putItem(m)
	if m.Solicited {
		rq.solicited++
		wakeTaker(rq.event)
	}
}

// Closed ends the queue after its current content.
func (rq *ReceiveQueue) Closed(cause error) {
	rq.q.mu.Lock()
	defer rq.q.mu.Unlock()
	if cause == nil {
		rq.q.endWith(ErrClosed)
	} else {
		rq.q.endWith(fmt.Errorf("%w: %w", ErrClosed, cause))
	}
	wakeTaker(rq.event)
}

// Poll moves messages to into, oldest first, and returns their number. It does
// not wait. The error is ErrClosed with the cause, when the connection has
// ended and no message is left. The caller must release the buffers.
func (rq *ReceiveQueue) Poll(into []Recv) (int, error) {
	return rq.q.pollItems(into)
}

// Wait removes and returns the oldest message, waiting for one if necessary.
// The error is Poll's, or the context's cause.
func (rq *ReceiveQueue) Wait(ctx context.Context) (Recv, error) {
	return rq.q.waitForItem(ctx)
}

// WaitSolicited waits until the queue holds a message that requested an event
// (RFC 5040, Section 5.3), or the connection has ended. It removes no message:
// the caller must Poll, which also returns earlier messages that requested no
// event. The error is Poll's, or the context's cause.
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
		wakeTaker(rq.event)
	}
	if there {
		return true, nil
	}
	return false, rq.q.err
}
