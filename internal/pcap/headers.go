package pcap

import (
	"encoding/binary"
	"net/netip"
)

// Header lengths in bytes.
const (
	ethernetLen = 14
	ipv4Len     = 20
	ipv6Len     = 40
	jumboLen    = 8
	tcpLen      = 20
	optionsLen  = 8 // TCP options in a SYN

	headersLen = ethernetLen + ipv6Len + jumboLen + tcpLen + optionsLen
)

const (
	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd

	protocolHopByHop = 0
	protocolTCP      = 6
	hopLimit         = 64
	dontFragment     = 0x4000
)

var be = binary.BigEndian

// appendEthernet appends a header with invented addresses.
func appendEthernet(b []byte, from Side, addr netip.Addr) []byte {
	b = append(b, 2, 0, 0, 0, 0, byte(1-from), 2, 0, 0, 0, 0, byte(from))
	if addr.Is4() {
		return be.AppendUint16(b, typeIPv4)
	}
	return be.AppendUint16(b, typeIPv6)
}

// appendIP appends the IP header for n TCP bytes.
func appendIP(b []byte, src, dst netip.Addr, number uint16, n int) []byte {
	if src.Is4() {
		return appendIPv4(b, src, dst, number, n)
	}
	b = append(b, 0x60, 0, 0, 0)
	b = be.AppendUint16(b, lengthField(n))
	next := byte(protocolTCP)
	if lengthField(n) == 0 {
		next = protocolHopByHop
	}
	b = append(b, next, hopLimit)
	b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
	if lengthField(n) == 0 { // a Jumbo Payload: RFC 2675, Section 2
		b = append(b, protocolTCP, 0, 0xc2, 4)
		b = be.AppendUint32(b, uint32(jumboLen+n))
	}
	return b
}

func appendIPv4(b []byte, src, dst netip.Addr, number uint16, n int) []byte {
	start := len(b)
	b = append(b, 0x45, 0)
	b = be.AppendUint16(b, lengthField(ipv4Len+n))
	b = be.AppendUint16(b, number)
	b = be.AppendUint16(b, dontFragment)
	b = append(b, hopLimit, protocolTCP, 0, 0)
	b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
	be.PutUint16(b[start+10:], ^foldSum(addToSum(0, b[start:])))
	return b
}

// lengthField returns the value for IP's length field; 0 if the field is too small.
func lengthField(n int) uint16 {
	if n > 0xffff {
		return 0
	}
	return uint16(n)
}

// appendTCP appends a side's header without a checksum.
func (c *Conversation) appendTCP(b []byte, from Side, flags uint8) []byte {
	ack := uint32(0)
	if flags&flagACK != 0 {
		ack = c.next[1-from]
	}
	size := tcpLen
	if flags&flagSYN != 0 {
		size += optionsLen
	}
	b = be.AppendUint16(b, c.ends[from].Port())
	b = be.AppendUint16(b, c.ends[1-from].Port())
	b = be.AppendUint32(b, c.next[from])
	b = be.AppendUint32(b, ack)
	b = append(b, byte(size/4)<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	if flags&flagSYN != 0 {
		b = append(b, 2, 4, 0xff, 0xff) // maximum segment size
		b = append(b, 1, 3, 3, 14)      // maximum window scale
	}
	return b
}

// pseudoHeaderSum sums the pseudo-header for TCP's checksum, for n TCP bytes.
func pseudoHeaderSum(src, dst netip.Addr, n int) uint64 {
	sum := addToSum(addToSum(0, src.AsSlice()), dst.AsSlice())
	return sum + protocolTCP + uint64(n>>16) + uint64(n&0xffff)
}

// addToSum adds b to a sum of 16-bit numbers.
func addToSum(sum uint64, b []byte) uint64 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(be.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

// foldSum reduces a sum to a 16-bit one's complement sum.
func foldSum(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
