//go:build race

package nfs4state

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// A checkedMutex is a mutex with the rank R. It panics if it is locked out of order.
type checkedMutex[R lockRank] struct{ mu sync.Mutex }

func (m *checkedMutex[R]) Lock() {
	var r R
	heldRanks.add(r.rank())
	m.mu.Lock()
}

func (m *checkedMutex[R]) TryLock() bool {
	var r R
	locked := m.mu.TryLock()
	if locked {
		heldRanks.add(r.rank())
	}
	return locked
}

func (m *checkedMutex[R]) Unlock() {
	var r R
	m.mu.Unlock()
	heldRanks.remove(r.rank())
}

// heldRanks has the ranks of the mutexes that each goroutine holds or waits for.
var heldRanks = rankTable{held: make(map[uint64]rankCounts)}

// rankCounts has the number of mutexes of each rank.
type rankCounts [maxRank + 1]uint8

// A rankTable allocates nothing in most calls, because tests count allocations.
type rankTable struct {
	left atomic.Int64 // number of mutexes yet to be checked
	size atomic.Int64 // number of mutexes in held

	mu   sync.Mutex
	held map[uint64]rankCounts // by goroutine
	buf  [64]byte              // for goroutineID
}

// rankChecks is the number of mutexes that are checked after a State was created: a check takes
// much longer than the call that locks the mutex.
const rankChecks = 2000

func startRankChecks() { heldRanks.left.Store(rankChecks) }

func (t *rankTable) add(rank int) {
	if t.left.Add(-1) < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.goroutineID()
	held := t.held[id]
	for r := rank; r <= maxRank; r++ {
		if held[r] > 0 && (r > rank || rank != (sessionRank{}).rank()) {
			panic(fmt.Sprintf("a mutex of rank %d is locked while one of rank %d is held", rank, r))
		}
	}
	held[rank]++
	t.held[id] = held
	t.size.Add(1)
}

func (t *rankTable) remove(rank int) {
	if t.size.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.goroutineID()
	held := t.held[id]
	if held[rank] == 0 {
		return // it was locked without a check
	}
	held[rank]--
	t.size.Add(-1)
	if t.held[id] = held; held == (rankCounts{}) {
		delete(t.held, id)
	}
}

// goroutineID returns the number of the calling goroutine, from the first line of its stack
// trace.
func (t *rankTable) goroutineID() (id uint64) {
	for _, c := range t.buf[len("goroutine "):runtime.Stack(t.buf[:], false)] {
		if c == ' ' {
			break
		}
		id = 10*id + uint64(c-'0')
	}
	return id
}
