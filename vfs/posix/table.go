//go:build linux

package posix

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A table keeps entries by inode number. The entries are on file. Memory holds
// only their offsets, which take 20 to 40 bytes for each inode that a handle
// was given out for and that is not known to be gone. The file is a log in
// which the last record of an inode is the valid one, so a process killed at
// any moment leaves it readable.
type table struct {
	log *slog.Logger
	mu  sync.Mutex
	logFile
	index   map[uint64]int64 // inode → offset of its record, or the complement if the object has gone
	fresh   map[uint64]bool  // inodes whose handle is in no record on file
	live    int              // entries of index that are not gone
	records int              // in the file and pending
	syncing sync.Mutex       // held by sync, and taken before mu
	fsync   func(*os.File) error
	torn    bool   // a sync has failed: the content on the disk is unknown
	pending []byte // records to be written at the file's end
	scratch []byte
}

// maxPending bounds the bytes of unwritten records.
const maxPending = 1 << 20

// get returns the entry of an inode. mu is held.
func (t *table) get(ino uint64) (e entry, ok bool, err error) {
	at, ok := t.index[ino]
	if !ok {
		return entry{}, false, nil
	}
	rec, err := t.record(max(at, ^at))
	if err != nil {
		return entry{}, false, err
	}
	e, err = parseRecord(rec)
	return e, err == nil, err
}

// record returns the record at an offset, as part of t.scratch or t.pending.
func (t *table) record(at int64) ([]byte, error) {
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

// put makes e the valid entry of its inode; flush then writes it. mu is held.
func (t *table) put(e *entry) error {
	if len(t.pending) > maxPending {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if old, ok, err := t.get(e.ino); err != nil || !ok || old.tableID != e.tableID || old.gone() {
		t.fresh[e.ino] = true
	}
	at := t.size + int64(len(t.pending))
	t.pending = e.appendTo(t.pending)
	t.point(e.ino, at, e.gone())
	t.records++
	return nil
}

// point sets the offset of an inode's valid record.
func (t *table) point(ino uint64, at int64, gone bool) {
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

// unwritten reports whether the valid record of an inode is not yet on file. mu
// is held.
func (t *table) unwritten(ino uint64) bool {
	at, ok := t.index[ino]
	return ok && max(at, ^at) >= t.size
}

// flush writes the pending records. mu is held.
func (t *table) flush() error {
	if len(t.pending) == 0 {
		return nil
	}
	if err := t.append(t.pending); err != nil {
		return err
	}
	t.pending = t.pending[:0]
	clear(t.fresh)
	if t.records > 2*t.live+compactSlack {
		if err := t.compact(); err != nil {
			t.log.Warn("handle table stays long", "err", err)
			t.records = t.live // postpone the next attempt
		}
	}
	return nil
}

// sync puts the flushed records on stable storage. It does not hold mu
// meanwhile, because a disk may be slow. A concurrent call waits, and then
// syncs the rest. A log that compact has put in place meanwhile is on stable
// storage if its name is. After a failure sync rewrites the log, because Linux
// treats pages that it failed to write as written.
func (t *table) sync() error {
	t.syncing.Lock()
	defer t.syncing.Unlock()
	t.mu.Lock()
	if t.torn {
		defer t.mu.Unlock()
		return t.mend()
	}
	late, file := t.late, t.file
	t.late = false
	t.mu.Unlock()
	if !late {
		return nil
	}
	err := t.fsync(file)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.file == file && err != nil:
		t.late, t.torn = true, true
		return err
	case t.torn: // set by the log that has replaced this one
		return unix.EIO
	}
	return nil
}

// mend rewrites a torn log. mu is held.
func (t *table) mend() error {
	if err := t.flush(); err != nil {
		return err
	}
	if err := t.compact(); err != nil {
		return err
	}
	if t.torn {
		return unix.EIO
	}
	return nil
}

// load reads the file after its header. It cuts off an incomplete end, as left
// by a crash during a write, and reports whether anything before the end is
// damaged.
func (t *table) load() (damaged bool, err error) {
	t.index, t.fresh = make(map[uint64]int64), make(map[uint64]bool)
	t.live, t.records = 0, 0
	end, lost, err := t.scan(func(at int64, e *entry, _ []byte) error {
		t.point(e.ino, at, e.gone())
		t.records++
		return nil
	})
	if err != nil {
		return false, err
	}
	if end < t.size {
		t.log.Warn("handle table: end cut off", "bytes", t.size-end)
	}
	if lost > 0 {
		t.log.Error("handle table: a part is damaged; clients' handles of its files may be stale", "bytes", lost)
	}
	return lost > 0, t.truncate(end)
}

// compact writes a new file with the valid entries only. mu is held, and
// nothing is pending.
func (t *table) compact() error {
	next, err := t.successor()
	if err != nil {
		return err
	}
	index := make(map[uint64]int64, t.live)
	_, _, err = t.scan(func(at int64, e *entry, rec []byte) error {
		if t.index[e.ino] != at {
			return nil
		}
		index[e.ino] = next.size + int64(len(t.pending))
		t.pending = append(t.pending, rec...)
		if len(t.pending) < maxPending {
			return nil
		}
		return t.spill(&next)
	})
	if err == nil {
		err = t.spill(&next)
	}
	if err == nil {
		err = t.replaceBy(&next)
	}
	t.pending = t.pending[:0]
	if err != nil {
		next.discard()
		return err
	}
	t.index, t.live, t.records, t.torn = index, len(index), len(index), t.unnamed
	return nil
}

func (t *table) spill(next *logFile) error {
	err := next.append(t.pending)
	t.pending = t.pending[:0]
	return err
}

// openTable opens the table of the export with this root.
func openTable(dir string, root tableID, log *slog.Logger) (*table, error) {
	l, fresh, err := openLog(dir, root.appendTo([]byte(tableMagic)))
	if err != nil {
		return nil, err
	}
	if fresh && dir != "" {
		log.Info("handle table begun", "dir", dir)
	}
	t := &table{log: log, logFile: l, scratch: make([]byte, maxRecord), fsync: (*os.File).Sync}
	damaged, err := t.load()
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	if damaged || t.records > t.live {
		if err := t.compact(); err != nil { // a full disk: the table is readable anyway
			log.Warn("handle table stays long", "err", err)
		}
	}
	return t, nil
}
