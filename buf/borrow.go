package buf

import "sync"

// An Owner lends memory of its own.
type Owner interface {
	// Return is called once for each Borrow, with its memory, when the last
	// reference is gone.
	Return(mem []byte)
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
