package keepalive

import (
	"sync"
	"time"
)

// answerTime is how long the kernel may take to tell a connection's traffic, which
// it knows, unless it waits for a disk with the socket locked.
const answerTime = 100 * time.Millisecond

// A Meter asks for the traffic of a connection that may send from mappings of files.
// If their pages have left the memory and the disk does not answer, the kernel
// waits with the socket locked, and the question waits as well. The zero value is
// ready for use.
type Meter struct {
	mu      sync.Mutex
	told    chan struct{} // closed with the answer; nil: no question is open
	since   time.Time     // of the open question
	in, out uint64        // by the last answer
}

// Ask returns what traffic, such as Traffic, returns. ok is false if the kernel has
// not answered for answerTime; then Ask returns the traffic as last known. However
// often Ask is called, one goroutine waits.
func (m *Meter) Ask(traffic func() (in, out uint64)) (in, out uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told == nil {
		m.told, m.since = make(chan struct{}), time.Now()
		go m.learn(traffic, m.told)
	}
	if ok = m.awaitUnlock(m.told, answerTime-time.Since(m.since)); !ok {
		ok = m.told == nil
	}
	return m.in, m.out, ok
}

func (m *Meter) learn(traffic func() (in, out uint64), told chan struct{}) {
	in, out := traffic()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.in, m.out, m.told = in, out, nil
	close(told)
}

// awaitUnlock reports whether the answer comes in time. It unlocks m meanwhile.
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
