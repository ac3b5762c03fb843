//go:build linux

package handletable

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// FileName is the log's name in the state directory.
const FileName = "handles.log"

const (
	tableMagic = "nfsrdma handles 1\n"
	tableNext  = "handles.new"

	asidePattern = "handles-*.log" // what asideName returns
)

// A logFile is a header followed by records. It is in the state directory or,
// if there is none, in memory.
type logFile struct {
	dir      *os.File // the state directory, locked; nil if there is none
	mayWrite func() error
	file     *os.File
	head     []byte
	size     int64 // bytes written
	unsynced bool  // some bytes are written and not yet synced

	renameUnsynced bool // a power failure may bring back the previous log
}

// openLog opens a state directory's log, and creates and locks the directory. A log with another
// header belongs to another export, perhaps on a disk that will be mounted again. openLog sets such
// a log aside, and restores the log that was set aside for this header, or starts an empty log.
func openLog(dir string, head []byte, mayWrite func() error) (l logFile, fresh bool, err error) {
	l.head, l.mayWrite = head, mayWrite
	if dir == "" {
		l.file, err = memoryFile()
		if err != nil {
			return l, false, err
		}
		return l, true, l.startEmpty()
	}
	if err := mayWrite(); err != nil {
		return l, false, err
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
	own, err := l.openFile()
	if err == nil && !own {
		if err = l.swapLogs(); err == nil {
			own, err = l.openFile()
		}
	}
	if err == nil && !own {
		err = l.startEmpty()
	}
	if err != nil {
		return l, false, errors.Join(err, l.close())
	}
	return l, !own, nil
}

// openFile opens the log, and reports whether it has this header.
func (l *logFile) openFile() (own bool, err error) {
	l.file, err = os.OpenFile(filepath.Join(l.dir.Name(), FileName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	if l.size, err = l.file.Seek(0, io.SeekEnd); err != nil {
		return false, err
	}
	head, err := l.readHeader()
	return err == nil && string(head) == string(l.head), err
}

// readHeader returns the log's header, or nil if the log is shorter. A read error is returned: a
// log without a header is replaced.
func (l *logFile) readHeader() ([]byte, error) {
	got := make([]byte, len(l.head))
	switch _, err := l.file.ReadAt(got, 0); err {
	case nil:
		return got, nil
	case io.EOF:
		return nil, nil
	default:
		return nil, err
	}
}

// A renameStep is a step in swapLogs.
type renameStep struct{ from, to string }

// swapLogs closes the log, whose header differs, and sets it aside unless it has no header yet. It
// puts the log with this header in its place, if there is any. A crash may come after each step:
// then the next call of openLog finds a missing or empty log, and swaps again.
func (l *logFile) swapLogs() error {
	steps, err := l.swapSteps()
	if err != nil {
		return err
	}
	if len(steps) > 1 { // pruneAside removes the oldest logs
		if err := os.Chtimes(l.file.Name(), time.Time{}, time.Now()); err != nil {
			return err
		}
	}
	if err := l.file.Close(); err != nil {
		return err
	}
	l.file = nil
	at := int(l.dir.Fd())
	for _, s := range steps {
		if err := unix.Renameat(at, s.from, at, s.to); err != nil && (err != unix.ENOENT || s.to != FileName) {
			return err
		}
		if err := l.dir.Sync(); err != nil { // otherwise a power failure may leave the second step alone
			return err
		}
	}
	_ = l.pruneAside() // the next swap tries again
	return nil
}

// swapSteps returns swapLogs' steps. The last one finds no file if there is no log with this
// header.
func (l *logFile) swapSteps() (steps []renameStep, err error) {
	head, err := l.readHeader()
	if err != nil {
		return nil, err
	}
	if head != nil {
		steps = append(steps, renameStep{FileName, asideName(head)})
	}
	return append(steps, renameStep{asideName(l.head), FileName}), nil
}

// pruneAside removes all logs set aside except the latest maxAside.
func (l *logFile) pruneAside() error {
	entries, err := os.ReadDir(l.dir.Name())
	if err != nil {
		return err
	}
	var names []string
	set := make(map[string]time.Time)
	for _, e := range entries {
		if aside, _ := filepath.Match(asidePattern, e.Name()); !aside {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		names = append(names, e.Name())
		set[e.Name()] = info.ModTime()
	}
	slices.SortFunc(names, func(a, b string) int { return set[b].Compare(set[a]) })
	for _, name := range names[min(len(names), maxAside):] {
		err = errors.Join(err, os.Remove(filepath.Join(l.dir.Name(), name)))
	}
	return err
}

// asideName is a log's file name while it is set aside.
func asideName(head []byte) string {
	d := fnv.New64a()
	_, _ = d.Write(head)
	return fmt.Sprintf("handles-%016x.log", d.Sum64())
}

// startEmpty truncates the log to its header.
func (l *logFile) startEmpty() error {
	if err := l.truncate(0); err != nil {
		return err
	}
	return l.append(l.head)
}

func (l *logFile) readAt(p []byte, at int64) (int, error) {
	return l.file.ReadAt(p[:min(int64(len(p)), l.size-at)], at)
}

// append writes p. After an error the log's end is unchanged.
func (l *logFile) append(p []byte) error {
	if err := l.mayWrite(); err != nil {
		return err
	}
	if _, err := l.file.WriteAt(p, l.size); err != nil {
		return err
	}
	l.size += int64(len(p))
	l.unsynced = l.dir != nil
	return nil
}

func (l *logFile) truncate(size int64) error {
	if err := l.mayWrite(); err != nil {
		return err
	}
	l.size = size
	return l.file.Truncate(size)
}

// scanRecords calls fn for each record, with its offset, until fn fails. It returns the end of the
// last complete record, and the number of bytes before it that belong to no record because a disk
// has lost some. rec is valid during the call.
func (l *logFile) scanRecords(fn func(at int64, e *Entry, rec []byte) error) (end, lost int64, err error) {
	at := int64(len(l.head))
	end = at
	r := bufio.NewReaderSize(io.NewSectionReader(l.file, at, l.size-at), maxRecord)
	for {
		e, rec, err := peekRecord(r)
		switch {
		case err == errRecord: // the next record may begin at any byte
			_, _ = r.Discard(1)
			at++
			continue
		case err == io.EOF:
			return end, lost, nil
		case err != nil:
			return end, lost, err
		}
		if err := fn(at, &e, rec); err != nil {
			return end, lost, err
		}
		lost += at - end
		at += int64(len(rec))
		end = at
		_, _ = r.Discard(len(rec))
	}
}

// peekRecord returns the record at r's position. It returns errRecord if there
// is no record, and io.EOF at the end.
func peekRecord(r *bufio.Reader) (e Entry, rec []byte, err error) {
	head, err := r.Peek(recordHead)
	if err != nil {
		return e, nil, err
	}
	n := recordLen(head)
	if n < recordFixed || n > maxRecord {
		return e, nil, errRecord
	}
	rec, err = r.Peek(n)
	if err == io.EOF { // a shorter record may still follow
		err = errRecord
	}
	if err != nil {
		return e, nil, err
	}
	e, err = parseRecord(rec)
	return e, rec, err
}

// newSuccessor creates an empty log next to l.
func (l *logFile) newSuccessor() (next logFile, err error) {
	next = logFile{dir: l.dir, head: l.head, mayWrite: l.mayWrite}
	if err := l.mayWrite(); err != nil {
		return next, err
	}
	if l.dir == nil {
		next.file, err = memoryFile()
	} else {
		next.file, err = os.OpenFile(filepath.Join(l.dir.Name(), tableNext), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	if err != nil {
		return next, err
	}
	if err := next.startEmpty(); err != nil {
		next.discardFile()
		return next, err
	}
	return next, nil
}

// discardFile closes a successor that was not used and removes its file, because on a full disk the
// file would leave no space for the log itself.
func (l *logFile) discardFile() {
	_ = l.file.Close()
	if l.dir != nil {
		_ = unix.Unlinkat(int(l.dir.Fd()), tableNext, 0)
	}
}

// replaceBy replaces the log by next.
func (l *logFile) replaceBy(next *logFile) error {
	if l.dir != nil {
		if err := next.file.Sync(); err != nil {
			return err
		}
		next.unsynced = false
		if err := l.mayWrite(); err != nil {
			return err
		}
		at := int(l.dir.Fd())
		if err := unix.Renameat(at, tableNext, at, FileName); err != nil {
			return err
		}
		next.renameUnsynced = l.dir.Sync() != nil // next is the log now, even if a power failure may undo the rename
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
	fd, err := unix.MemfdCreate(FileName, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating the handle table in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), FileName), nil
}
