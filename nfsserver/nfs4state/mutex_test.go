package nfs4state

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestPauseLetsOthersLock checks that a call that visits very many entries does not lock the
// State again before a call that has waited for it.
func TestPauseLetsOthersLock(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, call := range map[string]func(m *stateMutex){
		"the State": func(m *stateMutex) {
			m.Lock()
			defer m.Unlock()
		},
		"a part": func(m *stateMutex) { m.lockPart(3).unlock() },
	} {
		for range 100 {
			var m stateMutex
			var done atomic.Bool
			m.Lock()
			go func() {
				call(&m)
				done.Store(true)
			}()
			runtime.Gosched()                 // the call waits now
			for range 2 * maxEntriesPerHold { // the scheduler may prefer the older goroutine once
				m.pauseLocked()
			}
			m.Unlock()
			want(t, "a call that locks "+name+" is done", done.Load(), true)
		}
	}
}
