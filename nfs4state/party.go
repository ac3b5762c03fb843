package nfs4state

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A resource is a kind of record of which a State has a bounded number, for all
// clients together.
type resource int

const (
	clientRecords      resource = iota // confirmed and not
	unconfirmedRecords                 // of these
	liveSessions
	stateids // of opens, of locks, and of revoked state
	lockRanges
	waitingOwners // of locks
	delegated     // files, by a client each
	replyBytes    // that the slots of sessions can keep
	resources
)

// most is how much of each resource there is.
var most = [resources]int{
	clientRecords: maxClients, unconfirmedRecords: maxUnconfirmed, liveSessions: maxAllSessions,
	stateids: maxHoldings, lockRanges: maxAllLocks, waitingOwners: maxAllWaiting, delegated: maxDelegations, replyBytes: replyMemory,
}

// A party counts the resources of all clients of one address. State.mu
// guards the counts.
type party struct {
	name  fairshare.Name
	used  [resources]int
	retry time.Duration // makeRoom does not look for silent clients before
}

// party returns the party of a name, made if there was none.
func (s *State) party(name fairshare.Name) *party {
	p := s.parties[name]
	if p == nil {
		p = &party{name: name}
		s.parties[name] = p
	}
	return p
}

// use counts n more of a resource, or fewer, for a party. A party without a
// client record has nothing else either, and is forgotten.
func (s *State) use(p *party, r resource, n int) {
	p.used[r] += n
	s.used[r] += n
	if r == clientRecords && p.used[r] == 0 {
		delete(s.parties, p.name)
	}
}

// ownerStep is how many bytes of its owner's name make a stateid count once
// more: the memory of long names is shared out as well.
const ownerStep = 128

// costOf returns how often a stateid counts whose owner has a name of n bytes.
func costOf(n int) int { return 1 + n/ownerStep }

// mayUse reports whether a party may have n more of a resource: the party must
// not have more than is free. A single party thus gets half, and leaves room for
// newcomers, however much the party asks for.
func (s *State) mayUse(p *party, r resource, n int) bool {
	return p.used[r]+n <= most[r]-s.used[r]
}

// room reports whether a party gets n more of a resource. A silent client may
// have to give way; a client of the same party always makes room.
func (s *State) room(p *party, r resource, n int, gone *released) bool {
	if s.mayUse(p, r, n) {
		return true
	}
	before := p.used[r]
	s.makeRoom(p, r, gone)
	return s.mayUse(p, r, n) || p.used[r]+n <= before && s.used[r]+n <= most[r]
}

// roomEvery is the part of a lease for which makeRoom does not look again: a
// client that goes on asking must not make all others wait.
const roomEvery = 16

// makeRoom ends the client of a party that has been silent the longest, if that
// is longer than a lease. If others have left the party no room, the client may
// be any party's.
func (s *State) makeRoom(p *party, r resource, gone *released) {
	now := s.config.Now()
	if now < p.retry {
		return
	}
	var oldest *client
	longest := s.config.Lease
	others := p.used[r] < most[r]/2 // others have the rest
	for _, c := range s.clients {
		if !c.confirmed || c.party != p && !others {
			continue
		}
		if silent := c.silent(now); silent > longest {
			oldest, longest = c, silent
		}
	}
	if oldest == nil || !s.end(oldest, nil, now-s.config.Lease, gone) {
		p.retry = now + s.config.Lease/roomEvery
	}
}
