//go:build linux

package posix

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// An attrCache keeps attributes of objects that only this process changes, those of
// FS with SetExclusive, for attrTime: two attributes may change all the same, the
// access time by processes that read, and the storage used by writeback.
//
//	look:    now ─▶ statx ─▶ put, unless a change has begun or ended since now
//	change:  begin ─▶ the kernel's calls ─▶ end
//
// Each object maps to one slot. All FS of the process use one attrCache, because
// several may serve an object. Each knows only what it has read by its own mount: another
// may map the owners, or show a snapshot. While none uses it, all this costs one load.
type attrCache struct {
	users  atomic.Int32  // FS with SetExclusive
	clock  atomic.Uint64 // counts changes
	floor  atomic.Uint64 // what was put before is not valid: changes were not told
	pages  [attrPages]attrPage
	maxAge time.Duration
}

type attrPage struct {
	mu    sync.Mutex
	slots []attrSlot // nil until used
}

// An attrSlot holds the attributes of one object. Changes of any object that maps to
// the slot count.
type attrSlot struct {
	of       inode
	mount    uint64 // by which the attributes were read
	known    bool
	after    bool          // the attributes are known when the last change ends
	changing int32         // changes under way
	changed  uint64        // clock at the last begin, end or read
	renamed  uint64        // clock at the last begin or end
	looked   uint64        // clock before the attributes were read
	at       time.Duration // when they were
	st       seenAttr
}

// A seenAttr is what the package uses of struct statx. The device and the mount are in
// the key.
type seenAttr struct {
	mask, nlink, uid, gid, rdevMajor, rdevMinor uint32
	mode                                        uint16
	size, blocks                                uint64
	atime, mtime, ctime, btime                  unix.StatxTimestamp
}

// attrs are the attributes of all FS of the process.
var attrs = attrCache{maxAge: attrTime}

var started = time.Now()

// now returns the time to give to put.
func (a *attrCache) now() uint64 { return a.clock.Load() }

// slot returns the slot of an object, locked with its page.
func (a *attrCache) slot(of inode) (*attrSlot, *attrPage) {
	i := (of.ino + of.dev*0x9e3779b97f4a7c15) % (attrPages * attrSlots)
	p := &a.pages[i/attrSlots]
	p.mu.Lock()
	if p.slots == nil {
		p.slots = make([]attrSlot, attrSlots)
	}
	return &p.slots[i%attrSlots], p
}

