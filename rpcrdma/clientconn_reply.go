package rpcrdma

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// acceptReply copies the contents of the reply's header h, before the next
// reply overwrites h. A form that the call did not provide for is a permanent
// error for the call (RFC 8166, Section 6.1): such a reply can be decoded, and
// no other will arrive.
func (o *clientCall) acceptReply(h *wire.Header, body []byte, recv *buf.Buf) outcome {
	a := outcome{recv: recv, body: body}
	offered, lists := &o.hdr.Lists, &h.Lists
	switch {
	case h.Proc == wire.Error:
		a.err = &RemoteError{Code: h.Code, Low: h.Low, High: h.High}
		return a
	case lists.Writes() > offered.Writes():
		a.err = fmt.Errorf("%w: %d Write chunks, not %d", errReplyForm, lists.Writes(), offered.Writes())
		return a
	case h.Proc == wire.NoMsg && (!lists.HasReply || !offered.HasReply):
		a.err = fmt.Errorf("%w: in a Reply chunk", errReplyForm)
		return a
	}
	if lists.Writes() > 0 {
		a.item, a.err = returnedLen(offered.Write(0), lists.Write(0))
	}
	inChunk, err := returnedLen(offered.Reply, lists.Reply)
	switch {
	case err != nil:
		a.err = err
	case h.Proc == wire.NoMsg:
		a.body, a.inChunk = nil, inChunk
	case inChunk > 0:
		a.err = fmt.Errorf("%w: %d bytes in a Reply chunk with an inline message", errReplyForm, inChunk)
	}
	return a
}

// returnedLen returns the number of bytes that the server claims to have written to a chunk. They
// must be in the segment that was offered, and fit (RFC 8166, Section 3.4.6). An empty chunk is
// unused, in any form.
func returnedLen(offered, got chunks.Chunk) (int, error) {
	n := got.Length()
	if n == 0 {
		return 0, nil
	}
	if len(offered) != 1 || len(got) != 1 || got[0].Handle != offered[0].Handle || got[0].Offset != offered[0].Offset {
		return 0, fmt.Errorf("%w: %d bytes in a chunk that the call did not offer", errReplyForm, n)
	}
	if n > offered.Length() {
		return 0, fmt.Errorf("%w: %d bytes in a chunk of %d", errReplyForm, n, offered.Length())
	}
	return int(n), nil
}

// deliverResults passes the results to the caller.
func (o *clientCall) deliverResults(a *outcome) error {
	if a.err == nil {
		a.err = o.readReply(a)
	}
	if a.err != nil {
		o.x.Results = xdr.Reader{}
	}
	a.releaseReply()
	return a.err
}

// readReply reads the RPC reply, and lends the caller its buffer. It checks that the item was
// really written: the caller's memory may hold older data, perhaps another user's, which a reply
// must not pass off as its own.
func (o *clientCall) readReply(a *outcome) error {
	x := o.x
	if !o.results.isWritten(a.item) {
		return fmt.Errorf("%w: %d", errNotWritten, a.item)
	}
	if a.body == nil {
		a.body = o.results.mem[:a.inChunk]
	}
	if err := x.TakeReply(a.body, o.xid); err != nil {
		return err
	}
	x.Placed = a.item
	if o.hdr.Lists.Writes() > 0 { // RFC 8166, Section 6.1: it must be there, if anywhere
		x.Results.SetMoved(x.Sink[:a.item])
	}
	if a.inChunk > 0 {
		x.Lent, o.results.ownBuf = o.results.ownBuf, nil
		return nil
	}
	x.Lent, a.recv = a.recv, nil
	return nil
}

// errReplyForm means that the call did not provide for the reply's form.
var errReplyForm = errors.New("rpcrdma: the form of the reply does not match the call")

// errNotWritten means that the results in a reply were not written.
var errNotWritten = errors.New("rpcrdma: the server's reply counts more bytes than it has written to the Write chunk")

// A RemoteError is an RDMA_ERROR: the server could not accept the call, and
// would not accept a retransmission.
type RemoteError struct {
	Code      wire.ErrCode
	Low, High uint32 // for ErrVers: the versions that the server supports
}

// Error describes the server's RDMA_ERROR.
func (e *RemoteError) Error() string {
	if e.Code == wire.ErrVers {
		return fmt.Sprintf("rpcrdma: the server supports only versions %d to %d of RPC-over-RDMA", e.Low, e.High)
	}
	return fmt.Sprintf("rpcrdma: the server cannot use the call's chunks or header (%v)", e.Code)
}
