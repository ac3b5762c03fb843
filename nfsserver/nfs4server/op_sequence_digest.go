package nfs4server

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// digestSeed is the seed for call digests.
var digestSeed = maphash.MakeSeed()

// digestLen is the number of bytes after SEQUENCE that the digest covers: a filehandle and the
// operation after it.
const digestLen = 64

// digestCall returns a digest of the call without its bulk data, its principal and its flavor:
// calls with different digests are not retries of each other.
func (x *compound) digestCall(rest []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	var b [16]byte
	xdr.AppendUint32(xdr.AppendUint32(b[:0], x.minor), x.opCount)
	p := x.callPrincipal()
	// The flavor determines the service: an encrypted reply must not be repeated unencrypted.
	xdr.AppendUint32(xdr.AppendUint32(b[:8], x.call.Cred.Flavor), p.UID)
	h.Write(b[:])
	h.WriteString(p.Name)
	h.WriteByte(0) // no name contains it
	h.Write(rest[:min(len(rest), digestLen, lenBeforeData(rest, x.opCount-1))])
	return h.Sum64()
}

// lenBeforeData returns a number of bytes in n operations before any data of a WRITE or a
// symbolic link: a retry over RDMA may transfer that data in another way.
func lenBeforeData(ops []byte, n uint32) int {
	const (
		toData   = 4 + stateidLen + 8 + 4 + 4 // bytes in WRITE before the data
		toLink   = 4 + 4 + 4                  // bytes in CREATE before the link's content
		shortest = 4 + 4                      // bytes in any other operation
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
