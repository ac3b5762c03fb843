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

	full          bool         // a write succeeds only within the allocated space
	reserve       func() error // called to allocate space; may be nil
	dropsUnsynced bool         // a failed sync drops the data, as Linux may
	opened        int          // files that are open

	calls     int           // so far
	failAfter func(int) int // for the number of a call: the byte count after which it fails, or below 0 for success
	syncs     int           // number of open files
	onSync    func()        // called in each sync of a file, unlocked
}

// A memInode is a file's content.
type memInode struct {
	b         []byte
	saved     []byte // on stable storage
	writes    []memWrite
	allocated int64 // allocated
}

type memWrite struct {
	at   int64
	p    []byte
	cuts bool // Truncate(at)
}

func newMemDisk() *memDisk {
	return &memDisk{names: map[string]*memInode{}, saved: map[string]*memInode{}}
}

// setContent puts a journal with these bytes on stable storage.
func (d *memDisk) setContent(b []byte) {
	d.names[testName] = &memInode{b: slices.Clone(b), saved: slices.Clone(b)}
	d.saved[testName] = d.names[testName]
}

// nextFailure counts a system call, and returns its failure.
func (d *memDisk) nextFailure() (written int, err error) {
	d.calls++
	if d.failAfter != nil {
		if n := d.failAfter(d.calls); n >= 0 {
			return n, errDisk
		}
	}
	return 0, nil
}

// changeNames changes names.
func (d *memDisk) changeNames(change func(map[string]*memInode)) error {
	if _, err := d.nextFailure(); err != nil {
		return err
	}
	change(d.names)
	d.ops = append(d.ops, change)
	return nil
}

func (d *memDisk) filePath(name string) string { return "mem/" + name }

func (d *memDisk) openFile(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.nextFailure(); err != nil {
		return nil, err
	}
	if d.names[name] == nil {
		return nil, fs.ErrNotExist
	}
	d.opened++
	return &memFile{d, d.names[name]}, nil
}

func (d *memDisk) createFile(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	inode := d.names[name]
	if inode == nil {
		inode = &memInode{}
		if err := d.changeNames(func(names map[string]*memInode) { names[name] = inode }); err != nil {
			return nil, err
		}
	} else if _, err := d.nextFailure(); err != nil {
		return nil, err
	}
	d.opened++
	return &memFile{d, inode}, nil
}

func (d *memDisk) renameFile(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changeNames(func(names map[string]*memInode) { names[to] = names[from]; delete(names, from) })
}

func (d *memDisk) linkFile(name, more string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changeNames(func(names map[string]*memInode) { names[more] = names[name] })
}

func (d *memDisk) removeFile(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changeNames(func(names map[string]*memInode) { delete(names, name) })
}

func (d *memDisk) syncNames() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.nextFailure(); err != nil {
		return err
	}
	d.crashNames(len(d.ops))
	return nil
}

// crashNames puts the first n name changes on stable storage.
func (d *memDisk) crashNames(n int) {
	for _, change := range d.ops[:n] {
		change(d.saved)
	}
	d.ops = d.ops[n:]
}

// endFailures ends all failures, and forgets the files that were open: their process is
// gone.
func (d *memDisk) endFailures() { d.failAfter, d.opened = nil, 0 }

// afterPowerFailure returns the disk after a power failure: some name changes are there, in their order,
// and any part of the unsynced data.
func (d *memDisk) afterPowerFailure(r *rand.Rand) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashNames(r.IntN(len(d.ops) + 1))
	after := newMemDisk()
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
			b = w.applyTo(b)
		}
		after.names[name] = &memInode{b: b, saved: slices.Clone(b)}
		after.saved[name] = after.names[name]
	}
	return after
}

// applyTo returns b after the write.
func (w *memWrite) applyTo(b []byte) []byte {
	if w.cuts {
		return withLength(b, int(w.at))
	}
	b = withLength(b, max(len(b), int(w.at)+len(w.p)))
	copy(b[w.at:], w.p)
	return b
}

// withLength returns b with n bytes, zeros behind the end.
func withLength(b []byte, n int) []byte {
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
	if _, err := f.d.nextFailure(); err != nil {
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
	n, err := f.d.nextFailure()
	switch end := at + int64(len(p)); {
	case err != nil:
	case f.d.full && end > max(f.i.allocated, int64(len(f.i.b))):
		err = errDisk
	default:
		n = len(p)
	}
	w := memWrite{at: at, p: slices.Clone(p[:min(n, len(p))])}
	f.i.addWrite(w)
	return len(w.p), err
}

func (f *memFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if _, err := f.d.nextFailure(); err != nil {
		return err
	}
	f.i.addWrite(memWrite{at: size, cuts: true})
	return nil
}

func (i *memInode) addWrite(w memWrite) {
	i.b = w.applyTo(i.b)
	i.writes = append(i.writes, w)
}

func (f *memFile) Sync() error {
	if f.d.onSync != nil {
		f.d.onSync()
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.syncs++
	_, err := f.d.nextFailure()
	if err == nil {
		for _, w := range f.i.writes {
			f.i.saved = w.applyTo(f.i.saved)
		}
	}
	if err == nil || f.d.dropsUnsynced {
		f.i.writes = nil
	}
	return err
}

func (f *memFile) fileSize() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	_, err := f.d.nextFailure()
	return int64(len(f.i.b)), err
}

func (f *memFile) allocateBytes(at, n int64) error {
	if reserve := f.d.reserve; reserve != nil {
		return reserve()
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.full {
		return errDisk
	}
	f.i.allocated = max(f.i.allocated, at+n)
	return nil
}

func (f *memFile) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.opened--
	return nil
}
