package nfs4state

import (
	"math/bits"
	"runtime"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A stateMutex locks a State as a whole, or one of its parts. Each client belongs to a part.
// The holder of a part may change the records of its own client in that part and, with the
// mutex of a fileShard, files. What else State.mu guards is constant while any part is locked,
// and may be read.
//
// A part can be locked alone only while it is open. Lock closes all parts, and lockPart opens
// its own: it locks State.mu for a moment, but only if Lock was called since the last lockPart.
type stateMutex struct {
	whole checkedMutex[stateRank]
	entryCount
	open  uint64 // bit i: parts[i].open; whole guards it
	parts [stateParts]statePart
}

// stateParts is the number of a stateMutex's parts. It bounds the cost of Lock.
const stateParts = 64

// A statePart guards the records of some clients.
type statePart struct {
	mu   checkedMutex[partRank]
	open bool // nothing has locked the whole State since a call locked this part
	entryCount
	_ [64]byte // keeps the parts in different cache lines
}

// Lock locks the whole State.
func (m *stateMutex) Lock() {
	m.whole.Lock()
	for m.open != 0 {
		p := &m.parts[bits.TrailingZeros64(m.open)]
		m.open &= m.open - 1
		p.mu.Lock()
		p.open = false
		p.mu.Unlock()
	}
}

// Unlock unlocks m, and resets the count.
func (m *stateMutex) Unlock() {
	full := m.endHold()
	m.whole.Unlock()
	yieldIf(full)
}

// lockPart locks a part. The caller must not hold State.mu.
func (m *stateMutex) lockPart(i uint8) *statePart {
	p := &m.parts[i]
	p.mu.Lock()
	if p.open {
		return p
	}
	p.mu.Unlock()
	m.whole.Lock()
	defer m.whole.Unlock()
	p.mu.Lock()
	p.open = true
	m.open |= 1 << i
	return p
}

func (p *statePart) unlock() {
	full := p.endHold()
	p.mu.Unlock()
	yieldIf(full)
}

// yieldIf lets other goroutines run after a hold that was full: the caller may otherwise lock
// the mutex again before the goroutine that it has woken, for a millisecond, and the scheduler
// would interrupt it within a hold when its 10 ms are over.
func yieldIf(full bool) {
	if full {
		runtime.Gosched()
	}
}

// pauseLocked counts an entry, and unlocks m for a moment if shouldPause.
func (m *stateMutex) pauseLocked() {
	if m.countEntry(); m.shouldPause() {
		m.Unlock()
		m.Lock()
	}
}

// An entryCount counts the table and list entries that are visited while a mutex is held,
// because other calls wait that long.
type entryCount struct {
	entries    int // since the mutex was locked
	maxEntries int // maximum so far
}

// maxEntriesPerHold is the approximate number of entries that a call visits before it releases
// State.mu, or a part, for a moment. Clients may have very many.
const maxEntriesPerHold = 256

// countEntry counts an entry.
func (e *entryCount) countEntry() { e.entries++ }

// countSilentFor counts what holder.isSilent visits.
func (e *entryCount) countSilentFor(h *holder) {
	e.entries++
	if h.client != nil {
		e.entries += len(h.client.sessions)
	}
}

// shouldPause reports whether the mutex should be released.
func (e *entryCount) shouldPause() bool { return e.entries >= maxEntriesPerHold }

// endHold resets the count, and reports whether it was full.
func (e *entryCount) endHold() (full bool) {
	full = e.shouldPause()
	e.maxEntries = max(e.maxEntries, e.entries)
	e.entries = 0
	return full
}

// A hold is what a call has locked: a part and perhaps a file's shard, or State.mu.
type hold struct {
	part  *statePart // nil: State.mu
	shard *fileShard // nil: none, or State.mu
}

// isWhole reports whether the call has locked State.mu.
func (h *hold) isWhole() bool { return h.part == nil }

// lockClient calls lockHolder for a call's client.
func (s *State) lockClient(c *client, h *hold, whole bool) { s.lockHolder(&c.holder, h, whole) }

// lockHolder locks the part of a call's client or Machine. It locks State.mu if whole is set, during
// the grace period and a LOCK that runs in steps, if the holder has been removed, and for NFSv4.0
// clients: an owner of such a client can have state of several files.
func (s *State) lockHolder(by *holder, h *hold, whole bool) {
	if !whole && by.key.transport&sessionless == 0 {
		p := s.mu.lockPart(by.part)
		if !by.ended && s.steppedLock == nil && s.ledger.staleClients == 0 {
			h.part = p
			return
		}
		p.unlock()
	}
	s.mu.Lock()
}

// lockFile locks the shard with an object's file, unless State.mu is locked. A call may lock
// only one shard at a time.
func (s *State) lockFile(key string, h *hold) *fileShard {
	sh := s.shardOf(key)
	if !h.isWhole() {
		sh.mu.Lock()
		h.shard = sh
	}
	return sh
}

// lockShard locks a shard, or State.mu if whole is set, for a call that changes no client's
// records.
func (s *State) lockShard(sh *fileShard, h *hold, whole bool) {
	if whole {
		s.mu.Lock()
		return
	}
	h.part, h.shard = s.mu.lockPart(sh.part), sh
	sh.mu.Lock()
}

// unlock unlocks what the call has locked.
func (s *State) unlock(h *hold) {
	if h.isWhole() {
		s.mu.Unlock()
		return
	}
	if h.shard != nil {
		h.shard.mu.Unlock()
	}
	p := h.part
	*h = hold{}
	p.unlock()
}

// entriesIn returns the count for what the call has locked.
func (s *State) entriesIn(h *hold) *entryCount {
	if h.isWhole() {
		return &s.mu.entryCount
	}
	return &h.part.entryCount
}

// statusNeedsState is an internal status. The call must change what State.mu alone guards, and
// has changed nothing so far: the caller unlocks the part, and starts again with State.mu.
const statusNeedsState = statusEnding - 1

// retryWhole calls try, which calls lockClient or lockShard, and calls it again with whole set
// if the status is statusNeedsState.
func retryWhole(try func(whole bool) nfs4.Status) nfs4.Status {
	status := try(false)
	if status == statusNeedsState {
		status = try(true)
	}
	return status
}
