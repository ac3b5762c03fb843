package fusefs

import (
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A prefetch is the content of a small file, read concurrently with the ACQUIRE
// that open sends. The first open and read of a file then cost one round trip.
type prefetch struct {
	data []byte
	attr nfs3.PostOpAttr

	began uint64 // tick before the call
	read  int64  // lower bound of the server's clock then
}

// readEarly begins to read n, which is being opened, if n is small and to be
// held and the kernel has nothing of it. The returned function waits for the
// prefetch, which may be nil. The caller must call the function.
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

// counts reports whether e may serve as the data that the kernel reads of n
// after p: nothing has changed in between.
func (e *prefetch) counts(n *node, p *pages) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return e.began > n.changed && e.attr.OK && delegation.Unchanged(stampOf(&e.attr.Attr), p.stamp, e.read)
}

// readEarly copies the prefetch of f to p for the first READ of f, if that READ
// asks for the whole file and nothing has changed since.
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
