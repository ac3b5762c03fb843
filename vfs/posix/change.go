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

// A change attribute is ctime in nanoseconds, plus a count of the changes
// through this process that left ctime as it was: before Linux 6.13 ctime moves
// on with the tick of the kernel's clock, of 1 to 10 ms. The counts of all
// objects together are bounded. When a count is forgotten, at the latest with
// the process, the object's change attribute must not go back to a value that
// stood for older content. So an object whose ctime is not later than the
// newest forgotten one has lostCount in place of its count. A count is less,
// and ctime plus lostCount is less than the ctime of the next tick, so the
// values of an object still rise, and those of a file that nobody changes move
// at most once, after the restart that follows its last change.
//
// If the host's clock is set back, ctime repeats, and so may a change
// attribute. Changes by other processes of the host within one tick do not
// show until the next change, but for those of directories that a witness
// watches: they are counted.
type changeCounts struct {
	lost atomic.Int64 // the newest forgotten ctime, in nanoseconds
	n    atomic.Int64 // counts
	max  int          // of a part, but for those of the last ticks
	now  func() int64 // the kernel's time for ctime, in nanoseconds

	parts [changeParts]struct {
		mu     sync.RWMutex
		counts map[inode]changeCount
		forgot int64 // the time of the last attempt
	}
}

// An inode identifies an object of the host, also in several exports.
type inode struct{ dev, ino uint64 }

type changeCount struct {
	ctime int64 // in nanoseconds
	count int64 // more than lostCount if ctime is not after lost
}

const (
	changeParts = 16
	lostCount   = 500_000       // half a tick of 1 ms, in nanoseconds
	outdated    = lostCount - 1 // in place of the count of an older ctime: see later
)

// counted are the counts of all FS of the process.
var counted = sync.OnceValue(func() *changeCounts {
	c := newChangeCounts(maxChangeCounts/changeParts, kernelNow)
	c.lost.Store(time.Now().UnixNano()) // fine times of this tick are later than now
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

// kernelNow returns the time by the ticks of the kernel's clock.
func kernelNow() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) // cannot fail
	return t.Nano()
}

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

func inodeOf(st *unix.Statx_t) inode {
	return inode{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
}

// of returns the change attribute of an object.
func (c *changeCounts) of(o inode, ctime int64) uint64 {
	if c.n.Load() > 0 {
		p := &c.parts[o.ino%changeParts]
		p.mu.RLock()
		have, ok := p.counts[o]
		p.mu.RUnlock()
		switch {
		case ok && have.ctime == ctime:
			return uint64(ctime + have.count)
		case ok && c.later(have, ctime):
			return uint64(ctime + outdated)
		}
	}
	if ctime <= c.lost.Load() { // read after the count was not found
		return uint64(ctime + lostCount)
	}
	return uint64(ctime)
}

// later reports whether a count is of a later ctime: a later change was noted after the
// caller had read ctime, whose own count is not known any more. A count of the future
// is from before the clock was set back.
func (c *changeCounts) later(have changeCount, ctime int64) bool {
	return have.ctime > ctime && have.ctime <= c.now()+lastTicks
}

// note records that an object may have been changed, or certainly has, by its
// ctime before and after.
func (c *changeCounts) note(o inode, before, ctime int64, certain bool) {
	moved := before != ctime
	if moved && c.n.Load() == 0 || !moved && !certain && c.now()-ctime > longestTick {
		return // a change would have moved it, unless another host's clock sets it
	}
	p := &c.parts[o.ino%changeParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	have, ok := p.counts[o]
	switch {
	case ok && c.later(have, ctime):
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
	// A count of this ctime although the operation moved ctime is of others' changes in the
	// same tick, and others may have been told of it before the operation's.
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
		c.forget(p.counts, now-lastTicks)
	}
}

const (
	// longestTick is longer than the steps of any file system's times, in
	// nanoseconds. Those of FAT are two seconds.
	longestTick = 2_500_000_000

	// lastTicks is longer than a tick of the kernel's clock, in nanoseconds:
	// counts that are younger still grow.
	lastTicks = 20_000_000
)

// forget drops the older half of some counts, but none that is younger than a
// time. The lock of their part is held.
func (c *changeCounts) forget(counts map[inode]changeCount, than int64) {
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

// change returns the change attribute of an object.
func (f *FS) change(st *unix.Statx_t) uint64 {
	if f.reported(st) {
		f.witness.look(st.Ino)
	} else if !f.coarse.Load() {
		return uint64(nanos(st.Ctime))
	}
	return counted().of(inodeOf(st), f.ctime(st))
}

// reported reports whether an object is a directory that a witness may watch, or may have
// watched in an earlier process: its changes are counted, also if ctime moves with each.
func (f *FS) reported(st *unix.Statx_t) bool {
	return f.witness.able && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// ctime returns an object's ctime in nanoseconds.
func (f *FS) ctime(st *unix.Statx_t) int64 {
	t := nanos(st.Ctime)
	if f.tick > 0 {
		t -= t % f.tick
	}
	return t
}

// unique reports whether a later change of an object will move the change attribute in a. A count
// that was forgotten, or is of a ctime from before the clock was set back, may come back.
func (f *FS) unique(a *vfs.Attr) bool {
	st := unix.Statx_t{Ctime: unix.StatxTimestamp{Sec: a.Ctime.Sec, Nsec: a.Ctime.Nsec}}
	return a.Change-uint64(f.ctime(&st)) < outdated
}

// noteChange records that an operation may have changed an object, or certainly
// has. A change that leaves ctime as it was shows that the file system's times
// are coarser than expected.
func (f *FS) noteChange(before, after *unix.Statx_t, certain bool) {
	if !f.coarse.Load() {
		if moved := before.Ctime != after.Ctime; !moved && !certain || moved && !f.reported(after) {
			return
		} else if !moved {
			f.coarse.Store(true)
		}
	}
	counted().note(inodeOf(after), f.ctime(before), f.ctime(after), certain)
}

// changed returns the attributes of o after an operation that may have changed
// o, or certainly has. The change of o is under way, and makes no more calls.
func (f *FS) changed(o *object, before *unix.Statx_t, certain bool) vfs.MaybeAttr {
	var st unix.Statx_t
	looked := attrs.now()
	if f.stat(o, &st) != nil {
		return vfs.MaybeAttr{}
	}
	f.seeAfter(o, &st, looked)
	f.noteChange(before, &st, certain)
	return f.some(&st)
}

// fineTimes reports whether each change of an object moves its ctime if someone
// has seen the earlier one (Linux 6.13).
func fineTimes(fsType uint32) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	switch fsType {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return kernelAtLeast(unix.ByteSliceToString(u.Release[:]), 6, 13)
	}
	return false
}

// kernelAtLeast reports whether a release of Linux is not older than a version.
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
