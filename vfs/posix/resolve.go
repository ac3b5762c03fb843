//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func (t *tableHandles) open(h vfs.Handle) (int, error) {
	var room [vfs.MaxHandle]byte
	b := h.AppendTo(room[:0])
	switch {
	case len(b) > kernelHandleHead && b[0] == kindKernel:
		return -1, unix.ESTALE // from a time when the daemon was root
	case len(b) != 1+tableIDLen || b[0] != kindTable:
		return -1, vfs.ErrBadHandle
	}
	r := resolver{t, make(map[uint64]bool)}
	return r.open(parseTableID(b[1:]))
}

// A resolver opens one object, and the directories above it as needed.
type resolver struct {
	*tableHandles
	tried map[uint64]bool // by inode: moves by other processes may leave cycles in the table
}

// open finds the object of id at a place in the table, or otherwise by reading
// the directories of those places once. If both fail, the object has gone, and
// the table records that until the object is seen again.
func (r *resolver) open(id tableID) (int, error) {
	if r.tried[id.ino] || len(r.tried) >= maxDepth {
		return -1, unix.ESTALE
	}
	r.tried[id.ino] = true
	if id == r.id {
		return openPath(r.fs.mount, ".")
	}
	for {
		e, version, err := r.lookUp(id)
		if err != nil {
			return -1, err
		}
		fd, found, err := r.find(&e)
		switch {
		case err == nil && found.name != "":
			e.drop(place{dir: id.home})
			e.add(found)
			if _, err := r.write(&e, version); err != nil {
				r.fs.log.Warn("handle table is not mended", "err", err)
			}
			return fd, nil
		case err != errNowhere:
			return fd, err
		case version == unknown:
			r.absent.add(id)
			return -1, unix.ESTALE
		}
		e.places = nil
		switch same, err := r.write(&e, version); {
		case same: // even if writing to the disk failed
			return -1, unix.ESTALE
		case err != nil:
			return -1, err
		}
		// The object moved during the search.
	}
}

// unknown is the version of an entry that is not in the table.
const unknown = 0

// lookUp returns the table's entry of an object, and its version. If the table
// has none, lookUp makes one from the handle, which names the directory to
// search. It returns ESTALE if the object has gone.
func (r *resolver) lookUp(id tableID) (e entry, version int64, err error) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	e, ok, err := r.table.get(id.ino)
	switch {
	case err != nil:
		return e, 0, err
	case (!ok || e.birth != id.birth) && r.absent.has(id):
		return e, 0, unix.ESTALE
	case !ok || e.birth != id.birth:
		return entry{tableID: id, places: []place{{dir: id.home}}}, unknown, nil
	case e.gen != id.gen || e.gone():
		return e, 0, unix.ESTALE
	}
	return e, r.table.index[id.ino], nil
}

// write puts a corrected entry into the table, if the table's entry is still
// the version that was read.
func (r *resolver) write(e *entry, version int64) (same bool, err error) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	now, ok, err := r.table.get(e.ino)
	if err != nil {
		return false, err
	}
	current := int64(unknown)
	if ok && now.birth == e.birth {
		current = r.table.index[e.ino]
	}
	if current != version {
		return false, nil
	}
	if err := r.table.put(e); err != nil {
		return true, err
	}
	return true, r.table.flush()
}
