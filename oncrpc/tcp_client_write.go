package oncrpc

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A callWriter writes a TCPClient's calls in the order in which they are put. Calls that
// are put during a write are sent together in the next.
//
// The bytes belong to the callers. A caller that gives up while its call is written
// interrupts the writer. The writer then copies the rest of the batch, releases the
// calls, and continues with the copy. A partial record would make the stream useless for
// all other calls.
type callWriter struct {
	client *TCPClient
	cond   sync.Cond // on client.mu: there is work

	// guarded by client.mu
	waiting     []*clientCall
	batch       []*clientCall // being written
	interrupted bool          // the write deadline has passed
	err         error         // why run ended

	// used by run only
	vec  net.Buffers
	rest net.Buffers // the unwritten part of vec
	copy *buf.Buf    // rest's memory after an interruption
}

func (w *callWriter) init(c *TCPClient) {
	w.client = c
	w.cond.L = &c.mu
}

// putLocked queues cl for writing.
func (w *callWriter) putLocked(cl *clientCall) {
	w.waiting = append(w.waiting, cl)
	w.cond.Signal()
}

// stopLocked drops the calls that are not being written yet, and stops run.
func (w *callWriter) stopLocked() {
	for _, cl := range w.waiting {
		cl.writerDone <- struct{}{}
	}
	w.waiting = nil
	w.cond.Signal()
}

// withdrawCall makes the writer stop using cl's memory: cl is not written, or is written
// from a copy.
func (c *TCPClient) withdrawCall(cl *clientCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.out
	if i := slices.Index(w.waiting, cl); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
		cl.writerDone <- struct{}{}
		return
	}
	if slices.Contains(w.batch, cl) {
		w.interrupted = true
		_ = c.nc.SetWriteDeadline(time.Unix(1, 0)) // fails only if writing fails
	}
}

// run writes until the connection closes.
func (w *callWriter) run() {
	for w.gatherBatch() {
		err := w.writeBatch()
		w.releaseBatch()
		if err != nil {
			w.client.handOverError(err)
			return
		}
	}
}

// handOverError lets the reader close the connection, with err unless the reader soon
// finds a better cause: a server that rejects calls may have sent its reason, and EOF
// from the server explains more than our write error.
func (c *TCPClient) handOverError(err error) {
	c.mu.Lock()
	c.out.err = err
	c.mu.Unlock()
	_ = c.nc.SetReadDeadline(time.Now().Add(lastMessageTimeout)) // fails only if reading fails
}

// gatherBatch waits for calls and moves those for the next write to the batch. It returns
// false if the connection has closed.
func (w *callWriter) gatherBatch() bool {
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(w.waiting) == 0 && c.err == nil {
		w.cond.Wait()
	}
	if c.err != nil {
		return false
	}
	n, size := 0, 0
	for n < len(w.waiting) && (n == 0 || size+w.waiting[n].recordLen() <= batchSize) {
		size += w.waiting[n].recordLen()
		n++
	}
	w.batch = append(w.batch[:0], w.waiting[:n]...)
	w.waiting = slices.Delete(w.waiting, 0, n)
	return true
}

// writeBatch writes the batch, or the copy after an interruption.
func (w *callWriter) writeBatch() error {
	w.vec = w.vec[:0]
	for _, cl := range w.batch {
		w.vec = cl.appendRecord(w.vec)
	}
	w.rest = w.vec
	_, err := writeBuffers(w.client.nc, &w.rest)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.copyRest()
		w.releaseBatch()
		_, err = writeBuffers(w.client.nc, &w.rest)
		w.copy.Release()
	}
	clear(w.vec)
	return err
}

// copyRest moves the unwritten bytes to the writer's own memory.
func (w *callWriter) copyRest() {
	n := 0
	for _, part := range w.rest {
		n += len(part)
	}
	w.copy = buf.Default.Get(n)
	n = 0
	for _, part := range w.rest {
		n += copy(w.copy.B[n:], part)
	}
	w.rest = append(w.vec[:0], w.copy.B)
}

// releaseBatch releases the batch's calls, and clears an interruption.
func (w *callWriter) releaseBatch() {
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, cl := range w.batch {
		w.batch[i] = nil
		cl.writerDone <- struct{}{}
	}
	w.batch = w.batch[:0]
	if w.interrupted {
		w.interrupted = false
		_ = c.nc.SetWriteDeadline(time.Time{})
	}
}
