package fusefs

import (
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A sillyCount counts the hidden names in a directory. The kernel reports that
// a file is closed a moment after close(2) has returned. A program that closes
// a file, removes it, and then removes its directory may therefore find the
// hidden name there. Rmdir and Rename must wait for that moment.
type sillyCount struct {
	names int
	gone  chan struct{} // closed when no names remain; nil: no goroutine waits
}

// addHiddenNames adds names to n's count of hidden names.
func (n *node) addHiddenNames(names int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := &n.directoryState().sillyCount
	if v.names += names; v.names == 0 && v.gone != nil {
		close(v.gone)
		v.gone = nil
	}
}

// hasHiddenNames reports whether n has hidden names.
func (n *node) hasHiddenNames() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.directory.Load()
	return d != nil && d.sillyCount.names > 0
}

// awaitNoHiddenNames returns when n has no hidden names, or after closeWait, or
// when o is canceled.
func (n *node) awaitNoHiddenNames(o *op) {
	n.mu.Lock()
	v := &n.directoryState().sillyCount
	if v.names == 0 {
		n.mu.Unlock()
		return
	}
	if v.gone == nil {
		v.gone = make(chan struct{})
	}
	none := v.gone
	n.mu.Unlock()
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-none:
	case <-t.C:
	case <-o.Done():
	}
}

// retryNotEmpty calls do, which fails at the server unless directory n is empty,
// and calls it again if n had hidden names that may have been removed. n may be
// nil.
func retryNotEmpty(o *op, n *node, do func() error) error {
	hides := n != nil && n.hasHiddenNames()
	err := do()
	if hides && errors.Is(err, nfs3.ErrNotEmpty) {
		n.awaitNoHiddenNames(o)
		err = do()
	}
	return err
}
