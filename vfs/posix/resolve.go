//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

func (t *tableHandles) openHandle(h vfs.Handle) (int, error) {
	var mem [vfs.MaxHandle]byte
	b := h.AppendTo(mem[:0])
	switch {
	case len(b) > kernelHandleHead && b[0] == kindKernel:
		return -1, unix.ESTALE // from a time when the daemon was root
	case len(b) != 1+handletable.IDLen || b[0] != kindTable && b[0] != kindLink:
		return -1, vfs.ErrBadHandle
	}
	r := resolver{t, make(map[uint64]bool)}
	return r.openID(handletable.ParseID(b[1:]))
}

// A resolver opens one object, and the directories above it as needed.
type resolver struct {
	*tableHandles
	visited map[uint64]bool // by inode: moves by other processes may leave cycles in the table
}

// openID finds id's object at a place in the table, or otherwise by reading those places'
// directories once. If both fail, the object was removed, and the table records that until the
// object is seen again.
func (r *resolver) openID(id handletable.ID) (int, error) {
	if r.visited[id.Ino] || len(r.visited) >= maxDepth {
		return -1, unix.ESTALE
	}
	r.visited[id.Ino] = true
	if id == r.id {
		return openPath(r.fs.mount, ".")
	}
	for {
		e, version, err := r.lookUp(id)
		if err != nil {
			return -1, err
		}
		fd, found, err := r.findObject(&e)
		switch {
		case err == nil && found.Name != "":
			e.DropPlace(handletable.Place{Dir: id.Home})
			e.AddPlace(found)
			if _, err := r.table.Replace(&e, version); err != nil {
				r.fs.log.Warn("cannot correct an entry in the handle table", "err", err)
			}
			return fd, nil
		case err != errNowhere:
			return fd, err
		case version == handletable.Unknown:
			r.absent.addID(id)
			return -1, unix.ESTALE
		}
		e.Places = nil
		switch same, err := r.table.Replace(&e, version); {
		case same: // even if writing to the disk failed
			return -1, unix.ESTALE
		case err != nil:
			return -1, err
		}
		// The object moved during the search.
	}
}

// lookUp returns an object's table entry and its version. If the table has none, lookUp creates one
// from the handle, which names the directory to search. It returns ESTALE if the object has gone.
func (r *resolver) lookUp(id handletable.ID) (e handletable.Entry, version int64, err error) {
	r.table.Lock()
	defer r.table.Unlock()
	e, ok, err := r.table.Get(id.Ino)
	switch {
	case err != nil:
		return e, 0, err
	case (!ok || e.Birth != id.Birth) && r.absent.isAbsent(id):
		return e, 0, unix.ESTALE
	case !ok || e.Birth != id.Birth:
		return handletable.Entry{ID: id, Places: []handletable.Place{{Dir: id.Home}}}, handletable.Unknown, nil
	case e.Gen != id.Gen || e.IsStale():
		return e, 0, unix.ESTALE
	}
	return e, r.table.Version(id.Ino), nil
}
