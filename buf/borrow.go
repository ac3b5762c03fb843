package buf

import "sync"

// An Owner lends memory of its own.
type Owner interface {
	// Return is called once for each Borrow, with its memory, when the last
	// reference is gone.
	Return(mem []byte)
}

// A Rereader is an Owner of memory that may not be there when it is read, such as a
// mapping of a file, and knows another way to it.
type Rereader interface {
	Owner
	// Reread copies what stands in mem from at on to p, and returns where it
	// ended: at+len(p), or less. Without an error there is no more than that,
	// which may be less than at.
	Reread(mem []byte, at int, p []byte) (end int, err error)
}

// Reread asks the memory's owner, a Rereader, for it.
func (b *Buf) Reread(at int, p []byte) (end int, err error) {
	return b.owner.(Rereader).Reread(b.mem, at, p)
}

// borrowed are Bufs without memory.
var borrowed = sync.Pool{New: func() any { return new(Buf) }}

// Borrow returns a buffer whose content is mem, with one reference. Whoever
// holds it treats the memory as the owner's: it may be not to be written, or
// not even to be read by the processor.
func Borrow(mem []byte, o Owner) *Buf {
	b := borrowed.Get().(*Buf)
	b.B, b.mem, b.owner, b.class = mem, mem, o, -1
	b.refs.Store(1)
	return b
}

func (b *Buf) giveBack() {
	mem, o := b.mem, b.owner
	b.B, b.mem, b.owner = nil, nil, nil
	borrowed.Put(b)
	o.Return(mem)
}
