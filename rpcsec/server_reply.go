package rpcsec

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A reply is made plain, and becomes longer in place:
//
//	plain    xid .. AUTH_NONE, 0 | stat | results in the head | item, what follows it
//	                   │                │                         │
//	sealed   xid .. signature    | stat | front, results      | item, what follows it, behind
//
// Only the verifier is new with service none, so that items can still be in
// mappings and travel apart. Otherwise the item's buffer takes all that follows
// the item.

// plan computes how much longer the reply gets.
func (c *call) plan() {
	k := c.context
	front, behind := room(k.Context, c.cred.service)
	mic := k.MICSize()
	c.growth = mic + xdr.Pad(mic) + front + behind
	c.tailRoom = behind
}

// takeReply prepares the reply of a call that is handed up.
func (c *call) takeReply(rep *oncrpc.Reply) {
	c.lendBelow, c.holdBelow = rep.Lend, rep.Hold
	if rep.Hold != nil {
		rep.Hold = c.hold
	}
	if c.cred.service != serviceNone {
		rep.Lend, rep.Mappable, rep.Whole = c.lend, false, true
	}
}

// lendItem lends a buffer with room for what will follow the item.
func (c *call) lendItem(n int) *buf.Buf {
	lend := c.lendBelow
	if lend == nil {
		lend = buf.Default.Get
	}
	b := lend(n + itemSlack + c.tailRoom)
	b.B = b.B[:n]
	return b
}

// itemSlack is the room in bytes for padding, and for the results behind an item.
const itemSlack = 256

// holdHead counts the memory of the longer head.
func (c *call) holdHead(n int) { c.holdBelow(n + c.growth) }

// seal protects a reply. It returns false if there must be no reply.
func (c *call) seal(peer *oncrpc.Peer, rep *oncrpc.Reply) (answer bool) {
	if binary.BigEndian.Uint32(rep.Head[8:]) != rpcmsg.MsgAccepted { // a denial has no verifier
		return true
	}
	k, err := c.context, error(nil)
	if c.verifier, err = k.AppendMIC(c.verifier[:0], c.bench.number(c.cred.seq)); err != nil { // RFC 2203, Section 5.3.3.4.1
		clearReply(rep)
		return c.deny(rep, rpcmsg.AuthCtxProblem)
	}
	service := c.cred.service
	if !isSuccess(rep.Head) { // Section 5.3.3.2
		service = serviceNone
	}
	front, _ := room(k.Context, service)
	c.putVerifier(rep, front)
	if service == serviceNone {
		return true
	}
	c.gather(rep)
	var item []byte
	if rep.Item != nil {
		item = rep.Item.B
	}
	at := rpcmsg.AcceptedLen + len(c.verifier) + xdr.Pad(len(c.verifier))
	if rep.Head, item, err = c.bench.seal(k.Context, service, c.cred.seq, rep.Head, at, item); err != nil {
		clearReply(rep)
		return c.server.cut(peer, fmt.Errorf("rpcsec: a reply cannot be protected: %w", err)) // Section 5.3.3.4
	}
	if rep.Item != nil {
		rep.Item.B = item // the transport adds the padding
	} else {
		rep.Head = append(rep.Head, zeros[:xdr.Pad(len(rep.Head))]...)
	}
	return true
}

// putVerifier puts the verifier in the place of the empty one, and leaves front
// bytes behind the accept_stat.
func (c *call) putVerifier(rep *oncrpc.Reply, front int) {
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

// gather moves all results behind the head into one buffer, with room behind them,
// and the padding of the items with them.
func (c *call) gather(rep *oncrpc.Reply) {
	if rep.Item == nil {
		rep.Head, rep.Tail = append(rep.Head, rep.Tail...), nil
		return
	}
	parts := rep.AppendBody(c.bench.parts[:0])
	c.bench.parts = parts
	n := rep.Len() - len(rep.Head)
	b := rep.Item
	if n+c.tailRoom > cap(b.B) || rep.More != nil {
		b = buf.Default.Get(n + c.tailRoom)
		b.B = b.B[:0]
	} else {
		parts = parts[min(1, len(b.B)):] // the item is there, unless it is empty
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

// clearReply takes back a reply that must not be sent.
func clearReply(rep *oncrpc.Reply) {
	rep.Head, rep.Tail = rep.Head[:0], nil
	rep.DropItem()
}

// isSuccess reports whether an accepted plain reply has results.
func isSuccess(head []byte) bool {
	return binary.BigEndian.Uint32(head[8:]) == rpcmsg.MsgAccepted && binary.BigEndian.Uint32(head[5*4:]) == rpcmsg.Success
}

var zeros [3]byte
