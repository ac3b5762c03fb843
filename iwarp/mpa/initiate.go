package mpa

import "fmt"

// NewRequest returns the Request that an initiator sends, without private data.
func NewRequest(local Local) Frame {
	req := Frame{Rev: Rev1, CRC: local.CRC != CRCOff, Markers: local.Markers}
	if local.Unenhanced {
		return req
	}
	req.Rev, req.HasEnhanced = Rev2, true
	req.Enhanced = Enhanced{IRD: local.ird(), ORD: local.ord()}
	if !local.PeerToPeer {
		return req
	}
	req.Enhanced.PeerToPeer, req.Enhanced.RTR = true, local.rtr()
	if req.Enhanced.RTR&RTRRead != 0 {
		req.Enhanced.ORD = max(1, req.Enhanced.ORD)
	}
	return req
}

// Complete decides for an initiator the result of its Request and the Reply
// (RFC 5044, Section 7.1.2, and RFC 6581, Section 9). Errors:
//
//   - ErrRejected: the responder refused; its private data may say why.
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
		IRD: int(local.ird()), ORD: int(local.ord()),
	}
	if !reply.HasEnhanced {
		return params, nil
	}
	e := reply.Enhanced
	if e.ORD != NotNegotiated && e.ORD > local.ird() {
		return Params{}, fmt.Errorf("%w: peer wants %d RDMA Reads, %d offered", ErrIRD, e.ORD, local.ird())
	}
	if e.IRD != NotNegotiated {
		params.ORD = min(params.ORD, int(e.IRD))
	}
	if !req.Enhanced.PeerToPeer {
		return params, nil // flags in the Reply are meaningless
	}
	return peerToPeer(params, e, local)
}

func peerToPeer(params Params, e Enhanced, local Local) (Params, error) {
	common := e.RTR & local.rtr()
	if e.IRD == 0 {
		common &^= RTRRead // the peer has no place for the Read
	}
	if !e.PeerToPeer || common == 0 {
		return Params{}, fmt.Errorf("%w: peer takes %v, this end sends %v", ErrRTR, e.RTR, local.rtr())
	}
	params.PeerToPeer, params.RTR = true, first(common)
	if params.RTR == RTRRead {
		params.ORD = max(1, params.ORD)
	}
	return params, nil
}

// first picks the kind that is cheapest for the peer: a Write takes nothing, a
// Read takes a place in its queue, a Send takes one of its receive buffers.
func first(r RTR) RTR {
	for _, kind := range [...]RTR{RTRWrite, RTRRead} {
		if r&kind != 0 {
			return kind
		}
	}
	return r
}
