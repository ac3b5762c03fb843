package iwarp

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A sendQueue holds what a connection has yet to send, and the work requests
// that have not completed.
//
//	  done        written       being built   posted
//	┌───────────┬─────────────┬─────────────┬─────────────┐
//	│ completed │ some await  │ cut into    │ wait        │
//	│ in order  │ a response  │ FPDUs       │             │
//	└───────────┴─────────────┴─────────────┴─────────────┘
//	            head          written       next
//
// Responses and a Terminate are in queues of their own, since they overtake work
// requests that wait for a response of the peer.
type sendQueue struct {
	mu sync.Mutex

	wrs     []workRequest // ring
	head    uint64        // the oldest that has not completed
	written uint64        // the first that is not wholly written to the socket
	next    uint64        // the first that is not wholly cut into FPDUs
	tail    uint64        // where the next one posted goes

	responses fifo[response]
	terminate *rdmap.Terminate // nil: none is due

	cur         message
	copying     bool      // the writer copies data of cur without the lock,
	overtaken   bool      // and the rest of it is not to be sent
	one         [1][]byte // cur's data where it is a response
	sends       uint32    // MSN of the last Send or Immediate Data
	requests    uint32    // MSN of the last Read Request or Atomic Request
	atomicReqs  uint32    // identifier of the last Atomic Request
	atomicResps uint32    // MSN of the last Atomic Response
	extended    bool      // a message of RFC 7306 was sent

	lent int // work requests whose data may lie in pages of files

	reads    fifo[outboundRead]   // requests sent and not yet answered
	sinkSTag rdma.STag            // that their responses carry
	atomics  fifo[outboundAtomic] // requests sent and not yet answered

	gated   bool  // nothing may be sent yet (RFC 5044, Section 7.1.2, rule 4)
	closed  bool  // nothing more is taken
	broken  bool  // nothing more is sent
	err     error // of the write that failed
	corked  bool  // the reader hands messages over: what is posted waits for the rest,
	held    int   // up to so many octets,
	quiet   bool  // and nothing was posted yet
	writing bool  // somebody builds batches and writes them
	batch   *batch
	await   func()    // pump(true), made once
	idle    sync.Cond // something of the above has changed

	markers    mpa.Inserter // where the peer requires them,
	perFPDU    int          // and so many in an FPDU at most
	counts     Counts
	done       fifo[finished]
	delivering bool
	byReader   bool // it is the reader that delivers
	turn       int  // how often it was relieved of that
}

// A workRequest is a posted WR with its progress.
type workRequest struct {
	rdma.WR
	length   int    // octets of Data, or of Sink
	complete bool   // done, but perhaps others before it are not
	original uint64 // of an atomic operation that is complete
}

// answered tells whether w is complete only when the peer has answered.
func (w *workRequest) answered() bool { return w.Op == rdma.OpRead || w.Op.Atomic() }

func (q *sendQueue) at(i uint64) *workRequest { return &q.wrs[i%uint64(len(q.wrs))] }

// grow makes room for n more work requests.
func (q *sendQueue) grow(n int) {
	used := q.tail - q.head
	if used+uint64(n) <= uint64(len(q.wrs)) {
		return
	}
	size := max(2*len(q.wrs), 16)
	for uint64(size) < used+uint64(n) {
		size *= 2
	}
	wrs := make([]workRequest, size)
	for i := q.head; i < q.tail; i++ {
		wrs[i%uint64(size)] = *q.at(i)
	}
	q.wrs = wrs
}

var errNoReads = errors.New("iwarp: the peer serves no RDMA Reads and no atomic operations")

// checkWR returns the length of w's data, where ord RDMA Reads and atomic
// operations may be outstanding.
func checkWR(w *workRequest, ord int) (int, error) {
	n, slices := uint64(0), len(w.Data)
	for _, b := range w.Data {
		n += uint64(len(b))
	}
	if w.Sink != nil {
		n += uint64(w.Sink.Len())
		slices++
	}
	switch {
	case w.Op > rdma.OpImmediate:
		return 0, fmt.Errorf("iwarp: work request with operation %v", w.Op)
	case n > math.MaxUint32: // RFC 5041, Section 5.2
		return 0, fmt.Errorf("iwarp: %v of %d octets: the limit is %d", w.Op, n, uint32(math.MaxUint32))
	case w.Op == rdma.OpRead && slices != 1:
		return 0, fmt.Errorf("iwarp: RDMA Read with %d data slices or sinks: it takes one", slices)
	case w.Op != rdma.OpRead && w.Sink != nil:
		return 0, fmt.Errorf("iwarp: %v with a sink: it takes none", w.Op)
	case w.Op > rdma.OpRead && len(w.Data) > 0:
		return 0, fmt.Errorf("iwarp: %v with %d data slices: it takes none", w.Op, len(w.Data))
	case w.answered() && ord == 0: // it would wait for ever
		return 0, fmt.Errorf("%w: %v", errNoReads, w.Op)
	}
	return int(n), nil
}

// Post queues work requests and sends what the socket takes at once.
func (c *Conn) Post(wrs ...rdma.WR) error {
	q := &c.tx
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return c.closedError()
	}
	q.grow(len(wrs))
	for i := range wrs {
		w := q.at(q.tail + uint64(i))
		*w = workRequest{WR: wrs[i]}
		var err error
		if w.length, err = checkWR(w, c.params.ORD); err != nil {
			for j := range i + 1 {
				*q.at(q.tail + uint64(j)) = workRequest{} // hold no caller's memory
			}
			q.mu.Unlock()
			return err
		}
	}
	for i := range wrs {
		q.held += q.at(q.tail + uint64(i)).length
		if wrs[i].Reread != nil {
			q.lent++
		}
	}
	q.quiet = false
	q.tail += uint64(len(wrs))
	q.kick(c)
	return nil
}

// finishLocked moves completed work requests from the head to the list of
// completions that are due. The caller then calls deliver.
func (q *sendQueue) finishLocked() {
	for q.head < q.written && q.at(q.head).complete {
		q.popLocked(nil)
	}
}

// popLocked takes the oldest work request away, with its fate.
func (q *sendQueue) popLocked(err error) {
	w := q.at(q.head)
	if w.Reread != nil {
		q.lent--
	}
	if w.Done != nil {
		q.done.push(finished{w.Done, rdma.Completion{ID: w.ID, Op: w.Op, Err: err, Original: w.original}})
	}
	*w = workRequest{}
	q.head++
}
