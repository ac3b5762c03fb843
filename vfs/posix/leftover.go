//go:build linux

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A dirLeftover holds directory entries that one READDIR has read and not delivered. Most clients
// request fewer entries than getdents returns. Without it, each request would seek back, and read
// the same entries again.
type dirLeftover struct {
	at        int64  // first entry's position
	b         []byte // entries
	next      int64  // position after them
	delivered int    // number of entries delivered
	looked    uint64 // see readDir

	mtime, ctime unix.StatxTimestamp // the directory's, before it was read
}

// entriesFrom returns the entries from position at on.
func (r *dirLeftover) entriesFrom(at int64) []byte {
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

// expectedEntries returns the number of entries that a request from position at is expected to
// deliver, or 0.
func (fl *file) expectedEntries(at int64) int {
	fl.dir.Lock()
	defer fl.dir.Unlock()
	if at == 0 || fl.rest == nil {
		return 0
	}
	return fl.rest.delivered
}

// keepLeftover keeps undelivered entries for the next request; st are the directory's attributes.
func (f *FS) keepLeftover(fl *file, left *dirLeftover, st *unix.Statx_t) {
	fl.dir.Lock()
	defer fl.dir.Unlock()
	r := fl.rest
	if r == nil {
		if f.cache.leftovers.Add(1) > maxLeftovers {
			f.cache.leftovers.Add(-1)
			return
		}
		r = new(dirLeftover)
		fl.rest = r
	}
	b := append(r.b[:0], left.b...)
	*r = *left
	r.b, r.mtime, r.ctime = b, st.Mtime, st.Ctime
}

// readDir fills b with entries from position at on. It returns the position of the next ones, and
// attrs.now() from before the entries were read. st are the directory's attributes from after the
// start of the call. The descriptor is shared, so another reader may have moved its position.
func (fl *file) readDir(at int64, st *unix.Statx_t, b []byte) (n int, next int64, looked uint64, err error) {
	fl.dir.Lock()
	defer fl.dir.Unlock()
	if r := fl.rest; r != nil && at != 0 && r.mtime == st.Mtime && r.ctime == st.Ctime {
		if n := copy(b, r.entriesFrom(at)); n > 0 {
			return n, r.next, r.looked, nil
		}
	}
	if fl.rest != nil { // times are too coarse to order it and what is read now
		fl.rest.b = fl.rest.b[:0]
	}
	if fl.pos != at || at == 0 { // a seek to the start also shows new entries
		if _, err := unix.Seek(fl.FD, at, unix.SEEK_SET); err != nil {
			fl.pos = 0
			if err == unix.EINVAL {
				err = vfs.ErrBadCookie
			}
			return 0, 0, 0, err
		}
	}
	fl.pos = 0
	looked = attrs.currentTime()
	n, err = getdents(fl.FD, b)
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
