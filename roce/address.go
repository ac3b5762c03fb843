package roce

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// An Address is where packets go: what the verbs call an address handle.
type Address struct {
	Addr         netip.Addr // the destination port's, or a group's
	TrafficClass uint8
	HopLimit     uint8 // 0 means 64
}

// A Destination is where a datagram of UD goes.
type Destination struct {
	Address
	QP   uint32 // packet.MulticastQP for a group
	QKey uint32 // with the high bit set: the sending queue pair's own
}

// GRHLen is how many bytes of a receive buffer of UD are for the sender's
// address, in front of the message.
const GRHLen = packet.GRHLen

var (
	errAddress = errors.New("roce: no address that packets can go to from here")
	errMTU     = errors.New("roce: no path MTU of the Architecture, or too large for the wire")
)

// check reports why packets from a wire cannot go to the address.
func (a Address) check(w Wire) error {
	from := w.Addr()
	if !a.Addr.IsValid() || a.Addr.IsUnspecified() || a.Addr.Unmap().Is4() != from.Is4() {
		return fmt.Errorf("%w: %v, from %v", errAddress, a.Addr, from)
	}
	return nil
}

// network is what the headers say of a packet that goes there from a wire. IPv4
// has no identification where packets are not to be cut: that is what Linux
// sends from a socket that has no peer.
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

// MaxPMTU returns the largest path MTU that packets on a wire can have, 256 to
// 4096 bytes; 0 where not even the smallest fits.
func MaxPMTU(w Wire) int {
	const headers = packet.MaxHeaders + packet.ICRCLen
	for mtu := 4096; mtu >= 256; mtu /= 2 {
		if mtu+headers <= w.MaxOctets() {
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
	return fmt.Errorf("%w: %d octets", errMTU, mtu)
}
