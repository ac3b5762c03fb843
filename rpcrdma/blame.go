package rpcrdma

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A chunk that cannot be accessed terminates its connection. The requester then
// reconnects and retransmits the call with the same XID, and so on forever. A
// call that is known to have terminated a connection is therefore answered with
// ERR_CHUNK when it is retransmitted (RFC 8166, Section 4.5.3).

// failedCalls records the calls that are known to have terminated a connection.
// The zero value is empty.
type failedCalls struct {
	count atomic.Int32 // len(all): usually 0, which needs no lock

	mu    sync.Mutex
	calls []failedCall // newest last
}

// A failedCall identifies a call, kept for as long as its requester is likely to retransmit it. The
// port is ignored, because the next connection has another.
type failedCall struct {
	host  netip.Addr
	xid   uint32
	until time.Time
}

// add records a call, in place of the oldest if there are maxFailedCalls.
func (b *failedCalls) add(host netip.Addr, xid uint32) {
	b.removeCall(host, xid)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls) == maxFailedCalls {
		b.calls = append(b.calls[:0], b.calls[1:]...)
	}
	b.calls = append(b.calls, failedCall{host, xid, time.Now().Add(failedCallTime)})
	b.count.Store(int32(len(b.calls)))
}

// removeCall removes a call, and reports whether it was recorded.
func (b *failedCalls) removeCall(host netip.Addr, xid uint32) (found bool) {
	if b.count.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, kept := time.Now(), b.calls[:0]
	for _, e := range b.calls {
		switch {
		case now.After(e.until):
		case e.host == host && e.xid == xid:
			found = true
		default:
			kept = append(kept, e)
		}
	}
	b.calls = kept
	b.count.Store(int32(len(kept)))
	return found
}

// recordIfUnreachable records the call if err reports that its memory could not be accessed.
func (cl *call) recordIfUnreachable(err error) {
	var access rdma.AccessError
	if errors.As(err, &access) && cl.hasHandle(uint32(access.STag)) {
		cl.conn.srv.failedCalls.add(cl.conn.peer.Addr.Addr(), cl.hdr.XID)
	}
}

// hasHandle reports whether the call has a segment with the given handle.
func (cl *call) hasHandle(handle uint32) bool {
	for i := range cl.plan.reads {
		for _, s := range cl.plan.reads[i].Segments {
			if s.Handle == handle {
				return true
			}
		}
	}
	return cl.hdr.Lists.Names(handle)
}

// recordEndedCallsLocked checks the completed calls too: a reply may have been sent before the peer
// detects that its Writes have no valid target.
func (c *conn) recordEndedCallsLocked(err error) {
	for cl := c.freeCalls.head; cl != nil; cl = cl.next {
		cl.recordIfUnreachable(err)
	}
}
