package nfs4

import (
	"math/bits"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Bitmap is a bitmap4: a set of attributes, operations or advice. Every number
// that minor versions up to 2 define fits into its words.
type Bitmap struct {
	Words [3]uint32

	// Beyond reports that a decoded bitmap has bits after Words. No attribute
	// and no operation of this package has such a number.
	Beyond bool
}

// maxBitmapWords is the longest bitmap4 that Decode accepts.
const maxBitmapWords = 64

// BitmapOf returns the set of the given numbers.
func BitmapOf[N AttrID | Op | Advice](numbers ...N) Bitmap {
	var m Bitmap
	for _, n := range numbers {
		m.Words[n/32] |= 1 << (n % 32)
	}
	return m
}

// Has reports whether attribute a is in m.
func (m *Bitmap) Has(a AttrID) bool { return m.Words[a/32]&(1<<(a%32)) != 0 }

// HasOp reports whether operation o is in m.
func (m *Bitmap) HasOp(o Op) bool { return o < 96 && m.Words[o/32]&(1<<(o%32)) != 0 }

// Set puts attribute a into m.
func (m *Bitmap) Set(a AttrID) { m.Words[a/32] |= 1 << (a % 32) }

// Clear takes attribute a out of m.
func (m *Bitmap) Clear(a AttrID) { m.Words[a/32] &^= 1 << (a % 32) }

// Empty reports whether m has no number, not even one that Words cannot hold.
func (m *Bitmap) Empty() bool { return m.Words == [3]uint32{} && !m.Beyond }

// And returns the numbers that are in both m and o.
func (m Bitmap) And(o Bitmap) Bitmap {
	for i := range m.Words {
		m.Words[i] &= o.Words[i]
	}
	m.Beyond = m.Beyond && o.Beyond
	return m
}

// Any reports whether any number of Words is in both m and o.
func (m *Bitmap) Any(o *Bitmap) bool {
	return m.Words[0]&o.Words[0]|m.Words[1]&o.Words[1]|m.Words[2]&o.Words[2] != 0
}

// Without returns the numbers of m that are not in o.
func (m Bitmap) Without(o Bitmap) Bitmap {
	for i := range m.Words {
		m.Words[i] &^= o.Words[i]
	}
	return m
}

// AppendTo appends the wire form of m to b, up to its last word that is not
// zero: Linux takes an attribute list with more words for a fault.
func (m *Bitmap) AppendTo(b []byte) []byte {
	n := len(m.Words)
	for n > 0 && m.Words[n-1] == 0 {
		n--
	}
	b = xdr.AppendUint32(b, uint32(n))
	for _, w := range m.Words[:n] {
		b = xdr.AppendUint32(b, w)
	}
	return b
}

// Decode reads m.
func (m *Bitmap) Decode(r *xdr.Reader) {
	*m = Bitmap{}
	n := r.Uint32()
	if n > maxBitmapWords {
		r.Fail(xdr.ErrLong)
		return
	}
	for i := range n {
		switch w := r.Uint32(); {
		case i < uint32(len(m.Words)):
			m.Words[i] = w
		case w != 0:
			m.Beyond = true
		}
	}
}

// next returns the lowest attribute of m that is at least a.
func (m *Bitmap) next(a AttrID) (AttrID, bool) {
	for i := int(a / 32); i < len(m.Words); i++ {
		w := m.Words[i]
		if i == int(a/32) {
			w &= ^uint32(0) << (a % 32)
		}
		if w != 0 {
			return AttrID(32*i + bits.TrailingZeros32(w)), true
		}
	}
	return 0, false
}
