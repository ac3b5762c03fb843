package roce

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// An Address is a packet destination: an address handle, in verbs terms.
type Address struct {
	Addr         netip.Addr // destination port address, or group address
	TrafficClass uint8
	HopLimit     uint8 // 0 means 64
}

// A Destination is a UD datagram's destination.
type Destination struct {
	Address
	QP   uint32 // packet.MulticastQP for a group
	QKey uint32 // with the high bit set: the sending queue pair's own
}

// GRHLen is the number of bytes at the start of a UD receive buffer that hold
// the sender's address, before the message.
const GRHLen = packet.GRHLen

var (
	errAddress = errors.New("roce: this device cannot send to that address")
	errMTU     = errors.New("roce: no path MTU of the Architecture, or too large for the wire")
)

// checkReachable returns an error if packets from a wire cannot reach the
// address.
func (a Address) checkReachable(w Wire) error {
	from := w.Addr()
	if !a.Addr.IsValid() || a.Addr.IsUnspecified() || a.Addr.Unmap().Is4() != from.Is4() {
		return fmt.Errorf("%w: %v, from %v", errAddress, a.Addr, from)
	}
	return nil
}

// networkHeader returns the header fields for a packet from a wire to the
// address. With IPv4 the identification is 0 because packets must not be
// fragmented: Linux sends the same from a socket without a peer.
func (a Address) networkHeader(w Wire) packet.Network {
	n := packet.Network{
		Src: gidOf(w.Addr()), Dst: gidOf(a.Addr), SrcPort: packet.Port,
		TrafficClass: a.TrafficClass, HopLimit: a.HopLimit, Fragment: packet.DontFragment,
	}
	if n.HopLimit == 0 {
		n.HopLimit = defaultHopLimit
	}
	return n
}

// maxPMTU returns the maximum path MTU on a wire, 256 to 4096 bytes; 0 if not
// even the smallest fits.
func maxPMTU(w Wire) int {
	const headers = packet.MaxHeaders + packet.ICRCLen
	for mtu := 4096; mtu >= 256; mtu /= 2 {
		if mtu+headers <= w.MaxBytes() {
			return mtu
		}
	}
	return 0
}

// checkMTU returns an error if packets on a wire cannot have the path MTU.
func checkMTU(w Wire, mtu int) error {
	switch mtu {
	case 256, 512, 1024, 2048, 4096:
		if mtu <= maxPMTU(w) {
			return nil
		}
	}
	return fmt.Errorf("%w: %d bytes", errMTU, mtu)
}
