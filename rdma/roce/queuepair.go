package roce

import (
	"fmt"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A State is a queue pair's state (section 10.3.1).
type State uint8

// The states. A queue pair goes from each to the next, and from any to Reset or
// Error.
const (
	Reset State = iota // accepts no work
	Init               // accepts receives
	RTR                // ready to receive: accepts packets
	RTS                // ready to send as well
	Error              // all work completes as flushed
)

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "ERROR"}

// String returns the Architecture's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// A queuePair is the part common to all services: number, state and receive
// queue. Its mutex is held while a packet is checked and placed.
type queuePair struct {
	dev    *Device
	domain *ProtectionDomain
	number uint32
	recv   Completer

	mu    sync.Mutex
	state State
	cause error // why the state is Error; nil otherwise
	recvs recvQueue
	ended chan struct{} // closed on entry to Error
}

func (q *queuePair) init(pd *ProtectionDomain, recvs int, recv Completer) error {
	if recvs < 0 || recvs > maxRecvs {
		return fmt.Errorf("roce: %d receives: the limit is %d", recvs, maxRecvs)
	}
	if recvs == 0 {
		recvs = defaultRecvs
	}
	q.dev, q.domain, q.recv = pd.dev, pd, recv
	q.recvs.ring = make([]Recv, recvs)
	q.ended = make(chan struct{})
	return nil
}

// Number returns the queue pair's number, 24 bits.
func (q *queuePair) Number() uint32 { return q.number }

// State returns the state.
func (q *queuePair) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

// Done returns a channel that is closed when the queue pair enters Error.
func (q *queuePair) Done() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// Err returns why the queue pair is in Error; nil in other states.
func (q *queuePair) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cause
}

// changeState moves from one state to the next. It calls change under the lock, as part of the
// transition.
func (q *queuePair) changeState(from, to State, change func()) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != from {
		return fmt.Errorf("%w: %v, and %v must follow %v", errState, q.state, to, from)
	}
	if change != nil {
		change()
	}
	q.state = to
	return nil
}

// Reset takes the queue pair back to the Reset state. It drops outstanding work
// without completions.
func (q *queuePair) Reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == Error {
		q.ended = make(chan struct{})
	}
	q.state, q.cause = Reset, nil
	q.recvs.clear()
}

// PostRecv queues receives. An error means that none was queued: the queue pair
// is in Reset, or not all fit. In Error they complete as flushed.
func (q *queuePair) PostRecv(wrs ...Recv) error {
	q.mu.Lock()
	switch {
	case q.state == Reset:
		defer q.mu.Unlock()
		return fmt.Errorf("%w: %v has no receives", errState, q.state)
	case q.state == Error:
		q.mu.Unlock()
		q.flushRecvs(wrs)
		return nil
	}
	defer q.mu.Unlock()
	return q.recvs.push(wrs)
}

// Fail takes the queue pair to Error, with a cause. Posted receives complete as
// flushed.
func (q *queuePair) Fail(cause error) { q.enterError(cause) }

func (q *queuePair) enterError(cause error) {
	q.mu.Lock()
	if q.state == Error {
		q.mu.Unlock()
		return
	}
	left := q.enterErrorLocked(cause)
	q.mu.Unlock()
	q.flushRecvs(left)
}

// enterErrorLocked is like enterError, but with the lock held. The caller must
// flush the returned receives after it releases the lock.
func (q *queuePair) enterErrorLocked(cause error) (left []Recv) {
	q.state, q.cause = Error, cause
	close(q.ended)
	return q.recvs.takeAll()
}

// flushRecvs completes receives as flushed, for a queue pair in Error.
func (q *queuePair) flushRecvs(wrs []Recv) {
	for _, wr := range wrs {
		q.completeRecv(Completion{ID: wr.ID, Err: rdma.ErrFlushed})
	}
}

// completeRecv reports a receive's completion.
func (q *queuePair) completeRecv(c Completion) {
	if q.recv != nil {
		c.QP, c.Received = q.number, true
		q.recv.Complete(c)
	}
}

// canReceive reports whether the queue pair accepts packets. The caller holds
// the lock.
func (q *queuePair) canReceive() bool { return q.state == RTR || q.state == RTS }

// checkCanSend returns an error if nothing can be sent. flushed means that
// posted work completes as flushed.
func (q *queuePair) checkCanSend() (flushed bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch q.state {
	case RTS:
		return false, nil
	case Error:
		return true, nil
	}
	return false, fmt.Errorf("%w: %v cannot send", errState, q.state)
}

// A recvQueue holds posted receives, oldest first.
type recvQueue struct {
	ring  []Recv
	first int
	n     int
}

func (r *recvQueue) push(wrs []Recv) error {
	if len(wrs) > len(r.ring)-r.n {
		return fmt.Errorf("roce: no space for %d receives: %d of %d are posted", len(wrs), r.n, len(r.ring))
	}
	for _, wr := range wrs {
		r.ring[(r.first+r.n)%len(r.ring)] = wr
		r.n++
	}
	return nil
}

// front returns the oldest receive without removing it, or nil.
func (r *recvQueue) front() *Recv {
	if r.n == 0 {
		return nil
	}
	return &r.ring[r.first]
}

func (r *recvQueue) pop() Recv {
	wr := r.ring[r.first]
	r.ring[r.first] = Recv{}
	r.first = (r.first + 1) % len(r.ring)
	r.n--
	return wr
}

// takeAll removes and returns all receives.
func (r *recvQueue) takeAll() (all []Recv) {
	for r.n > 0 {
		all = append(all, r.pop())
	}
	return all
}

func (r *recvQueue) clear() {
	clear(r.ring)
	r.first, r.n = 0, 0
}
