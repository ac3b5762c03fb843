package nfs4state

import "github.com/nfsrdma/nfsrdma/nfs/nfs4"

// modeCounts are the numbers of opens and SHAREs with each mode bit, by holder.
type modeCounts [modeBits]map[*holder]int

// The modes of an Open, or those that one OPEN requests: access in the lower
// bits, deny above it.
const (
	modeBits  = 4
	denyShift = 2
)

func shareModes(access, deny uint32) uint32 { return access | deny<<denyShift }

// countModes adds n to a holder's counts of the given modes.
func (f *file) countModes(h *holder, modes uint32, n int) {
	for bit, held := range f.modeCounts {
		if modes&(1<<bit) == 0 {
			continue
		}
		if held == nil {
			held = make(map[*holder]int)
			f.modeCounts[bit] = held
		}
		if held[h] += n; held[h] == 0 {
			delete(held, h)
		}
		f.manyHolders = f.manyHolders || len(held) > maxSpareHolders
	}
}

// conflictsWith reports whether any open conflicts with the given modes.
func (f *file) conflictsWith(modes uint32) bool {
	var all uint32
	for bit, held := range f.modeCounts {
		if len(held) > 0 {
			all |= 1 << bit
		}
	}
	return modesConflict(all, modes)
}

// modesConflict reports whether either denies an access that the other has.
func modesConflict(a, b uint32) bool {
	return a>>denyShift&b&nfs4.ShareBoth != 0 || b>>denyShift&a&nfs4.ShareBoth != 0
}

// replaceModes updates the counts when an open or SHARE of a file changes its modes.
func (s *State) replaceModes(f *file, h *holder, before, now uint32) {
	f.countModes(h, before, -1)
	f.countModes(h, now, 1)
	switch {
	case before>>denyShift == 0 && now>>denyShift != 0:
		s.denyingOpens.Add(1)
		h.denyOpens++
	case before>>denyShift != 0 && now>>denyShift == 0:
		s.denyingOpens.Add(-1)
		h.denyOpens--
	}
}

// MayShare returns an error if an OPEN conflicts with the modes of other opens.
// Conflicting clients whose lease has expired are removed. OpenFile checks again.
func (s *State) MayShare(session *Session, a *OpenFile) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	return s.retryUntilStored(a.Aside, func(whole bool) nfs4.Status {
		s.lockClient(session.client, &deferred.hold, whole)
		defer s.unlock(&deferred.hold)
		sh := s.lockFile(a.Key, &deferred.hold)
		return s.mayShare(session.client, sh.files[a.Key], a, &deferred)
	})
}

func (s *State) mayShare(c *client, f *file, a *OpenFile, deferred *deferredWork) nfs4.Status {
	status := s.resolveShareConflict(f, &c.holder, shareModes(a.Access, a.Deny), deferred)
	if status == nfs4.ErrShareDenied && a.Reclaim {
		return nfs4.ErrReclaimConflict
	}
	return status
}

// resolveShareConflict returns NFS4ERR_SHARE_DENIED if an OPEN with the given modes conflicts with
// an open, also by the same owner (RFC 8881, Section 9.7), and otherwise OK. If all conflicting
// opens belong to clients whose lease has expired, it removes these. The status is statusEnding
// while conflicting state of removed clients remains. asks is not removed, and may be nil, like f.
func (s *State) resolveShareConflict(f *file, asks *holder, modes uint32, deferred *deferredWork) nfs4.Status {
	if f == nil || !f.conflictsWith(modes) {
		return nfs4.OK
	}
	now, entries := s.config.Now(), s.entriesIn(&deferred.hold)
	var silent []*client
	for bit := range f.modeCounts {
		if modes&(1<<bit) == 0 {
			continue
		}
		for h := range f.modeCounts[bit^denyShift] { // for an access bit its denial, and for a deny bit the denied access
			entries.countSilentFor(h)
			switch {
			case h.ended:
			case h == asks, !h.isSilent(s.config.Lease, now):
				return nfs4.ErrShareDenied
			case !deferred.isWhole():
				return statusNeedsState
			default:
				silent = append(silent, h.client)
			}
			if entries.shouldPause() {
				break
			}
		}
	}
	for i, c := range silent {
		if i > 0 && entries.shouldPause() {
			return statusEnding
		}
		if !c.ended && !s.endClient(c, nil, now-s.config.Lease, deferred) {
			return nfs4.ErrShareDenied // the client has sent a call
		}
	}
	if f.shard.files[f.key] == f && f.conflictsWith(modes) {
		return statusEnding
	}
	return nfs4.OK
}

// HasDenyModes reports whether any open has a deny mode, or may have one when it is
// reclaimed after this restart or a crash.
func (s *State) HasDenyModes() bool { return s.denyingOpens.Load() > 0 || s.ledger.hasUnstoredDenies() }

// Denied returns NFS4ERR_LOCKED if an open denies others the given access to an
// object, for calls with a special stateid. Conflicting clients whose lease has
// expired are removed. While a client may reclaim opens with deny modes, the
// status is NFS4ERR_GRACE.
func (s *State) Denied(key string, access uint32) nfs4.Status {
	if !s.HasDenyModes() {
		return nfs4.OK
	}
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	return s.retryUntilStored(nil, func(whole bool) nfs4.Status {
		sh := s.shardOf(key)
		s.lockShard(sh, &deferred.hold, whole)
		defer s.unlock(&deferred.hold)
		switch {
		case s.ledger.staleClients > 0 && !deferred.isWhole():
			return statusNeedsState
		case s.checkGrace() && s.ledger.staleDeny > 0:
			return nfs4.ErrGrace
		}
		switch status := s.resolveShareConflict(sh.files[key], nil, shareModes(access, 0), &deferred); {
		case status == nfs4.ErrShareDenied:
			return nfs4.ErrLocked
		case status == nfs4.OK && !s.recordsStored(key):
			return statusNotStored
		default:
			return status
		}
	})
}
