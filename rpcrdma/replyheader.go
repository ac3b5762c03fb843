package rpcrdma

import (
	"encoding/binary"
	"errors"
)

// errNotReply: a header that a requester discards.
var errNotReply = errors.New("not the header of a reply")

// ParseReply reads the header at the start of b, which a responder sent, and
// returns what follows it, which aliases b. It uses the memory of h again. A
// message with any error is to be discarded (RFC 8166, Sections 4.5, 4.6): what is
// too short for its lists, which is anything below 28 octets but an RDMA_ERROR, has
// one.
func (h *Header) ParseReply(b []byte) (body []byte, err error) {
	h.Lists.Reset()
	if len(b) < errChunkLen { // an RDMA_ERROR is the shortest
		return nil, h.fail("rdma_msg", 0, errRunt)
	}
	h.parseFixed(b)
	switch {
	case h.Vers != Version:
		return nil, h.fail("rdma_vers", 4, errVersion)
	case h.Proc == Error:
		return nil, h.parseError(b)
	case h.Proc != Msg && h.Proc != NoMsg:
		return nil, h.fail("rdma_proc", 12, errProc)
	}
	if body, err = h.Lists.Parse(b[fixedLen:]); err != nil {
		return nil, h.chunkError(err)
	}
	switch {
	case len(h.Lists.Reads) > 0: // Section 4.3.1
		return nil, h.fail("rdma_reads", fixedLen, errNotReply)
	case h.Proc == NoMsg && !h.Lists.HasReply && h.Lists.Writes() == 0: // Sections 4.2.4 and 4.5.2
		return nil, h.fail("rdma_reply", fixedLen+h.Lists.Len()-4, errNotReply)
	case h.Proc == Msg && (len(body) < 4 || binary.BigEndian.Uint32(body) != h.XID): // Sections 4.2.1 and 4.5.2
		return nil, h.fail("rdma_xid", 0, errXID)
	}
	return body, nil
}

// parseError reads the rest of an RDMA_ERROR.
func (h *Header) parseError(b []byte) error {
	h.Code = ErrCode(binary.BigEndian.Uint32(b[fixedLen:]))
	switch {
	case h.Code == ErrChunk:
		return nil
	case h.Code == ErrVers && len(b) >= errVersLen:
		h.Low = binary.BigEndian.Uint32(b[errChunkLen:])
		h.High = binary.BigEndian.Uint32(b[errChunkLen+4:])
		return nil
	}
	return h.fail("rdma_err", fixedLen, errNotReply) // Section 4.5: it cannot be decoded
}
