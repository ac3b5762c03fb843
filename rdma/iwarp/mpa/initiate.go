package mpa

import "fmt"

// NewRequest returns the Request that an initiator sends, without private data.
func NewRequest(local Local) Frame {
	req := Frame{Rev: Rev1, CRC: local.CRC != CRCOff, Markers: local.Markers}
	if local.Unenhanced {
		return req
	}
	req.Rev, req.HasEnhanced = Rev2, true
	req.Enhanced = Enhanced{IRD: local.clippedIRD(), ORD: local.clippedORD()}
	if !local.PeerToPeer {
		return req
	}
	req.Enhanced.PeerToPeer, req.Enhanced.RTR = true, local.rtrSet()
	if req.Enhanced.RTR&RTRRead != 0 {
		req.Enhanced.ORD = max(1, req.Enhanced.ORD)
	}
	return req
}

// Complete determines for an initiator the result of its Request and the Reply
// (RFC 5044, Section 7.1.2, and RFC 6581, Section 9). Errors:
//
//   - ErrRejected: the responder rejected; its private data may tell why.
//   - ErrEnhanced: the caller must close the connection.
//   - ErrIRD, ErrRTR: the caller must send a Terminate with this number, then close.
func Complete(req, reply Frame, local Local) (Params, error) {
	switch {
	case reply.Reject:
		return Params{}, ErrRejected
	case reply.HasEnhanced != req.HasEnhanced:
		return Params{}, ErrEnhanced
	}
	params := Params{
		Rev: reply.Rev, CRC: req.CRC || reply.CRC,
		SendMarkers: reply.Markers, RecvMarkers: req.Markers,
		IRD: int(local.clippedIRD()), ORD: int(local.clippedORD()),
	}
	if !reply.HasEnhanced {
		return params, nil
	}
	e := reply.Enhanced
	if e.ORD != NotNegotiated && e.ORD > local.clippedIRD() {
		return Params{}, fmt.Errorf("%w: peer requests %d RDMA Reads, %d offered", ErrIRD, e.ORD, local.clippedIRD())
	}
	if e.IRD != NotNegotiated {
		params.ORD = min(params.ORD, int(e.IRD))
	}
	if !req.Enhanced.PeerToPeer {
		return params, nil // flags in the Reply are meaningless
	}
	return completePeerToPeer(params, e, local)
}

func completePeerToPeer(params Params, e Enhanced, local Local) (Params, error) {
	common := e.RTR & local.rtrSet()
	if e.IRD == 0 {
		common &^= RTRRead // the peer has no slot for the Read
	}
	if !e.PeerToPeer || common == 0 {
		return Params{}, fmt.Errorf("%w: peer accepts %v, this end sends %v", ErrRTR, e.RTR, local.rtrSet())
	}
	params.PeerToPeer, params.RTR = true, cheapestRTR(common)
	if params.RTR == RTRRead {
		params.ORD = max(1, params.ORD)
	}
	return params, nil
}

// cheapestRTR picks the kind that is cheapest for the peer: a Write uses nothing, a Read uses a
// slot in its queue, a Send uses one of its receive buffers.
func cheapestRTR(r RTR) RTR {
	for _, kind := range [...]RTR{RTRWrite, RTRRead} {
		if r&kind != 0 {
			return kind
		}
	}
	return r
}
