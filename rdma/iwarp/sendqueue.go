package iwarp

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// A sendQueue holds a connection's unsent data, and the work requests that have
// not completed.
//
//	  done        written       being built   posted
//	┌───────────┬─────────────┬─────────────┬─────────────┐
//	│ completed │ some await  │ cut into    │ wait        │
//	│ in order  │ a response  │ FPDUs       │             │
//	└───────────┴─────────────┴─────────────┴─────────────┘
//	            head          written       next
//
// Responses and a Terminate have their own queues, since they overtake work
// requests that wait for the peer's response.
type sendQueue struct {
	mu sync.Mutex

	wrs     []workRequest // ring
	head    uint64        // the oldest request that has not completed
	written uint64        // the first request not completely written to the socket
	next    uint64        // the first request not completely divided into FPDUs
	tail    uint64        // index for the next posted request

	responses fifo[response]
	terminate *rdmap.Terminate // nil: none to send

	cur         message
	copying     bool      // the writer copies cur's data without the lock,
	overtaken   bool      // and the rest of cur must not be sent
	oneSlice    [1][]byte // cur's data if cur is a response
	sends       uint32    // last MSN: Send or Immediate Data
	requests    uint32    // last MSN: Read Request or Atomic Request
	atomicReqs  uint32    // last Atomic Request identifier
	atomicResps uint32    // last MSN: Atomic Response
	extended    bool      // an RFC 7306 message was sent

	readable     func(mem []byte) bool // makeReadable
	hasEnded     func() bool           // reports whether the connection can no longer send
	waitsForDisk atomic.Bool           // the writer waits for a disk without the socket, or for a slot to do so

	lentRequests  int           // work requests whose data may be in file pages
	watch         lentWatch     // watches lentRequests
	readRespBytes uint64        // bytes received in RDMA Read Responses
	sentBytes     atomic.Uint64 // bytes written in batches with work requests

	reads    fifo[outboundRead]   // requests in flight
	sinkSTag rdma.STag            // sink STag for the responses
	atomics  fifo[outboundAtomic] // requests in flight

	gated        bool  // nothing may be sent yet (RFC 5044, Section 7.1.2, rule 4)
	closed       bool  // further posts are rejected
	broken       bool  // sending has stopped
	err          error // from the failed write
	corked       bool  // the reader is delivering messages: posted requests are held back,
	heldBytes    int   // this many bytes so far; at maxHeld they are sent,
	noPosts      bool  // and nothing has been posted yet
	writing      bool  // a goroutine builds and writes batches
	batch        *batch
	writeAndWait func()    // writeBatches(true), allocated once
	changed      sync.Cond // signalled when a field above changes

	markers     mpa.Inserter // if the peer requires Markers,
	perFPDU     int          // maximum number per FPDU
	counts      Counts
	completions fifo[dueCompletion]
	delivering  bool
	byReader    bool // the reader is delivering
	deliverTurn int  // number of times that the delivering reader was replaced
}

// A workRequest is a posted WR with its progress.
type workRequest struct {
	rdma.WR
	length   int    // length of Data or Sink in bytes
	complete bool   // finished, but earlier requests may be incomplete
	original uint64 // an atomic operation's result, once complete
}

// needsResponse reports whether w completes only with the peer's response.
func (w *workRequest) needsResponse() bool { return w.Op == rdma.OpRead || w.Op.Atomic() }

func (q *sendQueue) requestAt(i uint64) *workRequest { return &q.wrs[i%uint64(len(q.wrs))] }

// growRing enlarges the ring if n more work requests do not fit.
func (q *sendQueue) growRing(n int) {
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
		wrs[i%uint64(size)] = *q.requestAt(i)
	}
	q.wrs = wrs
}

var errNoReads = errors.New("iwarp: the peer accepts no RDMA Reads and no atomic operations")

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
	case w.needsResponse() && ord == 0: // it would wait forever
		return 0, fmt.Errorf("%w: %v", errNoReads, w.Op)
	}
	return int(n), nil
}

// Post queues work requests and sends as much as the socket accepts
// immediately.
func (c *Conn) Post(wrs ...rdma.WR) error {
	q := &c.tx
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return c.closedError()
	}
	q.growRing(len(wrs))
	for i := range wrs {
		w := q.requestAt(q.tail + uint64(i))
		*w = workRequest{WR: wrs[i]}
		var err error
		if w.length, err = checkWR(w, c.params.ORD); err != nil {
			for j := range i + 1 {
				*q.requestAt(q.tail + uint64(j)) = workRequest{} // drop references to the caller's memory
			}
			q.mu.Unlock()
			return err
		}
	}
	for i := range wrs {
		q.heldBytes += q.requestAt(q.tail + uint64(i)).length
		if wrs[i].Reread != nil {
			q.lentRequests++
		}
	}
	q.noPosts = false
	q.tail += uint64(len(wrs))
	if q.lentRequests > 0 {
		q.watch.beginLocked(c)
	}
	q.startWriterUnlock(c)
	return nil
}

// finishLocked moves completed work requests from the head to the completions
// queue. The caller must then call deliverCompletions.
func (q *sendQueue) finishLocked() {
	for q.head < q.written && q.requestAt(q.head).complete {
		q.popLocked(nil)
	}
}

// popLocked removes the oldest work request and queues its completion with err.
func (q *sendQueue) popLocked(err error) {
	w := q.requestAt(q.head)
	if w.Reread != nil {
		q.lentRequests--
	}
	if w.Done != nil {
		q.completions.push(dueCompletion{w.Done, rdma.Completion{ID: w.ID, Op: w.Op, Err: err, Original: w.original}})
	}
	*w = workRequest{}
	q.head++
}
