package journal

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/stablefile"
)

// A disk is the directory of a journal. Tests have disks that fail and crash.
type disk interface {
	// path returns the name by which the host knows a file.
	path(name string) string
	// open opens a file for reading and writing. A missing one is
	// fs.ErrNotExist.
	open(name string) (file, error)
	// create opens a file, and makes a missing one.
	create(name string) (file, error)
	rename(from, to string) error
	remove(name string) error
	// sync puts the names on stable storage.
	sync() error
}

// A file is a file of a disk.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	// size returns the length in bytes.
	size() (int64, error)
}

// directory is a disk of the host, by the path of the directory.
type directory string

// hostFile is a file of the host.
type hostFile struct{ *os.File }

func (f hostFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) open(name string) (file, error) { return d.file(name, os.O_RDWR) }

func (d directory) create(name string) (file, error) { return d.file(name, os.O_RDWR|os.O_CREATE) }

// file opens a file and locks it, in case that the caller's own lock does not
// keep others out. It changes nothing in a file that is locked.
func (d directory) file(name string, flag int) (file, error) {
	f, err := os.OpenFile(d.path(name), flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another process uses it: stop that process")
		}
		return nil, errors.Join(err, f.Close())
	}
	return hostFile{f}, nil
}

func (d directory) rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d directory) remove(name string) error { return os.Remove(d.path(name)) }

func (d directory) sync() error { return stablefile.SyncDir(string(d), (*os.File).Sync) }
