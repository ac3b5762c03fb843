package iwarp

import (
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// Config is how this end of a connection behaves. The zero value is right for
// most.
type Config struct {
	// CRC is the policy on CRC32C. The zero value requires it, as RFC
	// 5044, Section 4.4, wants by default.
	CRC mpa.CRC

	// IRD is the number of RDMA Reads that the peer may have outstanding
	// here, and ORD the number that this end has outstanding there. 0
	// means 128, which is also the limit.
	IRD, ORD uint16

	// PeerToPeer makes an initiator ask for the peer-to-peer model of RFC
	// 6581, in which it says by itself that it is ready.
	PeerToPeer bool

	// Unenhanced keeps an initiator to MPA revision 1.
	Unenhanced bool

	// Domain lets the peer reach the memory that is registered with the
	// Protection Domain. nil: only what is registered with the connection.
	Domain *ProtectionDomain

	// StartupTimeout bounds the MPA start-up; 0 means 5 s.
	StartupTimeout time.Duration
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
		CRC: c.CRC, IRD: depth(c.IRD), ORD: depth(c.ORD),
		PeerToPeer: c.PeerToPeer, Unenhanced: c.Unenhanced,
	}
}

func (c Config) startup() time.Duration {
	if c.StartupTimeout == 0 {
		return defaultStartup
	}
	return c.StartupTimeout
}
