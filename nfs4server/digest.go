package nfs4server

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// seed is of the digests of calls.
var seed = maphash.MakeSeed()

// digestLen is how many bytes after SEQUENCE are looked at: a filehandle and
// the operation after it.
const digestLen = 64

// digest returns a number of the call, without its bulk data, and of its
// principal and flavour: two calls with different digests are not retries of one another.
func (x *compound) digest(rest []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var b [16]byte
	xdr.AppendUint32(xdr.AppendUint32(b[:0], x.minor), x.n)
	p := x.principal()
	// The flavour has the service: a reply that was encrypted is not repeated in the clear.
	xdr.AppendUint32(xdr.AppendUint32(b[:8], x.call.Cred.Flavor), p.UID)
	h.Write(b[:])
	h.WriteString(p.Name)
	h.WriteByte(0) // which no name has
	h.Write(rest[:min(len(rest), digestLen, beforeItem(rest, x.n-1))])
	return h.Sum64()
}

// beforeItem returns a number of bytes of n operations that hold no data of a
// WRITE or a symbolic link: a retry over RDMA may carry these in another way.
func beforeItem(ops []byte, n uint32) int {
	const (
		toData   = 4 + stateidLen + 8 + 4 + 4 // bytes of WRITE up to the data
		toLink   = 4 + 4 + 4                  // bytes of CREATE up to the link's content
		shortest = 4 + 4                      // bytes of any operation that is not below
	)
	word := func(at int) uint32 {
		if at+4 > len(ops) {
			return 0
		}
		return binary.BigEndian.Uint32(ops[at:])
	}
	at := 0
	for ; n > 0 && at < digestLen; n-- {
		switch nfs4.Op(word(at)) {
		case nfs4.OpPutRootFH, nfs4.OpPutPubFH, nfs4.OpSaveFH, nfs4.OpRestoreFH, nfs4.OpGetFH, nfs4.OpLookupP, nfs4.OpReadLink:
			at += 4
		case nfs4.OpPutFH, nfs4.OpLookup:
			name := int(min(word(at+4), digestLen))
			at += 8 + name + xdr.Pad(name)
		case nfs4.OpWrite:
			return at + toData
		default:
			switch {
			case nfs4.Op(word(at)) == nfs4.OpCreate && nfs4.FileType(word(at+4)) == nfs4.TypeLnk:
				return at + toLink
			case n > 1:
				return at + shortest + toLink
			}
			return digestLen
		}
	}
	return digestLen
}
