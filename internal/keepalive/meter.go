package keepalive

import (
	"sync"
	"time"
)

// answerTime is the time that the kernel may take to report a connection's traffic,
// which it does at once unless it waits for a disk with the socket locked.
const answerTime = 100 * time.Millisecond

// A Meter queries the state of a connection that may send from file mappings. If
// their pages are no longer in memory and the disk does not respond, the kernel
// waits with the socket locked, and the query waits as well. The zero value is
// ready for use.
type Meter struct {
	mu        sync.Mutex
	answered  chan struct{} // closed with the answer; nil: no query is outstanding
	askedAt   time.Time     // start of the outstanding query
	lastState State         // state from the last answer
}

// Ask returns the result of state, such as StateOf. ok is false if the kernel has
// not answered for answerTime; then Ask returns the last known state. However often
// Ask is called, only one goroutine waits.
func (m *Meter) Ask(state func() State) (s State, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answered == nil {
		m.answered, m.askedAt = make(chan struct{}), time.Now()
		go m.fetchState(state, m.answered)
	}
	if ok = m.awaitUnlock(m.answered, answerTime-time.Since(m.askedAt)); !ok {
		ok = m.answered == nil
	}
	return m.lastState, ok
}

func (m *Meter) fetchState(state func() State, told chan struct{}) {
	s := state()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastState, m.answered = s, nil
	close(told)
}

// awaitUnlock reports whether the answer arrives in time. It unlocks m while it
// waits.
func (m *Meter) awaitUnlock(told <-chan struct{}, limit time.Duration) bool {
	if limit <= 0 {
		return false
	}
	m.mu.Unlock()
	defer m.mu.Lock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-told:
		return true
	case <-timer.C:
		return false
	}
}
