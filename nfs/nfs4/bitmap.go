package nfs4

import (
	"math/bits"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A Bitmap is a bitmap4: a set of attributes, operations, advice or OPEN arguments. Words
// holds every number that minor versions up to 2 define.
type Bitmap struct {
	Words [3]uint32

	// Beyond reports that a decoded bitmap has bits after Words. No attribute
	// or operation in this package has such a number.
	Beyond bool
}

// maxBitmapWords is the maximum length of a bitmap4 that Decode accepts.
const maxBitmapWords = 64

// BitmapOf returns the set of the given numbers.
func BitmapOf[N AttrID | Op | Advice | OpenArg](numbers ...N) Bitmap {
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

// Set adds attribute a to m.
func (m *Bitmap) Set(a AttrID) { m.Words[a/32] |= 1 << (a % 32) }

// Clear removes attribute a from m.
func (m *Bitmap) Clear(a AttrID) { m.Words[a/32] &^= 1 << (a % 32) }

// Empty reports whether m has no number, including those beyond Words.
func (m *Bitmap) Empty() bool { return m.Words == [3]uint32{} && !m.Beyond }

// And returns the numbers that are in both m and o.
func (m Bitmap) And(o Bitmap) Bitmap {
	for i := range m.Words {
		m.Words[i] &= o.Words[i]
	}
	m.Beyond = m.Beyond && o.Beyond
	return m
}

// Any reports whether the Words of m and o have a common number.
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

// AppendTo appends m's wire form to b, up to its last nonzero word: Linux
// rejects an attribute list with more words.
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

// nextAttr returns the lowest attribute of m that is at least a.
func (m *Bitmap) nextAttr(a AttrID) (AttrID, bool) {
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
