package nfsrdma

import (
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
)

// rnic returns the configuration of RDMA connections with the choice of peers
// that take FPDUs of any length.
func rnic(cfg iwarp.Config, standardsOnly bool) iwarp.Config {
	cfg.LongFPDUs, cfg.ShortFPDUs = parsesStream, standardsOnly
	return cfg
}

// parsesStream reports whether a peer takes FPDUs of any length: either iwarp
// knows the peer to do so, or the peer runs this project, with or without CRCs
// and Markers.
func parsesStream(peer mpa.Frame) bool {
	_, ours := cmpriv.ParseExtension(peer.PrivateData)
	return ours || iwarp.ParsesStream(peer)
}
