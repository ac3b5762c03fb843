package rpcrdma

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A chunk that cannot be reached costs its connection. The requester then makes
// another one and calls again, with the same XID, and so on for ever. A call that
// is known to have done that is therefore answered with ERR_CHUNK when it comes
// again (RFC 8166, Section 4.5.3).

// blames are the calls that are known to have ended a connection. The zero value
// has none.
type blames struct {
	n atomic.Int32 // of them: most often there are none, and no lock is needed

	mu  sync.Mutex
	all []blame // the newest last
}

// A blame is a call, for as long as its requester is likely to make it again. The
// port is not looked at: the next connection has another.
type blame struct {
	host  netip.Addr
	xid   uint32
	until time.Time
}

// note remembers a call, in place of the oldest where there are many.
func (b *blames) note(host netip.Addr, xid uint32) {
	b.remove(host, xid)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == maxBlames {
		b.all = append(b.all[:0], b.all[1:]...)
	}
	b.all = append(b.all, blame{host, xid, time.Now().Add(blameTime)})
	b.n.Store(int32(len(b.all)))
}

// remove forgets a call, and tells whether it was there.
func (b *blames) remove(host netip.Addr, xid uint32) (blamed bool) {
	if b.n.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, kept := time.Now(), b.all[:0]
	for _, e := range b.all {
		switch {
		case now.After(e.until):
		case e.host == host && e.xid == xid:
			blamed = true
		default:
			kept = append(kept, e)
		}
	}
	b.all = kept
	b.n.Store(int32(len(kept)))
	return blamed
}

// blame remembers the call, if err says that its memory could not be reached.
func (cl *call) blame(err error) {
	var access rdma.AccessError
	if errors.As(err, &access) && cl.names(uint32(access.STag)) {
		cl.conn.srv.blames.note(cl.conn.peer.Addr.Addr(), cl.hdr.XID)
	}
}

// names tells whether the call has a segment with the given handle.
func (cl *call) names(handle uint32) bool {
	for i := range cl.plan.reads {
		for _, s := range cl.plan.reads[i].Segments {
			if s.Handle == handle {
				return true
			}
		}
	}
	return cl.hdr.Lists.Names(handle)
}

// blameEndedLocked looks for the call to blame among those that have ended: a
// reply may have left before the peer finds that its Writes go nowhere.
func (c *conn) blameEndedLocked(err error) {
	for cl := c.idle.head; cl != nil; cl = cl.next {
		cl.blame(err)
	}
}
