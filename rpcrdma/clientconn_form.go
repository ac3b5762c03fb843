package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// build encodes the call, and decides how its arguments and results travel.
func (o *clientCall) build() error {
	x, c := o.x, o.c
	o.hdr.XID, o.hdr.Vers, o.hdr.Credit, o.hdr.Proc = o.xid, wire.Version, uint32(c.cfg.Credits), wire.Msg
	n := callRoom + maxCallHeader + len(x.Args) + len(x.Tail)
	if len(x.Item) <= c.sendSize {
		n += len(x.Item) + xdr.Pad(len(x.Item))
	}
	o.out = buf.Default.Get(n)
	o.msg = oncrpc.AppendCall(o.out.B[callRoom:callRoom], o.xid, x, c.cfg.Machine)
	o.msg = append(o.msg, x.Args...)
	if err := o.planResults(); err != nil {
		return err
	}
	return o.planArguments()
}

// planResults offers memory for results that may not fit inline: a Write chunk
// for the data item, otherwise a Reply chunk, never both (RFC 8166, Sections
// 4.3.2 and 4.3.3). Neither has room for padding that is not part of the
// message (Section 3.4.6.2).
func (o *clientCall) planResults() error {
	x, room, l := o.x, o.c.recvSize-wire.MinLen, &o.hdr.Lists
	rest := oncrpc.MaxReplyHeader + x.MaxResults
	whole := rest + len(x.Sink) + xdr.Pad(len(x.Sink))
	if whole <= room || o.c.short {
		return nil
	}
	if len(x.Sink) > 0 && rest <= room-writeChunkLen {
		if err := o.results.open(o.c.conn, x.Sink, nil, forResults); err != nil {
			return err
		}
		l.AddWrite(chunks.Chunk{o.results.segment()})
		return nil
	}
	b := buf.Default.Get(whole)
	clear(b.B) // no stale data for a peer to keep: RFC 5042, Section 6.3.2
	if err := o.results.open(o.c.conn, b.B, b, forResults); err != nil {
		return err
	}
	l.HasReply, l.Reply = true, append(l.Reply[:0], o.results.segment())
	return nil
}

// planArguments leaves the call inline if it fits. Otherwise it moves the data
// item to a Read chunk, without the padding (RFC 8166, Section 3.4.5.2). If the
// rest does not fit either, it moves the whole message, with the item, to a
// chunk at position zero (Section 3.5.3). A Read chunk beside a chunk at
// position zero would save a copy, but only calls with a kilobyte around their
// data item would use it. NFSv3 has none, and not all servers take both.
func (o *clientCall) planArguments() error {
	x, l := o.x, &o.hdr.Lists
	room := o.c.sendSize - wire.FixedLen - l.Len()
	item := len(x.Item) + xdr.Pad(len(x.Item))
	if len(o.msg)+item+len(x.Tail) <= room {
		return nil
	}
	if o.c.short {
		return ErrReverseLong
	}
	if len(x.Item) > 0 && len(o.msg)+len(x.Tail) <= room-readChunkLen {
		if err := o.args.open(o.c.conn, x.Item, nil, rdma.RemoteRead); err != nil {
			return err
		}
		l.Reads = append(l.Reads, chunks.ReadSegment{Position: uint32(len(o.msg)), Segment: o.args.segment()})
		return nil
	}
	b := buf.Default.Get(len(o.msg) + item + len(x.Tail))
	whole := append(b.B[:0], o.msg...)
	whole = append(whole, x.Item...)
	whole = append(whole, pad(len(x.Item))...)
	whole = append(whole, x.Tail...)
	if err := o.args.open(o.c.conn, whole, b, rdma.RemoteRead); err != nil {
		return err
	}
	o.hdr.Proc = wire.NoMsg
	l.Reads = append(l.Reads, chunks.ReadSegment{Segment: o.args.segment()})
	return nil
}

// send assembles the Send of the call: the transport header directly in front
// of the RPC message. An inline item is copied behind the message. The caller
// then gets its memory back when Call returns, without waiting for a connection
// that is blocked.
func (o *clientCall) send() {
	x := o.x
	o.wire[0] = o.hdr.AppendTo(o.out.B[:0])
	o.work[0] = rdma.WR{Op: rdma.OpSend, Data: o.wire[:1], Done: o}
	if o.hdr.Proc == wire.NoMsg {
		return
	}
	rest := o.msg
	if len(o.hdr.Lists.Reads) == 0 {
		rest = append(rest, x.Item...)
		rest = append(rest, pad(len(x.Item))...)
	}
	o.wire[1] = append(rest, x.Tail...)
	o.work[0].Data = o.wire[:2]
}
