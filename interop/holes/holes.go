//go:build linux

// Package holes makes holes in a directory's files, finds and fills them, and copies and
// clones the files. Its results are the same on every file system with the same type: a
// network file system must give the same results as the file system that it shows.
// Command guestwork runs it.
package holes

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	unit = 64 << 10 // bytes, a multiple of every file system's blocks
	size = 20 * unit
)

// Run does everything in dir, and writes one line for each result.
func Run(dir string, out io.Writer) error {
	w := &holesRun{dir: dir, out: out}
	src, err := w.makeFile("src")
	if err != nil {
		return err
	}
	defer src.Close()
	w.changeSpace(src)
	w.testCopies(src)
	return w.err
}

// holesRun is one run. The first unexpected error ends it.
type holesRun struct {
	dir string
	out io.Writer
	err error
}

// writeLine writes a line.
func (w *holesRun) writeLine(format string, args ...any) {
	if _, err := fmt.Fprintf(w.out, format+"\n", args...); err != nil && w.err == nil {
		w.err = err
	}
}

func (w *holesRun) recordError(err error) {
	if w.err == nil {
		w.err = err
	}
}

// makeFile makes a file with data in two places.
func (w *holesRun) makeFile(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	// The length comes first: XFS gives a file that grows by writing more storage
	// than the file needs.
	if err := f.Truncate(size); err != nil {
		return f, err
	}
	for _, at := range []int64{0, 4 * unit, 5 * unit} {
		data := make([]byte, unit)
		for i := range data {
			data[i] = byte(i%251 + 1)
		}
		if _, err := f.WriteAt(data, at); err != nil {
			return f, err
		}
	}
	return f, f.Sync()
}

// changeSpace changes a file's storage.
func (w *holesRun) changeSpace(f *os.File) {
	fd := int(f.Fd())
	w.sayState(f, "made")
	for _, tt := range []struct {
		name   string
		mode   uint32
		off, n int64
	}{
		{"hole", unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, 4*unit + 1000, unit},
		{"hole beyond the end", unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, size - 5, unit},
		{"allocated", 0, 2 * unit, unit},
		{"allocated beyond the end", 0, size - 5, unit},
		{"nothing allocated", 0, 0, 0},
	} {
		w.writeLine("%s: %v", tt.name, unix.Fallocate(fd, tt.mode, tt.off, tt.n))
		if tt.mode == 0 { // storage that is allocated but not written may be data or a hole
			w.sayContent(f)
		} else {
			w.sayState(f, tt.name)
		}
	}
}

// sayState writes a file's size, content and map.
func (w *holesRun) sayState(f *os.File, when string) {
	if err := f.Sync(); err != nil {
		w.recordError(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		w.recordError(err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, st.Size)); err != nil {
		w.recordError(err)
	}
	w.writeLine("%s: %d bytes %x", when, st.Size, h.Sum(nil)[:8])
	for _, whence := range []int{unix.SEEK_DATA, unix.SEEK_HOLE} {
		for _, off := range []int64{0, 10, unit - 1, unit, 3 * unit, 4*unit + 1000, 5 * unit, 6*unit + 7, st.Size - 1, st.Size, st.Size + 1} {
			at, err := unix.Seek(int(f.Fd()), off, whence)
			w.writeLine("%s: %d from %d: %d %v", when, whence, off, at, err)
		}
	}
}

// testCopies copies and clones a file.
func (w *holesRun) testCopies(src *os.File) {
	dst, err := os.OpenFile(filepath.Join(w.dir, "dst"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		w.recordError(err)
		return
	}
	defer dst.Close()
	all, err := copyAll(src, dst)
	w.writeLine("copied %d %v", all, err)
	w.sayContent(dst)
	in, at := int64(unit/2), int64(30*unit+5)
	n, err := unix.CopyFileRange(int(src.Fd()), &in, int(dst.Fd()), &at, unit, 0)
	w.writeLine("copied behind the end: %d %v", n, err)
	w.sayContent(dst)
	for _, r := range []unix.FileCloneRange{
		{Src_offset: 4 * unit, Src_length: 2 * unit, Dest_offset: 40 * unit},
		{Src_offset: 1, Src_length: unit, Dest_offset: 0},
		{Src_offset: 0, Src_length: 0, Dest_offset: 64 * unit},
	} {
		r.Src_fd = int64(src.Fd())
		w.writeLine("clone to %d: %v", r.Dest_offset, unix.IoctlFileCloneRange(int(dst.Fd()), &r))
		w.sayContent(dst)
	}
}

// copyAll copies a file by copy_file_range until its end, and returns the number
// of bytes.
func copyAll(src, dst *os.File) (all int, err error) {
	for {
		n, err := unix.CopyFileRange(int(src.Fd()), nil, int(dst.Fd()), nil, 1<<30, 0)
		if n <= 0 || err != nil {
			return all, err
		}
		all += n
	}
}

// Copy copies a file by copy_file_range.
func Copy(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = copyAll(src, dst)
	return errors.Join(err, dst.Close())
}

// sayContent writes a file's size and content.
func (w *holesRun) sayContent(f *os.File) {
	info, err := f.Stat()
	if err != nil {
		w.recordError(err)
		return
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, info.Size())); err != nil {
		w.recordError(err)
	}
	w.writeLine("%d bytes %x", info.Size(), h.Sum(nil)[:8])
}
