package iwarp

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A sendQueue holds the unsent data of a connection, and the work requests that
// have not completed.
//
//	  done        written       being built   posted
//	┌───────────┬─────────────┬─────────────┬─────────────┐
//	│ completed │ some await  │ cut into    │ wait        │
//	│ in order  │ a response  │ FPDUs       │             │
//	└───────────┴─────────────┴─────────────┴─────────────┘
//	            head          written       next
//
// Responses and a Terminate have queues of their own, since they overtake work
// requests that wait for a response of the peer.
type sendQueue struct {
	mu sync.Mutex

	wrs     []workRequest // ring
	head    uint64        // the oldest request that has not completed
	written uint64        // the first request not wholly written to the socket
	next    uint64        // the first request not wholly cut into FPDUs
	tail    uint64        // index of the next request posted

	responses fifo[response]
	terminate *rdmap.Terminate // nil: none is due

	cur         message
	copying     bool      // the writer copies data of cur without the lock,
	overtaken   bool      // and the rest of cur must not be sent
	one         [1][]byte // cur's data if cur is a response
	sends       uint32    // MSN of the last Send or Immediate Data
	requests    uint32    // MSN of the last Read Request or Atomic Request
	atomicReqs  uint32    // identifier of the last Atomic Request
	atomicResps uint32    // MSN of the last Atomic Response
	extended    bool      // a message of RFC 7306 was sent

	lent  int           // work requests whose data may be in pages of files
	watch lentWatch     // of these
	got   uint64        // bytes of the answers to RDMA Reads
	sent  atomic.Uint64 // bytes of written batches with work requests

	reads    fifo[outboundRead]   // requests sent and not yet answered
	sinkSTag rdma.STag            // sink STag of the responses
	atomics  fifo[outboundAtomic] // requests sent and not yet answered

	gated   bool  // nothing may be sent yet (RFC 5044, Section 7.1.2, rule 4)
	closed  bool  // nothing more may be posted
	broken  bool  // nothing more is sent
	err     error // of the failed write
	corked  bool  // the reader hands over messages: posted requests are held back,
	held    int   // this many bytes so far; from maxHeld on they are sent,
	quiet   bool  // and nothing has been posted yet
	writing bool  // a goroutine builds and writes batches
	batch   *batch
	await   func()    // pump(true), made once
	idle    sync.Cond // signalled at a change of the fields above

	markers    mpa.Inserter // if the peer requires Markers,
	perFPDU    int          // maximum number in an FPDU
	counts     Counts
	done       fifo[finished]
	delivering bool
	byReader   bool // the reader is delivering
	turn       int  // how often the delivering reader was relieved
}

// A workRequest is a posted WR with its progress.
type workRequest struct {
	rdma.WR
	length   int    // bytes of Data, or of Sink
	complete bool   // done, but earlier requests may be incomplete
	original uint64 // result of a complete atomic operation
}

// answered reports whether w completes only with the peer's answer.
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

// checkWR returns the length of w's data. ord is the number of RDMA Reads and
// atomic operations that may be outstanding.
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
		return 0, fmt.Errorf("iwarp: %v of %d bytes: the limit is %d", w.Op, n, uint32(math.MaxUint32))
	case w.Op == rdma.OpRead && slices != 1:
		return 0, fmt.Errorf("iwarp: RDMA Read with %d data slices or sinks: it needs exactly one", slices)
	case w.Op != rdma.OpRead && w.Sink != nil:
		return 0, fmt.Errorf("iwarp: %v with a sink: it takes none", w.Op)
	case w.Op > rdma.OpRead && len(w.Data) > 0:
		return 0, fmt.Errorf("iwarp: %v with %d data slices: it takes none", w.Op, len(w.Data))
	case w.answered() && ord == 0: // it would wait for ever
		return 0, fmt.Errorf("%w: %v", errNoReads, w.Op)
	}
	return int(n), nil
}

// Post queues work requests and sends as much as the socket takes at once.
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
				*q.at(q.tail + uint64(j)) = workRequest{} // reference no memory of the caller
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
	if q.lent > 0 {
		q.watch.beginLocked(c)
	}
	q.kick(c)
	return nil
}

// finishLocked moves completed work requests from the head to the list of due
// completions. The caller must then call deliver.
func (q *sendQueue) finishLocked() {
	for q.head < q.written && q.at(q.head).complete {
		q.popLocked(nil)
	}
}

// popLocked removes the oldest work request and queues its completion with err.
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
