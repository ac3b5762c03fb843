package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/stablefile"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// A disk is a journal's directory. Tests use disks that fail and crash.
type disk interface {
	// filePath returns a file's path on the host.
	filePath(name string) string
	// openFile opens a file for reading and writing. A missing one is
	// fs.ErrNotExist.
	openFile(name string) (file, error)
	// createFile opens a file, and makes a missing one.
	createFile(name string) (file, error)
	renameFile(from, to string) error
	// linkFile adds a name to a file, and takes it from another file.
	linkFile(name, more string) error
	removeFile(name string) error
	// syncNames puts the names on stable storage.
	syncNames() error
}

// A file is a file on a disk.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	// fileSize returns the file's length in bytes.
	fileSize() (int64, error)
	// allocateBytes allocates n bytes from an offset on, without changing the length.
	allocateBytes(at, n int64) error
}

// A directory is a disk on the host. When its tenure is over, everything that would change it fails
// with tenure.ErrOver.
type directory struct {
	path   string
	tenure *tenure.Tenure
}

// A hostFile is a file in a directory.
type hostFile struct {
	*os.File
	tenure *tenure.Tenure
}

func (f hostFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.tenure.Check(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}

func (f hostFile) Truncate(size int64) error {
	if err := f.tenure.Check(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f hostFile) fileSize() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f hostFile) allocateBytes(at, n int64) error {
	if err := f.tenure.Check(); err != nil {
		return err
	}
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, at, n)
}

func (d directory) filePath(name string) string { return filepath.Join(d.path, name) }

func (d directory) openFile(name string) (file, error) { return d.openLocked(name, os.O_RDWR) }

func (d directory) createFile(name string) (file, error) {
	if err := d.tenure.Check(); err != nil {
		return nil, err
	}
	return d.openLocked(name, os.O_RDWR|os.O_CREATE)
}

// openLocked opens a file and locks it, in case the caller's own lock does not
// exclude others. It changes nothing in a file that is locked.
func (d directory) openLocked(name string, flag int) (file, error) {
	f, err := os.OpenFile(d.filePath(name), flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another process uses it: stop that process")
		}
		return nil, errors.Join(err, f.Close())
	}
	return hostFile{f, d.tenure}, nil
}

func (d directory) renameFile(from, to string) error {
	if err := d.tenure.Check(); err != nil {
		return err
	}
	return os.Rename(d.filePath(from), d.filePath(to))
}

func (d directory) linkFile(name, more string) error {
	if err := d.removeFile(more); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Link(d.filePath(name), d.filePath(more))
}

func (d directory) removeFile(name string) error {
	if err := d.tenure.Check(); err != nil {
		return err
	}
	return os.Remove(d.filePath(name))
}

func (d directory) syncNames() error { return stablefile.SyncDir(d.path, (*os.File).Sync) }
