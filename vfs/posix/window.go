//go:build linux

package posix

import (
	"context"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A window maps part of a file, from a multiple of windowLen on. It stays until its object is
// closed, or another window needs its place: the cost is not the mapping but its page tables, which
// are reused when the same bytes are read again.
type window struct {
	f    *FS
	o    *object
	base uint64
	mem  []byte
	uses atomic.Int32 // rises under the object's mu
	hot  atomic.Bool  // used since the ring last passed it

	ahead residentAhead // the object's mu guards it
}

// Return drops a reader's reference (buf.Owner).
func (w *window) Return([]byte) {
	w.uses.Add(-1)
	w.f.putObject(w.o)
}

// Reread reads the file if its mapping cannot be read (buf.Rereader). Before reporting end of file,
// it checks the length: the file may have grown again.
func (w *window) Reread(mem []byte, at int, p []byte) (end int, err error) {
	start := w.base + uint64(uintptr(unsafe.Pointer(&mem[0]))-uintptr(unsafe.Pointer(&w.mem[0])))
	fd, err := retryEINTR(func() (int, error) { // not by w.f, which may be closed
		return unix.Open(magicPath(w.o.fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return at, err
	}
	defer closeFD(fd)
	for range maxRereads {
		n, err := readAt(fd, p, start+uint64(at))
		w.f.noteRead(w.o)
		at, p = at+n, p[n:]
		if err != nil || len(p) == 0 {
			return at, err
		}
		if n > 0 {
			continue
		}
		var st unix.Statx_t
		if err := statFD(fd, &st); err != nil {
			return at, err
		}
		if st.Size <= start+uint64(at) {
			return int(max(st.Size, start) - start), nil
		}
	}
	return at, unix.EAGAIN
}

var _ buf.Rereader = (*window)(nil)

var _ vfs.Mapper = (*FS)(nil)

// Map lends data that is in the page cache and within one window (vfs.Mapper).
func (f *FS) Map(_ context.Context, c *vfs.Cred, h vfs.Handle, off uint64, n int) (b *buf.Buf, eof bool, a vfs.MaybeAttr, err error) {
	if !f.isMappable(off, n) {
		return nil, false, a, nil
	}
	var run readRun
	if n < minMapped { // a READ at random opens the file itself: not twice
		if run = f.runOf(h, off, n); n < run.minLent() {
			return nil, false, a, nil
		}
	}
	o, fl, err := f.openData(c, h, accRead)
	if err != nil {
		return nil, false, f.attrOfHandle(h), err
	}
	defer f.closeFile(o, fl)
	if n >= minMapped {
		run = o.addRead(off, n)
	}
	b, eof, a, err = f.lendMapping(o, fl, c, run, off, n)
	if err != nil {
		a = f.attrOf(o)
	}
	if b == nil {
		f.putObject(o)
	}
	return b, eof, a, err
}

// isMappable reports whether a range can be lent if it is in memory.
func (f *FS) isMappable(off uint64, n int) bool {
	return f.traits.coherentMmap && n >= minMappedInRun && off%windowLen+uint64(n) <= windowLen && off <= maxFileSize-windowLen
}

// lendMapping lends part of a file, which fl has open for reading. A caller that is not nil must
// have the right to read. A buffer takes over a reference to o.
func (f *FS) lendMapping(o *object, fl *file, c *vfs.Cred, run readRun, off uint64, n int) (b *buf.Buf, eof bool, a vfs.MaybeAttr, err error) {
	var st unix.Statx_t
	err = f.statOrStale(o, &st)
	if err == nil && c != nil {
		err = f.recheckAccess(o, fl, c, &st)
	}
	if err != nil {
		return nil, false, a, err
	}
	end := min(off+uint64(n), st.Size)
	if end < off || end-off < uint64(run.minLent()) {
		return nil, false, a, nil
	}
	w := f.acquireWindow(o, fl, off-off%windowLen)
	if w == nil {
		return nil, false, a, nil
	}
	from, to := int(off-w.base), int(end-w.base)
	if !f.tellsResident(o, &st) || !w.isResident(from, to, run, &st) {
		w.uses.Add(-1)
		return nil, false, a, nil
	}
	return buf.Borrow(w.mem[from:to], w), end == st.Size, f.maybeAttrOf(&st), nil
}

// acquireWindow returns o's window at base with one more use, or nil if there cannot be one, or a clone
// into the file runs.
func (f *FS) acquireWindow(o *object, fl *file, base uint64) *window {
	w := f.useWindow(o, fl, base)
	if w != nil && !lending.mayLend(f.idOf(o.ino)) {
		w.uses.Add(-1)
		return nil
	}
	return w
}

// useWindow returns o's window at base with one more use, or nil if there cannot be one. A shared
// description's mapping would outlast the lease.
func (f *FS) useWindow(o *object, fl *file, base uint64) *window {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shared.Load() {
		return nil
	}
	for _, w := range o.windows {
		if w.base == base {
			w.uses.Add(1)
			if !w.hot.Load() {
				w.hot.Store(true)
			}
			return w
		}
	}
	w := &window{f: f, o: o, base: base}
	w.uses.Store(1)
	if !f.cache.windows.addWindow(w) {
		return nil
	}
	var err error
	w.mem, err = unix.Mmap(fl.FD, int64(base), windowLen, unix.PROT_READ, unix.MAP_SHARED)
	f.noteRead(o)
	if err != nil { // a file system without mmap, or no free address space
		f.cache.windows.removeIf(func(other *window) bool { return other == w })
		return nil
	}
	o.windows = append(o.windows, w)
	lending.addWindow(f.idOf(o.ino), w)
	return w
}

func (w *window) unmapMemory() {
	lending.removeWindow(w.f.idOf(w.o.ino), w)
	_ = unix.Munmap(w.mem)
}

// unmapWindows removes an object's mappings, which no reader has. o.mu is held.
func (c *cache) unmapWindows(o *object) {
	c.windows.removeWindows(o)
	for _, w := range o.windows {
		w.unmapMemory()
	}
	o.windows = nil
}
