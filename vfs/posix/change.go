//go:build linux

package posix

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A change attribute is ctime in nanoseconds, plus the number of changes through this process that
// left ctime as it was: before Linux 6.13 ctime moves on with the kernel's coarse clock, every 1 to
// 10 ms. The total number of counts is bounded. When a count is dropped, at the latest when the
// process exits, the object's change attribute must not return to a value that meant older content.
// So an object whose ctime is not later than the newest dropped one has lostCount in place of its
// count. A count is less, and ctime plus lostCount is less than the ctime of the next tick, so an
// object's values still rise, and an unchanged file's value moves at most once, after the restart
// that follows its last change.
//
// If the host's clock is set back, ctime repeats, and so may a change attribute. Changes by other
// processes on the host within one tick do not show until the next change, except in directories
// that a dirWitness watches: they are counted.
type changeCounts struct {
	lost atomic.Int64 // the newest forgotten ctime, in nanoseconds
	n    atomic.Int64 // counts
	max  int          // per part, apart from those in the last ticks
	now  func() int64 // the kernel's time for ctime, in nanoseconds

	parts [changeParts]struct {
		mu     sync.RWMutex
		counts map[inode]changeCount
		forgot int64 // last attempt
	}
}

// An inode identifies an object on the host, also across exports.
type inode struct{ dev, ino uint64 }

type changeCount struct {
	ctime int64 // in nanoseconds
	count int64 // more than lostCount if ctime is not after lost
}

const (
	changeParts = 16
	lostCount   = 500_000       // half a 1 ms tick, in nanoseconds
	outdated    = lostCount - 1 // in place of an older ctime's count: see isLater
)

// counted holds the counts for all FS in the process.
var counted = sync.OnceValue(func() *changeCounts {
	c := newChangeCounts(maxChangeCounts/changeParts, kernelNow)
	c.lost.Store(time.Now().UnixNano()) // this tick's fine times are later than now
	for c.now() <= c.lost.Load() {      // an earlier process may have made changes in this tick
		time.Sleep(time.Millisecond)
	}
	return c
})

func newChangeCounts(most int, now func() int64) *changeCounts {
	c := &changeCounts{max: most, now: now}
	for i := range c.parts {
		c.parts[i].counts = make(map[inode]changeCount)
	}
	return c
}

// kernelNow returns the kernel's coarse time.
func kernelNow() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) // cannot fail
	return t.Nano()
}

func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

