package nfsrdma

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsserver/journal"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
)

// A clientList is the journal of NFSv4 clients. If the disk is too full to create it,
// the server starts without it and creates it as soon as there is space.
type clientList struct {
	dir, name string
	log       *slog.Logger

	mu      sync.Mutex
	journal *journal.Journal // nil until created
}

// openClientList opens the list in a file, and returns the clients that it has from
// earlier runs. If path is "", both are empty. An error names the file.
func openClientList(path string, log *slog.Logger) (*clientList, nfs4state.Past, error) {
	if path == "" {
		return nil, nfs4state.Past{}, nil
	}
	l := &clientList{dir: filepath.Dir(path), name: filepath.Base(path), log: log}
	_, missing := os.Lstat(path)
	j, found, err := journal.Open(l.dir, l.name, nfs4state.JournalHeader)
	switch {
	case errors.Is(missing, fs.ErrNotExist) && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)):
		return l, nfs4state.Past{}, nil // the State reports the error
	case err != nil:
		return nil, nfs4state.Past{}, err
	}
	l.journal = j
	past, err := nfs4state.ReadPast(found.Records)
	if found.Void || err != nil {
		past.Unknown = true
		log.Warn("NFSv4 clients cannot reclaim their open files and locks, and all changes wait for a lease period, because the list of clients is corrupt or from another version of nfsrdma", "file", path)
	}
	if n := past.Clients(); n > 0 {
		log.Info("NFSv4 clients may reclaim their open files and locks now", "clients", n)
	}
	return l, past, nil
}

// Append appends records to the journal.
func (l *clientList) Append(records ...[]byte) error { return l.openedJournal().Append(records...) }

// Replace replaces all records, and creates the journal if there is none.
func (l *clientList) Replace(records func() [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.journal == nil {
		j, _, err := journal.Open(l.dir, l.name, nfs4state.JournalHeader)
		if err != nil {
			return err
		}
		l.journal = j
	}
	return l.journal.Replace(records)
}

// Size returns the length of the journal in bytes.
func (l *clientList) Size() int64 { return l.openedJournal().Size() }

// openedJournal returns the journal, which exists after the first successful Replace. A
// State appends nothing before that.
func (l *clientList) openedJournal() *journal.Journal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal
}

// reportStorage logs when writing the journal begins to fail, and when it succeeds again.
func (l *clientList) reportStorage(err error) {
	if err == nil {
		l.log.Info("the list of NFSv4 clients can be written again")
		return
	}
	l.log.Error("NFSv4 clients cannot open or lock files now, because the list of clients cannot be written; reads and writes continue", "err", err)
}

// Close closes the journal.
func (l *clientList) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.journal != nil {
		_ = l.journal.Close()
	}
}

// nextEpoch returns a number that no earlier State had, even if either the list of
// clients or the clock was reset.
func nextEpoch(past *nfs4state.Past, now time.Time) uint32 {
	return min(max(past.Epoch+1, uint32(now.Unix()), 1), 1<<32-2)
}
