package nfsclient

import (
	"context"
	"slices"
	"sync"
)

// A Budget bounds the octets that WriteBehinds have in memory, all together.
// Who waits for room makes the others put their data on stable storage. A
// single block of data has room in any budget.
type Budget struct {
	limit int64

	mu      sync.Mutex
	used    int64
	waiting []*claim // in the order in which they came
	users   map[*WriteBehind]struct{}
}

// A claim waits for room.
type claim struct {
	n       int64
	granted chan struct{} // closed when it has it
}

// NewBudget returns a Budget of the given number of octets.
func NewBudget(octets int64) *Budget {
	return &Budget{limit: octets, users: make(map[*WriteBehind]struct{})}
}

func (b *Budget) join(w *WriteBehind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users[w] = struct{}{}
}

func (b *Budget) leave(w *WriteBehind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.users, w)
}

// fitsLocked tells whether there is room for n. Where nothing is in use there
// always is: nobody could make more.
func (b *Budget) fitsLocked(n int64) bool { return b.used == 0 || b.used+n <= b.limit }

// try takes room for n octets if there is some, and nobody waits for it.
func (b *Budget) try(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || !b.fitsLocked(n) {
		return false
	}
	b.used += n
	return true
}

// acquire waits until there is room for n octets. The caller holds no lock of a
// WriteBehind: all of them may be asked to make room.
func (b *Budget) acquire(ctx context.Context, n int64) error {
	if b.try(n) {
		return nil
	}
	c := &claim{n: n, granted: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	b.grantLocked() // there may be room since
	var users []*WriteBehind
	if len(b.waiting) == 1 { // from now on they see it themselves
		for w := range b.users {
			users = append(users, w)
		}
	}
	b.mu.Unlock()
	for _, w := range users {
		w.poke()
	}
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
		b.withdraw(c)
		return context.Cause(ctx)
	}
}

// withdraw takes a claim back, and what it got.
func (b *Budget) withdraw(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, c); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.used -= c.n
	}
	b.grantLocked()
}

// give gives room back.
func (b *Budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.grantLocked()
}

func (b *Budget) grantLocked() {
	for len(b.waiting) > 0 && b.fitsLocked(b.waiting[0].n) {
		b.used += b.waiting[0].n
		close(b.waiting[0].granted)
		b.waiting = slices.Delete(b.waiting, 0, 1)
	}
}

// short tells whether somebody waits for room.
func (b *Budget) short() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) > 0
}

// half tells whether half of the room is in use.
func (b *Budget) half() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return 2*b.used >= b.limit
}
