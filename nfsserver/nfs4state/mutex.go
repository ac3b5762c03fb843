package nfs4state

import "sync"

// A stateMutex is a State's mutex. It counts the table and list entries that are
// visited while it is held, because all other calls wait that long.
type stateMutex struct {
	sync.Mutex
	entries    int // since Lock
	maxEntries int // maximum so far
}

// maxEntriesPerHold is the approximate number of entries that a call visits before it releases
// State.mu for a moment. Clients may have very many.
const maxEntriesPerHold = 256

// countEntry counts an entry.
func (m *stateMutex) countEntry() { m.entries++ }

// shouldPause reports whether State.mu should be released.
func (m *stateMutex) shouldPause() bool { return m.entries >= maxEntriesPerHold }

// Unlock unlocks m, and resets the count.
func (m *stateMutex) Unlock() {
	m.maxEntries = max(m.maxEntries, m.entries)
	m.entries = 0
	m.Mutex.Unlock()
}

// pauseLocked counts an entry, and unlocks m for a moment if shouldPause.
func (m *stateMutex) pauseLocked() {
	if m.countEntry(); m.shouldPause() {
		m.Unlock()
		m.Lock()
	}
}
