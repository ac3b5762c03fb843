package rdmap

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// ReadRequestLen is the RDMA Read Request header length, in bytes.
const ReadRequestLen = 28

// ErrLength reports that a message's length differs from its RDMAP header
// length.
var ErrLength = errors.New("RDMAP: wrong message length")

// ReadRequest is the RDMA Read Request header (RFC 5040, Section 4.4, Figure
// 6), which is the whole message.
type ReadRequest struct {
	SinkSTag   rdma.STag // the destination at the requester; opaque to the responder
	SinkTO     uint64
	Size       uint32    // in bytes
	SourceSTag rdma.STag // the responder's buffer
	SourceTO   uint64
}

// AppendTo appends r's wire form to b.
func (r ReadRequest) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(r.SinkSTag))
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, uint32(r.SourceSTag))
	return binary.BigEndian.AppendUint64(b, r.SourceTO)
}

// ParseReadRequest decodes b, the complete message after the DDP header. The
// error is ErrLength.
func ParseReadRequest(b []byte) (ReadRequest, error) {
	if len(b) != ReadRequestLen {
		return ReadRequest{}, fmt.Errorf("%w: %d bytes, not %d", ErrLength, len(b), ReadRequestLen)
	}
	return ReadRequest{
		SinkSTag:   rdma.STag(binary.BigEndian.Uint32(b)),
		SinkTO:     binary.BigEndian.Uint64(b[4:]),
		Size:       binary.BigEndian.Uint32(b[12:]),
		SourceSTag: rdma.STag(binary.BigEndian.Uint32(b[16:])),
		SourceTO:   binary.BigEndian.Uint64(b[20:]),
	}, nil
}

// Advance returns the remaining request after n bytes, at most r.Size, have
// been sent. A Terminate in the middle of a Read carries this rest (RFC 5040,
// Section 4.8).
func (r ReadRequest) Advance(n uint32) ReadRequest {
	r.SinkTO += uint64(n)
	r.SourceTO += uint64(n)
	r.Size -= n
	return r
}

// A Source is the buffer that a responder found for a Read's SourceSTag.
type Source struct {
	TO       uint64 // its first byte's tagged offset
	Len      uint64 // in bytes
	Readable bool   // the peer may read it
}

// Check reports whether r lies within its source (RFC 5040, Section 7.2). The
// error is ErrAccess, ErrTOWrap or ErrBounds. An empty Read passes with any
// SourceSTag and SourceTO (Section 5.2.1), so the caller need not find a
// buffer.
func (r ReadRequest) Check(src Source) error {
	switch {
	case r.Size == 0:
		return nil
	case !src.Readable:
		return ErrAccess
	}
	return checkRange(src.TO, src.Len, r.SourceTO, uint64(r.Size))
}

// checkRange reports whether the n bytes at offset to lie within the buffer of
// length bytes that starts at base. The error is ErrTOWrap or ErrBounds.
func checkRange(base, length, to, n uint64) error {
	err := ddp.CheckRange(ddp.Buffer{TO: base, Len: length}, to, n)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ddp.ErrTOWrap):
		return ErrTOWrap
	}
	return ErrBounds
}
