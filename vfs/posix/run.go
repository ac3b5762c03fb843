//go:build linux

package posix

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A client that reads a file sequentially requests one block after the other, several at a time, so
// that they arrive almost in order. A mincore(2) call for each block costs as much as copying some
// 16 KiB. In a run of such reads, one call therefore covers the pages ahead too, and its result
// counts for a moment. Only for reads in a run are short blocks worth the page tables.

// A readRun counts sequential reads, each near the one before.
type readRun struct {
	next  uint64 // end of the last read
	count int
}

// addRead adds a read from off on, n bytes long.
func (r *readRun) addRead(off uint64, n int) {
	if off > r.next+runWidth || off+runWidth < r.next {
		r.count = 0
	}
	r.next = off + uint64(n)
	r.count = min(r.count+1, longRun)
}

// minLent returns the minimum number of bytes to lend to the last read.
func (r *readRun) minLent() int {
	if r.count < longRun {
		return minMapped
	}
	return minMappedInRun
}

// addRead adds a read to o's run, and returns the run.
func (o *object) addRead(off uint64, n int) readRun {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.run.addRead(off, n)
	return o.run
}

// runOf adds a read to a known object's run. For another object, it is the first.
func (f *FS) runOf(h vfs.Handle, off uint64, n int) readRun {
	o := f.cache.getObject(h)
	if o == nil {
		return readRun{}
	}
	defer f.putObject(o)
	return o.addRead(off, n)
}

// A residentAhead is a part of a window whose pages were in memory, at a given file size and ctime.
type residentAhead struct {
	from, to int // in the window
	at       time.Time
	size     uint64
	ctime    unix.StatxTimestamp
}

// coversRange reports whether the window's mem[from:to] counts as in memory.
func (a *residentAhead) coversRange(from, to int, st *unix.Statx_t, now time.Time) bool {
	return a.from <= from && to <= a.to && now.Sub(a.at) < aheadTime && a.size == st.Size && a.ctime == st.Ctime
}

// isResident reports whether w.mem[from:to] is in memory, so that reading it waits
// for no disk and fills no hole.
func (w *window) isResident(from, to int, r readRun, st *unix.Statx_t) bool {
	if r.count < 2 || to-from > aheadLen {
		return isResident(w.mem[from:to])
	}
	now := time.Now()
	w.o.mu.Lock()
	known := w.ahead.coversRange(from, to, st, now)
	w.o.mu.Unlock()
	if known {
		return true
	}
	// From a multiple of aheadLen on: the blocks before this one may come later.
	first := from &^ (aheadLen - 1)
	lo, hi := residentRun(w.mem[first:min(first+2*aheadLen, windowLen)], from-first)
	if first+hi < to {
		return false
	}
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	w.ahead = residentAhead{from: first + lo, to: first + hi, at: now, size: st.Size, ctime: st.Ctime}
	return true
}
