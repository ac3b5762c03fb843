package fusefs

import (
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A prefetch is all the data of a small file, read while it was asked for what is to be
// held of it, so that who opens and reads it for the first time waits but once.
type prefetch struct {
	data []byte
	attr nfs3.PostOpAttr

	began uint64 // tick before the call
	read  int64  // what the server's clock showed then at least
}

// readEarly begins to read n, which is being opened, if it is small and to be held, and
// the kernel has nothing of it. The function that it returns waits for the data, which
// may be nil; it must be called.
func (m *Mount) readEarly(o *op, n *node, types delegation.Types) func() *prefetch {
	if types == 0 || n.object().Types() != 0 || !m.holdable(n) {
		return func() *prefetch { return nil }
	}
	n.mu.Lock()
	size := n.attr.Size
	small := n.known && n.attr.Type == nfs3.TypeReg && size > 0 && size <= maxEarly && n.pages == nil
	n.mu.Unlock()
	if !small {
		return func() *prefetch { return nil }
	}
	done := make(chan *prefetch, 1)
	go func() {
		e := &prefetch{began: m.tick(), read: m.cfg.Held.ServerTime()}
		res, err := o.c().Read(o, n.fh, 0, make([]byte, size+1))
		if err != nil || !res.EOF {
			done <- nil
			return
		}
		e.data, e.attr = res.Data, res.Attr
		done <- e
	}()
	return func() *prefetch { return <-done }
}

// counts tells whether e may be taken for what the kernel reads of n after p: nothing
// has changed in between.
func (e *prefetch) counts(n *node, p *pages) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return e.began > n.changed && e.attr.OK && delegation.Unchanged(stampOf(&e.attr.Attr), p.stamp, e.read)
}

// readEarly copies the data of f to p that were read early, for the first READ of it,
// if that wants them all and they are still all.
func (f *file) readEarly(p []byte, off uint64) (n int, ok bool) {
	if f.prefetch.Load() == nil {
		return 0, false
	}
	e := f.prefetch.Swap(nil)
	if e == nil || off != 0 || len(p) < len(e.data) {
		return 0, false
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	if e.began <= f.n.changed {
		return 0, false
	}
	return copy(p, e.data), true
}
