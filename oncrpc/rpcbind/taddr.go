package rpcbind

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Lengths of the host's socket addresses in bytes.
const (
	sockaddr4Len = unix.SizeofSockaddrInet4
	sockaddr6Len = unix.SizeofSockaddrInet6
)

// appendTaddr appends a as a transport-specific address in a struct netbuf (RFC 1833,
// Section 2.1): the host's struct sockaddr, whose first word is in the host's byte order.
// The zero AddrPort becomes an empty address.
func appendTaddr(b []byte, a netip.AddrPort) []byte {
	var sa []byte
	switch ip := a.Addr(); {
	case ip.Is4():
		sa = make([]byte, sockaddr4Len)
		binary.NativeEndian.PutUint16(sa, unix.AF_INET)
		copy(sa[4:], ip.AsSlice())
	case ip.Is6():
		sa = make([]byte, sockaddr6Len)
		binary.NativeEndian.PutUint16(sa, unix.AF_INET6)
		copy(sa[8:], ip.AsSlice())
	}
	if sa != nil {
		binary.BigEndian.PutUint16(sa[2:], a.Port())
	}
	return xdr.AppendOpaque(xdr.AppendUint32(b, uint32(len(sa))), sa)
}

// decodeTaddr reads such an address from r, which holds the error. It returns
// the zero AddrPort if the address is not IP.
func decodeTaddr(r *xdr.Reader) netip.AddrPort {
	r.Uint32() // maxlen
	sa := r.Opaque(maxString)
	if len(sa) < sockaddr4Len {
		return netip.AddrPort{}
	}
	port := binary.BigEndian.Uint16(sa[2:])
	switch family := binary.NativeEndian.Uint16(sa); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), port)
	case family == unix.AF_INET6 && len(sa) >= sockaddr6Len:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(sa[8:24])), port)
	}
	return netip.AddrPort{}
}
