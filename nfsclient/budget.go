package nfsclient

import (
	"context"
	"slices"
	"sync"
)

// A Budget bounds the total memory of several WriteBehinds. A writer that waits
// for memory makes the other WriteBehinds commit their data. A single block
// fits in any budget.
type Budget struct {
	limit int64

	mu      sync.Mutex
	used    int64
	waiting []*memoryClaim // in order of arrival
	users   map[*WriteBehind]struct{}
}

// A memoryClaim is a writer's wait for memory.
type memoryClaim struct {
	bytes   int64
	granted chan struct{} // closed when the memory is granted
}

// NewBudget returns a Budget of size bytes.
func NewBudget(size int64) *Budget {
	return &Budget{limit: size, users: make(map[*WriteBehind]struct{})}
}

func (b *Budget) addUser(w *WriteBehind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users[w] = struct{}{}
}

func (b *Budget) removeUser(w *WriteBehind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.users, w)
}

// fitsLocked reports whether n bytes fit. They always fit if nothing is in use,
// because waiting could not free more.
func (b *Budget) fitsLocked(n int64) bool { return b.used == 0 || b.used+n <= b.limit }

// tryAcquireBytes reserves n bytes if they fit and no claim waits.
func (b *Budget) tryAcquireBytes(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || !b.fitsLocked(n) {
		return false
	}
	b.used += n
	return true
}

// acquireBytes reserves n bytes, and waits until they are free. The caller must not
// hold the lock of a WriteBehind, because acquireBytes may call any of them to free
// memory.
func (b *Budget) acquireBytes(ctx context.Context, n int64) error {
	if b.tryAcquireBytes(n) {
		return nil
	}
	c := &memoryClaim{bytes: n, granted: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	b.grantLocked() // memory may have been released since
	var users []*WriteBehind
	if len(b.waiting) == 1 { // later checks by the users see the claim
		for w := range b.users {
			users = append(users, w)
		}
	}
	b.mu.Unlock()
	for _, w := range users {
		w.checkPressure()
	}
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
		b.cancelClaim(c)
		return context.Cause(ctx)
	}
}

// cancelClaim withdraws a claim and releases any memory granted to it.
func (b *Budget) cancelClaim(c *memoryClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, c); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.used -= c.bytes
	}
	b.grantLocked()
}

// releaseBytes frees n reserved bytes.
func (b *Budget) releaseBytes(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.grantLocked()
}

func (b *Budget) grantLocked() {
	for len(b.waiting) > 0 && b.fitsLocked(b.waiting[0].bytes) {
		b.used += b.waiting[0].bytes
		close(b.waiting[0].granted)
		b.waiting = slices.Delete(b.waiting, 0, 1)
	}
}

// hasWaiters reports whether a claim waits.
func (b *Budget) hasWaiters() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) > 0
}

// isHalfUsed reports whether at least half the budget is in use.
func (b *Budget) isHalfUsed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return 2*b.used >= b.limit
}
