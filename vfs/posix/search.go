//go:build linux

package posix

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errNowhere means that the object is in none of the directories in which it
// was seen.
var errNowhere = errors.New("vfs/posix: object is nowhere")

// find opens the object of an entry. found is the place of the object if the
// entry does not have it.
func (r *resolver) find(e *entry) (fd int, found place, err error) {
	dirs, err := r.directories(e)
	defer func() {
		for _, d := range dirs {
			r.fs.put(d)
		}
	}()
	if err == nil {
		err = errNowhere
	}
	for _, p := range e.places {
		d := dirs[p.dir]
		if d == nil || p.name == "" {
			continue
		}
		fd, terr := r.try(d, p.name, e)
		if terr == nil {
			return fd, place{}, nil
		}
		err = worse(err, terr)
	}
	for _, d := range dirs {
		if r.blind {
			break
		}
		fd, name, serr := r.search(d, e)
		if serr == nil {
			return fd, place{d.ino, name}, nil
		}
		err = worse(err, serr)
	}
	return -1, place{}, err
}

// worse combines errors: it keeps an error other than the object's absence at
// one place.
func worse(err, more error) error {
	switch more {
	case unix.ENOENT, unix.ENOTDIR:
		return err
	}
	if err == errNowhere {
		return more
	}
	return err
}

// directories opens the directories of an entry's places, as many as it can.
func (r *resolver) directories(e *entry) (dirs map[uint64]*object, err error) {
	dirs = make(map[uint64]*object, 1)
	for _, p := range e.places {
		if dirs[p.dir] != nil {
			continue
		}
		d, derr := r.directory(p.dir)
		if derr != nil {
			err = derr
			continue
		}
		dirs[p.dir] = d
	}
	return dirs, err
}

// directory returns the directory with an inode number.
func (r *resolver) directory(ino uint64) (*object, error) {
	id := r.id
	if ino != id.ino {
		r.table.mu.Lock()
		e, ok, err := r.table.get(ino)
		r.table.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if !ok || e.gone() {
			return nil, unix.ESTALE
		}
		id = e.tableID
	}
	h := id.handle()
	if o := r.fs.cache.get(h); o != nil {
		return o, nil
	}
	fd, err := r.open(id)
	if err != nil {
		return nil, err
	}
	return r.fs.adoptExported(h, fd)
}

// try opens name in d if it is the object, or returns ENOENT.
func (r *resolver) try(d *object, name string, e *entry) (int, error) {
	fd, err := openPath(d.fd, name)
	if err != nil {
		return -1, err
	}
	if err := r.check(fd, e); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

func (r *resolver) check(fd int, e *entry) error {
	var st unix.Statx_t
	if err := statFD(fd, &st); err != nil {
		return err
	}
	if st.Ino != e.ino {
		return unix.ENOENT
	}
	birth, err := r.birth(fd, &st)
	if err == nil && birth != e.birth {
		err = unix.ENOENT
	}
	return err
}

// search reads d to find the object, and also returns its name.
func (r *resolver) search(d *object, e *entry) (fd int, name string, err error) {
	r.absent.searching()
	defer r.absent.searched()
	dir, err := r.fs.reopen(d.fd, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, "", err
	}
	defer closeFD(dir)
	buf := dirBufs.Get().(*dirBuf)
	defer dirBufs.Put(buf)
	for {
		n, err := getdents(dir, buf.b[:])
		r.fs.touched(d)
		if err != nil {
			return -1, "", err
		}
		if n == 0 {
			return -1, "", unix.ENOENT
		}
		for ents := buf.b[:n]; len(ents) > 0; {
			var ent dirent
			ent, ents = nextDirent(ents)
			if name := string(ent.name()); ent.ino == e.ino && !isDots(name) {
				if fd, err := r.try(d, name, e); err == nil {
					return fd, name, nil
				}
			}
		}
	}
}
