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

	"github.com/nfsrdma/nfsrdma/journal"
	"github.com/nfsrdma/nfsrdma/nfs4state"
)

// A clientList is the journal of the clients of version 4. If there is no room to
// begin one, the daemon serves all the same, and begins the journal as soon as
// there is room.
type clientList struct {
	dir, name string
	log       *slog.Logger

	mu      sync.Mutex
	journal *journal.Journal // nil: not begun
}

// openClients opens the list in a file, and returns the clients that earlier
// servers have left there. If path is "", both are empty. An error names the file.
func openClients(path string, log *slog.Logger) (*clientList, nfs4state.Past, error) {
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
		log.Warn("clients of version 4 cannot reclaim their open files and locks, and all changes wait for a lease, because the list of these clients is damaged or of another version of nfsrdma", "file", path)
	}
	if n := past.Clients(); n > 0 {
		log.Info("clients of version 4 may reclaim their open files and locks now", "clients", n)
	}
	return l, past, nil
}

// Append appends records to the journal.
func (l *clientList) Append(records ...[]byte) error { return l.opened().Append(records...) }

// Replace makes records the only ones, in a new journal if there was none.
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
func (l *clientList) Size() int64 { return l.opened().Size() }

// opened returns the journal. A State appends nothing before its first Replace
// has succeeded.
func (l *clientList) opened() *journal.Journal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal
}

// stored tells the administrator when the journal begins to fail, and when that
// is over.
func (l *clientList) stored(err error) {
	if err == nil {
		l.log.Info("the list of clients of version 4 is written again")
		return
	}
	l.log.Error("clients of version 4 cannot open or lock files now, because the list of these clients cannot be written; reads and writes go on", "err", err)
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

// epoch4 returns a number for a State that no earlier one had, also if the list of
// clients or the clock was set back.
func epoch4(past *nfs4state.Past, now time.Time) uint32 {
	return min(max(past.Epoch+1, uint32(now.Unix()), 1), 1<<32-2)
}
