//go:build linux

package handletable

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Table keeps entries by inode number. The entries are on file. Memory holds only their offsets,
// 20 to 40 bytes for each inode that has a handle and is not known to be removed. The file is a log
// in which an inode's last record is the valid one, so a process killed at any moment leaves it
// readable.
type Table struct {
	log *slog.Logger
	mu  sync.Mutex
	logFile
	index         map[uint64]int64 // inode → its record's offset, or the complement if the object was removed
	fresh         map[uint64]bool  // inodes whose handle is in no record on file
	live          int              // entries in index that were not removed
	records       int              // in the file and pending
	syncing       sync.Mutex       // held by Sync, and taken before mu
	fsync         func(*os.File) error
	rewriteNeeded bool   // a sync has failed: the content on the disk is unknown
	pending       []byte // records to be written at the file's end
	scratch       []byte
}

// Lock locks the table for Get, Version and Put. All other methods lock it themselves.
func (t *Table) Lock() { t.mu.Lock() }

// Unlock unlocks the table.
func (t *Table) Unlock() { t.mu.Unlock() }

// Get returns an inode's entry. The table is locked.
func (t *Table) Get(ino uint64) (e Entry, ok bool, err error) {
	at, ok := t.index[ino]
	if !ok {
		return Entry{}, false, nil
	}
	rec, err := t.recordAt(max(at, ^at))
	if err != nil {
		return Entry{}, false, err
	}
	e, err = parseRecord(rec)
	return e, err == nil, err
}

// recordAt returns the record at an offset, as a slice of t.scratch or t.pending.
func (t *Table) recordAt(at int64) ([]byte, error) {
	if at >= t.size {
		rec := t.pending[at-t.size:]
		return rec[:recordLen(rec)], nil
	}
	n, err := t.readAt(t.scratch, at)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if n < recordHead || n < recordLen(t.scratch) {
		return nil, errRecord
	}
	return t.scratch[:recordLen(t.scratch)], nil
}

// Unknown is the version if the table has no entry.
const Unknown = 0

// Version returns the version of an inode's entry, which changes with each Put. The table is
// locked.
func (t *Table) Version(ino uint64) int64 { return t.index[ino] }

// Put replaces its inode's entry by e; Flush then writes it. The table is locked.
func (t *Table) Put(e *Entry) error {
	if len(t.pending) > maxPending {
		if err := t.flushPending(); err != nil {
			return err
		}
	}
	if old, ok, err := t.Get(e.Ino); err != nil || !ok || old.ID != e.ID || old.IsStale() {
		t.fresh[e.Ino] = true
	}
	at := t.size + int64(len(t.pending))
	t.pending = e.appendRecord(t.pending)
	t.setOffset(e.Ino, at, e.IsStale())
	t.records++
	return nil
}

// Replace puts a corrected entry into the table and writes it, if the table's entry is still the
// version that was read.
func (t *Table) Replace(e *Entry, version int64) (same bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, ok, err := t.Get(e.Ino)
	if err != nil {
		return false, err
	}
	current := int64(Unknown)
	if ok && now.Birth == e.Birth {
		current = t.index[e.Ino]
	}
	if current != version {
		return false, nil
	}
	if err := t.Put(e); err != nil {
		return true, err
	}
	return true, t.flushPending()
}

// setOffset sets the offset for an inode's valid record.
func (t *Table) setOffset(ino uint64, at int64, gone bool) {
	if old, ok := t.index[ino]; ok && old >= 0 {
		t.live--
	}
	if gone {
		at = ^at
	} else {
		t.live++
	}
	t.index[ino] = at
}

// IsOnFile reports whether an inode's handle survives the process.
func (t *Table) IsOnFile(ino uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.fresh[ino]
}

// Flush writes all entries that are not yet on file.
func (t *Table) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flushPending()
}

// FlushEntry writes an inode's entry, if it is not yet on file.
func (t *Table) FlushEntry(ino uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isUnwritten(ino) {
		return nil
	}
	return t.flushPending()
}

// isUnwritten reports whether an inode's valid record is not yet on file. mu is held.
func (t *Table) isUnwritten(ino uint64) bool {
	at, ok := t.index[ino]
	return ok && max(at, ^at) >= t.size
}

// flushPending writes the pending records. mu is held.
func (t *Table) flushPending() error {
	if len(t.pending) == 0 {
		return nil
	}
	if err := t.append(t.pending); err != nil {
		return err
	}
	t.pending = t.pending[:0]
	clear(t.fresh)
	if t.records > 2*t.live+compactSlack {
		if err := t.compactLog(); err != nil {
			t.log.Warn("cannot compact the handle table; it keeps growing until a later attempt succeeds", "err", err)
			t.records = t.live // postpone the next attempt
		}
	}
	return nil
}

