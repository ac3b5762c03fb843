//go:build linux

package posix

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// An attrCache caches the attributes of objects that only this process changes (SetExclusive), for
// attrTime: two attributes may still change, the access time by other readers, and the storage used
// by writeback.
//
//	look:    currentTime ─▶ statx ─▶ putAttr, unless a change has begun or ended since
//	change:  beginChange ─▶ system calls ─▶ endChange
//
// Each object maps to one slot. All FS in the process share one attrCache, because several may
// serve an object. Each uses only what it has read through its own mount: another may map the
// owners, or show a snapshot. An unused cache costs one load.
type attrCache struct {
	users  atomic.Int32  // FS with SetExclusive
	clock  atomic.Uint64 // counts changes
	floor  atomic.Uint64 // older entries are invalid: changes were not noted
	pages  [attrPages]attrPage
	maxAge time.Duration
}

type attrPage struct {
	mu    sync.Mutex
	slots []attrSlot // nil until used
}

// An attrSlot holds one object's attributes. Changes to any object that maps to the slot count.
type attrSlot struct {
	of         inode
	mount      uint64 // by which the attributes were read
	known      bool
	validAfter bool          // the attributes become valid when the last change completes
	changing   int32         // changes in progress
	changed    uint64        // clock at the last beginChange, endChange or noteRead
	renamed    uint64        // clock at the last beginChange or endChange
	looked     uint64        // clock before the attributes were read
	at         time.Duration // when they were
	st         seenAttr
}

// A seenAttr is the part of struct statx that the package uses. The device and the mount are in the
// key.
type seenAttr struct {
	mask, nlink, uid, gid, rdevMajor, rdevMinor uint32
	mode                                        uint16
	size, blocks                                uint64
	atime, mtime, ctime, btime                  unix.StatxTimestamp
}

// attrs caches attributes for all FS in the process.
var attrs = attrCache{maxAge: attrTime}

var started = time.Now()

// currentTime returns the time to pass to putAttr.
func (a *attrCache) currentTime() uint64 { return a.clock.Load() }

// lockSlot returns an object's slot, with its page locked.
func (a *attrCache) lockSlot(of inode) (*attrSlot, *attrPage) {
	i := (of.ino + of.dev*0x9e3779b97f4a7c15) % (attrPages * attrSlots)
	p := &a.pages[i/attrSlots]
	p.mu.Lock()
	if p.slots == nil {
		p.slots = make([]attrSlot, attrSlots)
	}
	return &p.slots[i%attrSlots], p
}

// getAttr sets st to an object's cached attributes, if any were read through the mount in st.
func (a *attrCache) getAttr(of inode, st *unix.Statx_t) bool {
	s, p := a.lockSlot(of)
	defer p.mu.Unlock()
	if !s.known || s.of != of || s.mount != st.Mnt_id || s.looked < a.floor.Load() || time.Since(started)-s.at > a.maxAge {
		return false
	}
	k := &s.st
	st.Mask, st.Nlink, st.Uid, st.Gid, st.Mode = k.mask, k.nlink, k.uid, k.gid, k.mode
	st.Ino, st.Size, st.Blocks = of.ino, k.size, k.blocks
	st.Atime, st.Mtime, st.Ctime, st.Btime = k.atime, k.mtime, k.ctime, k.btime
	st.Rdev_major, st.Rdev_minor = k.rdevMajor, k.rdevMinor
	st.Dev_major, st.Dev_minor = unix.Major(of.dev), unix.Minor(of.dev)
	return true
}

// putAttr caches attributes that were read after looked, unless the object has changed since. An
// inode number without a name may soon be reused.
func (a *attrCache) putAttr(st *unix.Statx_t, looked uint64) {
	s, p := a.lockSlot(inodeOf(st))
	defer p.mu.Unlock()
	if s.changing == 0 && s.changed <= looked && st.Nlink > 0 {
		s.setAttr(st, looked)
		s.known = true
	}
}

// putAttrAfter is putAttr for the only change in progress, whose system calls have returned:
// getAttr returns the attributes once the change completes.
func (a *attrCache) putAttrAfter(st *unix.Statx_t, looked uint64) {
	s, p := a.lockSlot(inodeOf(st))
	defer p.mu.Unlock()
	if s.changing == 1 && s.changed <= looked && st.Nlink > 0 {
		s.setAttr(st, looked)
		s.validAfter = true
	}
}

func (s *attrSlot) setAttr(st *unix.Statx_t, looked uint64) {
	s.of, s.mount, s.looked, s.at = inodeOf(st), st.Mnt_id, looked, time.Since(started)
	s.st = seenAttr{
		mask: st.Mask, nlink: st.Nlink, uid: st.Uid, gid: st.Gid, mode: st.Mode,
		rdevMajor: st.Rdev_major, rdevMinor: st.Rdev_minor, size: st.Size, blocks: st.Blocks,
		atime: st.Atime, mtime: st.Mtime, ctime: st.Ctime, btime: st.Btime,
	}
}

// beginChange announces a change to an object, and reports whether endChange must follow.
func (a *attrCache) beginChange(of inode) bool {
	if a.users.Load() == 0 {
		return false
	}
	a.addChange(of, 1)
	return true
}

// endChange completes a change; begun is beginChange's result.
func (a *attrCache) endChange(of inode, begun bool) {
	if begun {
		a.addChange(of, -1)
	} else {
		a.noteChanged(of)
	}
}

// noteChanged says that an object has changed.
func (a *attrCache) noteChanged(of inode) {
	if a.users.Load() > 0 {
		a.addChange(of, 0)
	}
}

