package nfsrdma

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/internal/stablefile"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfsserver/journal"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
)

// A clientList is the journal of NFSv4 clients, and of the lease of this project's delegations. If
// the disk is too full to create it, the server starts without it and creates it as soon as there
// is space.
type clientList struct {
	dir, name string
	tenure    *tenure.Tenure
	log       *slog.Logger

	mu      sync.Mutex
	journal *journal.Journal // nil until created
}

// openClientList opens the list in a file, and returns the clients that it has from
// earlier runs. If path is "", both are empty. An error names the file.
func openClientList(path string, held *tenure.Tenure, log *slog.Logger) (*clientList, nfs4state.Past, error) {
	if path == "" {
		return nil, nfs4state.Past{}, nil
	}
	l := &clientList{dir: filepath.Dir(path), name: filepath.Base(path), tenure: held, log: log}
	_, missing := os.Lstat(path)
	j, found, err := journal.Open(l.dir, l.name, nfs4state.JournalHeader, l.tenure)
	switch {
	case errors.Is(missing, fs.ErrNotExist) && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)):
		return l, nfs4state.Past{Counters: l.adoptMarker(0)}, nil // the State reports the error
	case err != nil:
		return nil, nfs4state.Past{}, err
	}
	l.journal = j
	past, err := nfs4state.ReadPast(found.Records)
	if found.Void || err != nil {
		past.Unknown, past.Counters = true, delegserver.MaxLease
		log.Warn("NFSv4 clients cannot reclaim their open files and locks, because the list of clients is corrupt or from another version of nfsrdma", "file", path)
	}
	past.Counters = l.adoptMarker(past.Counters)
	if n := past.Clients(); n > 0 {
		log.Info("NFSv4 clients may reclaim their open files and locks now", "clients", n)
	}
	return l, past, nil
}

// adoptMarker returns the longer of two leases: the journal's, and that in the file in which
// development versions kept it. It moves the latter to the journal.
func (l *clientList) adoptMarker(recorded time.Duration) time.Duration {
	path := filepath.Join(l.dir, "grants")
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxMarker {
		return recorded
	}
	text, _ := os.ReadFile(path) // without text, it has no lease
	lease, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil || lease <= 0 || lease > delegserver.MaxLease {
		return recorded
	}
	lease = max(lease, recorded)
	if l.journal != nil && l.journal.Append(nfs4state.AppendCounters(nil, lease)) == nil && !l.tenure.Over() {
		_ = errors.Join(os.Remove(path), stablefile.SyncDir(l.dir, (*os.File).Sync)) // changes wait again at worst
	}
	return lease
}

// maxMarker is an upper bound for the length of such a file, in bytes.
const maxMarker = 64

// Append appends records to the journal.
func (l *clientList) Append(records ...[]byte) error { return l.openedJournal().Append(records...) }

// Replace replaces all records, and creates the journal if there is none.
func (l *clientList) Replace(records func() [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.journal == nil {
		j, _, err := journal.Open(l.dir, l.name, nfs4state.JournalHeader, l.tenure)
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
	l.log.Error("NFSv4 clients cannot open or lock files now, and no delegations are granted, because the list of clients cannot be written; reads and writes continue", "err", err)
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
