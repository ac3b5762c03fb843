package xdr

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of a Reader.
var (
	// ErrShort: the input ends before the item does.
	ErrShort = errors.New("xdr: input too short")
	// ErrLong: a length is above the limit of its item.
	ErrLong = errors.New("xdr: length above its limit")
	// ErrValue: a boolean is neither 0 nor 1, or an enumeration has a
	// value that it does not define.
	ErrValue = errors.New("xdr: undefined value")
	// ErrTrailing: bytes are left after the last item.
	ErrTrailing = errors.New("xdr: octets after the last item")
	// ErrItem: the data item that was moved out of the stream is not
	// where the stream's type has one that may be moved.
	ErrItem = errors.New("xdr: reduced data item at the wrong position")
)

// A Reader decodes items one after the other. After the first error it
// returns zero values, and Err tells the error, so that a whole structure can
// be read before the check.
type Reader struct {
	b   []byte
	off int
	err error

	item    []byte // moved out of b, see SetItem
	itemPos int    // or nowhere, or anywhere
	places  []Place
}

// A Place is where a data item stands in a stream that it was moved out of, and
// restored into.
type Place struct {
	Pos int // of the item's first byte, behind its length word
	Len int // of what was moved, in bytes: the item, perhaps with its padding
}

// Values of Reader.itemPos.
const (
	nowhere  = -1 // no item was moved
	anywhere = -2 // one was, and stands where Item is called
)

// NewReader returns a Reader of b, which it does not change.
func NewReader(b []byte) Reader { return Reader{b: b, itemPos: nowhere} }

// SetItem says that the data of one opaque item are not in the stream but in
// data: the item's length word ends at offset pos, and what follows it in the
// stream stands there without the item's bytes and padding (RFC 8166,
// Section 3.4.5). data may include the padding.
func (r *Reader) SetItem(pos int, data []byte) { r.item, r.itemPos = data, pos }

// SetMoved says that the data of the first item that Item reads are not in the
// stream but in data, wherever that is: the results of a call, of which only
// the program knows the form. Where data is empty there may be no such item, or
// an empty one.
func (r *Reader) SetMoved(data []byte) { r.item, r.itemPos = data, anywhere }

// SetPlaces says that the items at the given places, by rising position, were
// moved and are back in the stream: each must be one that Item reads (RFC 8166,
// Section 6.1).
func (r *Reader) SetPlaces(places []Place) {
	r.itemPos = nowhere
	if r.places = places; len(places) > 0 {
		r.itemPos = places[0].Pos
	}
}

// Offset returns the number of bytes read so far.
func (r *Reader) Offset() int { return r.off }

// Left returns how many bytes have not been read: of the stream, and of the item
// that was moved out of it, whether that has been read or not.
func (r *Reader) Left() int { return len(r.b) - r.off + len(r.item) }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Fail makes err the Reader's error, unless it has one.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Done returns the first error, or ErrTrailing or ErrItem where something was
// not read.
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

// take returns the next n bytes, or nil after an error.
func (r *Reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.b)-r.off {
		r.err = fmt.Errorf("%w: %d octets at offset %d of %d", ErrShort, n, r.off, len(r.b))
		return nil
	}
	// A stream that runs past the place of a moved item was not built for
	// the type that is being read.
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
	s := r.take(4)
	if s == nil {
		return 0
	}
	return binary.BigEndian.Uint32(s)
}

// Uint64 reads an unsigned hyper integer.
func (r *Reader) Uint64() uint64 {
	s := r.take(8)
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

// Fixed reads n bytes and their padding, which is not looked at.
func (r *Reader) Fixed(n int) []byte {
	if n < 0 || n > len(r.b) { // before the padding is added, which could wrap
		r.Fail(fmt.Errorf("%w: %d octets of %d", ErrShort, n, len(r.b)))
		return nil
	}
	s := r.take(n + Pad(n))
	if s == nil {
		return nil
	}
	return s[:n:n]
}

// length reads a length word and checks it against limit.
func (r *Reader) length(limit int) int {
	n := r.Uint32()
	if r.err == nil && int64(n) > int64(limit) {
		r.err = fmt.Errorf("%w: %d above %d", ErrLong, n, limit)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// Opaque reads variable-length opaque data of at most limit bytes.
func (r *Reader) Opaque(limit int) []byte { return r.Fixed(r.length(limit)) }

// String reads a string of at most limit bytes, which are not validated as
// text. It copies.
func (r *Reader) String(limit int) string { return string(r.Opaque(limit)) }

// Item reads variable-length opaque data of at most limit bytes that the
// sender may have moved out of the stream (SetItem).
func (r *Reader) Item(limit int) []byte {
	n := r.length(limit)
	if r.err != nil || r.itemPos != r.off && r.itemPos != anywhere {
		return r.Fixed(n)
	}
	if len(r.places) > 0 {
		return r.place(n)
	}
	data := r.item
	r.item, r.itemPos = nil, nowhere
	if len(data) != n && len(data) != n+Pad(n) {
		r.err = fmt.Errorf("%w: %d octets moved, length %d", ErrItem, len(data), n)
		return nil
	}
	return data[:n:n]
}

// place reads an item of n bytes that is back in the stream.
func (r *Reader) place(n int) []byte {
	moved := r.places[0].Len
	r.SetPlaces(r.places[1:])
	if moved != n && moved != n+Pad(n) {
		r.err = fmt.Errorf("%w: %d octets moved, length %d", ErrItem, moved, n)
	}
	return r.Fixed(n)
}
