package copytree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func (t *hostTree) createPart(ctx context.Context, path string, mode uint32, src *entry) (openFile, error) {
	f, err := t.fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fs.FileMode(mode&0o777))
	if err != nil {
		return nil, err
	}
	part := &localFile{f}
	err = part.lock()
	if mark := src.mark(); err == nil && !mark.IsZero() {
		err = part.setAttr(ctx, attrChange{setMark: true, atime: mark})
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return part, nil
}

func (t *hostTree) openPart(_ context.Context, e entry, _ bool) (openFile, error) {
	if int(e.uid) != os.Geteuid() {
		return nil, errPartOwner
	}
	f, err := t.fs.OpenFile(e.path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	part := &localFile{f}
	info, err := f.Stat()
	if err == nil {
		err = part.lock()
	}
	switch {
	case err != nil:
	case hostEntry("", info).id != e.id:
		err = errPartInUse // replaced since stat
	default:
		return part, nil
	}
	f.Close()
	return nil, err
}

// lock excludes other copies that write the same partial file, if the file system
// has locks.
func (f *localFile) lock() error {
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return errPartInUse
	}
	return nil
}

func (t *hostTree) renamePart(_ context.Context, _ openFile, part, path string) error {
	return t.fs.Rename(part, path)
}

func (t *hostTree) syncNames(_ context.Context, path string) error {
	dir, err := t.fs.OpenFile(filepath.Dir(path), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil // a directory that may be written but not read
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syncFile(dir); !errors.Is(err, unix.EINVAL) { // EINVAL: the file system cannot
		return err
	}
	return nil
}

// A syncingWriter writes to a file that it puts on stable storage every syncInterval
// bytes, so that at most 2*syncInterval bytes are lost if the host crashes.
type syncingWriter struct {
	io.Writer
	f       *localFile
	pending int64
	synced  chan error // result of the last sync; nil before the first
}

// Write implements io.Writer.
func (w *syncingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.pending += int64(n); err != nil || w.pending < syncInterval {
		return n, err
	}
	w.pending = 0
	if err := w.wait(); err != nil {
		return n, err
	}
	w.synced = make(chan error, 1)
	go func() { w.synced <- syncFile(w.f.File) }()
	return n, nil
}

// wait waits for the last sync. The file may then be closed.
func (w *syncingWriter) wait() error {
	if w.synced == nil {
		return nil
	}
	err := <-w.synced
	w.synced = nil
	return err
}
