package journal

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
)

var errDisk = errors.New("the disk has failed")

// A memDisk is a disk in memory that can fail, and lose unsynced data in a
// crash.
type memDisk struct {
	mu    sync.Mutex
	names map[string]*memInode
	saved map[string]*memInode // on stable storage
	ops   []func(map[string]*memInode)

	forgets bool // a failed sync drops the data, as Linux may
	opened  int  // files that are open

	calls   int           // so far
	fails   func(int) int // of a call: the bytes that a write still writes, or below 0 for success
	syncs   int           // of files
	syncing func()        // called in each sync of a file, unlocked
}

// A memInode is the content of a file.
type memInode struct {
	b      []byte
	saved  []byte // on stable storage
	writes []memWrite
}

type memWrite struct {
	at   int64
	p    []byte
	cuts bool // Truncate(at)
}

func newDisk() *memDisk {
	return &memDisk{names: map[string]*memInode{}, saved: map[string]*memInode{}}
}

// put puts a journal of these bytes on stable storage.
func (d *memDisk) put(b []byte) {
	d.names[testName] = &memInode{b: slices.Clone(b), saved: slices.Clone(b)}
	d.saved[testName] = d.names[testName]
}

// call counts a system call, and returns its failure.
func (d *memDisk) call() (written int, err error) {
	d.calls++
	if d.fails != nil {
		if n := d.fails(d.calls); n >= 0 {
			return n, errDisk
		}
	}
	return 0, nil
}

// op makes a change of names.
func (d *memDisk) op(change func(map[string]*memInode)) error {
	if _, err := d.call(); err != nil {
		return err
	}
	change(d.names)
	d.ops = append(d.ops, change)
	return nil
}

func (d *memDisk) path(name string) string { return "mem/" + name }

func (d *memDisk) open(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.call(); err != nil {
		return nil, err
	}
	if d.names[name] == nil {
		return nil, fs.ErrNotExist
	}
	d.opened++
	return &memFile{d, d.names[name]}, nil
}

func (d *memDisk) create(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	inode := d.names[name]
	if inode == nil {
		inode = &memInode{}
		if err := d.op(func(names map[string]*memInode) { names[name] = inode }); err != nil {
			return nil, err
		}
	} else if _, err := d.call(); err != nil {
		return nil, err
	}
	d.opened++
	return &memFile{d, inode}, nil
}

func (d *memDisk) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.op(func(names map[string]*memInode) { names[to] = names[from]; delete(names, from) })
}

func (d *memDisk) remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.op(func(names map[string]*memInode) { delete(names, name) })
}

func (d *memDisk) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.call(); err != nil {
		return err
	}
	d.crashNames(len(d.ops))
	return nil
}

// crashNames puts the first n changes of names on stable storage.
func (d *memDisk) crashNames(n int) {
	for _, change := range d.ops[:n] {
		change(d.saved)
	}
	d.ops = d.ops[n:]
}

// mend ends all failures, and forgets the files that were open: their process is
// gone.
func (d *memDisk) mend() { d.fails, d.opened = nil, 0 }

// crash returns the disk after a power failure: some of the changes of names are
// there, in their order, and any part of the unsynced data.
func (d *memDisk) crash(r *rand.Rand) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashNames(r.IntN(len(d.ops) + 1))
	after := newDisk()
	for name, inode := range d.saved {
		b := slices.Clone(inode.saved)
		for _, w := range inode.writes {
			if r.IntN(2) == 0 {
				continue
			}
			if !w.cuts {
				from := r.IntN(len(w.p) + 1)
				w = memWrite{at: w.at + int64(from), p: w.p[from : from+r.IntN(len(w.p)-from+1)]}
			}
			b = w.apply(b)
		}
		after.names[name] = &memInode{b: b, saved: slices.Clone(b)}
		after.saved[name] = after.names[name]
	}
	return after
}

// apply returns b after the write.
func (w *memWrite) apply(b []byte) []byte {
	if w.cuts {
		return resized(b, int(w.at))
	}
	b = resized(b, max(len(b), int(w.at)+len(w.p)))
	copy(b[w.at:], w.p)
	return b
}

// resized returns b with n bytes, zeros behind the end.
func resized(b []byte, n int) []byte {
	if n <= len(b) {
		return b[:n]
	}
	return append(b, make([]byte, n-len(b))...)
}

type memFile struct {
	d *memDisk
	i *memInode
}

func (f *memFile) ReadAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if _, err := f.d.call(); err != nil {
		return 0, err
	}
	n := copy(p, f.i.b[min(at, int64(len(f.i.b))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	n, err := f.d.call()
	if err == nil {
		n = len(p)
	}
	w := memWrite{at: at, p: slices.Clone(p[:min(n, len(p))])}
	f.i.change(w)
	return len(w.p), err
}

func (f *memFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if _, err := f.d.call(); err != nil {
		return err
	}
	f.i.change(memWrite{at: size, cuts: true})
	return nil
}

func (i *memInode) change(w memWrite) {
	i.b = w.apply(i.b)
	i.writes = append(i.writes, w)
}

func (f *memFile) Sync() error {
	if f.d.syncing != nil {
		f.d.syncing()
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.syncs++
	_, err := f.d.call()
	if err == nil {
		for _, w := range f.i.writes {
			f.i.saved = w.apply(f.i.saved)
		}
	}
	if err == nil || f.d.forgets {
		f.i.writes = nil
	}
	return err
}

func (f *memFile) size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	_, err := f.d.call()
	return int64(len(f.i.b)), err
}

func (f *memFile) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.opened--
	return nil
}
