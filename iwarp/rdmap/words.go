package rdmap

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// String describes, for a person, the error and the message that caused the
// error.
func (t Terminate) String() string {
	s := t.Cause.Error()
	if t.Layout == LayoutEither {
		s += fmt.Sprintf(" (or, if from siw, %v)", t.SiwCause())
	}
	if t.DDPHeader != nil {
		s += ", " + describe(t.DDPHeader)
	}
	if t.RDMAPHeader != nil {
		s += ", " + describeRead(t.RDMAPHeader)
	}
	if t.HasLength {
		s += fmt.Sprintf(", length %d", t.SegmentLen)
	}
	return s
}

// describe names the segment at fault. The fault may be the segment's version.
func describe(header []byte) string {
	op := Opcode(header[1] & opcodeMask)
	if ddp.IsTagged(header[0]) {
		return fmt.Sprintf("%v to %s", op, place(header[2:]))
	}
	s := fmt.Sprintf("%v on queue %d, MSN %d, MO %d", op,
		binary.BigEndian.Uint32(header[6:]), binary.BigEndian.Uint32(header[10:]), binary.BigEndian.Uint32(header[14:]))
	if op.Invalidates() {
		s += fmt.Sprintf(", invalidating STag %v", rdma.STag(binary.BigEndian.Uint32(header[2:])))
	}
	return s
}

// describeRead describes the range of an RDMA Read Request, or of its rest.
func describeRead(header []byte) string {
	return fmt.Sprintf("of %d bytes from %s to %s",
		binary.BigEndian.Uint32(header[12:]), place(header[16:]), place(header))
}

// place names the place in memory encoded at the start of b.
func place(b []byte) string {
	return fmt.Sprintf("STag %v, TO %#x", rdma.STag(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint64(b[4:]))
}
