package chunks

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The word before an optional item (RFC 4506, Section 4.19).
const (
	absent  = 0
	present = 1
)

// Errors from Parse and from the arithmetic, wrapped by an Error.
var (
	// ErrShort means that the header ends inside a list.
	ErrShort = errors.New("chunks: header too short")
	// ErrPresence means that the word before an item is neither 0 nor 1.
	ErrPresence = errors.New("chunks: neither present nor absent")
	// ErrCount means that a list exceeds this package's limits.
	ErrCount = errors.New("chunks: too many")
	// ErrWrap means that a segment runs past the end of the 64-bit offsets.
	ErrWrap = errors.New("chunks: segment past the last offset")
	// ErrPosition means that a Read chunk's position is not a multiple of four,
	// or not in the message.
	ErrPosition = errors.New("chunks: position")
)

// An Error reports where in the lists Err occurred.
type Error struct {
	Field  string // name in RFC 8166's XDR, Section 4.1.2
	Offset int    // field offset from the start of the lists, in bytes
	Err    error
}

// Error returns field, offset and cause.
func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d: %v", e.Field, e.Offset, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Parse parses the lists at the start of b into l, replacing its content, and
// returns the rest, which aliases b. The error is an *Error; l's content is
// then undefined.
func (l *Lists) Parse(b []byte) (rest []byte, err error) {
	l.Reset()
	p := parser{b: b}
	l.parseReads(&p)
	l.parseWrites(&p)
	if l.HasReply = p.readPresence("rdma_reply"); l.HasReply {
		l.Reply = p.parseChunk(l.Reply, "rdma_reply")
	}
	if p.err != nil {
		return nil, p.err
	}
	return b[p.off:], nil
}

func (l *Lists) parseReads(p *parser) {
	const field = "rdma_reads"
	for p.readPresence(field) {
		if len(l.Reads) == MaxSegments {
			p.setErr(field, fmt.Errorf("%w: more than %d segments", ErrCount, MaxSegments))
			return
		}
		if b := p.takeBytes(readSegmentLen, field); b != nil {
			s := ReadSegment{Position: binary.BigEndian.Uint32(b), Segment: parseSegment(b[4:])}
			if s.wraps() {
				p.setErr(field, ErrWrap)
			}
			l.Reads = append(l.Reads, s)
		}
	}
}

func (l *Lists) parseWrites(p *parser) {
	const field = "rdma_writes"
	for p.readPresence(field) {
		if len(l.ends) == MaxWriteChunks {
			p.setErr(field, fmt.Errorf("%w: more than %d chunks", ErrCount, MaxWriteChunks))
			return
		}
		l.segs = p.parseChunk(l.segs, field)
		l.ends = append(l.ends, len(l.segs))
	}
}

// A parser walks over the lists. After the first error it reads nothing more
// and reports every item as absent.
type parser struct {
	b   []byte
	off int
	err error
}

func (p *parser) setErr(field string, err error) {
	if p.err == nil {
		p.err = &Error{Field: field, Offset: p.off, Err: err}
	}
}

func (p *parser) takeBytes(n int, field string) []byte {
	if p.err == nil && n > len(p.b)-p.off {
		p.setErr(field, fmt.Errorf("%w: %d bytes of %d", ErrShort, len(p.b)-p.off, n))
	}
	if p.err != nil {
		return nil
	}
	b := p.b[p.off : p.off+n]
	p.off += n
	return b
}

func (p *parser) readUint32(field string) uint32 {
	if b := p.takeBytes(4, field); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (p *parser) readPresence(field string) bool {
	switch v := p.readUint32(field); v {
	case absent, present:
		return v == present
	default:
		p.setErr(field, fmt.Errorf("%w: %d", ErrPresence, v))
		return false
	}
}

// parseChunk appends a counted array's segments to segs, which may hold
// segments from earlier chunks in the list. The count is checked against the
// input and the limits before segments are read.
func (p *parser) parseChunk(segs []Segment, field string) []Segment {
	n := p.readUint32(field)
	if uint64(n) > uint64(MaxSegments-len(segs)) {
		p.setErr(field, fmt.Errorf("%w: %d segments", ErrCount, n))
		return segs
	}
	b := p.takeBytes(int(n)*segmentLen, field)
	for ; len(b) > 0; b = b[segmentLen:] {
		s := parseSegment(b)
		if s.wraps() {
			p.setErr(field, ErrWrap)
		}
		segs = append(segs, s)
	}
	return segs
}
