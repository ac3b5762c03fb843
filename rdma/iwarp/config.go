package iwarp

import (
	"context"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// Config configures a device, for the local end of its connections. The zero
// value suits most callers.
type Config struct {
	// CRC is the policy on CRC32C. The zero value requires CRCs, the default in
	// RFC 5044, Section 4.4.
	CRC mpa.CRC

	// Markers makes this end require Markers in the stream that it receives.
	// This end has no use for Markers; Linux's siw does not implement them and
	// rejects the connection. A peer that requires Markers always gets them.
	Markers bool

	// LongFPDUs reports from a peer's start-up frame whether the peer is known
	// to accept FPDUs longer than a TCP segment. All other peers get FPDUs that
	// fit (RFC 5044, Section 4.5). nil means ParsesStream.
	LongFPDUs func(peer mpa.Frame) bool

	// ShortFPDUs sends all peers FPDUs as RFC 5044 requires. LongFPDUs is then
	// not called.
	ShortFPDUs bool

	// IRD is the number of RDMA Reads that the peer may have outstanding here,
	// and ORD the number that this end has outstanding there. 0 means 128,
	// which is also the limit.
	IRD, ORD uint16

	// PeerToPeer makes an initiator request RFC 6581's peer-to-peer model, in
	// which the initiator itself announces that it is ready.
	PeerToPeer bool

	// Unenhanced restricts an initiator to MPA revision 1. If Unenhanced and
	// PeerToPeer are false, Dial falls back to revision 1 for a responder that
	// does not accept revision 2 in a start-up frame (RFC 6581, Section 10).
	Unenhanced bool

	// Secure, if not nil, is called for each TCP connection before MPA begins. It returns nc
	// itself, or a connection over nc that protects all bytes better than CRCs do: MPA then
	// requests neither CRCs nor Markers, and nothing is recorded. Secure owns nc, even if it fails,
	// and must return when nc is closed.
	Secure func(ctx context.Context, nc net.Conn) (net.Conn, error)

	// OnlySecure rejects initiators for which Secure returned nc itself.
	OnlySecure bool

	// StartupTimeout bounds the MPA start-up; 0 means 5 s.
	StartupTimeout time.Duration

	// Record is the number of bytes of recent traffic, in both directions, that
	// each connection keeps for Conn.WriteRecord: whole FPDUs, plus 13 bytes
	// per piece that a system call moved. 0 records nothing; a smaller value
	// than 128 KiB means 128 KiB. Recording copies all bytes.
	Record int

	// Tenure, if not nil, is the time until which this end may act. Afterwards connections are
	// reset as soon as they receive something, of which nothing is executed.
	Tenure *tenure.Tenure

	// Ended, if not nil, is called with the cause when a connection ends,
	// before its Handler is informed. If the cause is a *Fault, it was a
	// Terminate. Ended must not call Close.
	Ended func(c *Conn, cause error)

	// Foreign, if not nil, is called when a peer of a Listener has sent something else than an
	// MPA Request. The error names the protocol if it is known.
	Foreign func(peer net.Addr, err error)
}

// mpaLocal returns the local settings for MPA's start-up.
func (c Config) mpaLocal() mpa.Local {
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

func (c Config) startupTimeout() time.Duration {
	if c.StartupTimeout == 0 {
		return defaultStartup
	}
	return c.StartupTimeout
}

var _ rdma.ReadDepth = (*Conn)(nil)

// ReadDepth returns the values that MPA's start-up negotiated (rdma.ReadDepth).
func (c *Conn) ReadDepth() (ird, ord int) { return c.params.IRD, c.params.ORD }

// ParsesStream reports whether a peer's start-up frame comes from a software
// stack that parses FPDUs of any length from a byte stream: Linux's siw and
// this package. Both speak revision 2, enhanced, and on their own initiative
// request no CRC, no Markers and no RTR indication. RDMA cards request at least
// one of these, or speak revision 1. A frame that merely echoes local requests
// proves nothing.
func ParsesStream(peer mpa.Frame) bool {
	return peer.HasEnhanced && !peer.CRC && !peer.Markers && !peer.Enhanced.PeerToPeer
}

// sendsLongFPDUs reports whether FPDUs to the peer may have any length.
func (c Config) sendsLongFPDUs(peer mpa.Frame) bool {
	switch {
	case c.ShortFPDUs:
		return false
	case c.LongFPDUs != nil:
		return c.LongFPDUs(peer)
	default:
		return ParsesStream(peer)
	}
}
