package rpcsec

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A reply is first plain, and then grows in place:
//
//	plain    xid .. AUTH_NONE, 0 | stat | results in the head | item, what follows it
//	                   │                │                         │
//	sealed   xid .. signature    | stat | front, results      | item, what follows it, behind
//
// With service none only the verifier changes, so that items can still be mapped and sent
// separately. Otherwise the item's buffer also receives everything that follows the item.

// planGrowth computes by how much the reply grows.
func (c *serverCall) planGrowth() {
	k := c.context
	front, behind := bodyOverhead(k.Context, c.cred.service)
	mic := k.MICSize()
	c.growth = mic + xdr.Pad(mic) + front + behind
	c.tailOverhead = behind
}

// prepareReply prepares the reply for a call that is passed on.
func (c *serverCall) prepareReply(rep *oncrpc.Reply) {
	c.lendBelow, c.holdBelow = rep.Lend, rep.Hold
	if rep.Hold != nil {
		rep.Hold = c.holdHeadFunc
	}
	if c.cred.service != serviceNone {
		rep.Lend, rep.Mappable, rep.Whole = c.lendItemFunc, false, true
	}
}

// lendItem lends a buffer with space for the bytes that will follow the item.
func (c *serverCall) lendItem(n int) *buf.Buf {
	lend := c.lendBelow
	if lend == nil {
		lend = buf.Default.Get
	}
	b := lend(n + itemSlack + c.tailOverhead)
	b.B = b.B[:n]
	return b
}

// itemSlack is the space in bytes for padding, and for the results after an item.
const itemSlack = 256

// holdHead counts memory for the longer head.
func (c *serverCall) holdHead(n int) { c.holdBelow(n + c.growth) }

// sealReply protects a reply. It returns false if no reply may be sent.
func (c *serverCall) sealReply(peer *oncrpc.Peer, rep *oncrpc.Reply) (answer bool) {
	if binary.BigEndian.Uint32(rep.Head[8:]) != rpcmsg.MsgAccepted { // a denial has no verifier
		return true
	}
	k, err := c.context, error(nil)
	if c.verifier, err = k.AppendMIC(c.verifier[:0], c.scratch.wordList(c.cred.seq)); err != nil { // RFC 2203, Section 5.3.3.4.1
		clearReply(rep)
		return c.denyCall(rep, rpcmsg.AuthCtxProblem)
	}
	service := c.cred.service
	if !isSuccess(rep.Head) { // Section 5.3.3.2
		service = serviceNone
	}
	front, _ := bodyOverhead(k.Context, service)
	c.putVerifier(rep, front)
	if service == serviceNone {
		return true
	}
	c.gatherResults(rep)
	var item []byte
	if rep.Item != nil {
		item = rep.Item.B
	}
	at := rpcmsg.AcceptedLen + len(c.verifier) + xdr.Pad(len(c.verifier))
	if rep.Head, item, err = c.scratch.sealBody(k.Context, service, c.cred.seq, rep.Head, at, item); err != nil {
		clearReply(rep)
		return c.server.closeConn(peer, fmt.Errorf("rpcsec: a reply cannot be protected: %w", err)) // Section 5.3.3.4
	}
	if rep.Item != nil {
		rep.Item.B = item // the transport adds the padding
	} else {
		rep.Head = append(rep.Head, zeros[:xdr.Pad(len(rep.Head))]...)
	}
	return true
}

// putVerifier replaces the empty verifier, and leaves front bytes after the accept_stat.
func (c *serverCall) putVerifier(rep *oncrpc.Reply, front int) {
	mic := len(c.verifier)
	more := mic + xdr.Pad(mic)
	old := len(rep.Head)
	rep.Head = slices.Grow(rep.Head, more+front)[:old+more+front]
	copy(rep.Head[rpcmsg.AcceptedLen+more+front:], rep.Head[rpcmsg.AcceptedLen:old])
	stat := binary.BigEndian.Uint32(rep.Head[5*4:])
	b := xdr.AppendUint32(rep.Head[:3*4], rpcmsg.AuthGSS)
	b = xdr.AppendOpaque(b, c.verifier)
	xdr.AppendUint32(b, stat)
}

// gatherResults moves all results after the head into one buffer, with the items' padding
// and free space at the end.
func (c *serverCall) gatherResults(rep *oncrpc.Reply) {
	if rep.Item == nil {
		rep.Head, rep.Tail = append(rep.Head, rep.Tail...), nil
		return
	}
	parts := rep.AppendBody(c.scratch.parts[:0])
	c.scratch.parts = parts
	n := rep.Len() - len(rep.Head)
	b := rep.Item
	if n+c.tailOverhead > cap(b.B) || rep.More != nil {
		b = buf.Default.Get(n + c.tailOverhead)
		b.B = b.B[:0]
	} else {
		parts = parts[min(1, len(b.B)):] // the item is already there, unless it is empty
	}
	for _, part := range parts {
		b.B = append(b.B, part...)
	}
	if b != rep.Item {
		rep.DropItem()
		rep.Item = b
	}
	rep.Tail = nil
}

// clearReply discards a reply that must not be sent.
func clearReply(rep *oncrpc.Reply) {
	rep.Head, rep.Tail = rep.Head[:0], nil
	rep.DropItem()
}

// isSuccess reports whether an accepted plain reply has results.
func isSuccess(head []byte) bool {
	return binary.BigEndian.Uint32(head[8:]) == rpcmsg.MsgAccepted && binary.BigEndian.Uint32(head[5*4:]) == rpcmsg.Success
}

var zeros [3]byte