func inodeOf(st *unix.Statx_t) inode {
	return inode{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
}

// changeOf returns an object's change attribute.
func (c *changeCounts) changeOf(o inode, ctime int64) uint64 {
	if c.n.Load() > 0 {
		p := &c.parts[o.ino%changeParts]
		p.mu.RLock()
		have, ok := p.counts[o]
		p.mu.RUnlock()
		switch {
		case ok && have.ctime == ctime:
			return uint64(ctime + have.count)
		case ok && c.isLater(have, ctime):
			return uint64(ctime + outdated)
		}
	}
	if ctime <= c.lost.Load() { // read after the count was not found
		return uint64(ctime + lostCount)
	}
	return uint64(ctime)
}

// isLater reports whether a count belongs to a later ctime: a later change was noted after the
// caller read ctime, whose own count is gone. A count from the future predates a clock that was set
// back.
func (c *changeCounts) isLater(have changeCount, ctime int64) bool {
	return have.ctime > ctime && have.ctime <= c.now()+lastTicks
}

// noteChange records that an object may have been changed, or certainly has, by its
// ctime before and after.
func (c *changeCounts) noteChange(o inode, before, ctime int64, certain bool) {
	moved := before != ctime
	if moved && c.n.Load() == 0 || !moved && !certain && c.now()-ctime > longestTick {
		return // a change would have moved it, unless another host's clock sets it
	}
	p := &c.parts[o.ino%changeParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	have, ok := p.counts[o]
	switch {
	case ok && c.isLater(have, ctime):
		return
	case moved && ok && have.ctime != ctime:
		delete(p.counts, o)
		c.n.Add(-1)
		return
	case moved && !ok:
		return
	case !ok:
		c.n.Add(1)
	}
	// If the operation moved ctime, a count for this ctime comes from others' changes in the
	// same tick, which other clients may have seen first.
	if !ok || have.ctime != ctime {
		have = changeCount{ctime: ctime}
		if ctime <= c.lost.Load() {
			have.count = lostCount
		}
	}
	have.count++
	p.counts[o] = have
	if now := c.now(); len(p.counts) > c.max && now != p.forgot {
		p.forgot = now
		c.dropOlder(p.counts, now-lastTicks)
	}
}

const (
	// longestTick is longer than any file system's timestamp granularity, in nanoseconds. FAT's
	// is two seconds.
	longestTick = 2_500_000_000

	// lastTicks is longer than the kernel's coarse-clock granularity, in nanoseconds: younger
	// counts still grow.
	lastTicks = 20_000_000
)

// dropOlder drops the older half, but no count that is younger than than. The part's lock is held.
func (c *changeCounts) dropOlder(counts map[inode]changeCount, than int64) {
	ctimes := make([]int64, 0, len(counts))
	for _, have := range counts {
		ctimes = append(ctimes, have.ctime)
	}
	slices.Sort(ctimes)
	newest := min(ctimes[len(ctimes)/2], than)
	for lost := c.lost.Load(); lost < newest && !c.lost.CompareAndSwap(lost, newest); lost = c.lost.Load() {
	}
	for key, have := range counts {
		if have.ctime <= newest {
			delete(counts, key)
			c.n.Add(-1)
		}
	}
}

// changeAttr returns an object's change attribute.
func (f *FS) changeAttr(st *unix.Statx_t) uint64 {
	if f.hasReports(st) {
		f.witness.checkReports(st.Ino)
	} else if !f.coarseCtime.Load() {
		return uint64(nanoseconds(st.Ctime))
	}
	return counted().changeOf(inodeOf(st), f.ctimeNanos(st))
}

// OrdersChanges implements vfs.ChangeOrderer.
func (f *FS) OrdersChanges() bool { return true }

// hasReports reports whether an object is a directory that a dirWitness may watch, or may have
// watched in an earlier process: its changes are counted, also if ctime moves with each.
func (f *FS) hasReports(st *unix.Statx_t) bool {
	return f.witness.supported && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// ctimeNanos returns an object's ctime in nanoseconds.
func (f *FS) ctimeNanos(st *unix.Statx_t) int64 {
	t := nanoseconds(st.Ctime)
	if f.clockTick > 0 {
		t -= t % f.clockTick
	}
	return t
}

// isUnique reports whether a later change will move the change attribute in a. A count that was
// dropped, or belongs to a ctime from before the clock was set back, may come back.
func (f *FS) isUnique(a *vfs.Attr) bool {
	st := unix.Statx_t{Ctime: unix.StatxTimestamp{Sec: a.Ctime.Sec, Nsec: a.Ctime.Nsec}}
	return a.Change-uint64(f.ctimeNanos(&st)) < outdated
}

// noteChange records that an operation may have changed an object, or certainly
// has. A change that leaves ctime as it was shows that the file system's times
// are coarser than expected.
func (f *FS) noteChange(before, after *unix.Statx_t, certain bool) {
	if !f.coarseCtime.Load() {
		if moved := before.Ctime != after.Ctime; !moved && !certain || moved && !f.hasReports(after) {
			return
		} else if !moved {
			f.coarseCtime.Store(true)
		}
	}
	counted().noteChange(inodeOf(after), f.ctimeNanos(before), f.ctimeNanos(after), certain)
}

// attrAfterChange returns o's attributes after an operation that may have changed o, or certainly
// has. The change is in progress, and its system calls have returned.
func (f *FS) attrAfterChange(o *object, before *unix.Statx_t, certain bool) vfs.MaybeAttr {
	var st unix.Statx_t
	looked := attrs.currentTime()
	if f.statOrStale(o, &st) != nil {
		return vfs.MaybeAttr{}
	}
	f.cacheAttrAfter(o, &st, looked)
	f.noteChange(before, &st, certain)
	return f.maybeAttrOf(&st)
}

// hasFineTimes reports whether the kernel has ctimes finer than its clock's ticks.
func hasFineTimes() bool {
	var u unix.Utsname
	return unix.Uname(&u) == nil && kernelAtLeast(unix.ByteSliceToString(u.Release[:]), 6, 13)
}

// kernelAtLeast reports whether a Linux release is not older than a version.
func kernelAtLeast(release string, major, minor int) bool {
	var v [2]int
	i := 0
	for _, c := range release {
		switch {
		case c >= '0' && c <= '9' && v[i] < 1e6:
			v[i] = v[i]*10 + int(c-'0')
		case c == '.' && i == 0:
			i++
		default:
			return v[0] > major || v[0] == major && v[1] >= minor
		}
	}
	return v[0] > major || v[0] == major && v[1] >= minor
}
