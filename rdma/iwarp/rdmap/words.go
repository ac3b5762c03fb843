package rdmap

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// String describes the error and the message that caused it.
func (t Terminate) String() string {
	s := t.Cause.Error()
	if t.Layout == LayoutEither {
		s += fmt.Sprintf(" (or, if from siw, %v)", t.SiwCause())
	}
	if t.DDPHeader != nil {
		s += ", " + describeSegment(t.DDPHeader)
	}
	if t.RDMAPHeader != nil {
		s += ", " + describeRead(t.RDMAPHeader)
	}
	if t.HasLength {
		s += fmt.Sprintf(", length %d", t.SegmentLen)
	}
	return s
}

// describeSegment describes the segment at fault. The fault may be the segment's version.
func describeSegment(header []byte) string {
	op := Opcode(header[1] & opcodeMask)
	if ddp.IsTagged(header[0]) {
		return fmt.Sprintf("%v to %s", op, formatAddress(header[2:]))
	}
	s := fmt.Sprintf("%v on queue %d, MSN %d, MO %d", op,
		binary.BigEndian.Uint32(header[6:]), binary.BigEndian.Uint32(header[10:]), binary.BigEndian.Uint32(header[14:]))
	if op.Invalidates() {
		s += fmt.Sprintf(", invalidating STag %v", rdma.STag(binary.BigEndian.Uint32(header[2:])))
	}
	return s
}

// describeRead describes the range in an RDMA Read Request, or in its rest.
func describeRead(header []byte) string {
	return fmt.Sprintf("of %d bytes from %s to %s",
		binary.BigEndian.Uint32(header[12:]), formatAddress(header[16:]), formatAddress(header))
}

// formatAddress formats the memory address encoded at the start of b.
func formatAddress(b []byte) string {
	return fmt.Sprintf("STag %v, TO %#x", rdma.STag(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint64(b[4:]))
}
