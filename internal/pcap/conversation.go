package pcap

import (
	"net/netip"
	"time"
)

// A Side is one end of a Conversation.
type Side uint8

// The ends of a Conversation.
const (
	Client Side = iota // the side that connected
	Server
)

// A Conversation is one TCP connection of a File.
type Conversation struct {
	f           *File
	ends        [2]netip.AddrPort
	next        [2]uint32 // sequence number for each side's next byte
	packetCount [2]uint16 // packets sent by each side
}

// TCP flags.
const (
	flagSYN = 0x02
	flagPSH = 0x08
	flagACK = 0x10
)

// initialSeq is the sequence number in both sides' SYNs.
const initialSeq = 0

// Connect begins a conversation with the three packets that open a TCP connection,
// all at the given time. Both ends must have addresses in the same family.
func (f *File) Connect(at time.Time, client, server netip.AddrPort) *Conversation {
	c := &Conversation{f: f, ends: [2]netip.AddrPort{client, server}, next: [2]uint32{initialSeq, initialSeq}}
	c.writeSegment(at, Client, flagSYN, nil)
	c.next[Client]++
	c.writeSegment(at, Server, flagSYN|flagACK, nil)
	c.next[Server]++
	c.writeSegment(at, Client, flagACK, nil)
	return c
}

// Write writes bytes that a side sent as one packet, at most 64 KiB and a few more.
// The length field of a longer packet is 0. In IPv4, packets for segmentation
// offload look the same, and decoders accept them; in IPv6 the packet is a
// jumbogram.
func (c *Conversation) Write(at time.Time, from Side, data []byte) {
	c.writeSegment(at, from, flagPSH|flagACK, data)
	c.next[from] += uint32(len(data))
}

// Skip leaves a gap in a side's IPv4 Identification numbers, but not in TCP's
// sequence numbers: no bytes are missing.
func (c *Conversation) Skip(from Side, packets int) { c.packetCount[from] += uint16(packets) }

// writeSegment writes a packet.
func (c *Conversation) writeSegment(at time.Time, from Side, flags uint8, data []byte) {
	src, dst := c.ends[from], c.ends[1-from]
	tcp := c.appendTCP(make([]byte, 0, tcpLen+optionsLen), from, flags)
	n := len(tcp) + len(data)
	sum := pseudoHeaderSum(src.Addr(), dst.Addr(), n)
	sum = addToSum(addToSum(sum, tcp), data) // the header's length is even
	be.PutUint16(tcp[16:], ^foldSum(sum))
	b := appendEthernet(make([]byte, 0, headersLen), from, src.Addr())
	b = appendIP(b, src.Addr(), dst.Addr(), c.packetCount[from], n)
	c.packetCount[from]++
	c.f.writePacket(at, append(b, tcp...), data)
}
