package buf

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Default is the pool for all callers that do not need their own.
var Default = new(Pool)

// A Pool lends buffers. The zero value is ready to use.
type Pool struct {
	freeLists [classes]freeList
	lentCount atomic.Int64
}

type freeList struct {
	mu   sync.Mutex
	free []*Buf
}

// A Buf is a lent buffer.
type Buf struct {
	// B is the buffer's content. Its holder may reslice it within its
	// capacity; its memory is not cleared between two loans.
	B []byte

	mem   []byte // the complete memory
	pool  *Pool
	owner Owner // for borrowed memory, in place of pool
	class int   // size class; -1: not pooled
	refs  atomic.Int32
}

// Get lends a buffer with len(B) == n, in bytes, and one reference. Its content
// is arbitrary: the memory is not cleared.
func (p *Pool) Get(n int) *Buf {
	p.lentCount.Add(1)
	c := classOf(n)
	if c < 0 {
		return newBuf(p, n, n, c)
	}
	f := &p.freeLists[c]
	f.mu.Lock()
	if last := len(f.free) - 1; last >= 0 {
		b := f.free[last]
		f.free[last] = nil
		f.free = f.free[:last]
		f.mu.Unlock()
		b.B = b.mem[:n]
		b.refs.Store(1)
		return b
	}
	f.mu.Unlock()
	return newBuf(p, n, classSize(c), c)
}

// Out returns the number of buffers lent and not yet returned.
func (p *Pool) Out() int { return int(p.lentCount.Load()) }

// Retain adds a reference, for a second holder, and returns b.
func (b *Buf) Retain() *Buf {
	if b.refs.Add(1) <= 1 {
		panic("buf: Retain of a released buffer")
	}
	return b
}

// Release drops one reference; the last Release returns the buffer to its pool.
func (b *Buf) Release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic(fmt.Sprintf("buf: %d releases too many", -n))
	}
	if b.owner != nil {
		b.returnToOwner()
		return
	}
	b.pool.putBack(b)
}

func (p *Pool) putBack(b *Buf) {
	p.lentCount.Add(-1)
	b.B = nil
	if b.class < 0 {
		return
	}
	f := &p.freeLists[b.class]
	f.mu.Lock()
	defer f.mu.Unlock()
	if (len(f.free)+1)*len(b.mem) <= maxIdle {
		f.free = append(f.free, b)
	}
}

func newBuf(p *Pool, n, size, class int) *Buf {
	mem := make([]byte, size)
	b := &Buf{B: mem[:n], mem: mem, pool: p, class: class}
	b.refs.Store(1)
	return b
}
