package xdr

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Reader errors.
var (
	// ErrShort: the input ends before the item ends.
	ErrShort = errors.New("xdr: input too short")
	// ErrLong: a length exceeds its item's limit.
	ErrLong = errors.New("xdr: length above its limit")
	// ErrValue: a boolean is neither 0 nor 1, or an enumeration has an
	// undefined value.
	ErrValue = errors.New("xdr: undefined value")
	// ErrTrailing: bytes are left after the last item.
	ErrTrailing = errors.New("xdr: bytes after the last item")
	// ErrItem: the stream's type has no movable item at the moved data item's position.
	ErrItem = errors.New("xdr: reduced data item at the wrong position")
)

// A Reader decodes items sequentially. After the first error the Reader returns zero
// values, and Err returns that error, so that a caller can read a whole structure before
// checking.
type Reader struct {
	b   []byte
	off int
	err error

	item    []byte // moved out of b; see SetItem
	itemPos int    // a position in b, nowhere or anywhere
	places  []Place
}

// A Place is the position of a data item that was moved out of a stream and then inserted
// again.
type Place struct {
	Pos int // the item's first byte, after its length word
	Len int // bytes moved: the item, perhaps with its padding
}

// Values of Reader.itemPos.
const (
	nowhere  = -1 // no item was moved
	anywhere = -2 // the moved item belongs to the next call of Item
)

// NewReader returns a Reader for b, which it does not change.
func NewReader(b []byte) Reader { return Reader{b: b, itemPos: nowhere} }

// SetItem declares that one opaque item's data is in data instead of the stream. The
// item's length word ends at offset pos; the stream continues there without the item's
// bytes and padding (RFC 8166, Section 3.4.5). data may include the padding.
func (r *Reader) SetItem(pos int, data []byte) { r.item, r.itemPos = data, pos }

// SetMoved declares that the data for the first item that Item reads is in data instead
// of the stream, at any position. It is for call results, whose form only the program
// knows. If data is empty, the stream may have no such item or an empty item.
func (r *Reader) SetMoved(data []byte) { r.item, r.itemPos = data, anywhere }

// SetPlaces declares that the items at the given places, in ascending order, were moved
// and are inserted in the stream again. Each must be an item that Item reads (RFC 8166,
// Section 6.1).
func (r *Reader) SetPlaces(places []Place) {
	r.itemPos = nowhere
	if r.places = places; len(places) > 0 {
		r.itemPos = places[0].Pos
	}
}

// Offset returns the number of bytes read so far.
func (r *Reader) Offset() int { return r.off }

// Rest returns the stream's unread bytes, without the moved item, and leaves them unread.
func (r *Reader) Rest() []byte { return r.b[r.off:] }

// Left returns the number of unread bytes in the stream, plus the moved item's length
// until Item has read it.
func (r *Reader) Left() int { return len(r.b) - r.off + len(r.item) }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Fail makes err the Reader's error, unless it has one.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Done returns the first error, or ErrTrailing or ErrItem if bytes or a moved
// item are unread.
func (r *Reader) Done() error {
	switch {
	case r.err != nil:
	case r.itemPos != nowhere && (r.itemPos != anywhere || len(r.item) > 0):
		r.err = fmt.Errorf("%w: %d, never read", ErrItem, r.itemPos)
	case r.off != len(r.b):
		r.err = fmt.Errorf("%w: %d", ErrTrailing, len(r.b)-r.off)
	}
	return r.err
}

// readBytes returns the next n bytes, or nil after an error.
func (r *Reader) readBytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.b)-r.off {
		r.err = fmt.Errorf("%w: %d bytes at offset %d of %d", ErrShort, n, r.off, len(r.b))
		return nil
	}
	// The bytes extend past the moved item's position, so the stream does not have the
	// type that is being read.
	if r.itemPos >= 0 && r.off+n > r.itemPos && n > 0 {
		r.err = fmt.Errorf("%w: %d", ErrItem, r.itemPos)
		return nil
	}
	s := r.b[r.off : r.off+n : r.off+n]
	r.off += n
	return s
}

// Uint32 reads an unsigned integer.
func (r *Reader) Uint32() uint32 {
	if off := r.off; r.err == nil && r.itemPos < 0 && off+4 <= len(r.b) { // fast path for most words
		r.off = off + 4
		return binary.BigEndian.Uint32(r.b[off:])
	}
	s := r.readBytes(4)
	if s == nil {
		return 0
	}
	return binary.BigEndian.Uint32(s)
}

// Uint64 reads an unsigned hyper integer.
func (r *Reader) Uint64() uint64 {
	s := r.readBytes(8)
	if s == nil {
		return 0
	}
	return binary.BigEndian.Uint64(s)
}

// Bool reads a boolean.
func (r *Reader) Bool() bool {
	v := r.Uint32()
	if v > 1 {
		r.Fail(fmt.Errorf("%w: boolean %d", ErrValue, v))
	}
	return v == 1
}

// Fixed reads n bytes and their padding, whose value is ignored.
func (r *Reader) Fixed(n int) []byte {
	if n < 0 || n > len(r.b) { // before adding the padding, which could overflow
		r.Fail(fmt.Errorf("%w: %d bytes of %d", ErrShort, n, len(r.b)))
		return nil
	}
	s := r.readBytes(n + Pad(n))
	if s == nil {
		return nil
	}
	return s[:n:n]
}

// readLength reads a length word and checks it against limit.
func (r *Reader) readLength(limit int) int {
	n := r.Uint32()
	if r.err == nil && int64(n) > int64(limit) {
		r.err = fmt.Errorf("%w: %d above %d", ErrLong, n, limit)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// Opaque reads variable-length opaque data with at most limit bytes.
func (r *Reader) Opaque(limit int) []byte { return r.Fixed(r.readLength(limit)) }

// String reads a string with at most limit bytes and copies it. The bytes are not
// validated as text.
func (r *Reader) String(limit int) string { return string(r.Opaque(limit)) }

// Item reads variable-length opaque data with at most limit bytes that the sender may
// have moved out of the stream (SetItem).
func (r *Reader) Item(limit int) []byte {
	n := r.readLength(limit)
	if r.err != nil || r.itemPos != r.off && r.itemPos != anywhere {
		return r.Fixed(n)
	}
	if len(r.places) > 0 {
		return r.readPlaced(n)
	}
	data := r.item
	r.item, r.itemPos = nil, nowhere
	if len(data) != n && len(data) != n+Pad(n) {
		r.err = fmt.Errorf("%w: %d bytes moved, length %d", ErrItem, len(data), n)
		return nil
	}
	return data[:n:n]
}

// readPlaced reads an n-byte item that was inserted into the stream again.
func (r *Reader) readPlaced(n int) []byte {
	moved := r.places[0].Len
	r.SetPlaces(r.places[1:])
	if moved != n && moved != n+Pad(n) {
		r.err = fmt.Errorf("%w: %d bytes moved, length %d", ErrItem, moved, n)
	}
	return r.Fixed(n)
}
