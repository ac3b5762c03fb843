package rdmatest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A frame is one transmission from one end to the other.
type frame struct {
	kind    frameKind
	wr      rdma.WR      // the request, without Data
	data    []byte       // a copy of the data in a Send, RDMA Write or response
	length  int          // RDMA Read length, in bytes
	request *workRequest // the RDMA Read or atomic operation that this frame requests or answers
	due     time.Time

	original uint64 // result, in the response to an atomic operation
}

type frameKind uint8

const (
	kindSend frameKind = iota
	kindWrite
	kindRead
	kindAtomic
	kindImmediate
	kindResponse
	kindEnd // orderly close
)

// run drives the connection until it ends.
func (c *Conn) run() {
	c.sender.Go(c.sendFrames)
	c.readUntilEnd()
}

// readUntilEnd reads until the connection ends or another goroutine takes over
// reading. The goroutine that sees the connection end exits last.
func (c *Conn) readUntilEnd() {
	if c.readFrames() == errHandedOff {
		return
	}
	c.sender.Wait()
	c.regions.removeAll()
	c.mu.Lock()
	left, cause := c.pending, c.cause
	c.pending, c.unsent, c.responses = nil, nil, nil
	c.mu.Unlock()
	for _, r := range left {
		completeRequest(r, fmt.Errorf("rdmatest: %w: %w", rdma.ErrFlushed, cause), false)
	}
	c.cfg.Handler.Closed(cause)
	close(c.done)
}

// sendFrames sends posted requests and responses as frames.
func (c *Conn) sendFrames() {
	for {
		f, r, ok := c.nextFrame()
		if !ok {
			return
		}
		select {
		case c.peer.in <- f:
		case <-c.ended:
			return
		}
		if f.kind == kindEnd {
			return
		}
		if r != nil && !r.needsResponse() {
			c.finishRequest(r, false)
		}
	}
}

// nextFrame waits for the next frame to send. If the frame is a request, r is
// that request.
func (c *Conn) nextFrame() (f frame, r *workRequest, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.cause == nil && len(c.responses) == 0 && !c.mayStart() && (!c.closing || len(c.unsent) > 0) {
		c.cond.Wait()
	}
	if c.cutAfter >= 0 && c.sentFrames >= c.cutAfter && c.cause == nil {
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
	c.sentFrames++
	f.due = time.Now().Add(c.delay)
	return f, r, true
}

// mayStart reports whether the next request can be sent: a fence waits for
// earlier RDMA Reads and atomic operations. The caller holds the lock.
func (c *Conn) mayStart() bool {
	if len(c.unsent) == 0 {
		return false
	}
	next := c.unsent[0]
	for _, r := range c.pending {
		if r == next {
			break
		}
		if next.Fence && r.needsResponse() && !r.done {
			return false
		}
	}
	return true
}

func frameOf(r *workRequest) frame {
	f := frame{wr: r.WR, request: r}
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

// finishRequest marks a request as done, and delivers the completions that are due.
func (c *Conn) finishRequest(r *workRequest, byReader bool) {
	c.mu.Lock()
	r.done = true
	c.cond.Signal() // a fenced request may start now
	c.mu.Unlock()
	c.deliverCompletions(byReader)
}

// deliverCompletions delivers the due completions, in posting order and one at a time.
func (c *Conn) deliverCompletions(byReader bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivering {
		return
	}
	c.delivering, c.byReader = true, byReader
	handOffs := c.handOffs
	for c.handOffs == handOffs && len(c.pending) > 0 && c.pending[0].done {
		first := c.pending[0]
		c.pending = c.pending[1:]
		c.mu.Unlock()
		completeRequest(first, nil, byReader)
		c.mu.Lock()
	}
	if c.handOffs == handOffs {
		c.delivering = false
	}
}

func completeRequest(r *workRequest, err error, byReader bool) {
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
	c.readerTurn.Add(1)
	c.mu.Lock()
	if c.delivering && c.byReader {
		c.delivering = false
		c.handOffs++
	}
	c.mu.Unlock()
	go c.readUntilEnd()
}

// errHandedOff stops a reader without closing the connection.
var errHandedOff = errors.New("rdmatest: another goroutine has taken over reading")

// readFrames handles the peer's frames in order.
func (c *Conn) readFrames() error {
	if err := c.callUpperLayer(func() { c.deliverCompletions(true) }); err != nil { // left by the previous reader
		return err
	}
	for {
		select {
		case <-c.ended:
			return nil
		case f := <-c.in:
			if !c.waitUntil(f.due) || !c.waitWhilePaused() {
				return nil
			}
			switch err := c.executeFrame(f); err {
			case nil:
			case errHandedOff:
				return err
			default:
				c.shutDown(err)
				c.peer.shutDown(fmt.Errorf("terminated by the peer: %w", f.errorForSender(err)))
			}
		}
	}
}

// errorForSender returns err as reported to the frame's sender, with the STag whose memory the
// sender could not access.
func (f *frame) errorForSender(err error) error {
	if (f.kind == kindWrite || f.kind == kindRead) && errors.Is(err, ErrAccess) {
		return fmt.Errorf("%w: %w", err, rdma.AccessError{STag: f.wr.Remote.STag})
	}
	return err
}

// waitUntil waits until due. It returns false if the connection ends first.
func (c *Conn) waitUntil(due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ended:
		return false
	}
}

// waitWhilePaused waits while the reader is paused. It returns false if the
// connection ends first.
func (c *Conn) waitWhilePaused() bool {
	c.mu.Lock()
	pause := c.pause
	c.mu.Unlock()
	if pause == nil {
		return true
	}
	select {
	case <-pause:
		return true
	case <-c.ended:
		return false
	}
}
