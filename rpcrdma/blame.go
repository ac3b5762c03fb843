package rpcrdma

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A chunk that cannot be reached costs its connection. The requester then
// connects again and repeats the call with the same XID, and so on for ever. A
// call that is known to have ended a connection is therefore answered with
// ERR_CHUNK when it is repeated (RFC 8166, Section 4.5.3).

// blames remembers the calls that are known to have ended a connection. The
// zero value has none.
type blames struct {
	n atomic.Int32 // len(all): usually 0, and then no lock is needed

	mu  sync.Mutex
	all []blame // the newest last
}

// A blame is a call, kept for as long as its requester is likely to repeat it.
// The port is ignored: the next connection has another.
type blame struct {
	host  netip.Addr
	xid   uint32
	until time.Time
}

// note remembers a call, in place of the oldest if there are maxBlames.
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

// remove forgets a call, and reports whether it was remembered.
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

// blame remembers the call if err says that its memory could not be reached.
func (cl *call) blame(err error) {
	var access rdma.AccessError
	if errors.As(err, &access) && cl.names(uint32(access.STag)) {
		cl.conn.srv.blames.note(cl.conn.peer.Addr.Addr(), cl.hdr.XID)
	}
}

// names reports whether the call has a segment with the given handle.
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

// blameEndedLocked searches the ended calls for the one to blame: a reply may
// have left before the peer finds that its Writes have no valid target.
func (c *conn) blameEndedLocked(err error) {
	for cl := c.idle.head; cl != nil; cl = cl.next {
		cl.blame(err)
	}
}
