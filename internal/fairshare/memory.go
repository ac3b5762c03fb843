package fairshare

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// A Memory is the number of bytes that the calls of all parties may use
// together.
type Memory struct {
	limit, part int64
	all         *semaphore.Weighted
	used        atomic.Int64
	press       *Press
}

// NewMemory returns a Memory of limit bytes. No party gets more than part of
// them. The press learns of waiting calls.
func NewMemory(limit, part int64, press *Press) *Memory {
	return &Memory{limit: limit, part: part, all: semaphore.NewWeighted(limit), press: press}
}

// Limit returns the total number of bytes.
func (m *Memory) Limit() int64 { return m.limit }

// InUse returns the number of bytes in use.
func (m *Memory) InUse() int64 { return m.used.Load() }

// Waiting returns how many calls wait for memory, among all calls with the same
// Press.
func (m *Memory) Waiting() int { return m.press.Waiting() }

// Waited returns how long the longest-waiting of these calls has waited.
func (m *Memory) Waited() time.Duration { return m.press.Waited() }

// A Part is the share of a Memory that a party may use, or the share of its
// party's Part that a connection may use.
type Part struct {
	memory *Memory
	whole  *Part // the Part that contains this one, or nil
	own    *semaphore.Weighted
}

// Part returns the part of a new party.
func (m *Memory) Part() *Part {
	return &Part{memory: m, own: semaphore.NewWeighted(m.part)}
}

// Part returns a part of p of at most n bytes.
func (p *Part) Part(n int64) *Part {
	return &Part{memory: p.memory, whole: p, own: semaphore.NewWeighted(n)}
}

// TryAcquire takes n bytes if they are free and no call waits for bytes.
func (p *Part) TryAcquire(n int64) bool {
	if !p.own.TryAcquire(n) {
		return false
	}
	ok := false
	if p.whole != nil {
		ok = p.whole.TryAcquire(n)
	} else {
		ok = p.memory.tryAcquire(n)
	}
	if !ok {
		p.own.Release(n)
	}
	return ok
}

// Acquire waits for n bytes: first of p, then of the whole, then of the Memory.
// If n exceeds a part, Acquire waits until ctx ends. When ctx ends first,
// Acquire returns ctx's error.
func (p *Part) Acquire(ctx context.Context, n int64) error {
	if p.TryAcquire(n) {
		return nil
	}
	err := p.own.Acquire(ctx, n)
	if err != nil {
		return err
	}
	if p.whole != nil {
		err = p.whole.Acquire(ctx, n)
	} else {
		err = p.memory.acquire(ctx, n)
	}
	if err != nil {
		p.own.Release(n)
	}
	return err
}

// Release returns n bytes.
func (p *Part) Release(n int64) {
	if p.whole != nil {
		p.whole.Release(n)
	} else {
		p.memory.release(n)
	}
	p.own.Release(n)
}

func (m *Memory) tryAcquire(n int64) bool {
	ok := m.all.TryAcquire(n)
	if ok {
		m.used.Add(n)
	}
	return ok
}

func (m *Memory) acquire(ctx context.Context, n int64) error {
	call := m.press.begin()
	err := m.all.Acquire(ctx, n)
	m.press.end(call)
	if err == nil {
		m.used.Add(n)
	}
	return err
}

func (m *Memory) release(n int64) {
	m.used.Add(-n)
	m.all.Release(n)
}

// Limits of our own.
const (
	// PressTime is how long a call waits for memory before peers that hold
	// memory count as dead, if they move less than Bulk bytes in that time.
	PressTime = 5 * time.Second

	// Bulk is how many bytes in PressTime are a sign of life: more than a peer
	// sends that only wants to look alive.
	Bulk = 4 << 10

	// One of every spared places for connections is reserved for parties with
	// no more than few connections.
	spared = 8
	few    = 8
)
