//go:build linux

package posix

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// tableHandles are handles that the table maps to names.
type tableHandles struct {
	fs    *FS
	table *table
	id    tableID // of the root
	// numbers reports whether the kernel returns handles, which contain the
	// inode's generation number. The process may be unable to open them.
	numbers bool
	// blind marks a file system that identifies objects by inode numbers only.
	// Another process may remove a file and make a new one with the same
	// number. An object is therefore accepted only under its recorded name.
	blind bool

	absent *absent
}

func newTableHandles(f *FS, stateDir string) (*tableHandles, error) {
	t := &tableHandles{fs: f, absent: newAbsent()}
	var k kernelHandle
	t.numbers = f.kept && k.of(f.mount) == nil
	if !t.numbers && f.rootStat.Mask&unix.STATX_BTIME == 0 {
		if f.kept {
			return nil, errors.New("the file system has neither birth times nor generations, and so a new file looks like a removed one")
		}
		t.blind = true
		f.log.Warn("the file system has neither birth times nor generations: after a rename by another program clients' handles are stale, or mean a new file of the same name and inode number")
	}
	birth, err := t.birth(f.mount, &f.rootStat)
	if err != nil {
		return nil, err
	}
	t.id = tableID{ino: f.rootStat.Ino, birth: birth, home: f.rootStat.Ino}
	t.table, err = openTable(stateDir, t.id, f.log)
	return t, err
}

func (t *tableHandles) root() vfs.Handle { return t.id.handle() }

func (t *tableHandles) close() error { return errors.Join(t.ready(), t.table.close()) }

// handle returns the handle of id: kind and id, well within vfs.MaxHandle.
func (id *tableID) handle() vfs.Handle {
	var room [1 + tableIDLen]byte
	h, _ := vfs.NewHandle(id.appendTo(append(room[:0], kindTable)))
	return h
}

// birth digests the data that distinguish successive objects with the same
// inode number: the birth time and, if available, the generation. Clocks of
// file systems advance in steps of milliseconds.
func (t *tableHandles) birth(fd int, st *unix.Statx_t) (uint64, error) {
	var k kernelHandle
	if t.numbers {
		if err := k.of(fd); err != nil {
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

func (t *tableHandles) of(fd int, st *unix.Statx_t, dir uint64, name []byte) (vfs.Handle, error) {
	if t.fs.isRoot(st) {
		return t.root(), nil
	}
	birth, err := t.birth(fd, st)
	if err != nil {
		return vfs.Handle{}, err
	}
	t.table.mu.Lock()
	defer t.table.mu.Unlock()
	e, ok, err := t.table.get(st.Ino)
	if err != nil {
		return vfs.Handle{}, err
	}
	p := place{dir, string(name)}
	switch {
	case !ok || e.birth != birth:
		e = entry{tableID: tableID{ino: st.Ino, birth: birth, home: dir}}
	case e.dead: // another object, born in the same instant
		e = entry{tableID: tableID{ino: st.Ino, birth: birth, home: dir, gen: e.gen + 1}}
	case slices.Contains(e.places, p):
		return e.handle(), nil
	case st.Nlink == 1 || typeOf(st.Mode) == vfs.TypeDir:
		e.places = nil
	}
	e.add(p)
	t.absent.forget(e.tableID)
	return e.handle(), t.table.put(&e)
}

func (t *tableHandles) seen(uint64, unix.StatxTimestamp) (vfs.Handle, bool) {
	return vfs.Handle{}, false // the name must be recorded
}

func (t *tableHandles) ofDir(fd int, st *unix.Statx_t, in *object) (vfs.Handle, error) {
	birth, err := t.birth(fd, st)
	if err != nil {
		return vfs.Handle{}, err
	}
	r := resolver{tableHandles: t}
	e, _, err := r.lookUp(tableID{ino: st.Ino, birth: birth, home: in.ino})
	if err == nil && e.places[0].name != "" {
		return e.handle(), nil
	}
	found, name, err := r.search(in, &entry{tableID: tableID{ino: st.Ino, birth: birth}})
	if err != nil {
		return vfs.Handle{}, err
	}
	closeFD(found)
	h, err := t.of(fd, st, in.ino, []byte(name))
	if err != nil {
		return h, err
	}
	return h, t.keep(st.Ino)
}

func (t *tableHandles) keep(ino uint64) error {
	err := t.write(ino)
	if t.kept(ino) { // a full disk is no reason to refuse a known object
		err = nil
	}
	return err
}

func (t *tableHandles) kept(ino uint64) bool {
	t.table.mu.Lock()
	defer t.table.mu.Unlock()
	return !t.table.fresh[ino]
}

func (t *tableHandles) ready() error {
	t.table.mu.Lock()
	defer t.table.mu.Unlock()
	return t.table.flush()
}

// moving puts the new name on stable storage before the file system has it.
// moved may be recorded later.
func (t *tableHandles) moving(fd int, st *unix.Statx_t, to place) error {
	if _, err := t.change(fd, st, func(e *entry) { e.add(to) }); err != nil {
		return err
	}
	if err := t.write(st.Ino); err != nil {
		return err
	}
	return t.table.sync()
}

// write writes the table's record of an inode, if it is not on file.
func (t *tableHandles) write(ino uint64) error {
	t.table.mu.Lock()
	defer t.table.mu.Unlock()
	if !t.table.unwritten(ino) {
		return nil
	}
	return t.table.flush()
}

func (t *tableHandles) moved(fd int, st *unix.Statx_t, not place) {
	_, err := t.change(fd, st, func(e *entry) { e.dropButLast(not) })
	t.changed(err)
}

func (t *tableHandles) removed(fd int, st *unix.Statx_t, not place) (vfs.Handle, error) {
	h, err := t.change(fd, st, func(e *entry) {
		e.dead = st.Nlink == 0
		e.dropButLast(not)
	})
	t.changed(err)
	return h, nil
}

// changed handles the result of recording a change that the file system has
// already made; no error reaches the client. If the record cannot be written
// now, the next tick writes it or logs the failure. If the table could not
// record the change, a later lookup finds out.
func (t *tableHandles) changed(err error) {
	if err == nil {
		_ = t.ready()
		return
	}
	t.fs.log.Warn("handle table does not know of a change", "err", err)
}

// change changes the entry of an object, if handles for it were given out.
// flush then writes the entry.
func (t *tableHandles) change(fd int, st *unix.Statx_t, fn func(*entry)) (h vfs.Handle, err error) {
	birth, err := t.birth(fd, st)
	if err != nil {
		return h, err
	}
	t.table.mu.Lock()
	defer t.table.mu.Unlock()
	e, ok, err := t.table.get(st.Ino)
	if err != nil || !ok || e.birth != birth || e.dead {
		return h, err
	}
	fn(&e)
	return e.handle(), t.table.put(&e)
}
