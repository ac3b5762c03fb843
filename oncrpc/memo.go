package oncrpc

import "sync/atomic"

// A Memo stores a *T for each peer on behalf of one part of a program, as long as the
// peer's connection exists. Different Memos are independent. The zero value is ready for
// use; a Memo must not be copied. Its methods are safe for concurrent use.
type Memo[T any] struct{ _ byte } // not empty: its address is the key

// A memoEntry is the value that the Memo at key stores for a peer. A peer's entries form
// a list, which only grows: its length is the number of Memos in use.
type memoEntry struct {
	key   any // a *Memo[T]
	value any // the *atomic.Pointer[T]
	next  *memoEntry
}

// Load returns the value stored for p, or nil.
func (m *Memo[T]) Load(p *Peer) *T {
	n, _ := p.memos.Load().(*memoEntry)
	if v := m.findEntry(n); v != nil {
		return v.Load()
	}
	return nil
}

// Store stores v for p.
func (m *Memo[T]) Store(p *Peer, v *T) { m.findOrAddEntry(p).Store(v) }

// LoadOrStore returns the value stored for p. If there is none, it stores v, and returns
// v and true.
func (m *Memo[T]) LoadOrStore(p *Peer, v *T) (now *T, stored bool) {
	at := m.findOrAddEntry(p)
	if at.CompareAndSwap(nil, v) {
		return v, true
	}
	return at.Load(), false // values are never removed
}

// findEntry returns m's value in a list, or nil.
func (m *Memo[T]) findEntry(n *memoEntry) *atomic.Pointer[T] {
	for ; n != nil; n = n.next {
		if n.key == any(m) {
			return n.value.(*atomic.Pointer[T])
		}
	}
	return nil
}

// findOrAddEntry returns m's value for p, and adds it if necessary.
func (m *Memo[T]) findOrAddEntry(p *Peer) *atomic.Pointer[T] {
	for {
		first := p.memos.Load()
		list, _ := first.(*memoEntry)
		if v := m.findEntry(list); v != nil {
			return v
		}
		v := new(atomic.Pointer[T])
		if p.memos.CompareAndSwap(first, &memoEntry{key: m, value: v, next: list}) {
			return v
		}
	}
}
