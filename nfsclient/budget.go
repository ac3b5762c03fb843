package nfsclient

import (
	"context"
	"slices"
	"sync"
)

// A Budget bounds the bytes that WriteBehinds have in memory, all together. A
// writer that waits for room makes the other WriteBehinds put their data on
// stable storage. A single block of data fits in any budget.
type Budget struct {
	limit int64

	mu      sync.Mutex
	used    int64
	waiting []*claim // in order of arrival
	users   map[*WriteBehind]struct{}
}

// A claim waits for room.
type claim struct {
	n       int64
	granted chan struct{} // closed when the claim has its room
}

// NewBudget returns a Budget of the given number of bytes.
func NewBudget(size int64) *Budget {
	return &Budget{limit: size, users: make(map[*WriteBehind]struct{})}
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

// fitsLocked reports whether n bytes fit. They always fit if nothing is in use,
// because waiting could not make more room.
func (b *Budget) fitsLocked(n int64) bool { return b.used == 0 || b.used+n <= b.limit }

// try takes room for n bytes if they fit and no claim waits.
func (b *Budget) try(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || !b.fitsLocked(n) {
		return false
	}
	b.used += n
	return true
}

// acquire waits for room for n bytes. The caller must not hold the lock of a
// WriteBehind: any of them may be asked to make room.
func (b *Budget) acquire(ctx context.Context, n int64) error {
	if b.try(n) {
		return nil
	}
	c := &claim{n: n, granted: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	b.grantLocked() // room may have been given back since
	var users []*WriteBehind
	if len(b.waiting) == 1 { // from now on, they see the claim themselves
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

// withdraw takes a claim back, with any room granted to it.
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

// give returns room.
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

// short reports whether a claim waits for room.
func (b *Budget) short() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) > 0
}

// half reports whether half of the room is in use.
func (b *Budget) half() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return 2*b.used >= b.limit
}
