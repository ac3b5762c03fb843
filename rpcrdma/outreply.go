package rpcrdma

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// accept notes what the header h of the reply says, before the next one
// overwrites it. What the call did not provide for is a permanent error of the
// call (RFC 8166, Section 4.5).
func (o *outCall) accept(h *Header, body []byte, m rdma.Recv) outcome {
	a := outcome{recv: m.Buf, body: body}
	lists := &h.Lists
	switch {
	case h.Proc == Error:
		a.err = &RemoteError{Code: h.Code, Low: h.Low, High: h.High}
		return a
	case lists.Writes() != o.hdr.Lists.Writes():
		a.err = fmt.Errorf("%w: %d Write chunks, not %d", errReplyForm, lists.Writes(), o.hdr.Lists.Writes())
		return a
	case h.Proc == NoMsg && (o.reply == nil || !lists.HasReply):
		a.err = fmt.Errorf("%w: in a Reply chunk", errReplyForm)
		return a
	}
	if o.sink != nil {
		a.item = o.returned(&a, lists.Write(0), len(o.x.Sink))
	}
	if h.Proc == NoMsg {
		a.body = nil
		a.inChunk = o.returned(&a, lists.Reply, len(o.reply.B))
	}
	return a
}

// returned returns the octets that the server says it wrote to a chunk of one
// segment of limit octets.
func (o *outCall) returned(a *outcome, c chunks.Chunk, limit int) int {
	if len(c) != 1 || c.Length() > uint64(limit) {
		a.err = fmt.Errorf("%w: %d octets in %d segments of a chunk of %d octets", errReplyForm, c.Length(), len(c), limit)
		return 0
	}
	return int(c.Length())
}

// take gives the results to the caller.
func (o *outCall) take(a outcome) error {
	if a.err == nil {
		a.err = o.results(&a)
	}
	if a.err != nil {
		o.x.Results = xdr.Reader{}
		if a.recv != nil {
			a.recv.Release()
		}
	}
	return a.err
}

// results reads the RPC reply, and keeps the buffer that it is in.
func (o *outCall) results(a *outcome) error {
	x := o.x
	if a.body == nil {
		a.body = o.reply.B[:a.inChunk]
	}
	if err := x.TakeReply(a.body, o.xid); err != nil {
		return err
	}
	x.Placed = a.item
	if o.sink != nil { // RFC 8166, Section 6.1: it must be there, if anywhere
		x.Results.SetMoved(x.Sink[:a.item])
	}
	x.Lent = a.recv
	if a.inChunk > 0 {
		a.recv.Release()
		x.Lent, o.reply = o.reply, nil
	}
	return nil
}

// errReplyForm: a reply in a form that the call did not provide for.
var errReplyForm = errors.New("rpcrdma: reply in a form that the call did not ask for")

// A RemoteError is an RDMA_ERROR: the server could not take the call, and will
// not take it when it comes again.
type RemoteError struct {
	Code      ErrCode
	Low, High uint32 // of ErrVers: the versions that the server speaks
}

// Error says what the server said.
func (e *RemoteError) Error() string {
	if e.Code == ErrVers {
		return fmt.Sprintf("rpcrdma: the server speaks versions %d to %d of RPC-over-RDMA only", e.Low, e.High)
	}
	return fmt.Sprintf("rpcrdma: the server cannot use the call's chunks or header (%v)", e.Code)
}
