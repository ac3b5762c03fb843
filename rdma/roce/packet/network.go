package packet

// A GID is a network-layer address: an IPv6 address, or an IPv4 address mapped
// to IPv6 (::ffff:a.b.c.d).
type GID [16]byte

// ipv4Prefix is the prefix for an IPv4 address.
var ipv4Prefix = [12]byte{10: 0xff, 11: 0xff}

// Is4 reports whether g is an IPv4 address.
func (g GID) Is4() bool { return [12]byte(g[:12]) == ipv4Prefix }

// Multicast reports whether g is a group's address.
func (g GID) Multicast() bool {
	if g.Is4() {
		return g[12]>>4 == 0xe
	}
	return g[0] == 0xff
}

// Lengths of the headers before a BTH, in bytes.
const (
	IPv4Len = 20
	GRHLen  = 40 // also the IPv6 header's length
	UDPLen  = 8
)

// Port is the UDP destination port for RoCEv2.
const Port = 4791

const (
	protocolUDP = 17

	// DontFragment is the IPv4 flag that RoCEv2 sets, in the word with the
	// fragment offset.
	DontFragment uint16 = 0x4000
)

// Network holds the IP and UDP header fields before a BTH.
type Network struct {
	Src, Dst     GID
	SrcPort      uint16
	TrafficClass uint8 // ToS for IPv4
	HopLimit     uint8 // TTL for IPv4

	// For IPv4 only: the identification, and flags with fragment offset.
	Ident, Fragment uint16
}

// appendUDP appends UDP's header for n bytes, without a checksum: IPv4 allows
// that, and RoCEv2 has the ICRC.
func (w *Network) appendUDP(b []byte, n int) []byte {
	b = be.AppendUint16(b, w.SrcPort)
	b = be.AppendUint16(b, Port)
	b = be.AppendUint16(b, uint16(UDPLen+n))
	return append(b, 0, 0)
}

// appendIPv4 appends the IPv4 header for n UDP bytes.
func (w *Network) appendIPv4(b []byte, n int) []byte {
	start := len(b)
	b = append(b, 0x45, w.TrafficClass)
	b = be.AppendUint16(b, uint16(IPv4Len+n))
	b = be.AppendUint16(b, w.Ident)
	b = be.AppendUint16(b, w.Fragment)
	b = append(b, w.HopLimit, protocolUDP, 0, 0)
	b = append(append(b, w.Src[12:]...), w.Dst[12:]...)
	be.PutUint16(b[start+10:], ipv4Checksum(b[start:]))
	return b
}

// ipv4Checksum returns the IPv4 checksum over a header, a multiple of 2 bytes.
func ipv4Checksum(b []byte) uint16 {
	sum := uint32(0)
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(be.Uint16(b))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// AppendGRH appends the 40 bytes before a message in a UD receive buffer, for a
// datagram of n bytes from BTH to ICRC: the IPv6 header, or 20 undefined bytes
// and the IPv4 header.
func (w *Network) AppendGRH(b []byte, n int) []byte {
	n += UDPLen
	if w.Dst.Is4() {
		b = append(b, make([]byte, GRHLen-IPv4Len)...)
		return w.appendIPv4(b, n)
	}
	return w.ipv6Header(n).AppendTo(b)
}

func (w *Network) ipv6Header(n int) GRH {
	return GRH{
		TrafficClass: w.TrafficClass, PayLen: uint16(n), NextHeader: protocolUDP, HopLimit: w.HopLimit,
		SGID: w.Src, DGID: w.Dst,
	}
}

// SourceOf returns the sender's address from the 40 bytes before a UD message.
func SourceOf(grh []byte) (GID, error) {
	h, _, err := ParseGRH(grh)
	if err != nil || h.Version == 6 {
		return h.SGID, err
	}
	g := GID{}
	copy(g[:], ipv4Prefix[:])
	copy(g[len(ipv4Prefix):], grh[GRHLen-8:])
	return g, nil
}
