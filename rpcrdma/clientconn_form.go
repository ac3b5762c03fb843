package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// buildCall encodes the call, and decides how its arguments and results travel.
func (o *clientCall) buildCall() error {
	x, c := o.x, o.c
	o.hdr.XID, o.hdr.Vers, o.hdr.Credit, o.hdr.Proc = o.xid, wire.Version, uint32(c.cfg.Credits), wire.Msg
	n := callHeaderSpace + x.CallOverhead(maxCallHeader) + len(x.Args) + len(x.Tail)
	if _, apart := x.ReplyOverhead(); len(x.Item) <= c.sendSize || !apart {
		n += len(x.Item) + xdr.Pad(len(x.Item))
	}
	o.out = buf.Default.Get(n)
	x.Bind(securityOf(c.conn))
	var err error
	if o.msg, o.item, o.tail, err = x.AppendMessage(o.out.B[callHeaderSpace:callHeaderSpace], o.xid, c.cfg.Machine); err != nil {
		return err
	}
	if err := o.planResults(); err != nil {
		return err
	}
	return o.planArguments()
}

// planResults offers memory for results that may not fit inline: a Write chunk
// for the data item, otherwise a Reply chunk, never both (RFC 8166, Sections
// 4.3.2 and 4.3.3). Neither has space for padding that is not part of the
// message (Section 3.4.6.2). Protected results have no separate item (Section
// 8.2.2.3).
func (o *clientCall) planResults() error {
	x, inlineLimit, l := o.x, o.c.recvSize-wire.MinLen, &o.hdr.Lists
	header, apart := x.ReplyOverhead()
	rest := header + x.MaxResults
	whole := rest + len(x.Sink) + xdr.Pad(len(x.Sink))
	if whole <= inlineLimit || o.c.noChunks {
		return nil
	}
	if len(x.Sink) > 0 && apart && rest <= inlineLimit-writeChunkLen {
		if err := o.results.register(o.c.conn, x.Sink, nil, resultAccess); err != nil {
			return err
		}
		l.AddWrite(chunks.Chunk{o.results.chunkSegment()})
		return nil
	}
	b := buf.Default.Get(whole)
	clear(b.B) // no stale data for a peer to keep: RFC 5042, Section 6.3.2
	if err := o.results.register(o.c.conn, b.B, b, resultAccess); err != nil {
		return err
	}
	l.HasReply, l.Reply = true, append(l.Reply[:0], o.results.chunkSegment())
	return nil
}

// planArguments leaves the call inline if it fits. Otherwise it moves the data
// item to a Read chunk, without the padding (RFC 8166, Section 3.4.5.2). If the
// rest does not fit either, it moves the complete message, with the item, to a
// chunk at position zero (Section 3.5.3). A Read chunk in addition to a chunk
// at position zero would save a copy, but only calls with a kilobyte around
// their data item would use it. NFSv3 has no such calls, and not all servers
// accept both.
func (o *clientCall) planArguments() error {
	l := &o.hdr.Lists
	inlineLimit := o.c.sendSize - wire.FixedLen - l.Len()
	item := len(o.item) + xdr.Pad(len(o.item))
	if len(o.msg)+item+len(o.tail) <= inlineLimit {
		return nil
	}
	if o.c.noChunks {
		return ErrReverseLong
	}
	if len(o.item) > 0 && len(o.msg)+len(o.tail) <= inlineLimit-readChunkLen {
		if err := o.args.register(o.c.conn, o.item, nil, rdma.RemoteRead); err != nil {
			return err
		}
		l.Reads = append(l.Reads, chunks.ReadSegment{Position: uint32(len(o.msg)), Segment: o.args.chunkSegment()})
		return nil
	}
	if item == 0 && len(o.tail) == 0 { // everything is in the buffer already
		b := o.out
		o.out = buf.Default.Get(callHeaderSpace)
		return o.exposeWhole(o.msg, b)
	}
	b := buf.Default.Get(len(o.msg) + item + len(o.tail))
	whole := append(b.B[:0], o.msg...)
	whole = append(whole, o.item...)
	whole = append(whole, padding(len(o.item))...)
	whole = append(whole, o.tail...)
	return o.exposeWhole(whole, b)
}

// exposeWhole moves the complete message, in b, to a chunk at position zero.
func (o *clientCall) exposeWhole(whole []byte, b *buf.Buf) error {
	if err := o.args.register(o.c.conn, whole, b, rdma.RemoteRead); err != nil {
		return err
	}
	o.hdr.Proc = wire.NoMsg
	o.hdr.Lists.Reads = append(o.hdr.Lists.Reads, chunks.ReadSegment{Segment: o.args.chunkSegment()})
	return nil
}

// assembleSend assembles the call's Send: the transport header directly before the RPC message. An
// inline item is copied after the message, so that Call can return the caller's memory without
// waiting for a blocked connection.
func (o *clientCall) assembleSend() {
	o.wire[0] = o.hdr.AppendTo(o.out.B[:0])
	o.work[0] = rdma.WR{Op: rdma.OpSend, Data: o.wire[:1], Done: o}
	if o.hdr.Proc == wire.NoMsg {
		return
	}
	rest := o.msg
	if len(o.hdr.Lists.Reads) == 0 {
		rest = append(rest, o.item...)
		rest = append(rest, padding(len(o.item))...)
	}
	o.wire[1] = append(rest, o.tail...)
	o.work[0].Data = o.wire[:2]
}
