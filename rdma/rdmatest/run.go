package rdmatest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A frame is the unit that travels from one end to the other.
type frame struct {
	kind   kind
	wr     rdma.WR  // of a request; without Data
	data   []byte   // of a Send, RDMA Write or response; a copy
	length int      // of an RDMA Read, in bytes
	asked  *request // the RDMA Read or atomic operation of this frame or response
	due    time.Time

	original uint64 // of the response to an atomic operation
}

type kind uint8

const (
	kindSend kind = iota
	kindWrite
	kindRead
	kindAtomic
	kindImmediate
	kindResponse
	kindEnd // orderly
)

// run drives the connection until it ends.
func (c *Conn) run() {
	c.sender.Go(c.send)
	c.attend()
}

// attend reads until the connection ends or another goroutine takes over
// reading. The goroutine that sees the end exits last.
func (c *Conn) attend() {
	if c.read() == errRelieved {
		return
	}
	c.sender.Wait()
	c.regions.clear()
	c.mu.Lock()
	left, cause := c.pending, c.cause
	c.pending, c.unsent, c.responses = nil, nil, nil
	c.mu.Unlock()
	for _, r := range left {
		complete(r, fmt.Errorf("rdmatest: %w: %w", rdma.ErrFlushed, cause), false)
	}
	c.cfg.Handler.Closed(cause)
	close(c.over)
}

// send makes frames of posted requests and of responses.
func (c *Conn) send() {
	for {
		f, r, ok := c.nextFrame()
		if !ok {
			return
		}
		select {
		case c.peer.in <- f:
		case <-c.dead:
			return
		}
		if f.kind == kindEnd {
			return
		}
		if r != nil && !r.answered() {
			c.finish(r, false)
		}
	}
}

// nextFrame waits for the next frame to send. If the frame is a request, r is
// that request.
func (c *Conn) nextFrame() (f frame, r *request, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.cause == nil && len(c.responses) == 0 && !c.mayStart() && (!c.closing || len(c.unsent) > 0) {
		c.cond.Wait()
	}
	if c.cutAfter >= 0 && c.sent >= c.cutAfter && c.cause == nil {
		go c.Abort(ErrCut) // not with the lock held
		for c.cause == nil {
			c.cond.Wait()
		}
	}
	switch {
	case c.cause != nil:
		return frame{}, nil, false
	case len(c.responses) > 0:
		f, c.responses = c.responses[0], c.responses[1:]
	case len(c.unsent) > 0:
		r, c.unsent = c.unsent[0], c.unsent[1:]
		f = frameOf(r)
	default:
		f.kind = kindEnd
	}
	c.sent++
	f.due = time.Now().Add(c.delay)
	return f, r, true
}

// mayStart reports whether the next request can go: a fence waits for the RDMA
// Reads and atomic operations before it. The caller holds the lock.
func (c *Conn) mayStart() bool {
	if len(c.unsent) == 0 {
		return false
	}
	next := c.unsent[0]
	for _, r := range c.pending {
		if r == next {
			break
		}
		if next.Fence && r.answered() && !r.done {
			return false
		}
	}
	return true
}

func frameOf(r *request) frame {
	f := frame{wr: r.WR, asked: r}
	f.wr.Data, f.wr.Sink = nil, nil
	switch r.Op {
	case rdma.OpSend:
		f.kind, f.data = kindSend, bytes.Join(r.Data, nil)
	case rdma.OpWrite:
		f.kind, f.data = kindWrite, bytes.Join(r.Data, nil)
	case rdma.OpRead:
		f.kind, f.length = kindRead, r.readLen()
	case rdma.OpImmediate:
		f.kind = kindImmediate
	default:
		f.kind = kindAtomic
	}
	return f
}

// finish marks a request as done, and delivers the completions that are due.
func (c *Conn) finish(r *request, byReader bool) {
	c.mu.Lock()
	r.done = true
	c.cond.Signal() // a fence may open
	c.mu.Unlock()
	c.deliver(byReader)
}

// deliver delivers the completions that are due, in the order of posting and
// one at a time.
func (c *Conn) deliver(byReader bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivering {
		return
	}
	c.delivering, c.byReader = true, byReader
	relieved := c.relieved
	for c.relieved == relieved && len(c.pending) > 0 && c.pending[0].done {
		first := c.pending[0]
		c.pending = c.pending[1:]
		c.mu.Unlock()
		complete(first, nil, byReader)
		c.mu.Lock()
	}
	if c.relieved == relieved {
		c.delivering = false
	}
}

func complete(r *request, err error, byReader bool) {
	done := rdma.Completion{ID: r.ID, Op: r.Op, Err: err, Original: r.original}
	if to, ok := r.Done.(rdma.InlineCompleter); ok && byReader {
		to.CompleteInline(done)
	} else if r.Done != nil {
		r.Done.Complete(done)
	}
}

// HandOffReader makes another goroutine continue reading while Handler.Receive
// or InlineCompleter.CompleteInline runs.
func (c *Conn) HandOffReader() {
	c.turn.Add(1)
	c.mu.Lock()
	if c.delivering && c.byReader {
		c.delivering = false
		c.relieved++
	}
	c.mu.Unlock()
	go c.attend()
}

// errRelieved ends a reader, not the connection.
var errRelieved = errors.New("rdmatest: another goroutine reads on")

// read handles the peer's frames in order.
func (c *Conn) read() error {
	if err := c.handOver(func() { c.deliver(true) }); err != nil { // left by the reader before
		return err
	}
	for {
		select {
		case <-c.dead:
			return nil
		case f := <-c.in:
			if !c.arrive(f.due) || !c.resumed() {
				return nil
			}
			switch err := c.take(f); err {
			case nil:
			case errRelieved:
				return err
			default:
				c.end(err)
				c.peer.end(fmt.Errorf("terminated by the peer: %w", f.told(err)))
			}
		}
	}
}

// told returns an error as the sender of a frame learns it: with the STag of
// the memory that the sender could not access.
func (f *frame) told(err error) error {
	if (f.kind == kindWrite || f.kind == kindRead) && errors.Is(err, ErrAccess) {
		return fmt.Errorf("%w: %w", err, rdma.AccessError{STag: f.wr.Remote.STag})
	}
	return err
}

// arrive waits for the time of a frame.
func (c *Conn) arrive(due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-late.C:
		return true
	case <-c.dead:
		return false
	}
}

// resumed waits while the reader is paused.
func (c *Conn) resumed() bool {
	c.mu.Lock()
	pause := c.pause
	c.mu.Unlock()
	if pause == nil {
		return true
	}
	select {
	case <-pause:
		return true
	case <-c.dead:
		return false
	}
}
