package rpcrdma

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A plan is a header's meaning for its call: the chunks to read, and the
// possible forms of the reply. Lengths are in bytes, and within the server's
// limits.
type plan struct {
	reads  []chunks.ReadChunk // by position
	places []xdr.Place        // of the data items, if there are several
	zero   bool               // the first of reads holds the RPC message
	msgLen int                // of the RPC message without the other chunks
	whole  int                // of the RPC message with them

	headerLen int   // of a reply with the chunk lists of this call
	room      int   // for a reply, inline or in the Reply chunk, whichever is larger
	rooms     []int // for its data items that go into Write chunks, by chunk; 0: inline
	itemRoom  int   // the sum of rooms

	pullSize  int   // bytes that are read
	pullNeed  int64 // memory for them
	replyNeed int64 // memory for the parts that go into the requester's chunks

	handle    uint32 // shared by all segments if oneHandle is set
	oneHandle bool
}

// items returns the Read chunks that hold data items.
func (p *plan) items() []chunks.ReadChunk {
	if p.zero {
		return p.reads[1:]
	}
	return p.reads
}

// need returns how much memory the call reserves, in bytes.
func (cl *call) need() int64 {
	return min(cl.plan.pullNeed+cl.plan.replyNeed, cl.conn.srv.cfg.share())
}

// size returns the bytes of memory of a buffer for n bytes; 0 if n is 0.
func size(n int) int64 {
	if n == 0 {
		return 0
	}
	return int64(buf.Size(n))
}

// makePlan checks the header against the standard and the limits, before any
// memory is lent. body is the rest of the message behind the header.
func (cl *call) makePlan(body []byte) error {
	cl.body = body
	p, lists := &cl.plan, &cl.hdr.Lists
	p.handle, p.oneHandle = lists.Handle()
	if err := cl.planPull(); err != nil {
		return err
	}
	lists.Reads = lists.Reads[:0] // a reply has none: Section 4.3.1
	return cl.planReply()
}

func (cl *call) planPull() (err error) {
	p, h := &cl.plan, &cl.hdr
	if p.reads, err = h.Lists.ReadChunks(p.reads[:0]); err != nil {
		return h.ChunkError(err)
	}
	p.zero = len(p.reads) > 0 && p.reads[0].Position == 0
	n := uint64(len(cl.body))
	switch {
	case h.Proc == wire.NoMsg && !p.zero: // Section 4.2.4
		return h.Fail("rdma_reads", wire.FixedLen, errNoCall)
	case h.Proc == wire.NoMsg:
		n = p.reads[0].Length
	case p.zero: // Section 3.5.3: the message is in one place
		return h.Fail("rdma_reads", wire.FixedLen, errTwoCalls)
	case len(cl.body) < 4 || binary.BigEndian.Uint32(cl.body) != h.XID: // before anything is read
		return h.Fail("rdma_xid", 0, wire.ErrXID)
	}
	if items := p.items(); len(items) > 0 && items[0].Position < rpcmsg.CallHeaderLen { // Section 6.1
		return h.Fail("rdma_reads", wire.FixedLen, errInHeader)
	}
	whole, err := chunks.Unreduced(n, p.items())
	if err != nil {
		return h.ChunkError(err)
	}
	if whole > uint64(cl.conn.srv.cfg.largestMessage()) { // Section 8.1.4
		return h.Fail("rdma_reads", wire.FixedLen, errTooLong)
	}
	p.msgLen, p.whole = int(n), int(whole)
	if p.zero {
		p.pulls(int(n))
	}
	switch items := p.items(); len(items) {
	case 0:
	case 1:
		p.pulls(int(items[0].Length))
	default:
		p.pulls(int(whole))
	}
	return nil
}

// pulls adds a buffer for n bytes that are read.
func (p *plan) pulls(n int) {
	p.pullSize += n
	p.pullNeed += size(n)
}

func (cl *call) planReply() error {
	p, h, cfg := &cl.plan, &cl.hdr, &cl.conn.srv.cfg
	p.headerLen = wire.FixedLen + h.Lists.Len()
	p.room = cl.conn.longest - p.headerLen
	if p.room < 0 { // not even the header of a reply by chunk can be sent
		return h.Fail("rdma_body", wire.FixedLen, errNoRoom)
	}
	if h.Lists.HasReply {
		n := int(min(h.Lists.Reply.Length(), uint64(cfg.largestMessage())))
		if n > p.room { // otherwise it is as long as an inline reply, which is counted
			p.room = n
			p.replyNeed = size(p.headerLen + n)
			if cl.mayBeSealed() { // a data item, which cannot be apart, has memory of its own besides
				p.replyNeed += size(n)
			}
		}
	}
	p.rooms = p.rooms[:0]
	for i := range h.Lists.Writes() { // together no more than one payload, however many there are
		n := int(min(h.Lists.Write(i).Length(), uint64(cfg.maxPayload-p.itemRoom)))
		p.rooms = append(p.rooms, n)
		p.itemRoom += n
		p.replyNeed += size(n)
	}
	return nil
}

// itemChunk returns the Write chunk for a data item of the reply, counted from
// 0, or nil if the item goes with the rest. A Write list has one chunk per
// result, in order, and an empty chunk asks for its result inline (RFC 8166,
// Sections 4.3.2.1 and 4.3.2.3; RFC 8267, Section 6.4.1). Whole results go with
// the rest (RFC 8166, Section 8.2.2.3).
func (cl *call) itemChunk(i int) chunks.Chunk {
	if lists := &cl.hdr.Lists; !cl.rep.Whole && i < lists.Writes() && len(lists.Write(i)) > 0 {
		return lists.Write(i)
	}
	return nil
}

// largestCall returns how much memory one call can need, in bytes: for a message by
// chunk and the same with its items in place, for a reply by chunk and an item that
// cannot be apart from it, and for items by Write chunks. Its buffers may take more,
// because they come in fixed sizes. If a party's share is less, the share is enough.
func (c *config) largestCall() int64 {
	return 4*int64(c.largestMessage()) + int64(c.maxPayload)
}

// pad returns the padding behind n bytes.
func pad(n int) []byte { return zeros[:xdr.Pad(n)] }

var zeros [3]byte
