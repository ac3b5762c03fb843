//go:build linux

package posix

import (
	"context"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A window is a mapping of a part of a file, from a multiple of windowLen on.
// It stays until its object is closed: the cost is not the mapping but the page
// tables behind it, which are reused when the same bytes are read again.
type window struct {
	f    *FS
	o    *object
	base uint64
	mem  []byte
	uses atomic.Int32 // rises under the object's mu

	ahead ahead // the object's mu guards it
}

// Return drops a reader's reference (buf.Owner).
func (w *window) Return([]byte) {
	w.uses.Add(-1)
	w.f.put(w.o)
}

// Reread reads the file if its mapping cannot be read (buf.Rereader). Before
// reporting the end of the file, it checks the length: the file may have grown
// again.
func (w *window) Reread(mem []byte, at int, p []byte) (end int, err error) {
	start := w.base + uint64(uintptr(unsafe.Pointer(&mem[0]))-uintptr(unsafe.Pointer(&w.mem[0])))
	fd, err := retry(func() (int, error) { // not by w.f, which may be closed
		return unix.Open(magicPath(w.o.fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return at, err
	}
	defer closeFD(fd)
	for range maxRereads {
		n, err := pread(fd, p, start+uint64(at))
		w.f.touched(w.o)
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
	if !mappable(off, n) {
		return nil, false, a, nil
	}
	var run readRun
	if n < minMapped { // a READ at random opens the file itself: not twice
		if run = f.runOf(h, off, n); n < run.least() {
			return nil, false, a, nil
		}
	}
	o, fl, err := f.data(c, h, accRead)
	if err != nil {
		return nil, false, f.attrOfHandle(h), err
	}
	defer f.closeFile(o, fl)
	if n >= minMapped {
		run = o.reads(off, n)
	}
	b, eof, a, err = f.lend(o, fl, c, run, off, n)
	if err != nil {
		a = f.attrOf(o)
	}
	if b == nil {
		f.put(o)
	}
	return b, eof, a, err
}

// mappable reports whether a range can be lent if it is in memory.
func mappable(off uint64, n int) bool {
	return n >= minMappedInRun && off%windowLen+uint64(n) <= windowLen && off <= maxFileSize-windowLen
}

// lend lends a part of a file, of which fl is open for reading. A caller that is
// not nil must have the right to read. A buffer takes over a reference to o.
func (f *FS) lend(o *object, fl *file, c *vfs.Cred, run readRun, off uint64, n int) (b *buf.Buf, eof bool, a vfs.MaybeAttr, err error) {
	var st unix.Statx_t
	err = f.stat(o, &st)
	if err == nil && c != nil {
		err = f.recheck(o, fl, c, &st)
	}
	if err != nil {
		return nil, false, a, err
	}
	end := min(off+uint64(n), st.Size)
	if end < off || end-off < uint64(run.least()) {
		return nil, false, a, nil
	}
	w := f.window(o, fl, off-off%windowLen)
	if w == nil {
		return nil, false, a, nil
	}
	from, to := int(off-w.base), int(end-w.base)
	if !f.tellsResident(o, &st) || !w.resident(from, to, run, &st) {
		w.uses.Add(-1)
		return nil, false, a, nil
	}
	return buf.Borrow(w.mem[from:to], w), end == st.Size, f.some(&st), nil
}

// window returns o's window at base with one more use, or nil if there cannot be
// one. The mapping of a shared description would outlast the lease.
func (f *FS) window(o *object, fl *file, base uint64) *window {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shared.Load() {
		return nil
	}
	for _, w := range o.windows {
		if w.base == base {
			w.uses.Add(1)
			return w
		}
	}
	if f.cache.windows.Add(1) > maxWindows {
		f.cache.windows.Add(-1)
		return nil
	}
	mem, err := unix.Mmap(fl.fd, int64(base), windowLen, unix.PROT_READ, unix.MAP_SHARED)
	f.touched(o)
	if err != nil { // a file system without mmap, or no free address space
		f.cache.windows.Add(-1)
		return nil
	}
	w := &window{f: f, o: o, base: base, mem: mem}
	w.uses.Store(1)
	o.windows = append(o.windows, w)
	return w
}

// unmap removes the mappings of an object that is not in use.
func (c *cache) unmap(o *object) {
	for _, w := range o.windows {
		_ = unix.Munmap(w.mem)
		c.windows.Add(-1)
	}
	o.windows = nil
}