// noteRead says that an object was read, which may change its access time.
func (a *attrCache) noteRead(of inode) {
	if a.users.Load() > 0 {
		s, p := a.lockSlot(of)
		defer p.mu.Unlock()
		s.noteLocked(a, 0)
	}
}

func (a *attrCache) addChange(of inode, more int32) {
	s, p := a.lockSlot(of)
	defer p.mu.Unlock()
	s.noteLocked(a, more)
	s.renamed = s.changed
}

// noteLocked drops what is known. The page is locked.
func (s *attrSlot) noteLocked(a *attrCache, more int32) {
	s.changing += more
	s.known = s.validAfter && s.changing == 0 && s.changed <= s.looked
	s.validAfter = s.validAfter && more == 0
	s.changed = a.clock.Add(1)
}

// isUnchanged reports whether an object has had no changes since, apart from those in progress.
func (a *attrCache) isUnchanged(of inode, since uint64, underWay int32) bool {
	s, p := a.lockSlot(of)
	defer p.mu.Unlock()
	return s.changing == underWay && s.renamed <= since && a.floor.Load() <= since
}

// addUser adds a user. Changes from before were not noted.
func (a *attrCache) addUser() {
	a.users.Add(1)
	a.forgetAll()
}

// forgetAll says that any object may have changed.
func (a *attrCache) forgetAll() {
	now := a.clock.Add(1)
	for at := a.floor.Load(); at < now && !a.floor.CompareAndSwap(at, now); at = a.floor.Load() {
	}
}

// SetExclusive says whether only this process changes the directory. If so, the FS keeps attributes
// for some seconds, unless another host could change the files. The promise covers the whole
// directory; changes through other FS in the process are noticed.
func (f *FS) SetExclusive(promised bool) {
	if promised = promised && f.traits.attrs; f.exclusive.Load() == promised {
		return
	}
	if promised {
		attrs.addUser() // before f gets attributes from an earlier promise
	}
	if was := f.exclusive.Swap(promised); was {
		attrs.users.Add(-1)
	}
}

// idOf returns an object's identity.
func (f *FS) idOf(ino uint64) inode { return inode{f.dev, ino} }

// cachedStat is statOrStale from cached attributes, if there are any.
func (f *FS) cachedStat(ino uint64, st *unix.Statx_t) bool {
	st.Mnt_id = f.rootStat.Mnt_id
	return f.exclusive.Load() && attrs.getAttr(f.idOf(ino), st)
}

// cacheAttr keeps attributes that were read after looked.
func (f *FS) cacheAttr(st *unix.Statx_t, looked uint64) {
	if f.exclusive.Load() && f.isExported(st) {
		attrs.putAttr(st, looked)
	}
}

// cacheAttrAfter is cacheAttr for an object whose change is in progress, after its system calls.
func (f *FS) cacheAttrAfter(o *object, st *unix.Statx_t, looked uint64) {
	if o.changeBegun && f.exclusive.Load() {
		attrs.putAttrAfter(st, looked)
	}
}

// noteRead says that an object was read, which may move its access time.
func (f *FS) noteRead(o *object) { attrs.noteRead(f.idOf(o.ino)) }

// beginChange locks o.wcc for a change to o, and sets st to the attributes before it. endChange
// must follow, unless there is an error.
func (f *FS) beginChange(o *object, st *unix.Statx_t) error {
	o.wcc.Lock()
	if err := f.statOrStale(o, st); err != nil {
		o.wcc.Unlock()
		return err
	}
	o.changeBegun = attrs.beginChange(f.idOf(o.ino))
	return nil
}

func (f *FS) endChange(o *object) {
	attrs.endChange(f.idOf(o.ino), o.changeBegun)
	o.wcc.Unlock()
}

// forgetMade notes that a new object, open as fd, may have been seen before a later change,
// although its creation failed.
func (f *FS) forgetMade(fd int) {
	var st unix.Statx_t
	if statFD(fd, &st) == nil {
		attrs.noteChanged(f.idOf(st.Ino))
	}
}

// beginChanges begins changes to a and b, which may be the same object and whose wcc locks are
// held. It returns the function that completes them.
func (f *FS) beginChanges(a, b *object) (end func()) {
	a.changeBegun = attrs.beginChange(f.idOf(a.ino))
	if b != a {
		b.changeBegun = attrs.beginChange(f.idOf(b.ino))
	}
	return func() {
		attrs.endChange(f.idOf(a.ino), a.changeBegun)
		if b != a {
			attrs.endChange(f.idOf(b.ino), b.changeBegun)
		}
	}
}

// beginNamed announces a change to a named object.
func (f *FS) beginNamed(n *namedObject) {
	if n.st.Ino != 0 {
		n.changeBegun = attrs.beginChange(f.idOf(n.st.Ino))
	}
}

func (f *FS) endNamed(n *namedObject) {
	if n.st.Ino != 0 {
		attrs.endChange(f.idOf(n.st.Ino), n.changeBegun)
	}
}

// checkNamed follows a name change in a and b, which may be the same object and whose changes are
// in progress. If another FS may have changed names there since they were looked up, then the
// objects that were announced may not be those that the kernel has changed.
func (f *FS) checkNamed(a, b *object, since uint64) {
	if attrs.users.Load() > 0 && !(f.isOnlyChange(a, since) && f.isOnlyChange(b, since)) {
		attrs.forgetAll()
	}
}

// isOnlyChange reports whether only the change in progress has changed o since.
func (f *FS) isOnlyChange(o *object, since uint64) bool {
	return o.changeBegun && attrs.isUnchanged(f.idOf(o.ino), since, 1)
}
