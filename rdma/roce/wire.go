package roce

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A Datagram is one packet as the network carries it.
type Datagram struct {
	packet.Network

	// Unseen means that Ident and Fragment in a received datagram are unknown,
	// as on a UDP socket. The ICRC is then checked as far as possible
	// (packet.Check.Solve).
	Unseen bool

	Bytes []byte // from the BTH to the ICRC
}

// A Wire is a port: it sends datagrams to the network, and receives datagrams
// for its address or for a group that it has joined. A Wire may lose, repeat
// and reorder datagrams. Its methods may be called by several goroutines.
type Wire interface {
	// Addr returns the port's address, its only GID.
	Addr() netip.Addr

	// MaxBytes returns the maximum length of Datagram.Bytes.
	MaxBytes() int

	// Send passes datagrams to the network, in order, and waits while the
	// network accepts none. It returns the number of datagrams sent; the rest
	// are untouched. The bytes belong to the caller again when Send returns.
	Send(d []Datagram) (int, error)

	// Serve passes received datagrams to deliver until Close, and returns why
	// it ended. Calls to deliver do not overlap, and the datagrams belong to
	// the Wire again when deliver returns.
	Serve(deliver func([]Datagram)) error

	// Join and Leave start and stop receiving messages to a group.
	Join(group netip.Addr) error
	Leave(group netip.Addr) error

	// Close ends Serve and Send.
	Close() error
}

// gidOf returns an address as a GID.
func gidOf(a netip.Addr) packet.GID { return packet.GID(a.As16()) }

// addrOf returns a GID as an address.
func addrOf(g packet.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }
