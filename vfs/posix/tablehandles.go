//go:build linux

package posix

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// tableHandles are handles that the table maps to names.
type tableHandles struct {
	fs    *FS
	table *handletable.Table
	id    handletable.ID // the root's
	// hasGeneration reports whether the kernel returns handles, which contain the
	// inode's generation number. The process may be unable to open them.
	hasGeneration bool
	// noSearch marks a file system that identifies objects by inode numbers only.
	// Another process may remove a file and make a new one with the same
	// number. An object is therefore accepted only under its recorded name.
	noSearch bool

	absent *absentHandles
}

func newTableHandles(f *FS, o *Options) (*tableHandles, error) {
	t := &tableHandles{fs: f, absent: newAbsentHandles()}
	var k kernelHandle
	t.hasGeneration = f.traits.handles && !f.traits.copiesUp && k.encode(f.mount) == nil
	if !t.hasGeneration && f.rootStat.Mask&unix.STATX_BTIME == 0 {
		if f.traits.handles && !f.traits.copiesUp {
			return nil, errors.New("the file system has neither birth times nor generations, so a new file cannot be distinguished from a removed one")
		}
		t.noSearch = true
		f.log.Warn("the file system has neither birth times nor generations: after a rename by another program clients' handles are stale, or refer to a new file with the same name and inode number")
	}
	birth, err := t.birthOf(f.mount, &f.rootStat)
	if err != nil {
		return nil, err
	}
	t.id = handletable.ID{Ino: f.rootStat.Ino, Birth: birth, Home: f.rootStat.Ino}
	t.table, err = handletable.Open(o.StateDir, t.id, o.MayWriteState, f.log)
	return t, err
}

func (t *tableHandles) rootHandle() vfs.Handle { return tableHandle(&t.id) }

func (t *tableHandles) close() error { return errors.Join(t.table.Flush(), t.table.Close()) }

// tableHandle returns id's handle: kind and id, well within vfs.MaxHandle.
func tableHandle(id *handletable.ID) vfs.Handle { return encodeID(kindTable, id) }

func encodeID(kind byte, id *handletable.ID) vfs.Handle {
	var mem [1 + handletable.IDLen]byte
	h, _ := vfs.NewHandle(id.AppendTo(append(mem[:0], kind)))
	return h
}

// entryHandle returns e's handle.
func entryHandle(e *handletable.Entry) vfs.Handle {
	if e.Link {
		return encodeID(kindLink, &e.ID)
	}
	return tableHandle(&e.ID)
}

// idOf returns the handletable.ID in a handle that the table has given out.
func idOf(h vfs.Handle) handletable.ID {
	var mem [vfs.MaxHandle]byte
	return handletable.ParseID(h.AppendTo(mem[:0])[1:])
}

// birthOf digests the data that distinguish successive objects with the same inode number: the
// birth time and, if available, the generation. File system clocks advance in milliseconds.
func (t *tableHandles) birthOf(fd int, st *unix.Statx_t) (uint64, error) {
	var k kernelHandle
	if t.hasGeneration {
		if err := k.encode(fd); err != nil {
			return 0, err
		}
	}
	d := fnv.New64a()
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], uint64(st.Btime.Sec))
	binary.BigEndian.PutUint32(b[8:], st.Btime.Nsec)
	_, _ = d.Write(b[:])
	_, _ = d.Write(k.b[:k.n])
	return d.Sum64(), nil
}

func (t *tableHandles) handleOf(fd int, st *unix.Statx_t, dir uint64, name []byte) (vfs.Handle, error) {
	return t.handleAt(fd, st, handletable.Place{Dir: dir, Name: string(name)}, t.fs.canPartNames(st))
}

// handleOfLink gives a new name the object's handle: only lower-layer names part.
func (t *tableHandles) handleOfLink(h vfs.Handle, fd int, st *unix.Statx_t, at handletable.Place) (vfs.Handle, error) {
	_, link := linkOf(h)
	return t.handleAt(fd, st, at, link && t.fs.canPartNames(st))
}

// handleAt is handleOf for a name that may part from the object's other names.
func (t *tableHandles) handleAt(fd int, st *unix.Statx_t, p handletable.Place, parts bool) (vfs.Handle, error) {
	if t.fs.isRoot(st) {
		return t.rootHandle(), nil
	}
	birth, err := t.birthOf(fd, st)
	if err != nil {
		return vfs.Handle{}, err
	}
	id := handletable.Identity{Ino: st.Ino, Birth: birth}
	t.noticeBefore(id, st)
	t.table.Lock()
	defer t.table.Unlock()
	e, ok, err := t.table.Get(st.Ino)
	if err != nil {
		return vfs.Handle{}, err
	}
	ok = ok && t.isObject(&e, id, st)
	if ok && !e.Dead && slices.Contains(e.Places, p) {
		return entryHandle(&e), nil
	}
	if link, found, err := t.linkAt(id, p); err != nil || found { // also if no other name is left
		return entryHandle(&link), err
	}
	switch {
	case parts:
		return t.ofLink(id, p)
	case !ok:
		e = handletable.Entry{ID: handletable.ID{Ino: st.Ino, Birth: birth, Home: p.Dir}}
	case e.Dead: // another object, born in the same instant
		e = handletable.Entry{ID: handletable.ID{Ino: st.Ino, Birth: birth, Home: p.Dir, Gen: e.Gen + 1}}
	case st.Nlink == 1 || typeOf(st.Mode) == vfs.TypeDir:
		e.Places = nil
	}
	e.AddPlace(p)
	t.absent.removeID(e.ID)
	return entryHandle(&e), t.table.Put(&e)
}

func (t *tableHandles) knownHandle(uint64, unix.StatxTimestamp) (vfs.Handle, bool) {
	return vfs.Handle{}, false // the name must be recorded
}

func (t *tableHandles) handleOfDir(fd int, st *unix.Statx_t, in *object) (vfs.Handle, error) {
	birth, err := t.birthOf(fd, st)
	if err != nil {
		return vfs.Handle{}, err
	}
	r := resolver{tableHandles: t}
	e, _, err := r.lookUp(handletable.ID{Ino: st.Ino, Birth: birth, Home: in.ino})
	if err == nil && e.Places[0].Name != "" {
		return entryHandle(&e), nil
	}
	found, name, err := r.searchDir(in, &handletable.Entry{ID: handletable.ID{Ino: st.Ino, Birth: birth}})
	if err != nil {
		return vfs.Handle{}, err
	}
	closeFD(found)
	h, err := t.handleOf(fd, st, in.ino, []byte(name))
	if err != nil {
		return h, err
	}
	return h, t.persist(h)
}

func (t *tableHandles) persist(h vfs.Handle) error {
	err := t.table.FlushEntry(idOf(h).Ino)
	if t.isPersistent(h) { // a full disk is no reason to reject a known object
		err = nil
	}
	return err
}

func (t *tableHandles) isPersistent(h vfs.Handle) bool {
	return t.table.IsOnFile(idOf(h).Ino)
}

func (t *tableHandles) persistAll() error { return t.table.Flush() }

// beginMove puts the new name on stable storage before the file system has it. endMove may be
// recorded later.
func (t *tableHandles) beginMove(fd int, st *unix.Statx_t, from, to handletable.Place) error {
	h, err := t.changeEntry(fd, st, from, func(e *handletable.Entry) { e.AddPlace(to) })
	if err == nil && h != (vfs.Handle{}) {
		err = t.table.FlushEntry(idOf(h).Ino)
	}
	if err != nil {
		return err
	}
	return t.table.Sync()
}

func (t *tableHandles) endMove(fd int, st *unix.Statx_t, from, not handletable.Place) {
	now, err := t.nowOf(fd, st)
	if err == nil {
		_, err = t.changeEntry(fd, st, from, func(e *handletable.Entry) {
			e.DropButLast(not)
			e.SetIdentity(now)
		})
	}
	t.logFailure(err)
}

func (t *tableHandles) removeName(fd int, st *unix.Statx_t, not handletable.Place) (vfs.Handle, error) {
	h, err := t.changeEntry(fd, st, not, func(e *handletable.Entry) {
		e.Dead = st.Nlink == 0 || e.Link
		e.DropButLast(not)
	})
	t.logFailure(err)
	return h, nil
}

// logFailure handles the error from recording a change that the file system has already made; the
// client does not see it. If the record cannot be written now, the next tick writes it or logs the
// failure. If the table could not record the change, a later lookup finds out.
func (t *tableHandles) logFailure(err error) {
	if err == nil {
		_ = t.persistAll()
		return
	}
	t.fs.log.Warn("cannot record a change in the handle table", "err", err)
}

// changeEntry changes an object's entry, or the one for its name at a place, if a handle for it was
// returned. Flush then writes the entry.
func (t *tableHandles) changeEntry(fd int, st *unix.Statx_t, at handletable.Place, fn func(*handletable.Entry)) (h vfs.Handle, err error) {
	birth, err := t.birthOf(fd, st)
	if err != nil {
		return h, err
	}
	id := handletable.Identity{Ino: st.Ino, Birth: birth}
	t.table.Lock()
	defer t.table.Unlock()
	e, ok, err := t.table.Get(st.Ino)
	if err == nil && (!ok || !t.isObject(&e, id, st) || e.Dead) {
		e, ok, err = t.linkAt(id, at)
	}
	if err != nil || !ok {
		return h, err
	}
	fn(&e)
	return entryHandle(&e), t.table.Put(&e)
}
