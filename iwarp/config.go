package iwarp

import (
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Config is how this end of a connection behaves. The zero value is right for
// most.
type Config struct {
	// CRC is the policy on CRC32C. The zero value requires it, as RFC
	// 5044, Section 4.4, wants by default.
	CRC mpa.CRC

	// Markers makes this end require Markers in what it receives. It has
	// no use for them; Linux's siw knows none and refuses. A peer that
	// requires them gets them whatever this says.
	Markers bool

	// LongFPDUs tells by a peer's start-up frame whether the peer is known
	// to take FPDUs that are longer than a segment of TCP. To all others
	// go FPDUs that fit (RFC 5044, Section 4.5). nil means ParsesStream.
	LongFPDUs func(peer mpa.Frame) bool

	// IRD is the number of RDMA Reads that the peer may have outstanding
	// here, and ORD the number that this end has outstanding there. 0
	// means 128, which is also the limit.
	IRD, ORD uint16

	// PeerToPeer makes an initiator ask for the peer-to-peer model of RFC
	// 6581, in which it says by itself that it is ready.
	PeerToPeer bool

	// Unenhanced keeps an initiator to MPA revision 1. Without it, Dial
	// tries that second, where PeerToPeer is not wanted and the responder
	// takes revision 2 for no start-up frame (RFC 6581, Section 10).
	Unenhanced bool

	// Domain lets the peer reach the memory that is registered with the
	// Protection Domain. nil: only what is registered with the connection.
	Domain *ProtectionDomain

	// StartupTimeout bounds the MPA start-up; 0 means 5 s.
	StartupTimeout time.Duration

	// Record is how many octets of what they sent and received last the
	// connections keep for Conn.WriteRecord, each for itself: FPDUs with all
	// that is in them, and 13 octets for each piece that a system call took.
	// 0: none; below 128 KiB means that. It costs a copy of all octets.
	Record int

	// Ended, if not nil, is told of the end of each connection and why, as
	// its Handler is afterwards: a *Fault is a Terminate. It must not call
	// Close.
	Ended func(c *Conn, cause error)
}

// local returns what the configuration brings to MPA's start-up.
func (c Config) local() mpa.Local {
	depth := func(n uint16) uint16 {
		if n == 0 {
			return maxReads
		}
		return min(n, maxReads)
	}
	return mpa.Local{
		CRC: c.CRC, Markers: c.Markers, IRD: depth(c.IRD), ORD: depth(c.ORD),
		PeerToPeer: c.PeerToPeer, Unenhanced: c.Unenhanced,
	}
}

func (c Config) startup() time.Duration {
	if c.StartupTimeout == 0 {
		return defaultStartup
	}
	return c.StartupTimeout
}

var _ rdma.ReadDepth = (*Conn)(nil)

// ReadDepth returns what MPA's start-up negotiated (rdma.ReadDepth).
func (c *Conn) ReadDepth() (ird, ord int) { return c.params.IRD, c.params.ORD }

// ParsesStream tells whether a peer's start-up frame is that of a software stack
// that takes FPDUs out of a stream of octets, whatever their length: Linux's siw
// and this package. Both speak revision 2, enhanced, and by themselves ask for
// no CRC, no Markers and no RTR indication; RDMA cards ask for at least one of
// them, or speak revision 1. A frame that echoes what this end has asked for
// tells nothing.
func ParsesStream(peer mpa.Frame) bool {
	return peer.HasEnhanced && !peer.CRC && !peer.Markers && !peer.Enhanced.PeerToPeer
}

// Nobody is for Config.LongFPDUs where all peers get what RFC 5044 asks for.
func Nobody(mpa.Frame) bool { return false }

// configure makes c what the configuration says, before it starts.
func (c *Conn) configure(cfg Config) {
	c.domain, c.onEnd = cfg.Domain, cfg.Ended
	known := cfg.LongFPDUs
	if known == nil {
		known = ParsesStream
	}
	if known(c.peer) {
		c.mulpdu = mpa.MaxULPDU
	}
}
