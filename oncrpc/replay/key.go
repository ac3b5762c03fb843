package replay

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A cacheKey identifies a call. The checksum is a keyed one, so that no client
// can construct two different calls with the same key.
type cacheKey struct {
	client netip.Addr
	xid    uint32
	rpcmsg.Procedure
	length uint32 // bytes
	sum    uint64

	// protection keeps replies to calls inside of TLS from connections in clear: an
	// export may refuse those.
	protection uint8
}

func protectionOf(s *oncrpc.Security) uint8 {
	switch {
	case s == nil:
		return 0
	case !s.Mutual:
		return 1
	}
	return 2
}

// zeros are the padding of an item.
var zeros [3]byte

// keyOf returns the key of a call. Length and checksum are those of the message
// as RFC 5531 defines it, with the data item and its padding in their place: a
// retransmission may come by another transport, or in another form of RFC 8166.
// A verified caller counts by its name, because its credential and verifier
// differ in each transmission (RFC 2203, Section 5.3.3.1).
func (c *Cache) keyOf(req *oncrpc.Request, p rpcmsg.Procedure) cacheKey {
	pos := len(req.Msg)
	if req.Item != nil {
		pos = max(0, min(req.ItemPos, pos))
	}
	parts := [...][]byte{req.Msg[:pos], req.Item, zeros[:xdr.Pad(len(req.Item))], req.Msg[pos:]}
	var sum maphash.Hash
	sum.SetSeed(c.seed)
	if v := req.Verified; v != nil {
		var flavor [4]byte
		binary.BigEndian.PutUint32(flavor[:], v.Flavor)
		_, _ = sum.Write(flavor[:])
		_, _ = sum.WriteString(v.Principal)
	}
	length, left := 0, summed
	for _, part := range parts {
		length += len(part)
		n := min(left, len(part))
		_, _ = sum.Write(part[:n]) // never fails
		left -= n
	}
	return cacheKey{
		client:    req.Peer.Addr.Addr(),
		xid:       binary.BigEndian.Uint32(req.Msg),
		Procedure: p,
		length:    uint32(length),
		sum:       sum.Sum64(),

		protection: protectionOf(req.Peer.Security),
	}
}
