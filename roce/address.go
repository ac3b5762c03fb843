package roce

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// An Address is the destination of packets: an address handle, in the terms of
// the verbs.
type Address struct {
	Addr         netip.Addr // of the destination port, or of a group
	TrafficClass uint8
	HopLimit     uint8 // 0 means 64
}

// A Destination is the destination of a UD datagram.
type Destination struct {
	Address
	QP   uint32 // packet.MulticastQP for a group
	QKey uint32 // with the high bit set: the sending queue pair's own
}

// GRHLen is the number of bytes at the start of a UD receive buffer that hold
// the sender's address, in front of the message.
const GRHLen = packet.GRHLen

var (
	errAddress = errors.New("roce: this device cannot send to that address")
	errMTU     = errors.New("roce: no path MTU of the Architecture, or too large for the wire")
)

// check reports why packets from a wire cannot reach the address.
func (a Address) check(w Wire) error {
	from := w.Addr()
	if !a.Addr.IsValid() || a.Addr.IsUnspecified() || a.Addr.Unmap().Is4() != from.Is4() {
		return fmt.Errorf("%w: %v, from %v", errAddress, a.Addr, from)
	}
	return nil
}

// network returns the header fields of a packet from a wire to the address.
// With IPv4 the identification is 0 because packets must not be fragmented:
// Linux sends the same from a socket without a peer.
func (a Address) network(w Wire) packet.Network {
	n := packet.Network{
		Src: gidOf(w.Addr()), Dst: gidOf(a.Addr), SrcPort: packet.Port,
		TrafficClass: a.TrafficClass, HopLimit: a.HopLimit, Fragment: packet.DontFragment,
	}
	if n.HopLimit == 0 {
		n.HopLimit = defaultHopLimit
	}
	return n
}

// MaxPMTU returns the largest path MTU of packets on a wire, 256 to 4096 bytes;
// 0 if not even the smallest fits.
func MaxPMTU(w Wire) int {
	const headers = packet.MaxHeaders + packet.ICRCLen
	for mtu := 4096; mtu >= 256; mtu /= 2 {
		if mtu+headers <= w.MaxBytes() {
			return mtu
		}
	}
	return 0
}

// checkMTU reports why packets on a wire cannot have a path MTU.
func checkMTU(w Wire, mtu int) error {
	switch mtu {
	case 256, 512, 1024, 2048, 4096:
		if mtu <= MaxPMTU(w) {
			return nil
		}
	}
	return fmt.Errorf("%w: %d bytes", errMTU, mtu)
}
