package ddp

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// Header lengths, in bytes (RFC 5041, Sections 4.2 and 4.3).
const (
	TaggedLen   = 14
	UntaggedLen = 18
)

// The control byte. Rsvd (0x3c) is sent as zero and not checked (RFC 5041,
// Section 4.1).
const (
	ctrlTagged  = 0x80
	ctrlLast    = 0x40
	versionMask = 0x03
	version     = 0x01
)

// IsTagged reports from a segment's first byte whether the segment is tagged.
func IsTagged(control uint8) bool { return control&ctrlTagged != 0 }

// HeaderLen returns from a segment's first byte its header length, in bytes.
func HeaderLen(control uint8) int {
	if IsTagged(control) {
		return TaggedLen
	}
	return UntaggedLen
}

func controlByte(flags uint8, last bool) uint8 {
	if last {
		flags |= ctrlLast
	}
	return flags | version
}

// Tagged is the header of a segment that is placed at an offset in a tagged
// buffer (RFC 5041, Section 4.2, Figure 4).
type Tagged struct {
	Last    bool      // last segment in its message
	RsvdULP uint8     // for the upper layer
	STag    rdma.STag // the sink's buffer
	TO      uint64    // offset in the buffer, in bytes
}

// AppendTo appends h's wire form to b.
func (h Tagged) AppendTo(b []byte) []byte {
	b = append(b, controlByte(ctrlTagged, h.Last), h.RsvdULP)
	b = binary.BigEndian.AppendUint32(b, uint32(h.STag))
	return binary.BigEndian.AppendUint64(b, h.TO)
}

// ParseTagged decodes the header at the start of b, whose T bit the caller has
// checked, and returns the payload after it, which aliases b. The error is
// ErrShort or ErrTaggedVersion.
func ParseTagged(b []byte) (h Tagged, payload []byte, err error) {
	if len(b) < TaggedLen {
		return Tagged{}, nil, fmt.Errorf("%w: %d of %d bytes", ErrShort, len(b), TaggedLen)
	}
	if b[0]&versionMask != version {
		return Tagged{}, nil, ErrTaggedVersion
	}
	h = Tagged{
		Last:    b[0]&ctrlLast != 0,
		RsvdULP: b[1],
		STag:    rdma.STag(binary.BigEndian.Uint32(b[2:])),
		TO:      binary.BigEndian.Uint64(b[6:]),
	}
	return h, b[TaggedLen:], nil
}

// Untagged is the header of a segment that is placed in a queue's next buffer
// (RFC 5041, Section 4.3, Figure 5).
type Untagged struct {
	Last     bool   // last segment in its message
	RsvdULP  uint8  // first byte of for the upper layer
	RsvdULP4 uint32 // the next four bytes
	QN       uint32 // queue number
	MSN      uint32 // message sequence number in the queue; the first is 1
	MO       uint32 // payload offset in the message, in bytes
}

// AppendTo appends h's wire form to b.
func (h Untagged) AppendTo(b []byte) []byte {
	b = append(b, controlByte(0, h.Last), h.RsvdULP)
	b = binary.BigEndian.AppendUint32(b, h.RsvdULP4)
	b = binary.BigEndian.AppendUint32(b, h.QN)
	b = binary.BigEndian.AppendUint32(b, h.MSN)
	return binary.BigEndian.AppendUint32(b, h.MO)
}

// ParseUntagged decodes the header at the start of b, whose T bit the caller
// has checked, and returns the payload after it, which aliases b. The error is
// ErrShort or ErrUntaggedVersion.
func ParseUntagged(b []byte) (h Untagged, payload []byte, err error) {
	if len(b) < UntaggedLen {
		return Untagged{}, nil, fmt.Errorf("%w: %d of %d bytes", ErrShort, len(b), UntaggedLen)
	}
	if b[0]&versionMask != version {
		return Untagged{}, nil, ErrUntaggedVersion
	}
	h = Untagged{
		Last:     b[0]&ctrlLast != 0,
		RsvdULP:  b[1],
		RsvdULP4: binary.BigEndian.Uint32(b[2:]),
		QN:       binary.BigEndian.Uint32(b[6:]),
		MSN:      binary.BigEndian.Uint32(b[10:]),
		MO:       binary.BigEndian.Uint32(b[14:]),
	}
	return h, b[UntaggedLen:], nil
}

// MaxMessageLen is the maximum message length in bytes (RFC 5041, Section 5.2).
const MaxMessageLen = 1<<32 - 1

// FirstMSN is the message sequence number of a queue's first message (RFC 5041,
// Section 4.3). The number increases by one with each message, modulo 2^32.
const FirstMSN = 1

// NextSegment returns the number of payload bytes in the segment at offset off,
// for a message of length bytes, and whether the segment is the last. No
// segment, including its header of headerLen bytes, exceeds mulpdu, which is at
// least 128. An empty message is one segment (RFC 5041, Section 5.2).
//
//	for off := 0; ; {
//		n, last := NextSegment(length, off, mulpdu, TaggedLen)
//		// send n bytes at off
//		if off += n; last {
//			break
//		}
//	}
func NextSegment(length, off, mulpdu, headerLen int) (n int, last bool) {
	n = min(length-off, mulpdu-headerLen)
	return n, off+n == length
}

// A Buffer describes an STag's memory for a check.
type Buffer struct {
	TO  uint64 // its first byte's tagged offset
	Len uint64 // in bytes

	// Writable says that the peer may place data in the buffer. RFC 5041 has no
	// number for a buffer that the peer must not write: the error is
	// ErrInvalidSTag, as in Linux siw.
	Writable bool
}

// CheckTagged reports whether the n payload bytes after h fit into the buffer
// that the caller found for h.STag (RFC 5041, Section 7.1). The error is
// ErrInvalidSTag, ErrTOWrap or ErrBounds. An empty segment passes with any STag
// and TO (Section 5.2), so the caller need not find a buffer.
func CheckTagged(buf Buffer, h Tagged, n int) error {
	switch {
	case n == 0:
		return nil
	case !buf.Writable:
		return ErrInvalidSTag
	}
	return CheckRange(buf, h.TO, uint64(n))
}

// CheckRange reports whether the n bytes at offset to lie within buf; n must be
// above 0. The error is ErrTOWrap or ErrBounds. A wrap is reported first, since
// a range that wraps is also out of bounds and ErrTOWrap would never occur.
func CheckRange(buf Buffer, to, n uint64) error {
	switch {
	case to+n < to:
		return ErrTOWrap
	case to < buf.TO, to-buf.TO > buf.Len, n > buf.Len-(to-buf.TO):
		return ErrBounds
	}
	return nil
}
