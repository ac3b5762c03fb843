package oncrpc

import "sync/atomic"

// A Memo stores a *T for each peer on behalf of one part of a program, as long as the
// peer's connection exists. Different Memos are independent. The zero value is ready for
// use; a Memo must not be copied. Its methods are safe for concurrent use.
type Memo[T any] struct{ key byte } // not empty: its address identifies the Memo

// A memoEntry is the value that a Memo stores for a peer. A peer's entries form a list,
// which only grows: its length is the number of Memos in use.
type memoEntry struct {
	key   *byte        // Memo[T].key
	value atomic.Value // a *T
	next  *memoEntry
}

// Load returns the value stored for p, or nil.
func (m *Memo[T]) Load(p *Peer) *T {
	first, _ := p.memos.Load().(*memoEntry)
	if e := m.findEntry(first); e != nil {
		v, _ := e.value.Load().(*T)
		return v
	}
	return nil
}

// Store stores v for p.
func (m *Memo[T]) Store(p *Peer, v *T) { m.findOrAddEntry(p).value.Store(v) }

// LoadOrStore returns the value stored for p. If there is none, it stores v, and returns
// v and true.
func (m *Memo[T]) LoadOrStore(p *Peer, v *T) (now *T, stored bool) {
	e := m.findOrAddEntry(p)
	if e.value.CompareAndSwap(nil, v) {
		return v, true
	}
	return e.value.Load().(*T), false // values are never removed
}

// findEntry returns m's entry in a list, or nil.
func (m *Memo[T]) findEntry(e *memoEntry) *memoEntry {
	for e != nil && e.key != &m.key {
		e = e.next
	}
	return e
}

// findOrAddEntry returns m's entry for p, and adds it if necessary.
func (m *Memo[T]) findOrAddEntry(p *Peer) *memoEntry {
	for {
		before := p.memos.Load()
		first, _ := before.(*memoEntry)
		if e := m.findEntry(first); e != nil {
			return e
		}
		e := &memoEntry{key: &m.key, next: first}
		if p.memos.CompareAndSwap(before, e) {
			return e
		}
	}
}
