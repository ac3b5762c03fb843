package wire

import (
	"encoding/binary"
	"errors"
)

// errNotReply means that a requester must discard the header.
var errNotReply = errors.New("not the header of a reply")

// ParseReply parses the header at the start of b, which a responder sent, and
// returns the rest of b, which aliases b. It reuses h's memory. The caller must
// discard a message with any error (RFC 8166, Sections 4.5, 4.6). Every message
// below 28 bytes except an RDMA_ERROR is too short for its lists, and so an
// error.
func (h *Header) ParseReply(b []byte) (body []byte, err error) {
	h.Lists.Reset()
	if len(b) < ErrChunkLen { // an RDMA_ERROR is the shortest
		return nil, h.Fail("rdma_msg", 0, ErrRunt)
	}
	h.ParseFixed(b)
	switch {
	case h.Vers != Version:
		return nil, h.Fail("rdma_vers", 4, ErrVersion)
	case h.Proc == Error:
		return nil, h.parseError(b)
	case h.Proc != Msg && h.Proc != NoMsg:
		return nil, h.Fail("rdma_proc", 12, ErrProc)
	}
	if body, err = h.Lists.Parse(b[FixedLen:]); err != nil {
		return nil, h.ChunkError(err)
	}
	switch {
	case len(h.Lists.Reads) > 0: // Section 4.3.1
		return nil, h.Fail("rdma_reads", FixedLen, errNotReply)
	case h.Proc == NoMsg && !h.Lists.HasReply && h.Lists.Writes() == 0: // Sections 4.2.4 and 4.5.2
		return nil, h.Fail("rdma_reply", FixedLen+h.Lists.Len()-4, errNotReply)
	case h.Proc == Msg && (len(body) < 4 || binary.BigEndian.Uint32(body) != h.XID): // Sections 4.2.1 and 4.5.2
		return nil, h.Fail("rdma_xid", 0, ErrXID)
	}
	return body, nil
}

// parseError reads the rest of an RDMA_ERROR.
func (h *Header) parseError(b []byte) error {
	h.Code = ErrCode(binary.BigEndian.Uint32(b[FixedLen:]))
	switch {
	case h.Code == ErrChunk:
		return nil
	case h.Code == ErrVers && len(b) >= ErrVersLen:
		h.Low = binary.BigEndian.Uint32(b[ErrChunkLen:])
		h.High = binary.BigEndian.Uint32(b[ErrChunkLen+4:])
		return nil
	}
	return h.Fail("rdma_err", FixedLen, errNotReply) // Section 4.5: it cannot be decoded
}
