package fusefs

import "sync"

// losses are the failures to store what was written to a node, as Linux's
// errseq_t: each has a number, and each open file remembers up to which it was
// told. So nobody takes what another is owed: the close of a descriptor that a
// child has a copy of, or of another file of the node, leaves fsync its error.
type losses struct {
	mu sync.Mutex
	owed
	purged chan struct{} // closed when the kernel has dropped its pages; nil: it has
	again  bool          // more was lost meanwhile
}

// An owed is the last failure, and up to which anybody was told.
type owed struct {
	last uint64 // its number; 0: there was none
	err  error
	told told
}

// A told is up to which failure an open file, or anybody, was told by a call.
type told struct {
	fsync uint64 // or by write
	close uint64 // or by these; nobody knows whether the program looked at it
	write uint64
}

func (l *losses) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.err = err
}

// opened returns from where on a file that is being opened is told of failures:
// by fsync of those, too, that no fsync has told of, and by close of those that
// nobody has been told of.
func (l *losses) opened() told {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.told
	t.write = l.last
	return t
}

// byFsync returns the failure that a file's fsync has to tell of, once.
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

// byClose returns the failure that the close of a descriptor has to tell of. It
// takes nothing from the file: there may be other descriptors, and whoever exits
// closes its own without a look at the outcome.
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
// writing to a full disk. Its fsync or close tells of it too.
func (l *losses) byWrite(f *told) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == f.write {
		return nil
	}
	f.write = l.last
	l.told.fsync, l.told.close = l.last, l.last
	return l.err
}

// emptied notes that the file has no content any more: what was lost of it is
// nothing to who opens it from now on.
func (l *losses) emptied() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told.fsync, l.told.close = l.last, l.last
}

// debt returns what some fsync has to tell yet.
func (l *losses) debt() (o owed, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owed, l.last > l.told.fsync
}

// untold tells whether nobody was told of a failure.
func (o *owed) untold() bool { return o.last > o.told.close }

// lost notes that data of n are lost. What the kernel has of them, and of n's
// size, the server has not.
func (m *Mount) lost(n *node, err error) {
	l := &n.pend().losses
	l.add(err)
	m.suspect(n)
	m.purge(n, l)
}

// purge has the kernel drop n's pages. They are locked while they are written or
// read, so that no answer may wait for that but those to fsync and close.
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

// purgedOnce tells whether more was lost while the kernel dropped pages.
func (l *losses) purgedOnce() (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if again, l.again = l.again, false; !again {
		close(l.purged)
		l.purged = nil
	}
	return again
}

// purging waits until the kernel has dropped the pages of what is lost, or o has
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
