package oncrpc

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A replayKey identifies a call. The checksum is a keyed one, so that no client
// can construct two different calls with the same key.
type replayKey struct {
	client netip.Addr
	xid    uint32
	procedure
	length uint32 // bytes
	sum    uint64
}

// A procedure identifies the procedure of a call.
type procedure struct{ prog, vers, proc uint32 }

// procedureOf reads the first words of a call (RFC 5531, Section 9). It returns
// false for a message that is not a call of this RPC version.
func procedureOf(msg []byte) (p procedure, ok bool) {
	if len(msg) < 6*4 || binary.BigEndian.Uint32(msg[4:]) != rpcmsg.MsgCall || binary.BigEndian.Uint32(msg[8:]) != rpcmsg.Version {
		return procedure{}, false
	}
	return procedure{
		prog: binary.BigEndian.Uint32(msg[12:]),
		vers: binary.BigEndian.Uint32(msg[16:]),
		proc: binary.BigEndian.Uint32(msg[20:]),
	}, true
}

// keyOf returns the key of a call. Length and checksum are those of the message
// as RFC 5531 defines it, with the data item and its padding in their place: a
// retransmission may come by another transport, or in another form of RFC 8166.
func (c *ReplayCache) keyOf(req *Request, p procedure) replayKey {
	pos := len(req.Msg)
	if req.Item != nil {
		pos = max(0, min(req.ItemPos, pos))
	}
	parts := [...][]byte{req.Msg[:pos], req.Item, padding[:xdr.Pad(len(req.Item))], req.Msg[pos:]}
	var sum maphash.Hash
	sum.SetSeed(c.seed)
	length, left := 0, replaySummed
	for _, part := range parts {
		length += len(part)
		n := min(left, len(part))
		_, _ = sum.Write(part[:n]) // never fails
		left -= n
	}
	return replayKey{
		client:    req.Peer.Addr.Addr(),
		xid:       binary.BigEndian.Uint32(req.Msg),
		procedure: p,
		length:    uint32(length),
		sum:       sum.Sum64(),
	}
}
