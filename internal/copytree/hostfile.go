package copytree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A localFile is an open file on this machine.
type localFile struct{ *os.File }

func (t *hostTree) openFile(_ context.Context, e entry) (openFile, error) {
	how := os.O_RDONLY
	if e.kind.IsRegular() {
		how |= unix.O_NONBLOCK // it may have become a FIFO without a writer
	}
	f, err := t.fs.OpenFile(e.path, how, 0)
	if err != nil {
		return nil, err
	}
	return &localFile{f}, nil
}

func (t *hostTree) createFile(_ context.Context, path string, mode uint32) (openFile, error) {
	f, err := t.fs.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fs.FileMode(mode&0o777))
	if err != nil {
		return nil, err
	}
	return &localFile{f}, nil
}

func (f *localFile) version(context.Context) (fileVersion, error) {
	info, err := f.Stat()
	if err != nil {
		return fileVersion{}, err
	}
	e := hostEntry("", info)
	return e.version(), nil
}

func (f *localFile) readAt(_ context.Context, p []byte, off int64) (int, error) {
	return f.ReadAt(p, off)
}

// setAttr changes the attributes of the open file: another user may have replaced the
// name by a symbolic link.
func (f *localFile) setAttr(_ context.Context, c attrChange) error {
	return setHostAttr(osFS{}, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), c)
}

func (f *localFile) truncate(_ context.Context, size int64) error { return f.Truncate(size) }

func (f *localFile) closeFile() error { return f.Close() }

// syncFile puts a file on stable storage. It is a variable for tests.
var syncFile = (*os.File).Sync

// syncData puts the data written to f on stable storage. It does nothing for pipes
// and devices.
func (f *localFile) syncData() error {
	if !f.isRegular() {
		return nil
	}
	return syncFile(f.File)
}

// isRegular reports whether f is a regular file, not a pipe or device.
func (f *localFile) isRegular() bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// An extent is a file's byte range between holes.
type extent struct{ off, n int64 }

// after returns the part of x from offset off.
func (x extent) after(off int64) extent {
	end := max(x.off+x.n, off)
	x.off = max(x.off, off)
	return extent{x.off, end - x.off}
}

// dataExtents returns the parts with data of a file that has size bytes. Short
// holes count as data.
func (f *localFile) dataExtents(size int64) ([]extent, error) {
	var list []extent
	for off := int64(0); off < size; {
		data, err := f.Seek(off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // a hole up to the end
			break
		}
		if err != nil {
			return nil, err
		}
		hole, err := f.Seek(data, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		if last := len(list) - 1; last >= 0 && data-(list[last].off+list[last].n) < shortHole {
			list[last].n = hole - list[last].off
		} else {
			list = append(list, extent{data, hole - data})
		}
		off = hole
	}
	return list, nil
}

// zeros is a hole's content.
var zeros [holeBlock]byte

// A sparseWriter writes sequentially to the end of a file and leaves holes for
// zeros.
type sparseWriter struct {
	f   *os.File
	off int64
}

// Write writes p except blocks that are all zeros.
func (w *sparseWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		block := p[n:min(len(p), n+holeBlock)]
		if !bytes.Equal(block, zeros[:len(block)]) {
			_, err = w.f.WriteAt(block, w.off)
		}
		if err == nil {
			n += len(block)
			w.off += int64(len(block))
		}
	}
	return n, err
}

// setLength sets the file's length. The file may end in a hole.
func (w *sparseWriter) setLength() error { return w.f.Truncate(w.off) }
