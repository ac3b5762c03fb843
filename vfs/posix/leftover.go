//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A leftover is what the last part of a listing has read from its directory and not
// delivered. Most clients ask for a listing in parts that are smaller than what is
// read at once. Without it, each part would go back in the directory, and read the
// same entries again.
type leftover struct {
	at        int64  // position of the first entry
	b         []byte // entries
	next      int64  // position behind them
	delivered int    // entries of the part
	looked    uint64 // see readDir

	mtime, ctime unix.StatxTimestamp // of the directory, before it was read
}

// from returns the entries from position at on.
func (r *leftover) from(at int64) []byte {
	b := r.b
	for start := r.at; len(b) > 0; {
		if start == at {
			return b
		}
		var d dirent
		d, b = nextDirent(b)
		start = d.off
	}
	return nil
}

// expects returns how many entries the part of a listing that begins at position at can
// be expected to deliver, or 0.
func (fl *file) expects(at int64) int {
	fl.dir.Lock()
	defer fl.dir.Unlock()
	if at == 0 || fl.rest == nil {
		return 0
	}
	return fl.rest.delivered
}

// keep keeps what a part of a listing has left of a directory with attributes st, for the
// next part.
func (f *FS) keep(fl *file, left *leftover, st *unix.Statx_t) {
	fl.dir.Lock()
	defer fl.dir.Unlock()
	r := fl.rest
	if r == nil {
		if f.cache.leftovers.Add(1) > maxLeftovers {
			f.cache.leftovers.Add(-1)
			return
		}
		r = new(leftover)
		fl.rest = r
	}
	b := append(r.b[:0], left.b...)
	*r = *left
	r.b, r.mtime, r.ctime = b, st.Mtime, st.Ctime
}

// readDir fills b with entries from position at on. It returns the position of the next
// ones, and attrs.now() from before the entries were read. st are attributes of the
// directory from after the start of the call. The descriptor is shared, so another reader
// may have moved its position.
func (fl *file) readDir(at int64, st *unix.Statx_t, b []byte) (n int, next int64, looked uint64, err error) {
	fl.dir.Lock()
	defer fl.dir.Unlock()
	if r := fl.rest; r != nil && at != 0 && r.mtime == st.Mtime && r.ctime == st.Ctime {
		if n := copy(b, r.from(at)); n > 0 {
			return n, r.next, r.looked, nil
		}
	}
	if fl.rest != nil { // times are too coarse to order it and what is read now
		fl.rest.b = fl.rest.b[:0]
	}
	if fl.pos != at || at == 0 { // a seek to the start also shows new entries
		if _, err := unix.Seek(fl.fd, at, unix.SEEK_SET); err != nil {
			fl.pos = 0
			if err == unix.EINVAL {
				err = vfs.ErrBadCookie
			}
			return 0, 0, 0, err
		}
	}
	fl.pos = 0
	looked = attrs.now()
	n, err = getdents(fl.fd, b)
	if n == 0 || err != nil {
		return 0, 0, 0, err
	}
	for rest := b[:n]; len(rest) > 0; {
		var d dirent
		d, rest = nextDirent(rest)
		next = d.off
	}
	fl.pos = next
	return n, next, looked, nil
}
