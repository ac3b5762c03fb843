package nfs4state

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A resource is a kind of record whose number is limited for all clients
// together.
type resource int

const (
	clientRecords      resource = iota // confirmed and not
	unconfirmedRecords                 // included in clientRecords
	machineRecords                     // included in clientRecords
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
	clientRecords: maxClients, unconfirmedRecords: maxUnconfirmed, machineRecords: maxMachines, liveSessions: maxAllSessions,
	stateIDs: maxHoldings, lockRanges: maxAllLocks, waitingOwners: maxAllWaiting, delegatedFiles: maxDelegations, replyBytes: replyMemory,
}

// A resourceUsage counts resources.
type resourceUsage [resources]atomic.Int64

// get returns the use of a resource.
func (u *resourceUsage) get(r resource) int { return int(u[r].Load()) }

// A clientGroup counts the resources of all clients at one address.
type clientGroup struct {
	name       fairshare.Name
	usage      resourceUsage
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
	used := p.usage[r].Add(int64(n))
	s.usage[r].Add(int64(n))
	if r == clientRecords && used == 0 {
		delete(s.groups, p.name)
	}
}

// groupForRecord returns the group with a name if it may have one more client record, and otherwise
// nil.
func (s *State) groupForRecord(name fairshare.Name, deferred *deferredWork) *clientGroup {
	p := s.groupOf(name)
	if !s.ensureQuota(p, clientRecords, 1, deferred) {
		s.addUsage(p, clientRecords, 0) // forget a group that has nothing
		return nil
	}
	return s.groupOf(name) // the last client of the earlier one may have been removed
}

// ownerStep is the number of bytes in an owner's name for which a stateid
// counts once more: the limits also cover memory for long names.
const ownerStep = 128

// stateIDCost returns how many times a stateid counts if its owner's name has n
// bytes.
func stateIDCost(n int) int { return 1 + n/ownerStep }

// stateIDMax is the stateIDCost of the longest owner name.
const stateIDMax = 1 + nfs4.OpaqueLimit/ownerStep

// hasQuota reports whether a group may have n more of a resource: its use must
// not exceed what is free. So a single group gets at most half, and leaves
// capacity for new groups.
func (s *State) hasQuota(p *clientGroup, r resource, n int) bool {
	return p.usage.get(r)+n <= resourceLimits[r]-s.usage.get(r)
}

// quotaReserve is the amount of a resource that only calls which lock State.mu may use: all
// others check the quota and use it concurrently, at most one for each part of the State.
const quotaReserve = stateParts * (stateIDMax + 2)

// needsStateFor reports whether a call that has locked only a part must lock State.mu to get n
// more of a resource.
func (s *State) needsStateFor(p *clientGroup, r resource, n int, h *hold) bool {
	return !h.isWhole() && !s.hasQuota(p, r, n+quotaReserve)
}

// ensureQuota reports whether a group gets n more of a resource. It may remove a
// silent client to free some; resources freed by the same group always count. A call that has
// locked only a part gets what needsStateFor has permitted, although others may have taken more
// than the reserve since: a LOCKU that splits a lock needs no quota.
func (s *State) ensureQuota(p *clientGroup, r resource, n int, deferred *deferredWork) bool {
	if !deferred.isWhole() || s.hasQuota(p, r, n) {
		return true
	}
	before := p.usage.get(r)
	s.removeSilentClient(p, r, deferred)
	return s.hasQuota(p, r, n) || p.usage.get(r)+n <= before && s.usage.get(r)+n <= resourceLimits[r]
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
	others := p.usage.get(r) < resourceLimits[r]/2 // other groups have the rest
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
