//go:build linux

package posix

import (
	"encoding/binary"
	"hash/fnv"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// On overlayfs, the first change to a lower-layer object copies it to the upper layer. From then on
// the open object and its handle must lead to the copy, although it has another birth time. If the
// object has several names, the copy has another inode number too and the other names still lead to
// the original: to a local process, they become two files. So each such name has a handle of its
// own, and no key. Its file ID remains the original's as long as the handle is used, because
// clients reject a handle with a changing one; the next lookup finds the copy under a new handle.

// A copyUpIdentity is an object's identity from statx(2).
type copyUpIdentity struct {
	ino   uint64
	birth unix.StatxTimestamp
}

// noteCopyUp records that a copy-up has changed o's identity; st are its attributes.
func (f *FS) noteCopyUp(o *object, st *unix.Statx_t) {
	was := o.copiedUp.Load()
	if was == nil || was.ino == st.Ino && was.birth == st.Btime {
		return
	}
	if o.copiedUp.CompareAndSwap(was, &copyUpIdentity{st.Ino, st.Btime}) {
		now := *st // so that st stays on the stack in all other calls
		f.handles.noteCopyUp(o.h, o.fd, &now)
	}
}

// canPartNames reports whether an object's names may part and lead to several objects.
func (f *FS) canPartNames(st *unix.Statx_t) bool {
	return !f.traits.links && st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

// isObject reports whether an object with an identity and attributes is e's. A lower-layer
// directory is copied up with anything below it, unnoticed: its number must do. Overlayfs reports
// one link for a directory that is in both layers, and no other can have its number. A directory
// that is only in the upper layer may have a removed one's. It has two links, or is on a file
// system that never reuses a number (Btrfs).
func (t *tableHandles) isObject(e *handletable.Entry, id handletable.Identity, st *unix.Statx_t) bool {
	is := e.CurrentIdentity()
	return is == id || t.fs.traits.copiesUp && is.Ino == id.Ino && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Nlink == 1
}

// noticeBefore notes the copy-up of the object in use that the table has under an identity's
// number, so that it keeps its handle.
func (t *tableHandles) noticeBefore(id handletable.Identity, st *unix.Statx_t) {
	if !t.fs.traits.copiesUp {
		return
	}
	t.table.Lock()
	e, ok, err := t.table.Get(st.Ino)
	t.table.Unlock()
	if err != nil || !ok || e.IsStale() || t.isObject(&e, id, st) {
		return
	}
	if o := t.fs.cache.getObject(entryHandle(&e)); o != nil {
		defer t.fs.putObject(o)
		var now unix.Statx_t
		_ = t.fs.statOrStale(o, &now)
	}
}

// noteCopyUp records an object's identity after a copy-up.
func (t *tableHandles) noteCopyUp(h vfs.Handle, fd int, st *unix.Statx_t) {
	if h == t.rootHandle() {
		return
	}
	birth, err := t.birthOf(fd, st)
	if err == nil {
		err = t.setIdentity(idOf(h), handletable.Identity{Ino: st.Ino, Birth: birth})
	}
	t.logFailure(err)
}

func (t *tableHandles) setIdentity(id handletable.ID, now handletable.Identity) error {
	t.table.Lock()
	defer t.table.Unlock()
	e, ok, err := t.table.Get(id.Ino)
	if err != nil || !ok || e.ID != id || e.IsStale() || e.CurrentIdentity() == now {
		return err
	}
	e.SetIdentity(now)
	return t.table.Put(&e)
}

// nowOf returns the identity of the object open as fd; st are its earlier attributes.
func (t *tableHandles) nowOf(fd int, st *unix.Statx_t) (id handletable.Identity, err error) {
	now := *st
	if t.fs.traits.copiesUp {
		err = statFD(fd, &now)
	}
	if err == nil {
		id.Ino = now.Ino
		id.Birth, err = t.birthOf(fd, &now)
	}
	return id, err
}

// linkID returns the n-th ID for one name of a hard-linked object. Its number is a digest, and its
// home is the object's number.
func linkID(id handletable.Identity, p handletable.Place, n int) handletable.ID {
	d := fnv.New64a()
	var b [32]byte
	binary.BigEndian.PutUint64(b[:], id.Ino)
	binary.BigEndian.PutUint64(b[8:], id.Birth)
	binary.BigEndian.PutUint64(b[16:], p.Dir)
	binary.BigEndian.PutUint64(b[24:], uint64(n))
	_, _ = d.Write(b[:])
	_, _ = d.Write([]byte(p.Name))
	return handletable.ID{Ino: d.Sum64(), Birth: id.Birth, Home: id.Ino}
}

// linkOf returns the linkID in a handle, if any.
func linkOf(h vfs.Handle) (id handletable.ID, ok bool) {
	var mem [vfs.MaxHandle]byte
	b := h.AppendTo(mem[:0])
	if len(b) != 1+handletable.IDLen || b[0] != kindLink {
		return id, false
	}
	return handletable.ParseID(b[1:]), true
}

// ofLink makes the first handle for one name of a hard-linked object. The table is locked.
func (t *tableHandles) ofLink(id handletable.Identity, p handletable.Place) (vfs.Handle, error) {
	for n := range maxSameLinks {
		next := handletable.Entry{ID: linkID(id, p, n), Link: true, Places: []handletable.Place{p}}
		e, ok, err := t.table.Get(next.Ino)
		if err != nil {
			return vfs.Handle{}, err
		}
		if ok && !e.IsStale() && (n < maxSameLinks-1 || !e.Link) { // a link that has moved, or another object
			continue
		}
		if ok {
			next.Gen = e.Gen + 1
		}
		next.SetIdentity(id)
		t.absent.removeID(next.ID)
		return entryHandle(&next), t.table.Put(&next)
	}
	return vfs.Handle{}, unix.ESTALE // only if eight objects' numbers collide with digests
}

// linkAt returns the entry for one name of a hard-linked object, if any. The table is locked.
func (t *tableHandles) linkAt(id handletable.Identity, p handletable.Place) (handletable.Entry, bool, error) {
	for n := 0; n < maxSameLinks && !t.fs.traits.links; n++ {
		e, ok, err := t.table.Get(linkID(id, p, n).Ino)
		if err != nil {
			return e, false, err
		}
		if ok && e.Link && !e.IsStale() && e.CurrentIdentity() == id && slices.Contains(e.Places, p) {
			return e, true, nil
		}
	}
	return handletable.Entry{}, false, nil
}
