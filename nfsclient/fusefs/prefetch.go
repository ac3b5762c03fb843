package fusefs

import (
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A prefetch is a small file's content, read concurrently with the ACQUIRE that
// open sends. The first open and read of a file then cost one round trip.
type prefetch struct {
	data []byte
	attr nfs3.PostOpAttr

	began uint64 // tick before the call
	read  int64  // lower bound of the server's clock at that time
}

// startPrefetch begins to read n, which is being opened, if n is small, a
// delegation is about to be requested, and the kernel has none of its pages. The
// returned function waits for the prefetch, which may be nil. The caller must call
// the function.
func (m *Mount) startPrefetch(o *op, n *node, types delegation.Types) func() *prefetch {
	if types == 0 || n.delegationObject().Types() != 0 || !m.isDelegatable(n) {
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
		e := &prefetch{began: m.nextTick(), read: m.cfg.Held.ServerTime()}
		res, err := o.callerClient().Read(o, n.fh, 0, make([]byte, size+1))
		if err != nil || !res.EOF {
			done <- nil
			return
		}
		e.data, e.attr = res.Data, res.Attr
		done <- e
	}()
	return func() *prefetch { return <-done }
}

// matchesPages reports whether e holds the data that the kernel is about to read of n,
// whose state p describes: the file has not changed between e and p.
func (e *prefetch) matchesPages(n *node, p *cachedPages) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return e.began > n.changedAt && e.attr.OK && delegation.Unchanged(attrStamp(&e.attr.Attr), p.stamp, e.read)
}

// readPrefetched copies f's prefetch to p for the first READ, if that READ asks for
// the whole file and nothing has changed since.
func (f *openFile) readPrefetched(p []byte, off uint64) (n int, ok bool) {
	if f.prefetch.Load() == nil {
		return 0, false
	}
	e := f.prefetch.Swap(nil)
	if e == nil || off != 0 || len(p) < len(e.data) {
		return 0, false
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	if e.began <= f.n.changedAt {
		return 0, false
	}
	return copy(p, e.data), true
}
