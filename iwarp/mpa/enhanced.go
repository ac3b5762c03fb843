package mpa

import (
	"encoding/binary"
	"strings"
)

// RTR is a set of kinds of the first message of an initiator in the
// peer-to-peer model (RFC 6581, Section 9.2). Each kind is of zero length.
type RTR uint8

// The kinds of RTR indication.
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
	IRD        uint16 // RDMA Reads of the peer that the sender serves concurrently, or NotNegotiated
	ORD        uint16 // maximum of outstanding RDMA Reads of the sender, or NotNegotiated
}

const (
	flagA = 0x8000 // of the first word
	flagB = 0x4000
	flagC = 0x8000 // of the second word
	flagD = 0x4000
)

// appendTo appends the wire form. IRD and ORD are cut to NotNegotiated.
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
