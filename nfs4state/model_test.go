package nfs4state

import (
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// The sizes of a model: clients, open-owners and lock-owners of each, objects.
const (
	modelPeers   = 3
	modelOwners  = 2
	modelObjects = 2
)

// modelKeys are the objects. The host has locks of the first one alone.
var modelKeys = [modelObjects]string{"on the host", "alone"}

// cellStarts are the first bytes of the cells into which a model divides an
// object. All bytes of a cell are locked in the same way, because every range of
// a step begins and ends with a cell.
var cellStarts = [...]uint64{0, 1, 7, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 2, 1<<64 - 1}

const cells = len(cellStarts)

// A span is the cells from the first to the last.
type span struct{ first, last int }

// bytes returns the range of a span.
func (s span) bytes() locks.Range {
	r := locks.Range{Start: cellStarts[s.first], End: locks.ToEnd}
	if s.last+1 < cells {
		r.End = cellStarts[s.last+1] - 1
	}
	return r
}

// spanOf returns the span of a range, and whether there is one.
func spanOf(r locks.Range) (s span, ok bool) {
	s.first = slices.Index(cellStarts[:], r.Start)
	s.last = cells - 1
	if r.End != locks.ToEnd {
		s.last = slices.Index(cellStarts[:], r.End+1) - 1
	}
	return s, 0 <= s.first && s.first <= s.last
}

// cellKinds are the kinds of the cells of one object.
type cellKinds [cells]locks.Kind

// blocks reports whether a lock of one kind keeps another owner from a lock of
// the other kind.
func blocks(a, b locks.Kind) bool { return a != locks.None && b != locks.None && int(a)+int(b) > 2 }

// A model is a server of version 4.1 in few words: it has no stateid, no list
// and no tree, and looks at everything each time. A peer is a client over its
// restarts.
type model struct {
	now      time.Duration
	peers    [modelPeers]peer
	local    [modelObjects]cellKinds // locks of processes of the host
	specials [modelObjects][denyShift]int
}

// A standing is whether a stateid stands for anything.
type standing uint8

const (
	unknown standing = iota
	held
	revoked
)

// A cell is how one lock-owner has locked one cell, through which open-owner.
type cell struct {
	kind    locks.Kind
	through int
}

// An ask is one OPEN of a modelOpen.
type ask struct {
	modes uint32
	trial int // the number of its Trial, until that is settled
}

type modelOpen struct {
	standing
	seqid uint32
	asks  []ask
}

// modes returns the union of the modes of all OPENs.
func (o *modelOpen) modes() (all uint32) {
	for _, a := range o.asks {
		all |= a.modes
	}
	return all
}

type modelSet struct {
	standing
	seqid uint32
}

type peer struct {
	confirmed bool
	complete  bool // RECLAIM_COMPLETE was sent
	sessions  int
	used      time.Duration // the lease runs from then
	running   bool          // a call does not end
	revoked   int           // stateids

	opens [modelOwners][modelObjects]modelOpen             // by open-owner
	sets  [modelOwners][modelObjects][modelOwners]modelSet // by lock-owner, object, and open-owner
	bytes [modelOwners][modelObjects][cells]cell           // by lock-owner
}

// silent reports whether a client's lease has expired.
func (m *model) silent(p *peer) bool { return !p.running && m.now-p.used > testLease }

// end takes everything from a client.
func (m *model) end(p *peer) { *p = peer{} }

// count returns the numbers of opens and of lock stateids of p.
func (p *peer) count() (opens, sets int) {
	for owner := range p.opens {
		for object := range p.opens[owner] {
			if p.opens[owner][object].standing == held {
				opens++
			}
			for _, set := range p.sets[owner][object] {
				if set.standing == held {
					sets++
				}
			}
		}
	}
	return opens, sets
}

// ranges returns the number of locks of p: neighbours of one kind that were
// locked through one open are one lock.
func (p *peer) ranges() (n int) {
	for owner := range p.bytes {
		for object := range p.bytes[owner] {
			var last cell
			for _, c := range p.bytes[owner][object] {
				if c.kind != locks.None && c != last {
					n++
				}
				last = c
			}
		}
	}
	return n
}

// union returns the strongest lock of any client of each cell.
func (m *model) union(object int) (kinds cellKinds) {
	for i := range m.peers {
		for owner := range m.peers[i].bytes {
			for at, c := range m.peers[i].bytes[owner][object] {
				kinds[at] = max(kinds[at], c.kind)
			}
		}
	}
	return kinds
}

// denies reports whether one of two opens denies the other an access.
func denies(a, b uint32) bool {
	for access := uint32(1); access <= 2; access++ {
		if a&access != 0 && b>>denyShift&access != 0 || b&access != 0 && a>>denyShift&access != 0 {
			return true
		}
	}
	return false
}

// reserve judges share reservations. If only silent clients are in the way, they
// end. asks is nil for a call with a special stateid.
func (m *model) reserve(asks *peer, object int, modes uint32) bool {
	var silent []*peer
	for i := range m.peers {
		p := &m.peers[i]
		for owner := range p.opens {
			if !denies(p.opens[owner][object].modes(), modes) {
				continue
			}
			if p == asks || !m.silent(p) {
				return false
			}
			silent = append(silent, p)
		}
	}
	for _, p := range silent {
		m.end(p)
	}
	return true
}

// status judges a stateid: offset is its distance from the current
// one. every is set for the seqid that stands for every one.
func (s standing) status(every bool, offset int) nfs4.Status {
	switch {
	case s == unknown:
		return nfs4.ErrBadStateID
	case s == revoked:
		return nfs4.ErrAdminRevoked
	case every, offset == 0:
		return nfs4.OK
	case offset < 0:
		return nfs4.ErrOldStateID
	}
	return nfs4.ErrBadStateID
}

// open is OPEN. A trial is not 0 if the OPEN may still be taken back.
func (m *model) open(p *peer, owner, object int, access, deny uint32, trial int) nfs4.Status {
	modes := access | deny<<denyShift
	switch {
	case !p.complete:
		return nfs4.ErrGrace
	case access == 0:
		return nfs4.ErrInval
	case !m.reserve(p, object, modes):
		return nfs4.ErrShareDenied
	case deny&1 != 0 && m.specials[object][0] > 0, deny&2 != 0 && m.specials[object][1] > 0:
		return nfs4.ErrDelay
	}
	o := &p.opens[owner][object]
	if o.standing != held {
		*o = modelOpen{standing: held}
	}
	o.seqid++
	o.asks = append(o.asks, ask{modes, trial})
	return nfs4.OK
}

// close is CLOSE of an open that stands.
func (p *peer) close(owner, object int, after standing) {
	p.opens[owner][object] = modelOpen{standing: after}
	for l := range modelOwners {
		set := &p.sets[l][object][owner]
		if set.standing == held {
			*set = modelSet{standing: after}
		}
		for at := range p.bytes[l][object] {
			if c := &p.bytes[l][object][at]; c.through == owner {
				*c = cell{}
			}
		}
	}
}

// downgrade is OPEN_DOWNGRADE of an open that stands.
func (o *modelOpen) downgrade(access, deny uint32) nfs4.Status {
	modes := access | deny<<denyShift
	rest := modelOpen{standing: held, seqid: o.seqid + 1}
	for _, a := range o.asks {
		if a.modes|modes == modes {
			rest.asks = append(rest.asks, a)
		}
	}
	if access == 0 || rest.modes() != modes {
		return nfs4.ErrInval
	}
	*o = rest
	return nfs4.OK
}

// settle ends a trial: undo takes the OPEN back.
func (m *model) settle(trial int, undo bool) {
	for i := range m.peers {
		p := &m.peers[i]
		for owner := range p.opens {
			for object := range p.opens[owner] {
				o := &p.opens[owner][object]
				at := slices.IndexFunc(o.asks, func(a ask) bool { return a.trial == trial })
				switch {
				case at < 0:
				case !undo:
					o.asks[at].trial = 0
				case len(o.asks) == 1:
					p.close(owner, object, unknown)
				default:
					o.asks = slices.Delete(slices.Clone(o.asks), at, at+1)
				}
			}
		}
	}
}

// inTheWay returns the clients with locks that keep a lock-owner from locking.
func (m *model) inTheWay(asks *peer, owner, object int, s span, kind locks.Kind) (in [modelPeers]bool) {
	for i := range m.peers {
		p := &m.peers[i]
		for l := range p.bytes {
			for at := s.first; at <= s.last && (p != asks || l != owner); at++ {
				in[i] = in[i] || blocks(p.bytes[l][object][at].kind, kind)
			}
		}
	}
	return in
}

// test judges a LOCK or LOCKT by the locks of all others. If a client that is
// not silent is in the way, silent ones may end all the same: may has them.
func (m *model) test(p *peer, owner, object int, s span, kind locks.Kind) (status nfs4.Status, may [modelPeers]bool) {
	in := m.inTheWay(p, owner, object, s, kind)
	for i, is := range in {
		q := &m.peers[i]
		if is && (q == p || !m.silent(q)) {
			status = nfs4.ErrDenied
		} else if is {
			may[i] = true
		}
	}
	if status != nfs4.OK {
		return status, may
	}
	for i, is := range in {
		if is {
			m.end(&m.peers[i])
		}
	}
	for at := s.first; at <= s.last; at++ {
		if blocks(m.local[object][at], kind) {
			status = nfs4.ErrDenied
		}
	}
	return status, [modelPeers]bool{}
}

// lock is a LOCK that test has permitted.
func (p *peer) lock(owner, object, through int, s span, kind locks.Kind) {
	set := &p.sets[owner][object][through]
	if set.standing != held {
		*set = modelSet{standing: held}
	}
	set.seqid++
	for at := s.first; at <= s.last; at++ {
		p.bytes[owner][object][at] = cell{kind, through}
	}
}

// unlock is LOCKU by a lock stateid that stands.
func (p *peer) unlock(owner, object, through int, s span) {
	p.sets[owner][object][through].seqid++
	for at := s.first; at <= s.last; at++ {
		p.bytes[owner][object][at] = cell{}
	}
}

// locksThrough reports whether a lock-owner has locks through an open.
func (p *peer) locksThrough(owner, object, through int) bool {
	return slices.ContainsFunc(p.bytes[owner][object][:], func(c cell) bool { return c.kind != locks.None && c.through == through })
}

// sweep ends clients that have been silent for too long.
func (m *model) sweep() {
	for i := range m.peers {
		p := &m.peers[i]
		limit := defaultCourtesy
		for owner := range p.bytes {
			for _, c := range p.bytes[owner][0] {
				if c.kind != locks.None {
					limit = min(limit, 2*testLease)
				}
			}
		}
		if p.confirmed && !p.running && m.now-p.used > limit {
			m.end(p)
		}
	}
}

// A cellHost has the locks of the host for the first object of a model.
type cellHost struct {
	model *model
	open  bool
	kinds cellKinds
	fault string // of a call that must not be
}

func (h *cellHost) SetLock(r locks.Range, kind locks.Kind) nfs4.Status {
	s, ok := spanOf(r)
	if !ok || !h.open {
		h.fault = fmt.Sprint("SetLock of ", r)
		return nfs4.ErrServerFault
	}
	for at := s.first; at <= s.last; at++ {
		if blocks(h.model.local[0][at], kind) {
			return nfs4.ErrDenied
		}
	}
	for at := s.first; at <= s.last; at++ {
		h.kinds[at] = kind
	}
	return nfs4.OK
}

func (h *cellHost) TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, nfs4.Status) {
	s, _ := spanOf(r)
	for at := s.first; at <= s.last; at++ {
		if has := h.model.local[0][at]; blocks(has, kind) {
			return span{at, at}.bytes(), has, nfs4.OK
		}
	}
	return locks.Range{}, locks.None, nfs4.OK
}

func (h *cellHost) Close() { h.open, h.kinds = false, cellKinds{} }
