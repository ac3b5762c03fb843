package oncrpc

import "sync/atomic"

// A Memo remembers a *T about each peer for one part of a program, for as long
// as the peer's connection exists. Memos of different parts do not know of one
// another. The zero value is ready for use; a Memo must not be copied. Its
// methods are safe for concurrent use.
type Memo[T any] struct{ _ byte } // not empty: its address is the key

// A memo is what the Memo at key remembers about a peer. Memos of a peer form a
// list, which only grows: there are as many as programs that use one.
type memo struct {
	key   any // a *Memo[T]
	value any // the *atomic.Pointer[T]
	next  *memo
}

// Load returns what m remembers about p, or nil.
func (m *Memo[T]) Load(p *Peer) *T {
	n, _ := p.memos.Load().(*memo)
	if v := m.find(n); v != nil {
		return v.Load()
	}
	return nil
}

// Store makes m remember v about p.
func (m *Memo[T]) Store(p *Peer, v *T) { m.value(p).Store(v) }

// LoadOrStore returns what m remembers about p. If that is nothing, it makes m
// remember v, and returns v and true.
func (m *Memo[T]) LoadOrStore(p *Peer, v *T) (now *T, stored bool) {
	at := m.value(p)
	if at.CompareAndSwap(nil, v) {
		return v, true
	}
	return at.Load(), false // nothing is ever forgotten
}

// find returns the place of m's memory in a list, or nil.
func (m *Memo[T]) find(n *memo) *atomic.Pointer[T] {
	for ; n != nil; n = n.next {
		if n.key == any(m) {
			return n.value.(*atomic.Pointer[T])
		}
	}
	return nil
}

// value returns the place of m's memory about p, and makes it if necessary.
func (m *Memo[T]) value(p *Peer) *atomic.Pointer[T] {
	for {
		first := p.memos.Load()
		list, _ := first.(*memo)
		if v := m.find(list); v != nil {
			return v
		}
		v := new(atomic.Pointer[T])
		if p.memos.CompareAndSwap(first, &memo{key: m, value: v, next: list}) {
			return v
		}
	}
}
