package nfs4state

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A resource is a kind of record whose number is limited for all clients
// together.
type resource int

const (
	clientRecords      resource = iota // confirmed and not
	unconfirmedRecords                 // included in clientRecords
	liveSessions
	stateIDs // for opens, locks and revoked state
	lockRanges
	waitingOwners  // owners that wait for locks
	delegatedFiles // delegations
	replyBytes     // bytes that session slots can cache
	resources
)

// resourceLimits is the total of each resource.
var resourceLimits = [resources]int{
	clientRecords: maxClients, unconfirmedRecords: maxUnconfirmed, liveSessions: maxAllSessions,
	stateIDs: maxHoldings, lockRanges: maxAllLocks, waitingOwners: maxAllWaiting, delegatedFiles: maxDelegations, replyBytes: replyMemory,
}

// A clientGroup counts the resources of all clients at one address. State.mu
// guards the counts.
type clientGroup struct {
	name       fairshare.Name
	usage      [resources]int
	nextSearch time.Duration // when removeSilentClient may next look for silent clients
}

// groupOf returns the group with a name, and creates it if necessary.
func (s *State) groupOf(name fairshare.Name) *clientGroup {
	p := s.groups[name]
	if p == nil {
		p = &clientGroup{name: name}
		s.groups[name] = p
	}
	return p
}

// addUsage adds n, which may be negative, to a group's use of a resource. A
// group without a client record uses nothing, and is removed.
func (s *State) addUsage(p *clientGroup, r resource, n int) {
	p.usage[r] += n
	s.usage[r] += n
	if r == clientRecords && p.usage[r] == 0 {
		delete(s.groups, p.name)
	}
}

// ownerStep is the number of bytes in an owner's name for which a stateid
// counts once more: the limits also cover memory for long names.
const ownerStep = 128

// stateIDCost returns how many times a stateid counts if its owner's name has n
// bytes.
func stateIDCost(n int) int { return 1 + n/ownerStep }

// hasQuota reports whether a group may have n more of a resource: its use must
// not exceed what is free. So a single group gets at most half, and leaves
// capacity for new groups.
func (s *State) hasQuota(p *clientGroup, r resource, n int) bool {
	return p.usage[r]+n <= resourceLimits[r]-s.usage[r]
}

// ensureQuota reports whether a group gets n more of a resource. It may remove a
// silent client to free some; resources freed by the same group always count.
func (s *State) ensureQuota(p *clientGroup, r resource, n int, deferred *deferredWork) bool {
	if s.hasQuota(p, r, n) {
		return true
	}
	before := p.usage[r]
	s.removeSilentClient(p, r, deferred)
	return s.hasQuota(p, r, n) || p.usage[r]+n <= before && s.usage[r]+n <= resourceLimits[r]
}

// searchesPerLease divides the lease to get the minimum time between two searches by
// removeSilentClient: repeated requests of a client must not delay all others.
const searchesPerLease = 16

// removeSilentClient removes the group's client that has been silent the longest, if its
// lease has expired. If other groups use more than half the resource, it may be
// any group's client.
func (s *State) removeSilentClient(p *clientGroup, r resource, deferred *deferredWork) {
	now := s.config.Now()
	if now < p.nextSearch {
		return
	}
	var oldest *client
	longest := s.config.Lease
	others := p.usage[r] < resourceLimits[r]/2 // other groups have the rest
	for _, c := range s.clients {
		if !c.confirmed || c.group != p && !others {
			continue
		}
		if silent := c.silentFor(now); silent > longest {
			oldest, longest = c, silent
		}
	}
	if oldest == nil || !s.endClient(oldest, nil, now-s.config.Lease, deferred) {
		p.nextSearch = now + s.config.Lease/searchesPerLease
	}
}
