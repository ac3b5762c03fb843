//go:build linux

package posix

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	tableMagic = "nfsrdma handles 1\n"
	tableName  = "handles.log"
	tableNext  = "handles.new"
)

// A logFile is a header and records behind it, in the state directory or, if
// there is none, in memory.
type logFile struct {
	dir  *os.File // the state directory, locked; nil if there is none
	file *os.File
	head []byte
	size int64 // octets written
}

// openLog opens the log of a state directory, which it makes and locks. A
// log with another header is of another export, and starts anew.
func openLog(dir string, head []byte) (l logFile, fresh bool, err error) {
	l.head = head
	if dir == "" {
		l.file, err = memoryFile()
		if err != nil {
			return l, false, err
		}
		return l, true, l.start()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return l, false, err
	}
	if l.dir, err = os.Open(dir); err != nil {
		return l, false, err
	}
	if err := unix.Flock(int(l.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return l, false, errors.Join(fmt.Errorf("state directory %s is in use: %w", dir, err), l.close())
	}
	l.file, err = os.OpenFile(filepath.Join(dir, tableName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return l, false, errors.Join(err, l.close())
	}
	if l.size, err = l.file.Seek(0, io.SeekEnd); err != nil {
		return l, false, errors.Join(err, l.close())
	}
	got := make([]byte, len(head))
	if _, err := l.file.ReadAt(got, 0); err == nil && string(got) == string(head) {
		return l, false, nil
	}
	return l, true, l.start()
}

// start makes the log an empty one.
func (l *logFile) start() error {
	if err := l.truncate(0); err != nil {
		return err
	}
	return l.append(l.head)
}

func (l *logFile) readAt(p []byte, at int64) (int, error) {
	return l.file.ReadAt(p[:min(int64(len(p)), l.size-at)], at)
}

// append writes p, all of it or, as far as the log knows, nothing.
func (l *logFile) append(p []byte) error {
	if _, err := l.file.WriteAt(p, l.size); err != nil {
		return err
	}
	l.size += int64(len(p))
	return nil
}

func (l *logFile) truncate(size int64) error {
	l.size = size
	return l.file.Truncate(size)
}

// scan calls fn for each record, with its offset, until fn fails or a record
// is not whole; it returns the offset where that is. rec lives during the
// call.
func (l *logFile) scan(fn func(at int64, e *entry, rec []byte) error) (end int64, err error) {
	at := int64(len(l.head))
	r := bufio.NewReaderSize(io.NewSectionReader(l.file, at, l.size-at), maxRecord)
	for {
		head, err := r.Peek(recordHead)
		if err != nil {
			return at, eofIsNone(err)
		}
		if recordLen(head) > maxRecord {
			return at, nil
		}
		rec, err := r.Peek(recordLen(head))
		if err != nil {
			return at, eofIsNone(err)
		}
		e, err := parseRecord(rec)
		if err != nil {
			return at, nil
		}
		if err := fn(at, &e, rec); err != nil {
			return at, err
		}
		at += int64(len(rec))
		_, _ = r.Discard(len(rec))
	}
}

func eofIsNone(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// successor starts an empty log beside l.
func (l *logFile) successor() (next logFile, err error) {
	next = logFile{dir: l.dir, head: l.head}
	if l.dir == nil {
		next.file, err = memoryFile()
	} else {
		next.file, err = os.OpenFile(filepath.Join(l.dir.Name(), tableNext), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	if err != nil {
		return next, err
	}
	if err := next.start(); err != nil {
		next.discard()
		return next, err
	}
	return next, nil
}

// discard closes a successor that did not succeed. Its file is overwritten
// by the next.
func (l *logFile) discard() { _ = l.file.Close() }

// replaceBy makes next the log.
func (l *logFile) replaceBy(next *logFile) error {
	if l.dir != nil {
		if err := next.file.Sync(); err != nil {
			return err
		}
		at := int(l.dir.Fd())
		if err := unix.Renameat(at, tableNext, at, tableName); err != nil {
			return err
		}
		_ = l.dir.Sync() // next is the log now, whether a power failure knows it or not
	}
	_ = l.file.Close()
	*l = *next
	return nil
}

// close puts the log on stable storage.
func (l *logFile) close() (err error) {
	if l.file != nil {
		err = errors.Join(l.file.Sync(), l.file.Close())
	}
	if l.dir != nil {
		err = errors.Join(err, l.dir.Close())
	}
	return err
}

func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate(tableName, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for the handle table: %w", err)
	}
	return os.NewFile(uintptr(fd), tableName), nil
}
