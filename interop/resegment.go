package interop

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The MPA fields that locate the ends of its units (RFC 5044, Sections 4 and
// 7; without markers, which Linux does not support).
const (
	mpaFrameLen = 20 // bytes before a Request's or Reply's private data
	mpaPDLen    = 18 // offset of the private data's length
	fpduHeader  = 2
	fpduCRC     = 4
)

// Units counts the units that Resegment found.
type Units struct {
	Frames int // MPA Requests and Replies
	FPDUs  int
}

// resegment copies an MPA capture to w so that each MPA frame and each FPDU is one TCP
// segment, for decoders that find a unit only at the beginning of a segment. A connection
// is copied from its SYN on. A hole in the capture, or an unfinished unit at its end, is
// an error.
func resegment(w io.Writer, r io.Reader) (Units, error) {
	var n Units
	out, err := newCaptureWriter(w)
	if err != nil {
		return n, err
	}
	flows := make(map[tcpFlow]*segmentStream)
	err = readCapture(r, func(s tcpSegment) error {
		st := flows[s.flow]
		if s.syn {
			flows[s.flow] = &segmentStream{next: s.seq + 1}
			return nil
		}
		if st == nil {
			return nil
		}
		st.addSegment(s)
		for {
			unit := st.nextUnit()
			if unit == nil {
				return nil
			}
			if st.started {
				n.FPDUs++
			} else {
				n.Frames++
			}
			st.started = true
			if err := out.writeSegment(s.when, s.flow, unit); err != nil {
				return err
			}
		}
	})
	for f, st := range flows {
		if err == nil && len(st.bytes)+len(st.early) > 0 {
			err = fmt.Errorf("capture: port %d to %d ends with %d bytes of a unit, and %d segments behind a hole",
				f.srcPort, f.dstPort, len(st.bytes), len(st.early))
		}
	}
	return n, err
}

// A segmentStream puts a flow's segments in order.
type segmentStream struct {
	next    uint32 // sequence number after bytes
	bytes   []byte // in order, not yet returned
	early   []tcpSegment
	started bool // the MPA Request or Reply has passed
}

// addSegment adds a segment, which may be repeated or early.
func (st *segmentStream) addSegment(s tcpSegment) {
	if len(s.payload) == 0 {
		return // an acknowledgement, or a FIN, which counts as a byte
	}
	ahead := int32(s.seq - st.next)
	if ahead > 0 {
		st.early = append(st.early, s)
		return
	}
	if old := int(-ahead); old < len(s.payload) {
		st.bytes = append(st.bytes, s.payload[old:]...)
		st.next += uint32(len(s.payload) - old)
		waiting := st.early
		st.early = nil
		for _, s := range waiting {
			st.addSegment(s)
		}
	}
}

// nextUnit returns the next MPA frame or FPDU when it is complete, or nil.
func (st *segmentStream) nextUnit() []byte {
	var n int
	switch b := st.bytes; {
	case st.started && len(b) >= fpduHeader:
		n = (fpduHeader+int(binary.BigEndian.Uint16(b))+3)&^3 + fpduCRC
	case !st.started && len(b) >= mpaFrameLen:
		n = mpaFrameLen + int(binary.BigEndian.Uint16(b[mpaPDLen:]))
	default:
		return nil
	}
	if n > len(st.bytes) {
		return nil
	}
	u := st.bytes[:n:n]
	st.bytes = st.bytes[n:]
	return u
}
