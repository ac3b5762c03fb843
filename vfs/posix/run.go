//go:build linux

package posix

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A client that reads a file from one end to the other asks for one block after
// the other, several at a time, so that they arrive almost in order. To ask the
// kernel for each block whether it is in memory costs as much as to copy some
// 16 KiB. In a run of such reads, the pages ahead are therefore asked for with
// the block, and the answer counts for a moment. Only for reads in a run are
// short blocks worth the page tables.

// A readRun counts reads of an object, each near the one before.
type readRun struct {
	next  uint64 // the end of the last read
	count int
}

// add adds a read of n bytes at off.
func (r *readRun) add(off uint64, n int) {
	if off > r.next+runWidth || off+runWidth < r.next {
		r.count = 0
	}
	r.next = off + uint64(n)
	r.count = min(r.count+1, longRun)
}

// least returns the least number of bytes that is lent to the last read.
func (r *readRun) least() int {
	if r.count < longRun {
		return minMapped
	}
	return minMappedInRun
}

// reads adds a read to o's run, and returns the run.
func (o *object) reads(off uint64, n int) readRun {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.run.add(off, n)
	return o.run
}

// runOf adds a read to the run of a known object. Of another, it is the first.
func (f *FS) runOf(h vfs.Handle, off uint64, n int) readRun {
	o := f.cache.get(h)
	if o == nil {
		return readRun{}
	}
	defer f.put(o)
	return o.reads(off, n)
}

// An ahead is a part of a window whose pages were in memory, while the file had
// a size and a time of its last change.
type ahead struct {
	from, to int // in the window
	at       time.Time
	size     uint64
	ctime    unix.StatxTimestamp
}

// covers reports whether mem[from:to] of the window counts as in memory.
func (a *ahead) covers(from, to int, st *unix.Statx_t, now time.Time) bool {
	return a.from <= from && to <= a.to && now.Sub(a.at) < aheadTime && a.size == st.Size && a.ctime == st.Ctime
}

// resident reports whether w.mem[from:to] is in memory, so that reading it waits
// for no disk and fills no hole.
func (w *window) resident(from, to int, r readRun, st *unix.Statx_t) bool {
	if r.count < 2 || to-from > aheadLen {
		return resident(w.mem[from:to])
	}
	now := time.Now()
	w.o.mu.Lock()
	known := w.ahead.covers(from, to, st, now)
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
	w.ahead = ahead{from: first + lo, to: first + hi, at: now, size: st.Size, ctime: st.Ctime}
	return true
}
