package replay

import (
	"bytes"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A savedReply is a reply's content. The data item's position is kept, because a
// transport may have to send it separately.
type savedReply struct {
	bytes   []byte // head, item and tail
	headLen int    // length of the head, if there is an item
	itemLen int    // length of the item
	hasItem bool   // there is an item
}

// canBeSaved reports whether a reply is short enough, and has at most one item.
func canBeSaved(r *oncrpc.Reply) bool { return r.Len() <= maxReply && r.More == nil }

// saveReply copies r's content to s.
func (s *savedReply) saveReply(r *oncrpc.Reply) {
	s.bytes = append(s.bytes[:0], r.Head...)
	s.headLen, s.itemLen, s.hasItem = len(r.Head), 0, r.Item != nil
	if s.hasItem {
		s.itemLen = len(r.Item.B)
		s.bytes = append(s.bytes, r.Item.B...)
	}
	s.bytes = append(s.bytes, r.Tail...)
}

// clone returns a copy that stays valid when s is reused.
func (s *savedReply) clone() *savedReply {
	c := *s
	c.bytes = bytes.Clone(s.bytes)
	return &c
}

// isShort reports whether restoreTo does not wait.
func (s *savedReply) isShort() bool { return !s.hasItem && len(s.bytes) <= shortReply }

// paddedLen returns the reply's length in bytes, with its item's padding.
func (s *savedReply) paddedLen() int { return len(s.bytes) + xdr.Pad(s.itemLen) }

// restoreTo makes r the reply to an earlier call. The reply may exceed limit if the client
// requested less this time. It may wait for memory.
func (s *savedReply) restoreTo(r *oncrpc.Reply, xid uint32, limit int) {
	switch {
	case s.paddedLen() > limit:
		r.Head = rpcmsg.AppendAccepted(r.Head, xid, rpcmsg.SystemErr)
	case s.hasItem:
		copy(r.NewItem(s.itemLen), s.bytes[s.headLen:])
		r.Head = append(r.Head, s.bytes[:s.headLen]...)
		r.Tail = bytes.Clone(s.bytes[s.headLen+s.itemLen:])
	default:
		if !s.isShort() {
			r.Reserve(len(s.bytes))
		}
		r.Head = append(r.Head, s.bytes...)
	}
}
