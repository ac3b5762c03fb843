package rdmap

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// String tells a person what happened, and to which message.
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

// describe names the segment at fault, whose version may be the fault.
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

// describeRead tells what an RDMA Read Request asks for, or the rest of it.
func describeRead(header []byte) string {
	return fmt.Sprintf("of %d octets from %s to %s",
		binary.BigEndian.Uint32(header[12:]), place(header[16:]), place(header))
}

// place names the place in memory that b starts with.
func place(b []byte) string {
	return fmt.Sprintf("STag %v, TO %#x", rdma.STag(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint64(b[4:]))
}
