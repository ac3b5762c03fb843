package iwarp

import "github.com/nfsrdma/nfsrdma/iwarp/mpa"

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