// Sync puts the flushed records on stable storage. It does not hold mu during the sync, because a
// disk may be slow. A concurrent call waits, and then syncs the rest. A log that compactLog has put
// in place in the meantime is on stable storage if its name is. After a failure Sync rewrites the
// log, because Linux treats pages that it failed to write as written.
func (t *Table) Sync() error {
	t.syncing.Lock()
	defer t.syncing.Unlock()
	t.mu.Lock()
	if t.rewriteNeeded {
		defer t.mu.Unlock()
		return t.rewriteTorn()
	}
	late, file := t.unsynced, t.file
	t.unsynced = false
	t.mu.Unlock()
	if !late {
		return nil
	}
	err := t.fsync(file)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.file == file && err != nil:
		t.unsynced, t.rewriteNeeded = true, true
		return err
	case t.rewriteNeeded: // set by the log that has replaced this one
		return unix.EIO
	}
	return nil
}

// rewriteTorn rewrites a torn log. mu is held.
func (t *Table) rewriteTorn() error {
	if err := t.flushPending(); err != nil {
		return err
	}
	if err := t.compactLog(); err != nil {
		return err
	}
	if t.rewriteNeeded {
		return unix.EIO
	}
	return nil
}

// loadLog reads the file after its header. It truncates an incomplete end, as left by a crash
// during a write, and reports whether anything before the end is damaged.
func (t *Table) loadLog() (damaged bool, err error) {
	t.index, t.fresh = make(map[uint64]int64), make(map[uint64]bool)
	t.live, t.records = 0, 0
	end, lost, err := t.scanRecords(func(at int64, e *Entry, _ []byte) error {
		t.setOffset(e.Ino, at, e.IsStale())
		t.records++
		return nil
	})
	if err != nil {
		return false, err
	}
	if end < t.size {
		t.log.Warn("handle table: incomplete end truncated", "bytes", t.size-end)
	}
	if lost > 0 {
		t.log.Error("handle table: damaged; some handles may be stale", "bytes", lost)
	}
	return lost > 0, t.truncate(end)
}

// compactLog writes a new file with the valid entries only. mu is held, and
// nothing is pending.
func (t *Table) compactLog() error {
	next, err := t.newSuccessor()
	if err != nil {
		return err
	}
	index := make(map[uint64]int64, t.live)
	_, _, err = t.scanRecords(func(at int64, e *Entry, rec []byte) error {
		if t.index[e.Ino] != at {
			return nil
		}
		index[e.Ino] = next.size + int64(len(t.pending))
		t.pending = append(t.pending, rec...)
		if len(t.pending) < maxPending {
			return nil
		}
		return t.writeValid(&next)
	})
	if err == nil {
		err = t.writeValid(&next)
	}
	if err == nil {
		err = t.replaceBy(&next)
	}
	t.pending = t.pending[:0]
	if err != nil {
		next.discardFile()
		return err
	}
	t.index, t.live, t.records, t.rewriteNeeded = index, len(index), len(index), t.renameUnsynced
	return nil
}

func (t *Table) writeValid(next *logFile) error {
	err := next.append(t.pending)
	t.pending = t.pending[:0]
	return err
}

// SetFsync replaces fsync(2) for tests; nil restores it.
func (t *Table) SetFsync(fsync func(*os.File) error) {
	if fsync == nil {
		fsync = (*os.File).Sync
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fsync = fsync
}

// Close puts the log on stable storage and closes it. Flush must come first.
func (t *Table) Close() error { return t.close() }

// Open opens the table for the export whose root has this ID, in a state directory. If dir is
// empty, the table is in memory. mayWrite is called before every change of the files, which fails with
// its error; nil means that they may always change.
func Open(dir string, root ID, mayWrite func() error, log *slog.Logger) (*Table, error) {
	if mayWrite == nil {
		mayWrite = func() error { return nil }
	}
	l, fresh, err := openLog(dir, root.AppendTo([]byte(tableMagic)), mayWrite)
	if err != nil {
		return nil, err
	}
	if fresh && dir != "" {
		log.Info("new handle table", "dir", dir)
	}
	t := &Table{log: log, logFile: l, scratch: make([]byte, maxRecord), fsync: (*os.File).Sync}
	damaged, err := t.loadLog()
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	if damaged || t.records > t.live {
		if err := t.compactLog(); err != nil { // a full disk: the table is readable anyway
			log.Warn("cannot compact the handle table; it keeps growing until a later attempt succeeds", "err", err)
		}
	}
	return t, nil
}
