package rpcrdma

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A plan tells how to process a call according to its header: the chunks to
// read, and the possible reply forms. Lengths are in bytes, and within the
// server's limits.
type plan struct {
	reads        []chunks.ReadChunk // by position
	places       []xdr.Place        // data item positions, if there are several
	positionZero bool               // reads[0] holds the RPC message
	msgLen       int                // RPC message length without the other chunks
	wholeLen     int                // RPC message length with them

	headerLen  int   // header length for a reply with this call's chunk lists
	maxReply   int   // space for a reply, inline or in the Reply chunk, whichever is larger
	itemLimits []int // space for data items in Write chunks, by chunk; 0: inline
	itemTotal  int   // sum of itemLimits

	pullSize  int   // bytes that are read
	pullNeed  int64 // memory for them
	replyNeed int64 // memory for reply parts that go into the requester's chunks

	handle    uint32 // shared by all segments if oneHandle is set
	oneHandle bool
}

// itemChunks returns the Read chunks that hold data items.
func (p *plan) itemChunks() []chunks.ReadChunk {
	if p.positionZero {
		return p.reads[1:]
	}
	return p.reads
}

// memoryNeed returns the memory that the call reserves, in bytes.
func (cl *call) memoryNeed() int64 {
	return min(cl.plan.pullNeed+cl.plan.replyNeed, cl.conn.srv.cfg.partyShare())
}

// bufferSize returns the memory used by a buffer for n bytes; 0 if n is 0.
func bufferSize(n int) int64 {
	if n == 0 {
		return 0
	}
	return int64(buf.Size(n))
}

// makePlan checks the header against the standard and the limits, before any
// memory is allocated. body is the rest of the message after the header.
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
	p.positionZero = len(p.reads) > 0 && p.reads[0].Position == 0
	n := uint64(len(cl.body))
	switch {
	case h.Proc == wire.NoMsg && !p.positionZero: // Section 4.2.4
		return h.Fail("rdma_reads", wire.FixedLen, errNoCall)
	case h.Proc == wire.NoMsg:
		n = p.reads[0].Length
	case p.positionZero: // Section 3.5.3: the message is in one place
		return h.Fail("rdma_reads", wire.FixedLen, errTwoCalls)
	case len(cl.body) < 4 || binary.BigEndian.Uint32(cl.body) != h.XID: // before anything is read
		return h.Fail("rdma_xid", 0, wire.ErrXID)
	}
	if items := p.itemChunks(); len(items) > 0 && items[0].Position < rpcmsg.CallHeaderLen { // Section 6.1
		return h.Fail("rdma_reads", wire.FixedLen, errInHeader)
	}
	whole, err := chunks.Unreduced(n, p.itemChunks())
	if err != nil {
		return h.ChunkError(err)
	}
	if whole > uint64(cl.conn.srv.cfg.largestMessage()) { // Section 8.1.4
		return h.Fail("rdma_reads", wire.FixedLen, errTooLong)
	}
	p.msgLen, p.wholeLen = int(n), int(whole)
	if p.positionZero {
		p.addPull(int(n))
	}
	switch items := p.itemChunks(); len(items) {
	case 0:
	case 1:
		p.addPull(int(items[0].Length))
	default:
		p.addPull(int(whole))
	}
	return nil
}

// addPull adds a buffer for n bytes that are read.
func (p *plan) addPull(n int) {
	p.pullSize += n
	p.pullNeed += bufferSize(n)
}

func (cl *call) planReply() error {
	p, h, cfg := &cl.plan, &cl.hdr, &cl.conn.srv.cfg
	p.headerLen = wire.FixedLen + h.Lists.Len()
	p.maxReply = cl.conn.maxSend - p.headerLen
	if p.maxReply < 0 { // not even the header for a reply by chunk can be sent
		return h.Fail("rdma_body", wire.FixedLen, errReplyTooLong)
	}
	if h.Lists.HasReply {
		n := int(min(h.Lists.Reply.Length(), uint64(cfg.largestMessage())))
		if n > p.maxReply { // otherwise it fits an inline reply, which is counted
			p.maxReply = n
			p.replyNeed = bufferSize(p.headerLen + n)
			if cl.mayBeSealed() { // a data item, which cannot be separate, needs additional memory
				p.replyNeed += bufferSize(n)
			}
		}
	}
	p.itemLimits = p.itemLimits[:0]
	for i := range h.Lists.Writes() { // in total at most one payload, however many there are
		n := int(min(h.Lists.Write(i).Length(), uint64(cfg.maxPayload-p.itemTotal)))
		p.itemLimits = append(p.itemLimits, n)
		p.itemTotal += n
		p.replyNeed += bufferSize(n)
	}
	return nil
}

// itemChunk returns the Write chunk for reply data item i, or nil if the item
// goes with the rest. A Write list has one chunk per result, in order, and an
// empty chunk requests its result inline (RFC 8166, Sections 4.3.2.1 and
// 4.3.2.3; RFC 8267, Section 6.4.1). Whole results go with the rest (RFC 8166,
// Section 8.2.2.3).
func (cl *call) itemChunk(i int) chunks.Chunk {
	if lists := &cl.hdr.Lists; !cl.rep.Whole && i < lists.Writes() && len(lists.Write(i)) > 0 {
		return lists.Write(i)
	}
	return nil
}

// largestCall returns the maximum memory that one call can need, in bytes: for a message by chunk
// and the same with its items in place, for a reply by chunk and an item that cannot be separate,
// and for items by Write chunks. Its buffers may use more, because they come in fixed sizes. If a
// party's share is less, the share is enough.
func (c *config) largestCall() int64 {
	return 4*int64(c.largestMessage()) + int64(c.maxPayload)
}

// padding returns the XDR padding after n bytes.
func padding(n int) []byte { return zeros[:xdr.Pad(n)] }

var zeros [3]byte
