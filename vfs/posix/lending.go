//go:build linux

package posix

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A lendingTable stops the lending of a file's data while a clone into the file runs: lent data that
// is sent at that time would be partly that of before and partly that of after the clone. Files are
// inodes, because an FS of another export may lend the same file.
type lendingTable struct {
	targetCount atomic.Int32 // without targets, lending needs no mutex

	mu      sync.Mutex
	windows map[inode][]*window
	targets map[inode]*cloneTarget
	sweepAt time.Duration // when outdated targets are removed
}

// A cloneTarget is a file into which clones run, or are about to be tried again.
type cloneTarget struct {
	clones int
	since  time.Duration // since when the file's data is not lent
	until  time.Duration // until when a clone that had to wait may be tried again
}

// lending is the table for all FS in the process.
var lending = lendingTable{windows: make(map[inode][]*window), targets: make(map[inode]*cloneTarget)}

// addWindow adds a window of a file.
func (t *lendingTable) addWindow(id inode, w *window) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.windows[id] = append(t.windows[id], w)
}

// removeWindow undoes addWindow.
func (t *lendingTable) removeWindow(id inode, w *window) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.windows[id] = slices.DeleteFunc(t.windows[id], func(other *window) bool { return other == w })
	if len(t.windows[id]) == 0 {
		delete(t.windows, id)
	}
}

// mayLend reports whether a file's data may be lent. The caller has counted its use of the window, so
// that either it or beginClone notices the other.
func (t *lendingTable) mayLend(id inode) bool {
	if t.targetCount.Load() == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeOutdated(time.Since(started))
	return t.targets[id] == nil
}

// beginClone stops the lending of a file's data until endClone, and reports whether none is lent now.
// If it returns false, the clone must not run, and the data is not lent until it is tried again, for at
// most unlentTime. If readers take theirs too slowly, beginClone returns true after maxLentWait.
func (t *lendingTable) beginClone(id inode) bool {
	now := time.Since(started)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeOutdated(now)
	c := t.targets[id]
	if c == nil {
		c = &cloneTarget{since: now}
		t.targets[id] = c
		t.targetCount.Add(1)
	}
	isLent := slices.ContainsFunc(t.windows[id], func(w *window) bool { return w.uses.Load() > 0 })
	if isLent && now-c.since < maxLentWait {
		c.until = now + unlentTime
		return false
	}
	c.clones++
	return true
}

// endClone ends a clone that beginClone permitted.
func (t *lendingTable) endClone(id inode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.targets[id]; c.clones > 1 {
		c.clones--
		return
	}
	t.removeTarget(id)
}

// removeOutdated removes the targets of clones that were not tried again. t.mu is held.
func (t *lendingTable) removeOutdated(now time.Duration) {
	if now < t.sweepAt {
		return
	}
	t.sweepAt = now + unlentTime
	for id, c := range t.targets {
		if c.clones == 0 && c.until <= now {
			t.removeTarget(id)
		}
	}
}

func (t *lendingTable) removeTarget(id inode) {
	delete(t.targets, id)
	t.targetCount.Add(-1)
}
