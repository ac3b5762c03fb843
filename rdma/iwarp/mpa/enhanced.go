package mpa

import (
	"encoding/binary"
	"strings"
)

// RTR is a set of message kinds with which an initiator may begin in the
// peer-to-peer model (RFC 6581, Section 9.2). Each such message has zero
// length.
type RTR uint8

// The RTR indications.
const (
	RTRSend  RTR = 1 << iota // flag B
	RTRWrite                 // flag C
	RTRRead                  // flag D
)

// String lists the kinds.
func (r RTR) String() string {
	var kinds []string
	for _, k := range []struct {
		kind RTR
		name string
	}{{RTRSend, "Send"}, {RTRWrite, "RDMA Write"}, {RTRRead, "RDMA Read"}} {
		if r&k.kind != 0 {
			kinds = append(kinds, k.name)
		}
	}
	if kinds == nil {
		return "none"
	}
	return strings.Join(kinds, ", ")
}

// Enhanced is the header that RFC 6581, Section 9, inserts before the private
// data:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+---------------------------+-+-+---------------------------+
//	|A|B|            IRD            |C|D|            ORD            |
//	+-+-+---------------------------+-+-+---------------------------+
type Enhanced struct {
	PeerToPeer bool   // A: the initiator sends an RTR indication first
	RTR        RTR    // B, C, D: meaningless unless PeerToPeer is set
	IRD        uint16 // peer's RDMA Reads that the sender serves concurrently, or NotNegotiated
	ORD        uint16 // sender's maximum number of outstanding RDMA Reads, or NotNegotiated
}

const (
	flagA = 0x8000 // in the first word
	flagB = 0x4000
	flagC = 0x8000 // in the second word
	flagD = 0x4000
)

// appendTo appends the wire form. IRD and ORD are clamped to NotNegotiated.
func (e Enhanced) appendTo(b []byte) []byte {
	ird, ord := min(e.IRD, NotNegotiated), min(e.ORD, NotNegotiated)
	if e.PeerToPeer {
		ird |= flagA
	}
	if e.RTR&RTRSend != 0 {
		ird |= flagB
	}
	if e.RTR&RTRWrite != 0 {
		ord |= flagC
	}
	if e.RTR&RTRRead != 0 {
		ord |= flagD
	}
	b = binary.BigEndian.AppendUint16(b, ird)
	return binary.BigEndian.AppendUint16(b, ord)
}

func parseEnhanced(b []byte) Enhanced {
	ird, ord := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	e := Enhanced{PeerToPeer: ird&flagA != 0, IRD: ird & NotNegotiated, ORD: ord & NotNegotiated}
	if ird&flagB != 0 {
		e.RTR |= RTRSend
	}
	if ord&flagC != 0 {
		e.RTR |= RTRWrite
	}
	if ord&flagD != 0 {
		e.RTR |= RTRRead
	}
	return e
}
