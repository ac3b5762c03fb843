package oncrpc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/nfsrdma/nfsrdma/internal/firstbytes"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A record mark is one word (RFC 5531, Section 11).
const (
	markLen  = 4
	lastFrag = 1 << 31 // the other bits are the fragment's length in bytes
)

// errRecordLong reports a record longer than the limit. The rest of the stream
// cannot be parsed.
var errRecordLong = errors.New("oncrpc: record too long")

// A recordReader reads records from a stream.
type recordReader struct {
	br  *bufio.Reader
	max int // maximum record length in bytes

	// reserve is called once for each record longer than smallRecord, before memory is
	// lent for the record. n is the record's maximum length.
	reserve func(n int) error
}

// isRecordBuffered reports whether a whole single-fragment record is in the buffer.
func (r *recordReader) isRecordBuffered() bool {
	if r.br.Buffered() < markLen {
		return false
	}
	b, _ := r.br.Peek(markLen)
	mark := binary.BigEndian.Uint32(b)
	return mark&lastFrag != 0 && int64(mark&^lastFrag) <= int64(r.br.Buffered()-markLen)
}

// isNextReady reports whether readRecord would wait neither for bytes nor for memory.
func (r *recordReader) isNextReady() bool {
	if !r.isRecordBuffered() {
		return false
	}
	b, _ := r.br.Peek(markLen)
	return binary.BigEndian.Uint32(b)&^lastFrag <= smallRecord
}

// readRecord reads one record. The caller must release the buffer. The error is
// io.EOF if the stream ends before a record.
func (r *recordReader) readRecord() (*buf.Buf, error) {
	last, n, err := r.readMark(0)
	if err != nil {
		return nil, err
	}
	rec, err := r.readFragments(last, n)
	switch {
	case err == nil:
		return rec, nil
	case rec != nil:
		rec.Release()
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// readFragments reads a record's fragments. The first has n bytes. The buffer
// may be non-nil even with an error.
func (r *recordReader) readFragments(last bool, n int) (rec *buf.Buf, err error) {
	total, reserved := 0, false
	for {
		total += n
		if total > smallRecord && !reserved {
			reserved = true
			if err := r.reserve(r.maxRecordLen(total, last)); err != nil {
				return rec, err
			}
		}
		rec = extendBuffer(rec, total, r.max)
		if _, err := io.ReadFull(r.br, rec.B[total-n:]); err != nil {
			return rec, err
		}
		if last {
			return rec, nil
		}
		if last, n, err = r.readMark(total); err != nil {
			return rec, err
		}
	}
}

// readMark reads the next fragment's mark, after the record's first have bytes.
func (r *recordReader) readMark(have int) (last bool, n int, err error) {
	b, err := r.br.Peek(markLen)
	if err != nil {
		if len(b) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return false, 0, err
	}
	mark, protocol := binary.BigEndian.Uint32(b), firstbytes.Identify(b)
	_, _ = r.br.Discard(markLen) // already buffered
	length := int64(mark &^ lastFrag)
	if length > int64(r.max-have) {
		if protocol == "TLS" { // RFC 9289 begins with a call
			protocol = "TLS without the call that requests it"
		}
		if protocol != "" && have == 0 {
			return false, 0, fmt.Errorf("%w: the peer speaks %s on a port for RPC over TCP", errRecordLong, protocol)
		}
		return false, 0, fmt.Errorf("%w: %d bytes and a fragment of %d, above %d", errRecordLong, have, length, r.max)
	}
	return mark&lastFrag != 0, int(length), nil
}

// maxRecordLen returns the maximum length of a record whose fragments so far have total
// bytes; only the last fragment determines it exactly. Memory is reserved only once: a
// record that reserved twice could wait for another such record.
func (r *recordReader) maxRecordLen(total int, last bool) int {
	if last {
		return total
	}
	return r.max
}

// extendBuffer makes b, which may be nil, n bytes long. It may return another buffer in
// its place. It at least doubles the memory, up to limit, so that a record with many
// fragments is not copied many times.
func extendBuffer(b *buf.Buf, n, limit int) *buf.Buf {
	if b == nil {
		return buf.Default.Get(n)
	}
	if n <= cap(b.B) {
		b.B = b.B[:n]
		return b
	}
	bigger := buf.Default.Get(max(n, min(2*cap(b.B), limit)))
	bigger.B = bigger.B[:n]
	copy(bigger.B, b.B)
	b.Release()
	return bigger
}
