package mpa

import "fmt"

// Accept determines a responder's answer to the Request req (RFC 5044, Section
// 7.1.2, and RFC 6581, Sections 9 and 10). It returns the Reply to send,
// without private data, and the connection's parameters.
//
// With an error the Reply is the rejection to send: ErrIRD if the peer's IRD is
// below local.MinORD.
func Accept(req Frame, local Local) (Frame, Params, error) {
	reply, params := buildReply(req, local)
	if req.HasEnhanced && req.Enhanced.IRD < local.MinORD {
		reply.Reject = true
		// tells the initiator the needed IRD (RFC 6581, Section 9.1)
		reply.Enhanced.ORD = min(local.MinORD, MaxDepth)
		return reply, Params{}, fmt.Errorf("%w: peer serves %d RDMA Reads, %d needed", ErrIRD, req.Enhanced.IRD, local.MinORD)
	}
	return reply, params, nil
}

// Reject returns the Reply that rejects req for an upper-layer reason, without
// private data.
func Reject(req Frame, local Local) Frame {
	reply, _ := buildReply(req, local)
	reply.Reject = true
	return reply
}

// buildReply builds a Reply in the request's own revision and form (RFC 6581,
// Section 10).
func buildReply(req Frame, local Local) (Frame, Params) {
	crc := req.CRC || local.CRC == CRCOn
	reply := Frame{Reply: true, Rev: req.Rev, CRC: crc, Markers: local.Markers, HasEnhanced: req.HasEnhanced}
	params := Params{
		Rev: req.Rev, CRC: crc,
		SendMarkers: req.Markers, RecvMarkers: local.Markers,
		IRD: int(local.clippedIRD()), ORD: int(local.clippedORD()),
	}
	if !req.HasEnhanced {
		return reply, params // the upper layers agree on the depths
	}
	e := &reply.Enhanced
	if req.Enhanced.PeerToPeer {
		e.PeerToPeer = true
		e.RTR = chooseRTR(req.Enhanced.RTR, local.rtrSet())
		params.PeerToPeer, params.RTR = true, e.RTR
	}
	e.IRD, params.IRD = responderIRD(req.Enhanced, *e, local)
	e.ORD, params.ORD = responderORD(req.Enhanced, local)
	return reply, params
}

// chooseRTR returns the indications that both ends support. If there are none,
// it returns the indications that this end supports (RFC 6581, Section 9.2);
// the initiator then fails.
func chooseRTR(offered, known RTR) RTR {
	if common := offered & known; common != 0 {
		return common
	}
	return known
}

// responderIRD returns the IRD to send and the IRD to use. An RTR indication by
// RDMA Read needs an IRD of 1, even if no other Read follows.
func responderIRD(req, reply Enhanced, local Local) (uint16, int) {
	least := uint16(0)
	if reply.RTR&RTRRead != 0 {
		least = 1
	}
	if req.ORD == NotNegotiated {
		return NotNegotiated, int(max(least, local.clippedIRD()))
	}
	ird := max(least, min(req.ORD, local.clippedIRD()))
	return ird, int(ird)
}

// responderORD returns the ORD to send and the ORD to use, which the
// initiator's IRD bounds.
func responderORD(req Enhanced, local Local) (uint16, int) {
	if req.IRD == NotNegotiated {
		return NotNegotiated, int(local.clippedORD())
	}
	ord := min(req.IRD, local.clippedORD())
	return ord, int(ord)
}
