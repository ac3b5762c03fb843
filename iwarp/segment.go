package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
)

// A segment is one DDP segment of the peer. It keeps the headers, because a
// Terminate carries those of the segment that was wrong.
type segment struct {
	n      int  // octets of header and payload
	size   int  // octets of the DDP header
	rdmap  int  // octets of the RDMAP header kept behind it
	last   bool // of its message,
	op     rdmap.Opcode
	placed []byte // payload, in its place
	copied [ddp.UntaggedLen + rdmap.AtomicRequestLen]byte
}

// header returns the DDP header.
func (s *segment) header() []byte { return s.copied[:s.size] }

// payload returns the number of octets behind the DDP header.
func (s *segment) payload() int { return s.n - s.size }

// message returns the RDMAP header, where it was kept.
func (s *segment) message() []byte { return s.copied[s.size:][:s.rdmap] }

// header copies the DDP header of a segment of n octets out of the stream.
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

// short takes the payload of seg, the whole of a message that must have want
// octets and be of one segment, which the least MULPDU holds.
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
