package packet

// A GID is an address of the network layer: that of IPv6, or of IPv4 as IPv6
// maps it (::ffff:a.b.c.d).
type GID [16]byte

// mapped is what stands in front of an address of IPv4.
var mapped = [12]byte{10: 0xff, 11: 0xff}

// Is4 reports whether g is an address of IPv4.
func (g GID) Is4() bool { return [12]byte(g[:12]) == mapped }

// Multicast reports whether g is a group's address.
func (g GID) Multicast() bool {
	if g.Is4() {
		return g[12]>>4 == 0xe
	}
	return g[0] == 0xff
}

// Lengths of the headers in front of a BTH, in bytes.
const (
	IPv4Len = 20
	GRHLen  = 40 // of IPv6's header as well
	UDPLen  = 8
)

// Port is UDP's port for RoCEv2, in every destination.
const Port = 4791

const (
	protocolUDP = 17

	// DontFragment is the flag of IPv4 that RoCEv2 sets, in the word with
	// the fragment offset.
	DontFragment uint16 = 0x4000
)

// Network is what the headers of IP and UDP in front of a BTH say.
type Network struct {
	Src, Dst     GID
	SrcPort      uint16
	TrafficClass uint8 // ToS of IPv4
	HopLimit     uint8 // TTL of IPv4

	// Of IPv4 alone: the identification, and flags with fragment offset.
	Ident, Fragment uint16
}

// appendUDP appends UDP's header in front of n bytes, with no checksum: IPv4
// allows that, and RoCEv2 has the ICRC.
func (w *Network) appendUDP(b []byte, n int) []byte {
	b = be.AppendUint16(b, w.SrcPort)
	b = be.AppendUint16(b, Port)
	b = be.AppendUint16(b, uint16(UDPLen+n))
	return append(b, 0, 0)
}

// appendIPv4 appends IPv4's header in front of n bytes of UDP.
func (w *Network) appendIPv4(b []byte, n int) []byte {
	start := len(b)
	b = append(b, 0x45, w.TrafficClass)
	b = be.AppendUint16(b, uint16(IPv4Len+n))
	b = be.AppendUint16(b, w.Ident)
	b = be.AppendUint16(b, w.Fragment)
	b = append(b, w.HopLimit, protocolUDP, 0, 0)
	b = append(append(b, w.Src[12:]...), w.Dst[12:]...)
	be.PutUint16(b[start+10:], checksum(b[start:]))
	return b
}

// checksum is IPv4's, of a header of whole words.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(be.Uint16(b))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// AppendGRH appends the 40 bytes that stand in front of a message in the
// receive buffer of UD, for a datagram of n bytes from BTH to ICRC: the header
// of IPv6, or 20 bytes of nothing and the header of IPv4.
func (w *Network) AppendGRH(b []byte, n int) []byte {
	n += UDPLen
	if w.Dst.Is4() {
		b = append(b, make([]byte, GRHLen-IPv4Len)...)
		return w.appendIPv4(b, n)
	}
	return w.grh(n).AppendTo(b)
}

func (w *Network) grh(n int) GRH {
	return GRH{
		TrafficClass: w.TrafficClass, PayLen: uint16(n), NextHeader: protocolUDP, HopLimit: w.HopLimit,
		SGID: w.Src, DGID: w.Dst,
	}
}

// SourceOf returns the sender's address by the 40 bytes in front of a message
// of UD.
func SourceOf(grh []byte) (GID, error) {
	h, _, err := ParseGRH(grh)
	if err != nil || h.Version == 6 {
		return h.SGID, err
	}
	g := GID{}
	copy(g[:], mapped[:])
	copy(g[len(mapped):], grh[GRHLen-8:])
	return g, nil
}
