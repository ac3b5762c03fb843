package standby

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/stablefile"
)

// FileName is the beat's name in the state directory.
const FileName = "beat"

// A Store is the shared directory. Its methods may block for as long as the file system hangs.
type Store interface {
	// ReadBeat returns the beat's content, which no cache of this host may hide, or nothing if
	// there is no beat.
	ReadBeat() ([]byte, error)
	// WriteBeat replaces the content. When it returns no error, the content is on stable storage.
	WriteBeat(content []byte) error
	// TryLock locks the directory, unless another host has locked it.
	TryLock() (bool, error)
	Unlock()
}

// A Dir is the Store in a directory. Only one goroutine may use TryLock and Unlock.
type Dir struct {
	path  string
	files []string // to lock, in this order
	locks []*os.File
}

// NewDir returns the Store in a directory, which must exist. Locking it locks all the files, of which
// it creates the first.
func NewDir(path string, files ...string) *Dir { return &Dir{path: path, files: files} }

// TakeLock returns the first file that is locked, and leaves it locked.
func (d *Dir) TakeLock() *os.File {
	lock := d.locks[0]
	for _, f := range d.locks[1:] {
		f.Close()
	}
	d.locks = nil
	return lock
}

func (d *Dir) beatPath() string { return filepath.Join(d.path, FileName) }

// ReadBeat opens the file anew, because FUSE file systems may keep pages while a file is open, and
// reads past the page cache if the file system can do that.
func (d *Dir) ReadBeat() ([]byte, error) {
	b, err := readFile(d.beatPath(), unix.O_DIRECT)
	if errors.Is(err, unix.EINVAL) {
		b, err = readFile(d.beatPath(), 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(d.path)
		return nil, err
	}
	return b, err
}

// directLen is the length of a read with O_DIRECT in bytes: a multiple of every sector's length.
const directLen = 4096

func readFile(name string, flag int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|flag, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	aligned, err := unix.Mmap(-1, 0, directLen, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(aligned) }()
	n, err := unix.Pread(int(f.Fd()), aligned, 0) // f.ReadAt would read again, at an offset that is not aligned
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return append([]byte(nil), aligned[:n]...), nil
}

// WriteBeat writes the file in place: a replacement would take more operations, and a torn write
// changes the content too. It truncates a longer file, which no host has written.
func (d *Dir) WriteBeat(content []byte) error {
	_, missing := os.Lstat(d.beatPath())
	f, err := os.OpenFile(d.beatPath(), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	if info, statErr := f.Stat(); statErr == nil && info.Size() > int64(len(content)) {
		err = f.Truncate(int64(len(content)))
	}
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil && errors.Is(missing, fs.ErrNotExist) {
		err = stablefile.SyncDir(d.path, (*os.File).Sync)
	}
	return err
}

// TryLock locks the files that exist, and the first one in any case.
func (d *Dir) TryLock() (bool, error) {
	for len(d.locks) < len(d.files) {
		ok, err := d.lockNext()
		if !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (d *Dir) lockNext() (ok bool, err error) {
	n, flag := len(d.locks), os.O_RDWR
	if n == 0 {
		flag |= os.O_CREATE
	}
	f, err := os.OpenFile(filepath.Join(d.path, d.files[n]), flag, 0o600)
	if errors.Is(err, fs.ErrNotExist) && n > 0 {
		d.files = append(d.files[:n:n], d.files[n+1:]...)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK || err == unix.EINTR {
			err = nil
		}
		return false, err
	}
	d.locks = append(d.locks, f)
	return true, nil
}

// Unlock unlocks all files.
func (d *Dir) Unlock() {
	for _, f := range d.locks {
		f.Close()
	}
	d.locks = nil
}
