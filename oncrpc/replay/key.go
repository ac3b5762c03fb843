package replay

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A cacheKey identifies a call. The checksum is keyed, so that no client can construct
// two different calls with the same key.
type cacheKey struct {
	client netip.Addr
	xid    uint32
	rpcmsg.Procedure
	length uint32 // in bytes
	sum    uint64

	// protection keeps replies to TLS calls from unencrypted connections, which an export
	// may reject.
	protection uint8
}

// An origin is the connection on which a call was last received.
type origin struct {
	conn    *oncrpc.Connection // nil: the transport has none
	network string
	port    uint16
	local   netip.AddrPort // local
}

func originOf(p *oncrpc.Peer) origin { return origin{p.Conn, p.Network, p.Addr.Port(), p.Local} }

// isSameConn reports whether a and b are the same connection, or connections that cannot
// both exist, because both ends have the same address and port. Clients and NATs may use
// one port for connections to several addresses at a time. Port 0 means unknown.
func (a origin) isSameConn(b origin) bool {
	if a.conn != nil && (a.conn == b.conn || a.port == 0) {
		return a.conn == b.conn
	}
	return a.port == b.port && a.network == b.network && a.local == b.local
}

// hasEnded reports whether the connection has ended. Without connections, as over UDP, it
// returns false.
func (a origin) hasEnded() bool { return a.conn != nil && a.conn.HasEnded() }

func protectionOf(s *oncrpc.Security) uint8 {
	switch {
	case s == nil:
		return 0
	case !s.Mutual:
		return 1
	}
	return 2
}

// zeros is the padding for an item.
var zeros [3]byte

// keyOf returns a call's key. Length and checksum cover the message as RFC 5531 defines
// it, with the data item and its padding in their place: a retransmission may arrive on
// another transport, or with other chunks (RFC 8166). A verified caller is identified by
// name, because its credential and verifier differ in each transmission (RFC 2203,
// Section 5.3.3.1).
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
	length, left := 0, checksumLen
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
