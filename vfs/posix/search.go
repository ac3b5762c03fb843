//go:build linux

package posix

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// errNowhere means that the object is not in any directory where it was seen.
var errNowhere = errors.New("vfs/posix: object not found where it was last seen")

// findObject opens an entry's object. found is its place if the entry does not have it.
func (r *resolver) findObject(e *handletable.Entry) (fd int, found handletable.Place, err error) {
	dirs, err := r.openDirs(e)
	defer func() {
		for _, d := range dirs {
			r.fs.putObject(d)
		}
	}()
	if err == nil {
		err = errNowhere
	}
	for _, p := range e.Places {
		d := dirs[p.Dir]
		if d == nil || p.Name == "" {
			continue
		}
		fd, terr := r.tryName(d, p.Name, e, false)
		if terr == nil {
			return fd, handletable.Place{}, nil
		}
		err = worseError(err, terr)
	}
	for _, d := range dirs {
		if r.noSearch || e.Link {
			break
		}
		fd, name, serr := r.searchDir(d, e)
		if serr == nil {
			return fd, handletable.Place{Dir: d.ino, Name: name}, nil
		}
		err = worseError(err, serr)
	}
	return -1, handletable.Place{}, err
}

// worseError combines errors: it keeps an error other than the object's absence at
// one place.
func worseError(err, more error) error {
	switch more {
	case unix.ENOENT, unix.ENOTDIR:
		return err
	}
	if err == errNowhere {
		return more
	}
	return err
}

// openDirs opens as many directories in an entry's places as it can.
func (r *resolver) openDirs(e *handletable.Entry) (dirs map[uint64]*object, err error) {
	dirs = make(map[uint64]*object, 1)
	for _, p := range e.Places {
		if dirs[p.Dir] != nil {
			continue
		}
		d, derr := r.openDir(p.Dir)
		if derr != nil {
			err = derr
			continue
		}
		dirs[p.Dir] = d
	}
	return dirs, err
}

// openDir returns the directory with an inode number.
func (r *resolver) openDir(ino uint64) (*object, error) {
	id := r.id
	if ino != id.Ino {
		r.table.Lock()
		e, ok, err := r.table.Get(ino)
		r.table.Unlock()
		if err != nil {
			return nil, err
		}
		if !ok || e.IsStale() {
			return nil, unix.ESTALE
		}
		id = e.ID
	}
	h := tableHandle(&id) // directories have no links
	if o := r.fs.cache.getObject(h); o != nil {
		return o, nil
	}
	fd, err := r.openID(id)
	if err != nil {
		return nil, err
	}
	return r.fs.adoptExported(h, fd)
}

// tryName opens name in d if it is the object, or returns ENOENT. If the name was not
// known to be the object's, try is exact about directories too, see isObject.
func (r *resolver) tryName(d *object, name string, e *handletable.Entry, exact bool) (int, error) {
	fd, err := openPath(d.fd, name)
	if err != nil {
		return -1, err
	}
	if err := r.checkIdentity(fd, e, exact); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

func (r *resolver) checkIdentity(fd int, e *handletable.Entry, exact bool) error {
	var st unix.Statx_t
	if err := statFD(fd, &st); err != nil {
		return err
	}
	birth, err := r.birthOf(fd, &st)
	id := handletable.Identity{Ino: st.Ino, Birth: birth}
	if err == nil && id != e.CurrentIdentity() && (exact || !r.isObject(e, id, &st)) {
		err = unix.ENOENT
	}
	return err
}

// searchDir reads d to find the object, and also returns its name.
func (r *resolver) searchDir(d *object, e *handletable.Entry) (fd int, name string, err error) {
	r.absent.acquireSlot()
	defer r.absent.releaseSlot()
	dir, err := r.fs.reopenFD(d.fd, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, "", err
	}
	defer closeFD(dir)
	buf := dirBufs.Get().(*dirBuf)
	defer dirBufs.Put(buf)
	for {
		n, err := getdents(dir, buf.b[:])
		r.fs.noteRead(d)
		if err != nil {
			return -1, "", err
		}
		if n == 0 {
			return -1, "", unix.ENOENT
		}
		for ents := buf.b[:n]; len(ents) > 0; {
			var ent dirent
			ent, ents = nextDirent(ents)
			if name := string(ent.nameBytes()); ent.ino == e.CurrentIdentity().Ino && !isDots(name) {
				if fd, err := r.tryName(d, name, e, true); err == nil {
					return fd, name, nil
				}
			}
		}
	}
}