// get sets st to the attributes of an object, if they are known by the mount in st.
func (a *attrCache) get(of inode, st *unix.Statx_t) bool {
	s, p := a.slot(of)
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

// put keeps attributes that were read after looked, unless the object has been
// changed since. The number of an object without a name may soon be another's.
func (a *attrCache) put(st *unix.Statx_t, looked uint64) {
	s, p := a.slot(inodeOf(st))
	defer p.mu.Unlock()
	if s.changing == 0 && s.changed <= looked && st.Nlink > 0 {
		s.keep(st, looked)
		s.known = true
	}
}

// putAfter is put for the one who changes the object, and makes no more calls: others
// may get the attributes when the change has ended.
func (a *attrCache) putAfter(st *unix.Statx_t, looked uint64) {
	s, p := a.slot(inodeOf(st))
	defer p.mu.Unlock()
	if s.changing == 1 && s.changed <= looked && st.Nlink > 0 {
		s.keep(st, looked)
		s.after = true
	}
}

func (s *attrSlot) keep(st *unix.Statx_t, looked uint64) {
	s.of, s.mount, s.looked, s.at = inodeOf(st), st.Mnt_id, looked, time.Since(started)
	s.st = seenAttr{
		mask: st.Mask, nlink: st.Nlink, uid: st.Uid, gid: st.Gid, mode: st.Mode,
		rdevMajor: st.Rdev_major, rdevMinor: st.Rdev_minor, size: st.Size, blocks: st.Blocks,
		atime: st.Atime, mtime: st.Mtime, ctime: st.Ctime, btime: st.Btime,
	}
}

// begin announces a change of an object, and reports whether end must follow.
func (a *attrCache) begin(of inode) bool {
	if a.users.Load() == 0 {
		return false
	}
	a.note(of, 1)
	return true
}

// end ends a change, of which begun is what begin has returned.
func (a *attrCache) end(of inode, begun bool) {
	if begun {
		a.note(of, -1)
	} else {
		a.forget(of)
	}
}

// forget says that an object has changed.
func (a *attrCache) forget(of inode) {
	if a.users.Load() > 0 {
		a.note(of, 0)
	}
}

// read says that an object was read, which may change its access time.
func (a *attrCache) read(of inode) {
	if a.users.Load() > 0 {
		s, p := a.slot(of)
		defer p.mu.Unlock()
		s.noteLocked(a, 0)
	}
}

func (a *attrCache) note(of inode, more int32) {
	s, p := a.slot(of)
	defer p.mu.Unlock()
	s.noteLocked(a, more)
	s.renamed = s.changed
}

// noteLocked drops what is known. The page is locked.
func (s *attrSlot) noteLocked(a *attrCache, more int32) {
	s.changing += more
	s.known = s.after && s.changing == 0 && s.changed <= s.looked
	s.after = s.after && more == 0
	s.changed = a.clock.Add(1)
}

// same reports whether an object has had no changes since, but for those under way.
func (a *attrCache) same(of inode, since uint64, underWay int32) bool {
	s, p := a.slot(of)
	defer p.mu.Unlock()
	return s.changing == underWay && s.renamed <= since && a.floor.Load() <= since
}

// use adds a user. Changes from before were not noted.
func (a *attrCache) use() {
	a.users.Add(1)
	a.forgetAll()
}

// forgetAll says that any object may have changed.
func (a *attrCache) forgetAll() {
	now := a.clock.Add(1)
	for at := a.floor.Load(); at < now && !a.floor.CompareAndSwap(at, now); at = a.floor.Load() {
	}
}

// SetExclusive says whether only this process changes the directory. If so, the FS
// keeps attributes for some seconds, unless another host could change the files.
// The promise covers all of the directory; what other FS of the process do is noticed.
func (f *FS) SetExclusive(promised bool) {
	if promised = promised && f.local; f.sole.Load() == promised {
		return
	}
	if promised {
		attrs.use() // before f gets attributes from an earlier promise
	}
	if was := f.sole.Swap(promised); was {
		attrs.users.Add(-1)
	}
}

// idOf returns the identity of an object of f.
func (f *FS) idOf(ino uint64) inode { return inode{f.dev, ino} }

// seenStat is the stat of an object whose attributes are known.
func (f *FS) seenStat(ino uint64, st *unix.Statx_t) bool {
	st.Mnt_id = f.rootStat.Mnt_id
	return f.sole.Load() && attrs.get(f.idOf(ino), st)
}

// see keeps attributes that were read after looked.
func (f *FS) see(st *unix.Statx_t, looked uint64) {
	if f.sole.Load() && f.exported(st) {
		attrs.put(st, looked)
	}
}

// seeAfter is see for an object whose change is under way, and makes no more calls.
func (f *FS) seeAfter(o *object, st *unix.Statx_t, looked uint64) {
	if o.begun && f.sole.Load() {
		attrs.putAfter(st, looked)
	}
}

// touched says that an object was read, which may move its access time.
func (f *FS) touched(o *object) { attrs.read(f.idOf(o.ino)) }

// beginChange takes o.wcc for a change of o, and sets st to the attributes before it.
// endChange must follow, unless there is an error.
func (f *FS) beginChange(o *object, st *unix.Statx_t) error {
	o.wcc.Lock()
	if err := f.stat(o, st); err != nil {
		o.wcc.Unlock()
		return err
	}
	o.begun = attrs.begin(f.idOf(o.ino))
	return nil
}

func (f *FS) endChange(o *object) {
	attrs.end(f.idOf(o.ino), o.begun)
	o.wcc.Unlock()
}

// forgetMade says that a new object, of which fd is a descriptor, may have been seen
// before a change that followed, although the making has failed.
func (f *FS) forgetMade(fd int) {
	var st unix.Statx_t
	if statFD(fd, &st) == nil {
		attrs.forget(f.idOf(st.Ino))
	}
}

// announce begins changes of a and b, which may be the same object and whose wcc locks
// are held. It returns the function that ends the changes.
func (f *FS) announce(a, b *object) (end func()) {
	a.begun = attrs.begin(f.idOf(a.ino))
	if b != a {
		b.begun = attrs.begin(f.idOf(b.ino))
	}
	return func() {
		attrs.end(f.idOf(a.ino), a.begun)
		if b != a {
			attrs.end(f.idOf(b.ino), b.begun)
		}
	}
}

// beginNamed announces a change of the object behind a name.
func (f *FS) beginNamed(n *named) {
	if n.st.Ino != 0 {
		n.begun = attrs.begin(f.idOf(n.st.Ino))
	}
}

func (f *FS) endNamed(n *named) {
	if n.st.Ino != 0 {
		attrs.end(f.idOf(n.st.Ino), n.begun)
	}
}

// checkNamed follows a change of names in a and b, which may be the same object and whose
// changes are under way. If another FS may have changed names there since they were looked
// up, then the objects that were announced may not be those that the kernel has changed.
func (f *FS) checkNamed(a, b *object, since uint64) {
	if attrs.users.Load() > 0 && !(f.alone(a, since) && f.alone(b, since)) {
		attrs.forgetAll()
	}
}

// alone reports whether only the change of o that is under way has changed it since.
func (f *FS) alone(o *object, since uint64) bool {
	return o.begun && attrs.same(f.idOf(o.ino), since, 1)
}
