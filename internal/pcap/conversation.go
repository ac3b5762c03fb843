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
	f    *File
	ends [2]netip.AddrPort
	next [2]uint32 // sequence number of each side's next byte
	sent [2]uint16 // packets of each side
}

// TCP flags.
const (
	flagSYN = 0x02
	flagPSH = 0x08
	flagACK = 0x10
)

// first is the sequence number of both sides' SYNs.
const first = 0

// Connect begins a conversation by the three packets that open a TCP connection,
// all at the given time. Both ends have addresses of the same family.
func (f *File) Connect(at time.Time, client, server netip.AddrPort) *Conversation {
	c := &Conversation{f: f, ends: [2]netip.AddrPort{client, server}, next: [2]uint32{first, first}}
	c.segment(at, Client, flagSYN, nil)
	c.next[Client]++
	c.segment(at, Server, flagSYN|flagACK, nil)
	c.next[Server]++
	c.segment(at, Client, flagACK, nil)
	return c
}

// Write writes bytes that a side sent as one packet, at most 64 KiB and a few
// more. The length field of a longer packet is 0. In IPv4, packets for
// segmentation by a network card look the same, and decoders know them; in IPv6
// the packet is a jumbogram.
func (c *Conversation) Write(at time.Time, from Side, data []byte) {
	c.segment(at, from, flagPSH|flagACK, data)
	c.next[from] += uint32(len(data))
}

// Skip leaves a gap of packets in a side's IPv4 Identification numbers, but not
// in TCP's sequence numbers: no bytes are missing.
func (c *Conversation) Skip(from Side, packets int) { c.sent[from] += uint16(packets) }

// segment writes a packet.
func (c *Conversation) segment(at time.Time, from Side, flags uint8, data []byte) {
	src, dst := c.ends[from], c.ends[1-from]
	tcp := c.appendTCP(make([]byte, 0, tcpLen+optionsLen), from, flags)
	n := len(tcp) + len(data)
	sum := pseudo(src.Addr(), dst.Addr(), n)
	sum = add(add(sum, tcp), data) // the header's length is even
	be.PutUint16(tcp[16:], ^fold(sum))
	b := appendEthernet(make([]byte, 0, headersLen), from, src.Addr())
	b = appendIP(b, src.Addr(), dst.Addr(), c.sent[from], n)
	c.sent[from]++
	c.f.packet(at, append(b, tcp...), data)
}
