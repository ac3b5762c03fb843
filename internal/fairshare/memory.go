package fairshare

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// A Memory bounds the bytes that all parties' calls may use together.
type Memory struct {
	limit, partLimit int64
	free             *semaphore.Weighted
	used             atomic.Int64
	press            *Press
}

// NewMemory returns a Memory with limit bytes. No party gets more than part bytes.
// The press is notified of waiting calls.
func NewMemory(limit, part int64, press *Press) *Memory {
	return &Memory{limit: limit, partLimit: part, free: semaphore.NewWeighted(limit), press: press}
}

// Limit returns the total in bytes.
func (m *Memory) Limit() int64 { return m.limit }

// InUse returns how many bytes are in use.
func (m *Memory) InUse() int64 { return m.used.Load() }

// Waiting returns how many calls wait for memory, among all calls with the same
// Press.
func (m *Memory) Waiting() int { return m.press.waitingCalls() }

// Waited returns the time for which the first such call has waited.
func (m *Memory) Waited() time.Duration { return m.press.longestWait() }

// A Part is a party's share in a Memory, or a connection's share in its party's
// Part.
type Part struct {
	memory *Memory
	parent *Part // the Part that contains this one, or nil
	limit  *semaphore.Weighted
}

// Part returns a new party's part.
func (m *Memory) Part() *Part {
	return &Part{memory: m, limit: semaphore.NewWeighted(m.partLimit)}
}

// Part returns a part within p with at most n bytes.
func (p *Part) Part(n int64) *Part {
	return &Part{memory: p.memory, parent: p, limit: semaphore.NewWeighted(n)}
}

// TryAcquire acquires n bytes if they are free and no call waits for bytes.
func (p *Part) TryAcquire(n int64) bool {
	if !p.limit.TryAcquire(n) {
		return false
	}
	ok := false
	if p.parent != nil {
		ok = p.parent.TryAcquire(n)
	} else {
		ok = p.memory.tryAcquire(n)
	}
	if !ok {
		p.limit.Release(n)
	}
	return ok
}

// Acquire waits for n bytes: first in p, then in its parent, then in the Memory. If
// n exceeds a part, Acquire waits until ctx is done. When ctx is done first,
// Acquire returns ctx's error.
func (p *Part) Acquire(ctx context.Context, n int64) error {
	if p.TryAcquire(n) {
		return nil
	}
	err := p.limit.Acquire(ctx, n)
	if err != nil {
		return err
	}
	if p.parent != nil {
		err = p.parent.Acquire(ctx, n)
	} else {
		err = p.memory.acquire(ctx, n)
	}
	if err != nil {
		p.limit.Release(n)
	}
	return err
}

// Release releases n bytes.
func (p *Part) Release(n int64) {
	if p.parent != nil {
		p.parent.Release(n)
	} else {
		p.memory.release(n)
	}
	p.limit.Release(n)
}

func (m *Memory) tryAcquire(n int64) bool {
	ok := m.free.TryAcquire(n)
	if ok {
		m.used.Add(n)
	}
	return ok
}

func (m *Memory) acquire(ctx context.Context, n int64) error {
	call := m.press.addWaiting()
	err := m.free.Acquire(ctx, n)
	m.press.removeWaiting(call)
	if err == nil {
		m.used.Add(n)
	}
	return err
}

func (m *Memory) release(n int64) {
	m.used.Add(-n)
	m.free.Release(n)
}

// Limits of our own.
const (
	// PressTime is the time for which a call waits for memory before peers that
	// hold memory count as dead, if they move less than Bulk bytes in that time.
	PressTime = 5 * time.Second

	// Bulk is how many bytes in PressTime make a peer count as alive: more than a
	// peer sends that only pretends to be.
	Bulk = 4 << 10

	// One in every spareDivisor connections is reserved for parties with no more
	// than fewConns connections.
	spareDivisor = 8
	fewConns     = 8
)
