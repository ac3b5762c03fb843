package pcap

import (
	"net/netip"
	"time"
)

// A Side is one end of a Conversation.
type Side uint8

// The ends of a Conversation.
const (
	Client Side = iota // who connected
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
// more. What is too long for the length field has 0 there: in IPv4 as have the
// packets that a network card is to cut, which decoders know, and in IPv6 as a
// jumbogram.
func (c *Conversation) Write(at time.Time, from Side, octets []byte) {
	c.segment(at, from, flagPSH|flagACK, octets)
	c.next[from] += uint32(len(octets))
}

// Skip leaves out packets of a side in the numbers that IPv4 has a field for
// (Identification), and not in TCP's: there is no hole.
func (c *Conversation) Skip(from Side, packets int) { c.sent[from] += uint16(packets) }

// segment writes a packet.
func (c *Conversation) segment(at time.Time, from Side, flags uint8, octets []byte) {
	src, dst := c.ends[from], c.ends[1-from]
	tcp := c.appendTCP(make([]byte, 0, tcpLen+optionsLen), from, flags)
	n := len(tcp) + len(octets)
	sum := pseudo(src.Addr(), dst.Addr(), n)
	sum = add(add(sum, tcp), octets) // the header is of an even length
	be.PutUint16(tcp[16:], ^fold(sum))
	b := appendEthernet(make([]byte, 0, headersLen), from, src.Addr())
	b = appendIP(b, src.Addr(), dst.Addr(), c.sent[from], n)
	c.sent[from]++
	c.f.packet(at, append(b, tcp...), octets)
}
