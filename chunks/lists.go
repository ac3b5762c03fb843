package chunks

import (
	"encoding/binary"
	"slices"
)

// Lists holds a transport header's three chunk lists (RFC 8166, Section 4.3).
// In the zero value all lists are empty.
type Lists struct {
	// Reads is the Read list, in wire order until ReadChunks has sorted it.
	Reads []ReadSegment

	// Reply is the Reply chunk, if HasReply is set. It may have no segments.
	Reply    Chunk
	HasReply bool

	segs []Segment // segments of all Write chunks, in order
	ends []int     // ends[i] is the end of Write chunk i in segs
}

// Reset empties the lists and keeps their memory.
func (l *Lists) Reset() {
	l.Reads, l.Reply, l.HasReply = l.Reads[:0], l.Reply[:0], false
	l.segs, l.ends = l.segs[:0], l.ends[:0]
}

// Writes returns the number of Write chunks.
func (l *Lists) Writes() int { return len(l.ends) }

// Write returns Write chunk i. An empty chunk has no segments; with it the
// requester requests that result inline (RFC 8166, Section 4.3.2.3).
func (l *Lists) Write(i int) Chunk {
	start := 0
	if i > 0 {
		start = l.ends[i-1]
	}
	return Chunk(l.segs[start:l.ends[i]:l.ends[i]])
}

// AddWrite appends a Write chunk with a copy of c.
func (l *Lists) AddWrite(c Chunk) {
	l.segs = append(l.segs, c...)
	l.ends = append(l.ends, len(l.segs))
}

// Len returns the lists' length on the wire, in bytes.
func (l *Lists) Len() int {
	n := 3 * 4 // the word that terminates each list, or marks an absent Reply chunk
	n += len(l.Reads) * (4 + readSegmentLen)
	n += len(l.ends)*8 + len(l.segs)*segmentLen
	if l.HasReply {
		n += 4 + len(l.Reply)*segmentLen
	}
	return n
}

// AppendTo appends the lists' wire form to b.
func (l *Lists) AppendTo(b []byte) []byte {
	for _, s := range l.Reads {
		b = s.AppendTo(binary.BigEndian.AppendUint32(b, present))
	}
	b = binary.BigEndian.AppendUint32(b, absent)
	for i := range l.ends {
		b = l.Write(i).AppendTo(binary.BigEndian.AppendUint32(b, present))
	}
	b = binary.BigEndian.AppendUint32(b, absent)
	if !l.HasReply {
		return binary.BigEndian.AppendUint32(b, absent)
	}
	return l.Reply.AppendTo(binary.BigEndian.AppendUint32(b, present))
}

// Names reports whether a segment in the lists has the given handle.
func (l *Lists) Names(handle uint32) bool {
	has := func(s Segment) bool { return s.Handle == handle }
	return slices.ContainsFunc(l.segs, has) || slices.ContainsFunc(l.Reply, has) ||
		slices.ContainsFunc(l.Reads, func(s ReadSegment) bool { return has(s.Segment) })
}

// Handle returns the handle that all segments in all lists share. ok is false
// if there is no segment or a second handle.
func (l *Lists) Handle() (handle uint32, ok bool) {
	for i := range l.Reads {
		if ok && l.Reads[i].Handle != handle {
			return 0, false
		}
		handle, ok = l.Reads[i].Handle, true
	}
	for _, list := range [...][]Segment{l.segs, l.Reply} {
		for i := range list {
			if ok && list[i].Handle != handle {
				return 0, false
			}
			handle, ok = list[i].Handle, true
		}
	}
	return handle, ok
}
