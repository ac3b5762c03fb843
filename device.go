package nfsrdma

import (
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// deviceConfig returns cfg with the functions that choose the FPDU length for a peer.
func deviceConfig(cfg iwarp.Config, standardsOnly bool) iwarp.Config {
	cfg.LongFPDUs, cfg.ShortFPDUs = parsesStream, standardsOnly
	return cfg
}

// parsesStream reports whether a peer accepts FPDUs of any length: either iwarp detects
// that, or the peer is this project's, with or without CRCs and Markers.
func parsesStream(peer mpa.Frame) bool {
	_, ours := cmpriv.ParseExtension(peer.PrivateData)
	return ours || iwarp.ParsesStream(peer)
}
