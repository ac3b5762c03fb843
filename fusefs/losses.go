package fusefs

import "sync"

// losses are the failures to store data written to a node, like Linux's
// errseq_t. Each failure has a number, and each open file remembers the last
// one reported to it. No report thus consumes another's: the close of a
// descriptor that a child inherited, or of another file of the node, leaves
// fsync its error.
type losses struct {
	mu sync.Mutex
	owed
	purged chan struct{} // closed when the kernel has dropped its pages; nil: not dropping any
	again  bool          // more data was lost meanwhile
}

// An owed is the last failure, and the last failures reported to any file.
type owed struct {
	last uint64 // number of the last failure; 0: none
	err  error
	told told
}

// A told is the last failure that calls reported to an open file, or to any.
type told struct {
	fsync uint64
	close uint64 // by any call; the program may have ignored it
	write uint64
}

func (l *losses) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.err = err
}

// opened returns the failures that a file being opened counts as reported. Its
// fsync reports those that no fsync has reported yet, and its close those that
// no call has reported.
func (l *losses) opened() told {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.told
	t.write = l.last
	return t
}

// byFsync returns the failure that a file's fsync must report, once.
func (l *losses) byFsync(f *told) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == f.fsync {
		return nil
	}
	*f = told{l.last, l.last, l.last}
	l.told.fsync, l.told.close = l.last, l.last
	return l.err
}

// byClose returns the failure that the close of a descriptor must report. The
// file still owes the failure to fsync: there may be other descriptors, and an
// exiting process closes its own without a look at the result.
func (l *losses) byClose(f *told) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == f.close {
		return nil
	}
	l.told.close = l.last
	return l.err
}

// byWrite returns the failure that ends a write, once, so that a program stops
// writing to a full disk. It is reported to fsync and close all the same, also
// to the fsync of files opened later.
func (l *losses) byWrite(f *told) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == f.write {
		return nil
	}
	f.write, l.told.close = l.last, l.last
	return l.err
}

// emptied notes that the file has been truncated to nothing: earlier losses no
// longer matter to later opens.
func (l *losses) emptied() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told.fsync, l.told.close = l.last, l.last
}

// debt returns the failures, and whether an fsync must still report the last
// one.
func (l *losses) debt() (o owed, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owed, l.last > l.told.fsync
}

// untold reports whether no call has reported the last failure.
func (o *owed) untold() bool { return o.last > o.told.close }

// lost records that data of n is lost. The kernel's pages and its size of n
// then differ from the server's.
func (m *Mount) lost(n *node, err error) {
	l := &n.pend().losses
	l.add(err)
	m.suspect(n)
	m.purge(n, l)
}

// purge has the kernel drop n's pages. The kernel locks pages while it reads or
// writes them, so only answers to fsync and close may wait for purge.
func (m *Mount) purge(n *node, l *losses) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.again = l.purged != nil; l.again {
		return
	}
	l.purged = make(chan struct{})
	m.notes.Go(func() {
		for again := true; again; {
			_ = m.server.InodeNotify(n.id, 0, 0) // the kernel may have forgotten n
			again = l.purgedOnce()
		}
	})
}

// purgedOnce reports whether more data was lost while the kernel dropped pages.
func (l *losses) purgedOnce() (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if again, l.again = l.again, false; !again {
		close(l.purged)
		l.purged = nil
	}
	return again
}

// purging waits until the kernel has dropped the pages of lost data, or o has
// ended.
func (l *losses) purging(o *op) {
	l.mu.Lock()
	purged := l.purged
	l.mu.Unlock()
	if purged != nil {
		select {
		case <-purged:
		case <-o.Done():
		}
	}
}
