package nfs4state

import (
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
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

// byteRange returns the range of a span.
func (s span) byteRange() locks.Range {
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

// kindsConflict reports whether a lock of one kind keeps another owner from a lock of
// the other kind.
func kindsConflict(a, b locks.Kind) bool {
	return a != locks.None && b != locks.None && int(a)+int(b) > 2
}

// A model is a simple NFSv4.1 server: it has no stateids, lists or trees, and
// scans everything each time. A peer is a client that survives restarts.
type model struct {
	now      time.Duration
	peers    [modelPeers]peer
	local    [modelObjects]cellKinds // locks of host processes
	specials [modelObjects][denyShift]int
}

// A stateIDState says whether a stateid is valid.
type stateIDState uint8

const (
	unknown stateIDState = iota
	held
	revoked
)

// A cell says how a lock-owner has locked one cell, and through which
// open-owner.
type cell struct {
	kind    locks.Kind
	through int
}

// A modelRequest is one OPEN of a modelOpen.
type modelRequest struct {
	modes uint32
	trial int // the number of its Trial, until that is settled
}

type modelOpen struct {
	stateIDState
	seqid    uint32
	requests []modelRequest
}

// unionModes returns the union of the modes of all OPENs.
func (o *modelOpen) unionModes() (all uint32) {
	for _, a := range o.requests {
		all |= a.modes
	}
	return all
}

type modelSet struct {
	stateIDState
	seqid uint32
}

type peer struct {
	confirmed bool
	complete  bool // RECLAIM_COMPLETE was sent
	sessions  int
	used      time.Duration // when the lease was renewed
	running   bool          // a long call is running
	revoked   int           // stateids

	opens [modelOwners][modelObjects]modelOpen             // by open-owner
	sets  [modelOwners][modelObjects][modelOwners]modelSet // by lock-owner, object, and open-owner
	bytes [modelOwners][modelObjects][cells]cell           // by lock-owner

	delegations [modelObjects]nfs4.Delegation
}

// isSilent reports whether a client's lease has expired.
func (m *model) isSilent(p *peer) bool { return !p.running && m.now-p.used > testLease }

// removePeer removes all state of a client.
func (m *model) removePeer(p *peer) { *p = peer{} }

// countStateIDs returns the numbers of opens and delegations, and of lock stateids of p.
func (p *peer) countStateIDs() (opens, sets int) {
	for _, d := range p.delegations {
		if d != nfs4.DelegateNone {
			opens++
		}
	}
	for owner := range p.opens {
		for object := range p.opens[owner] {
			if p.opens[owner][object].stateIDState == held {
				opens++
			}
			for _, set := range p.sets[owner][object] {
				if set.stateIDState == held {
					sets++
				}
			}
		}
	}
	return opens, sets
}

// countRanges returns the number of locks of p: neighbours of one kind that were
// locked through one open are one lock.
func (p *peer) countRanges() (n int) {
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

// unionKinds returns the strongest lock of any client of each cell.
func (m *model) unionKinds(object int) (kinds cellKinds) {
	for i := range m.peers {
		for owner := range m.peers[i].bytes {
			for at, c := range m.peers[i].bytes[owner][object] {
				kinds[at] = max(kinds[at], c.kind)
			}
		}
	}
	return kinds
}

// sharesConflict reports whether one of two opens denies the other an access.
func sharesConflict(a, b uint32) bool {
	for access := uint32(1); access <= 2; access++ {
		if a&access != 0 && b>>denyShift&access != 0 || b&access != 0 && a>>denyShift&access != 0 {
			return true
		}
	}
	return false
}

// checkShare checks share reservations. If only silent clients conflict, they are
// removed. asks is nil for a call with a special stateid.
func (m *model) checkShare(asks *peer, object int, modes uint32) bool {
	var silent []*peer
	for i := range m.peers {
		p := &m.peers[i]
		for owner := range p.opens {
			if !sharesConflict(p.opens[owner][object].unionModes(), modes) {
				continue
			}
			if p == asks || !m.isSilent(p) {
				return false
			}
			silent = append(silent, p)
		}
	}
	for _, p := range silent {
		m.removePeer(p)
	}
	return true
}

// statusFor returns a stateid's status: offset is the distance of its seqid
// from the current one. every is set for the seqid that matches any.
func (s stateIDState) statusFor(every bool, offset int) nfs4.Status {
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

// openObject executes OPEN. trial is not 0 if the OPEN may still be reverted.
func (m *model) openObject(p *peer, owner, object int, access, deny uint32, trial int) nfs4.Status {
	modes := access | deny<<denyShift
	switch {
	case !p.complete:
		return nfs4.ErrGrace
	case access == 0:
		return nfs4.ErrInval
	case !m.checkShare(p, object, modes):
		return nfs4.ErrShareDenied
	case m.isWrittenByOther(p, object):
		return nfs4.ErrDelay
	case deny&1 != 0 && m.specials[object][0] > 0, deny&2 != 0 && m.specials[object][1] > 0:
		return nfs4.ErrDelay
	}
	o := &p.opens[owner][object]
	if o.stateIDState != held {
		*o = modelOpen{stateIDState: held}
	}
	o.seqid++
	o.requests = append(o.requests, modelRequest{modes, trial})
	return nfs4.OK
}

// isWrittenByOther reports whether another client has a write delegation of an object.
func (m *model) isWrittenByOther(p *peer, object int) bool {
	for i := range m.peers {
		if q := &m.peers[i]; q != p && q.delegations[object] == nfs4.DelegateWrite {
			return true
		}
	}
	return false
}

// delegate grants a delegation.
func (m *model) delegate(p *peer, object int, kind nfs4.Delegation) nfs4.Status {
	var all, others uint32
	delegated := false
	for i := range m.peers {
		q := &m.peers[i]
		delegated = delegated || q.delegations[object] != nfs4.DelegateNone
		for owner := range q.opens {
			modes := q.opens[owner][object].unionModes()
			if all |= modes; q != p {
				others |= modes
			}
		}
	}
	write := kind == nfs4.DelegateWrite
	switch deny := all >> denyShift; {
	case !p.complete:
		return nfs4.ErrGrace
	case !write && all&nfs4.ShareRead == 0, write && all&nfs4.ShareWrite == 0:
		return nfs4.ErrStale
	case p.delegations[object] != nfs4.DelegateNone:
		return nfs4.ErrExist
	case deny&nfs4.ShareRead != 0, !write && all&nfs4.ShareWrite != 0, write && (delegated || others != 0 || deny != 0):
		return nfs4.ErrShareDenied
	}
	p.delegations[object] = kind
	return nfs4.OK
}

// closeOpen executes CLOSE of a valid open.
func (p *peer) closeOpen(owner, object int, after stateIDState) {
	p.opens[owner][object] = modelOpen{stateIDState: after}
	for l := range modelOwners {
		set := &p.sets[l][object][owner]
		if set.stateIDState == held {
			*set = modelSet{stateIDState: after}
		}
		for at := range p.bytes[l][object] {
			if c := &p.bytes[l][object][at]; c.through == owner {
				*c = cell{}
			}
		}
	}
}

// downgradeModes executes OPEN_DOWNGRADE of a valid open.
func (o *modelOpen) downgradeModes(access, deny uint32) nfs4.Status {
	modes := access | deny<<denyShift
	rest := modelOpen{stateIDState: held, seqid: o.seqid + 1}
	for _, a := range o.requests {
		if a.modes|modes == modes {
			rest.requests = append(rest.requests, a)
		}
	}
	if access == 0 || rest.unionModes() != modes {
		return nfs4.ErrInval
	}
	*o = rest
	return nfs4.OK
}

// settleTrial ends a trial: undo reverts the OPEN.
func (m *model) settleTrial(trial int, undo bool) {
	for i := range m.peers {
		p := &m.peers[i]
		for owner := range p.opens {
			for object := range p.opens[owner] {
				o := &p.opens[owner][object]
				at := slices.IndexFunc(o.requests, func(a modelRequest) bool { return a.trial == trial })
				switch {
				case at < 0:
				case !undo:
					o.requests[at].trial = 0
				case len(o.requests) == 1:
					p.closeOpen(owner, object, unknown)
				default:
					o.requests = slices.Delete(slices.Clone(o.requests), at, at+1)
				}
			}
		}
	}
}

// conflictingPeers returns the clients with locks that keep a lock-owner from locking.
func (m *model) conflictingPeers(asks *peer, owner, object int, s span, kind locks.Kind) (in [modelPeers]bool) {
	for i := range m.peers {
		p := &m.peers[i]
		for l := range p.bytes {
			for at := s.first; at <= s.last && (p != asks || l != owner); at++ {
				in[i] = in[i] || kindsConflict(p.bytes[l][object][at].kind, kind)
			}
		}
	}
	return in
}

// testLock checks a LOCK or LOCKT against the locks of all others. If a client
// that is not silent conflicts, silent ones may be removed all the same: may has
// them.
func (m *model) testLock(p *peer, owner, object int, s span, kind locks.Kind) (status nfs4.Status, may [modelPeers]bool) {
	in := m.conflictingPeers(p, owner, object, s, kind)
	for i, is := range in {
		q := &m.peers[i]
		if is && (q == p || !m.isSilent(q)) {
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
			m.removePeer(&m.peers[i])
		}
	}
	for at := s.first; at <= s.last; at++ {
		if kindsConflict(m.local[object][at], kind) {
			status = nfs4.ErrDenied
		}
	}
	return status, [modelPeers]bool{}
}

// lockCells executes a LOCK that testLock has permitted.
func (p *peer) lockCells(owner, object, through int, s span, kind locks.Kind) {
	set := &p.sets[owner][object][through]
	if set.stateIDState != held {
		*set = modelSet{stateIDState: held}
	}
	set.seqid++
	for at := s.first; at <= s.last; at++ {
		p.bytes[owner][object][at] = cell{kind, through}
	}
}

// unlockCells executes LOCKU with a valid lock stateid.
func (p *peer) unlockCells(owner, object, through int, s span) {
	p.sets[owner][object][through].seqid++
	for at := s.first; at <= s.last; at++ {
		p.bytes[owner][object][at] = cell{}
	}
}

// locksThrough reports whether a lock-owner has locks through an open.
func (p *peer) locksThrough(owner, object, through int) bool {
	return slices.ContainsFunc(p.bytes[owner][object][:], func(c cell) bool { return c.kind != locks.None && c.through == through })
}

// sweepPeers removes clients that have been silent for too long.
func (m *model) sweepPeers() {
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
			m.removePeer(p)
		}
	}
}

// A cellHost has the locks of the host for the first object of a model.
type cellHost struct {
	model *model
	open  bool
	kinds cellKinds
	fault string // an invalid call
}

func (h *cellHost) SetLock(r locks.Range, kind locks.Kind) nfs4.Status {
	s, ok := spanOf(r)
	if !ok || !h.open {
		h.fault = fmt.Sprint("SetLock of ", r)
		return nfs4.ErrServerFault
	}
	for at := s.first; at <= s.last; at++ {
		if kindsConflict(h.model.local[0][at], kind) {
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
		if has := h.model.local[0][at]; kindsConflict(has, kind) {
			return span{at, at}.byteRange(), has, nfs4.OK
		}
	}
	return locks.Range{}, locks.None, nfs4.OK
}

func (h *cellHost) Close() { h.open, h.kinds = false, cellKinds{} }
