package fusefs

import "sync"

// writeErrors holds the failures to store data written to a node, like Linux's
// errseq_t. Each failure has a number, and each open file remembers the last one
// reported to it. No report thus consumes another's: after the close of a
// descriptor that a child inherited, or of another file of the node, fsync still
// reports the error.
type writeErrors struct {
	mu sync.Mutex
	lastWriteError
	purgeDone  chan struct{} // closed when the kernel has dropped its pages; nil: not dropping any
	purgeAgain bool          // more data was lost in the meantime
}

// A lastWriteError is the last failure, with the last failures reported to any
// file.
type lastWriteError struct {
	seq      uint64 // number of the last failure; 0: none
	err      error
	reported reportedSeq
}

// A reportedSeq holds the numbers of the last failures that calls reported to an
// open file, or to any.
type reportedSeq struct {
	fsync uint64
	close uint64 // reported by any call; the program may have ignored it
	write uint64
}

func (l *writeErrors) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	l.err = err
}

// reportedAtOpen returns the failures that count as reported for a file being
// opened. Its fsync reports those that no fsync has reported yet, and its close
// those that no call has reported.
func (l *writeErrors) reportedAtOpen() reportedSeq {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.reported
	t.write = l.seq
	return t
}

// fsyncError returns the failure that a file's fsync must report, once.
func (l *writeErrors) fsyncError(f *reportedSeq) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq == f.fsync {
		return nil
	}
	*f = reportedSeq{l.seq, l.seq, l.seq}
	l.reported.fsync, l.reported.close = l.seq, l.seq
	return l.err
}

// closeError returns the failure that the close of a descriptor must report. fsync
// must still report the failure: there may be other descriptors, and an exiting
// process closes its own and ignores the result.
func (l *writeErrors) closeError(f *reportedSeq) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq == f.close {
		return nil
	}
	l.reported.close = l.seq
	return l.err
}

// writeError returns the failure that a write must report, once, so that a program
// stops writing to a full disk. fsync and close report it all the same, as does the
// fsync of files opened later.
func (l *writeErrors) writeError(f *reportedSeq) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq == f.write {
		return nil
	}
	f.write, l.reported.close = l.seq, l.seq
	return l.err
}

// markTruncated records that the file has been truncated to nothing: earlier losses
// no longer matter to later opens.
func (l *writeErrors) markTruncated() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reported.fsync, l.reported.close = l.seq, l.seq
}

// unreportedError returns the failures, and whether an fsync must still report the last
// one.
func (l *writeErrors) unreportedError() (o lastWriteError, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastWriteError, l.seq > l.reported.fsync
}

// isUnreported reports whether no call has reported the last failure.
func (o *lastWriteError) isUnreported() bool { return o.seq > o.reported.close }

// recordLoss records that data written to n is lost. The kernel's pages and its
// size of n then differ from the server's.
func (m *Mount) recordLoss(n *node, err error) {
	l := &n.ensurePending().losses
	l.add(err)
	m.invalidateAttr(n)
	m.purgePages(n, l)
}

// purgePages makes the kernel drop n's pages. The kernel locks pages while it reads
// or writes them, so only replies to fsync and close may wait for purgePages.
func (m *Mount) purgePages(n *node, l *writeErrors) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.purgeAgain = l.purgeDone != nil; l.purgeAgain {
		return
	}
	l.purgeDone = make(chan struct{})
	m.notifications.Go(func() {
		for again := true; again; {
			_ = m.server.InodeNotify(n.id, 0, 0) // the kernel may have forgotten n
			again = l.finishPurge()
		}
	})
}

// finishPurge reports whether more data was lost while the kernel dropped pages.
func (l *writeErrors) finishPurge() (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if again, l.purgeAgain = l.purgeAgain, false; !again {
		close(l.purgeDone)
		l.purgeDone = nil
	}
	return again
}

// awaitPurge waits until the kernel has dropped the pages with lost data, or o is
// canceled.
func (l *writeErrors) awaitPurge(o *op) {
	l.mu.Lock()
	purged := l.purgeDone
	l.mu.Unlock()
	if purged != nil {
		select {
		case <-purged:
		case <-o.Done():
		}
	}
}
