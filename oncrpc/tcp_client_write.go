package oncrpc

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/buf"
)

// A callWriter writes the calls of a TCPClient in the order in which they are
// put. Those that come while the connection is busy leave together.
//
// The octets are the callers'. A caller who gives up while they are being
// written interrupts the writer, which copies what is left of the batch, lets
// go of the calls, and goes on with the copy: else the stream would be of no
// more use to the others.
type callWriter struct {
	client *TCPClient
	cond   sync.Cond // on client.mu: there is something to do

	// under client.mu
	waiting     []*clientCall
	batch       []*clientCall // whose octets are being written
	interrupted bool          // the write deadline has passed
	err         error         // why run ended

	// of run
	vec  net.Buffers
	rest net.Buffers // of vec, not written yet
	copy *buf.Buf    // what rest is in after an interruption
}

func (w *callWriter) init(c *TCPClient) {
	w.client = c
	w.cond.L = &c.mu
}

// putLocked leaves cl to be written.
func (w *callWriter) putLocked(cl *clientCall) {
	w.waiting = append(w.waiting, cl)
	w.cond.Signal()
}

// endLocked gives up what is not being written yet, and ends run.
func (w *callWriter) endLocked() {
	for _, cl := range w.waiting {
		cl.left <- struct{}{}
	}
	w.waiting = nil
	w.cond.Signal()
}

// withdraw sees that cl is written no more, or from a copy.
func (c *TCPClient) withdraw(cl *clientCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.out
	if i := slices.Index(w.waiting, cl); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
		cl.left <- struct{}{}
		return
	}
	if slices.Contains(w.batch, cl) {
		w.interrupted = true
		_ = c.nc.SetWriteDeadline(time.Unix(1, 0)) // fails only where writing fails
	}
}

// run writes until the connection ends.
func (w *callWriter) run() {
	for w.gather() {
		err := w.write()
		w.leave()
		if err != nil {
			w.client.endWriting(err)
			return
		}
	}
}

// endWriting leaves it to the reader to end the connection, with err where it
// does not find a better cause soon: a server that refuses calls may have said
// why, and the end that it made of the stream says more than ours.
func (c *TCPClient) endWriting(err error) {
	c.mu.Lock()
	c.out.err = err
	c.mu.Unlock()
	_ = c.nc.SetReadDeadline(time.Now().Add(lastWords)) // fails only where reading fails
}

// gather waits for calls and moves those that the next write gathers to the
// batch. It returns false where the connection has ended.
func (w *callWriter) gather() bool {
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
	for n < len(w.waiting) && (n == 0 || size+w.waiting[n].len() <= batchSize) {
		size += w.waiting[n].len()
		n++
	}
	w.batch = append(w.batch[:0], w.waiting[:n]...)
	w.waiting = slices.Delete(w.waiting, 0, n)
	return true
}

// write writes the batch, or after an interruption the copy.
func (w *callWriter) write() error {
	w.vec = w.vec[:0]
	for _, cl := range w.batch {
		w.vec = cl.appendTo(w.vec)
	}
	w.rest = w.vec
	_, err := w.rest.WriteTo(w.client.nc)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.copyRest()
		w.leave()
		_, err = w.rest.WriteTo(w.client.nc)
		w.copy.Release()
	}
	clear(w.vec)
	return err
}

// copyRest moves what is not written yet to memory of the writer's own.
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

// leave lets go of the batch, and lets the writer write again.
func (w *callWriter) leave() {
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, cl := range w.batch {
		w.batch[i] = nil
		cl.left <- struct{}{}
	}
	w.batch = w.batch[:0]
	if w.interrupted {
		w.interrupted = false
		_ = c.nc.SetWriteDeadline(time.Time{})
	}
}
