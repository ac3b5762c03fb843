package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
)

// A segment is one DDP segment of the peer. It keeps the headers, because a
// Terminate carries the headers of the faulty segment.
type segment struct {
	n      int  // bytes of header and payload
	size   int  // bytes of the DDP header
	rdmap  int  // bytes of the RDMAP header kept behind it
	last   bool // last segment of its message,
	op     rdmap.Opcode
	placed []byte // payload, in its place
	copied [ddp.UntaggedLen + rdmap.AtomicRequestLen]byte
}

// header returns the DDP header.
func (s *segment) header() []byte { return s.copied[:s.size] }

// payload returns the number of bytes behind the DDP header.
func (s *segment) payload() int { return s.n - s.size }

// message returns the RDMAP header, if it was kept.
func (s *segment) message() []byte { return s.copied[s.size:][:s.rdmap] }

// header copies the DDP header of a segment of n bytes out of the stream.
func (x *receiver) header(n, size int) (*segment, error) {
	seg := &x.seg
	*seg = segment{n: n, size: size}
	if n < size {
		return nil, localFault(ddp.ErrShort)
	}
	if err := x.need(size); err != nil {
		return nil, err
	}
	copy(seg.copied[:], x.staging.B[x.r:][:size])
	x.r += size
	return seg, nil
}

// short takes the payload of seg, which must be a whole message of want bytes
// in one segment; the smallest MULPDU holds such a message.
func (x *receiver) short(seg *segment, h ddp.Untagged, want int) error {
	if seg.payload() != want || !h.Last || h.MO != 0 {
		return seg.fault(rdmap.ErrLength)
	}
	if err := x.place(seg.copied[seg.size:][:want]); err != nil {
		return err
	}
	seg.rdmap = want
	return nil
}
