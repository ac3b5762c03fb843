package roce

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A Datagram is one packet as the network carries it.
type Datagram struct {
	packet.Network

	// Unseen says that Ident and Fragment of one that was received are not
	// known, as on a socket of UDP: the ICRC is checked as far as that goes
	// (packet.Check.Solve).
	Unseen bool

	Octets []byte // from the BTH to the ICRC
}

// A Wire is a port: it takes datagrams to the network and brings those that are
// for its address, or for a group that it has joined. It may lose, repeat and
// reorder them. Its methods may be called by several goroutines.
type Wire interface {
	// Addr returns the port's address, its one GID.
	Addr() netip.Addr

	// MaxOctets returns the length of the longest Datagram.Bytes.
	MaxOctets() int

	// Send hands datagrams over to the network, in order, and waits while
	// that has no room. It returns how many it has handed over; those behind
	// were not looked at. The bytes are the caller's again when it returns.
	Send(d []Datagram) (int, error)

	// Serve hands what comes in to deliver until Close, and returns why it
	// ended. Deliver is called once at a time, and what it gets is the
	// Wire's again when it returns.
	Serve(deliver func([]Datagram)) error

	// Join and Leave begin and end bringing what is sent to a group.
	Join(group netip.Addr) error
	Leave(group netip.Addr) error

	// Close ends Serve and Send.
	Close() error
}

// gidOf returns the GID that is an address.
func gidOf(a netip.Addr) packet.GID { return packet.GID(a.As16()) }

// addrOf returns the address that a GID is.
func addrOf(g packet.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }
