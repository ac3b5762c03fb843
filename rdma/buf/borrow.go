package buf

import "sync"

// An Owner lends its own memory.
type Owner interface {
	// Return is called once for each Borrow, with its memory, when the last
	// reference is released.
	Return(mem []byte)
}

// A Rereader is an Owner whose memory may become unreadable, such as a file
// mapping, and that has another way to read its content.
type Rereader interface {
	Owner
	// Reread copies mem's content from at on to p, and returns the end of the
	// copy: at+len(p), or less. If end is less and err is nil, the content ends
	// at end, which may be less than at.
	Reread(mem []byte, at int, p []byte) (end int, err error)
}

// Reread reads the content through the memory's owner, which must be a
// Rereader.
func (b *Buf) Reread(at int, p []byte) (end int, err error) {
	return b.owner.(Rereader).Reread(b.mem, at, p)
}

// borrowed pools Bufs without memory.
var borrowed = sync.Pool{New: func() any { return new(Buf) }}

// Borrow returns a buffer whose content is mem, with one reference. Holders
// must follow the owner's rules for mem: the owner may forbid writing, or even
// reading by the processor.
func Borrow(mem []byte, o Owner) *Buf {
	b := borrowed.Get().(*Buf)
	b.B, b.mem, b.owner, b.class = mem, mem, o, -1
	b.refs.Store(1)
	return b
}

func (b *Buf) returnToOwner() {
	mem, o := b.mem, b.owner
	b.B, b.mem, b.owner = nil, nil, nil
	borrowed.Put(b)
	o.Return(mem)
}
