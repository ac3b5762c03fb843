package iwarp

import (
	"context"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Config is the configuration of a device: of this end of its connections. The
// zero value suits most callers.
type Config struct {
	// CRC is the policy on CRC32C. The zero value requires CRCs, the default of
	// RFC 5044, Section 4.4.
	CRC mpa.CRC

	// Markers makes this end require Markers in the stream that it receives.
	// This end has no use for Markers; Linux's siw does not know them and
	// refuses. A peer that requires Markers always gets them.
	Markers bool

	// LongFPDUs reports from a peer's start-up frame whether the peer is known
	// to take FPDUs that are longer than a TCP segment. All other peers get
	// FPDUs that fit (RFC 5044, Section 4.5). nil means ParsesStream.
	LongFPDUs func(peer mpa.Frame) bool

	// ShortFPDUs gives all peers FPDUs as RFC 5044 asks. LongFPDUs is then not
	// called.
	ShortFPDUs bool

	// IRD is the number of RDMA Reads that the peer may have outstanding here,
	// and ORD the number that this end has outstanding there. 0 means 128,
	// which is also the limit.
	IRD, ORD uint16

	// PeerToPeer makes an initiator ask for the peer-to-peer model of RFC 6581,
	// in which the initiator itself announces that it is ready.
	PeerToPeer bool

	// Unenhanced restricts an initiator to MPA revision 1. If Unenhanced and
	// PeerToPeer are false, Dial falls back to revision 1 for a responder that
	// does not accept revision 2 in a start-up frame (RFC 6581, Section 10).
	Unenhanced bool

	// Secure, if not nil, is called for each TCP connection before MPA begins. It returns
	// nc itself, or a connection over nc that protects all bytes better than CRCs do:
	// MPA then asks for neither CRCs nor Markers, and nothing is recorded. Secure takes
	// over nc, even if it fails, and ends when nc is closed.
	Secure func(ctx context.Context, nc net.Conn) (net.Conn, error)

	// OnlySecure rejects initiators for which Secure returned nc itself.
	OnlySecure bool

	// StartupTimeout bounds the MPA start-up; 0 means 5 s.
	StartupTimeout time.Duration

	// Record is how many bytes each connection keeps of its latest traffic in
	// both directions for Conn.WriteRecord: whole FPDUs, and 13 bytes for each
	// piece that a system call took. 0 keeps none; a smaller value than 128 KiB
	// means 128 KiB. Recording costs a copy of all bytes.
	Record int

	// Ended, if not nil, is called at the end of each connection with the
	// cause, before the connection's Handler is informed. A cause of type
	// *Fault is a Terminate. Ended must not call Close.
	Ended func(c *Conn, cause error)
}

// local returns the settings that this end brings to MPA's start-up.
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

// ReadDepth returns the values that MPA's start-up negotiated (rdma.ReadDepth).
func (c *Conn) ReadDepth() (ird, ord int) { return c.params.IRD, c.params.ORD }

// ParsesStream reports whether a peer's start-up frame comes from a software
// stack that parses FPDUs of any length out of a byte stream: Linux's siw and
// this package. Both speak revision 2, enhanced, and on their own initiative
// ask for no CRC, no Markers and no RTR indication. RDMA cards ask for at least
// one of these, or speak revision 1. A frame that echoes the requests of this
// end proves nothing.
func ParsesStream(peer mpa.Frame) bool {
	return peer.HasEnhanced && !peer.CRC && !peer.Markers && !peer.Enhanced.PeerToPeer
}

// longFPDUs reports whether the peer gets FPDUs of any length.
func (c Config) longFPDUs(peer mpa.Frame) bool {
	switch {
	case c.ShortFPDUs:
		return false
	case c.LongFPDUs != nil:
		return c.LongFPDUs(peer)
	default:
		return ParsesStream(peer)
	}
}
