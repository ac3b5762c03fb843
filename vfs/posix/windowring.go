//go:build linux

package posix

import (
	"slices"
	"sync"
)

// A windowRing has an FS's windows. If there are too many, it evicts one that was not used since
// the ring last passed it, so that a file longer than all windows together leaves some to other
// files.
type windowRing struct {
	most int

	mu   sync.Mutex
	all  []*window
	next int // to be looked at
}

// addWindow adds w, if necessary in place of an idle window. It returns false if all are lent.
// w.o.mu is held.
func (r *windowRing) addWindow(w *window) bool {
	r.mu.Lock()
	if len(r.all) < r.most {
		r.all = append(r.all, w)
		r.mu.Unlock()
		return true
	}
	old := r.replaceLocked(w)
	r.mu.Unlock()
	if old == nil {
		return false
	}
	old.unmapMemory()
	return true
}

// replaceLocked replaces a window that no reader has by w, removes that one from its object, and
// returns it. The ring passes w last.
func (r *windowRing) replaceLocked(w *window) (old *window) {
	for range 2 * len(r.all) {
		i := r.next % len(r.all)
		r.next = i + 1
		if old := r.all[i]; !old.hot.Swap(false) && old.leaveObject(w.o) {
			r.all[i] = w
			return old
		}
	}
	return nil
}

// leaveObject removes w from its object, unless a reader has it or is about to.
func (w *window) leaveObject(held *object) bool {
	if w.uses.Load() > 0 {
		return false
	}
	if w.o != held {
		if !w.o.mu.TryLock() {
			return false
		}
		defer w.o.mu.Unlock()
		if w.uses.Load() > 0 {
			return false
		}
	}
	w.o.windows = slices.DeleteFunc(w.o.windows, func(other *window) bool { return other == w })
	return true
}

// removeWindows removes an object's windows from the ring. o.mu is held.
func (r *windowRing) removeWindows(o *object) {
	if len(o.windows) > 0 {
		r.removeIf(func(w *window) bool { return w.o == o })
	}
}

func (r *windowRing) removeIf(is func(*window) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, is)
}

// len returns the number of windows.
func (r *windowRing) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}
