package nfs4state

import (
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// An ownerKey identifies a client across its restarts: co_ownerid, and the
// transport of its calls.
type ownerKey struct {
	transport Transport
	id        string
}

// An clientOwner has at most one confirmed record, and one that CREATE_SESSION has
// yet to confirm.
type clientOwner struct{ confirmed, unconfirmed *client }

// A client is the record of one client incarnation. State.mu guards it, except
// the sessions' own fields, and those that its part of the State guards.
type client struct {
	holder
	verifier        nfs4.Verifier
	principal       Principal
	host            Host
	protect         nfs4.StateProtect // as granted
	createdAt       time.Duration
	unconfirmedElem *list.Element // in State.unconfirmed, or nil
	confirmed       bool
	impl            string
	minor           uint32
	knownAddrs      []fairshare.Name // see isManagedBy
	rivalSince      time.Duration    // see checkRival; 0: none

	sequence     uint32                 // the last CREATE_SESSION's
	createResult *nfs4.CreateSessionRes // its results, for a retry

	v40           *client40            // nil except in NFSv4.0
	sessions      []*Session           // in NFSv4.0: only v40.session
	renewedAt     time.Duration        // when the last session was destroyed, or when confirmed
	reclaimed     bool                 // RECLAIM_COMPLETE was received
	revoking      int                  // Opens and Delegations of which some locks may be left
	tasks         map[*func()]struct{} // see Work
	relievedUntil time.Duration        // ChooseForRecall does not choose the client before

	// The client's part of the State guards these.
	opens            map[openKey]*Open
	revoked          map[*holding]struct{}
	delegations      map[*file]*Delegation
	writeDelegations int // included in delegations

	// Revoked delegations that were not returned in time, and other revoked
	// state.
	lostDelegations, lostOthers atomic.Int32

	wantingSessions atomic.Int32 // sessions that requested a backchannel
	backPaths       atomic.Int32 // connections bound to backchannels
}

// silentFor returns the time since a call last renewed the client's lease. It is 0
// while a call runs (RFC 8881, Section 8.3).
func (c *client) silentFor(now time.Duration) time.Duration {
	last := c.renewedAt
	for _, s := range c.sessions {
		last = max(last, s.lastRenewal(now))
	}
	return now - last
}

// hasState reports whether c has state that CLID_INUSE protects.
func (c *client) hasState() bool {
	return len(c.sessions) > 0 && c.v40 == nil || c.hasReclaimableState()
}

// rejectsOp reports whether op requires the machine credential, and the call's
// principal differs or the call is not sealed.
func (c *client) rejectsOp(op nfs4.Op, p Principal, sealed bool) bool {
	return c.protect.MustEnforce.HasOp(op) && (c.principal != p || !sealed)
}

// isForeignHost reports whether c has a proven Host and the call comes from another or an
// unproven one.
func (c *client) isForeignHost(h Host) bool { return c.host != Host{} && c.host != h }

// hasOtherIdentity reports whether the principal or Host of an EXCHANGE_ID differs from c's.
// With a machine credential, the call's arguments must be protected too (RFC 8881, Section
// 2.4.3).
func (c *client) hasOtherIdentity(x *Exchange) bool {
	return c.principal != x.Principal || c.isForeignHost(x.Host) || c.protect.How == nfs4.ProtectMachCred && !x.Sealed
}

// RejectsCaller reports whether an operation requires the machine credential of the session's
// client (SP4_MACH_CRED, RFC 8881, Section 18.35.3), and the call does not have it: its
// principal differs, or it is not sealed (Exchange.Sealed).
func (s *Session) RejectsCaller(op nfs4.Op, p Principal, sealed bool) bool {
	return s.client.rejectsOp(op, p, sealed)
}

// RejectsCaller reports the same as Session.RejectsCaller, for a client ID. It is false if
// the client does not exist.
func (s *State) RejectsCaller(id uint64, op nfs4.Op, p Principal, sealed bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	return c != nil && c.rejectsOp(op, p, sealed)
}

// A Caller identifies the sender of a call that manages a client or its
// sessions.
type Caller struct {
	Principal Principal
	Host      Host
	Party     fairshare.Name
}

// MayManage reports whether a call may manage a client (see client.isManagedBy). It is
// true if the client does not exist.
func (s *State) MayManage(id uint64, by *Caller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	return c == nil || c.isManagedBy(by)
}

// isManagedBy reports whether a call may create and destroy c's sessions, and destroy c itself.
// If c's principal is verified, the call must have the same one. In any other credential the
// user is only claimed, and another user of the client's host may send the call (RFC 8881,
// Sections 18.36.4 and 18.37.3): it must come from an address from which the client has sent
// its verifier. That does not distinguish hosts behind one address translator, but they cannot
// guess each other's client IDs.
func (c *client) isManagedBy(by *Caller) bool {
	switch {
	case c.isForeignHost(by.Host):
		return false
	case c.principal.Name != "":
		return c.principal == by.Principal
	case c.host != Host{}:
		return true // from any address: a certificate proves the same host
	default:
		return slices.Contains(c.knownAddrs, by.Party)
	}
}

// maxKnownAddrs bounds a client's known addresses: those of its network interfaces,
// or its most recent ones.
const maxKnownAddrs = 8

// addKnownAddr records an address from which c has sent its verifier, which only the client
// knows.
func (c *client) addKnownAddr(p fairshare.Name) {
	if slices.Contains(c.knownAddrs, p) {
		return
	}
	if len(c.knownAddrs) == maxKnownAddrs {
		c.knownAddrs = slices.Delete(c.knownAddrs, 0, 1)
	}
	c.knownAddrs = append(c.knownAddrs, p)
}

// checkRival decides whether a caller from a new address may replace c: the client may
// have restarted with another address, or another host may use its name. The status is OK
// if c has no state or its lease has expired. Until then it is NFS4ERR_DELAY, or
// NFS4ERR_CLID_INUSE if c has sent a call since the first attempt: then both hosts are up.
// State.mu is held.
func (s *State) checkRival(c *client, deferred *deferredWork) nfs4.Status {
	if s.expireIfIdle(c, deferred) {
		return nfs4.OK
	}
	now := s.config.Now()
	heard := now - c.silentFor(now)
	switch {
	case c.rivalSince == 0, now-c.rivalSince > 2*s.config.Lease:
		c.rivalSince = now
	case heard > c.rivalSince:
		return nfs4.ErrClidInUse
	}
	return nfs4.ErrDelay
}

// Protection returns a client's state protection.
func (s *State) Protection(id uint64) nfs4.StateProtect {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[id]; c != nil {
		return c.protect
	}
	return nfs4.StateProtect{}
}

// expireIfIdle removes a client whose name another principal or Host requests, if the client
// has no state or its lease has expired. State.mu is held.
func (s *State) expireIfIdle(c *client, deferred *deferredWork) bool {
	since := anyRenewal
	if c.hasState() {
		since = s.config.Now() - s.config.Lease
	}
	return s.endClient(c, nil, since, deferred)
}

// An Exchange holds the EXCHANGE_ID arguments that affect the state.
type Exchange struct {
	Transport Transport
	Principal Principal
	Host      Host
	Sealed    bool              // the call is protected against modification
	Protect   nfs4.StateProtect // granted to a new record
	Party     fairshare.Name    // the client group that limits apply to
	Owner     []byte
	Verifier  nfs4.Verifier
	Update    bool     // EXCHGID4_FLAG_UPD_CONFIRMED_REC_A
	Impl      string   // for lists of clients
	Minor     uint32   // minor version
	Own       *Session // of the call, if it has one
}

// ExchangeID looks up or creates a client record, in the nine cases of RFC
// 8881, Section 18.35.4. If the status is OK, it returns the client ID, the
// sequence ID for the next CREATE_SESSION, and whether the record is confirmed.
//
// A client of minor version 2 that presents a new verifier gets NFS4ERR_DELAY
// while a call or background work of its earlier instance runs (RFC 7862, Section
// 14.1.4). The work is stopped.
func (s *State) ExchangeID(x *Exchange) (id uint64, sequence uint32, confirmed bool, status nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := ownerKey{x.Transport, string(x.Owner)}
	o := s.owners[key]
	var c *client
	if o != nil {
		c = o.confirmed
	}
	switch {
	case x.Update && c == nil:
		return 0, 0, false, nfs4.ErrNoEnt
	case x.Update && c.verifier != x.Verifier:
		return 0, 0, false, nfs4.ErrNotSame
	case x.Update && c.hasOtherIdentity(x):
		return 0, 0, false, nfs4.ErrPerm
	case x.Update:
		c.addKnownAddr(x.Party)
		c.impl = x.Impl
		return c.id, c.sequence + 1, true, nfs4.OK
	case s.isNameReserved(key, x.Principal, x.Host, x.Sealed):
		return 0, 0, false, nfs4.ErrClidInUse
	case c != nil && c.isForeignHost(x.Host) && c.principal == x.Principal && c.verifier == x.Verifier:
		// A caller that knows the verifier, which was sent encrypted, is the same
		// incarnation. It gets the client ID, as Linux expects for a second, unencrypted
		// mount, but changes nothing and cannot create a session (see CreateSession).
		return c.id, c.sequence + 1, true, nfs4.OK
	case c != nil && c.hasOtherIdentity(x):
		if !s.expireIfIdle(c, &deferred) {
			return 0, 0, false, nfs4.ErrClidInUse
		}
	case c != nil && c.verifier == x.Verifier:
		if o.unconfirmed != nil {
			s.dropUnconfirmed(o.unconfirmed)
		}
		c.addKnownAddr(x.Party)
		return c.id, c.sequence + 1, true, nfs4.OK
	case c != nil && !c.isManagedBy(&Caller{x.Principal, x.Host, x.Party}):
		if status := s.checkRival(c, &deferred); status != nfs4.OK {
			return 0, 0, false, status
		}
	}
	if c != nil && !c.ended && c.minor >= nfs4.Minor2 && (c.hasRunningCall(x.Own) || !c.stopTasks()) {
		return 0, 0, false, nfs4.ErrDelay
	}
	return s.newClient(key, x, &deferred)
}

// hasRunningCall reports whether a call of the client runs, except one of own. State.mu is held.
func (c *client) hasRunningCall(own *Session) bool {
	return slices.ContainsFunc(c.sessions, func(s *Session) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.isBusy(own)
	})
}

// newClient creates an unconfirmed record, which replaces an earlier one.
func (s *State) newClient(key ownerKey, x *Exchange, deferred *deferredWork) (
	id uint64, sequence uint32, confirmed bool, status nfs4.Status,
) {
	if o := s.owners[key]; o != nil && o.unconfirmed != nil {
		s.dropUnconfirmed(o.unconfirmed)
	}
	if p := s.groupOf(x.Party); !s.hasQuota(p, unconfirmedRecords, 1) {
		s.dropUnconfirmed(s.oldestUnconfirmed(p))
	}
	p := s.groupForRecord(x.Party, deferred)
	if p == nil {
		return 0, 0, false, nfs4.ErrDelay
	}
	o := s.owners[key]
	if o == nil {
		o = &clientOwner{}
		s.owners[key] = o
	}
	s.lastClientNumber++
	c := &client{
		holder:   holder{id: s.newClientID(), number: s.lastClientNumber, part: uint8(s.lastClientNumber % stateParts), key: key, group: p},
		verifier: x.Verifier, principal: x.Principal, host: x.Host, protect: x.Protect,
		createdAt: s.config.Now(), impl: x.Impl, minor: x.Minor, opens: make(map[openKey]*Open),
		knownAddrs: []fairshare.Name{x.Party},
	}
	c.client = c
	s.addUsage(p, clientRecords, 1)
	s.addUsage(p, unconfirmedRecords, 1)
	c.unconfirmedElem = s.unconfirmed.PushBack(c)
	o.unconfirmed = c
	s.clients[c.id] = c
	return c.id, c.sequence + 1, false, nfs4.OK
}

// oldestUnconfirmed returns the oldest unconfirmed record of a group, or of all
// groups if this one has none. A client that continues after EXCHANGE_ID
// confirms its record within a round trip, so the oldest record is the least
// likely to be confirmed.
func (s *State) oldestUnconfirmed(p *clientGroup) *client {
	for e := s.unconfirmed.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*client); c.group == p {
			return c
		}
	}
	return s.unconfirmed.Front().Value.(*client)
}

// newClientID returns a random client ID. IDs must not be predictable, because anyone who
// knows one can create sessions for its client (RFC 8881, Section 18.36.4). An ID from an
// earlier State is unknown, and therefore stale. 0 and hostClientID are not used for clients.
func (s *State) newClientID() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails
		id := binary.BigEndian.Uint64(b[:])
		if s.clients[id] == nil && !s.expired.ids.has(id) && id != 0 && id != s.hostClientID() {
			return id
		}
	}
}

// dropUnconfirmed removes an unconfirmed record, which has neither sessions nor opens.
func (s *State) dropUnconfirmed(c *client) {
	o := s.owners[c.key]
	o.unconfirmed = nil
	s.unconfirmed.Remove(c.unconfirmedElem)
	s.addUsage(c.group, unconfirmedRecords, -1)
	s.forgetClient(c, o)
	s.addUsage(c.group, clientRecords, -1)
}

// forgetClient removes c from the client tables.
func (s *State) forgetClient(c *client, o *clientOwner) {
	c.ended = true
	delete(s.clients, c.id)
	if o.confirmed == nil && o.unconfirmed == nil {
		delete(s.owners, c.key)
	}
}

// Work registers background work for a client. Until end is called, the client is not
// removed, but the work does not renew its lease. The session that requested the work
// may be destroyed (RFC 7862, Section 4.8). stop is called when the client is to be
// removed. It must make the work finish soon, and must not block. Work returns false
// if the client has been removed.
func (s *Session) Work(stop func()) (end func(), ok bool) {
	state, c := s.state, s.client
	state.mu.Lock()
	defer state.mu.Unlock()
	if c.ended {
		return nil, false
	}
	if c.tasks == nil {
		c.tasks = make(map[*func()]struct{})
	}
	c.tasks[&stop] = struct{}{}
	return func() {
		state.mu.Lock()
		defer state.mu.Unlock()
		delete(c.tasks, &stop)
	}, true
}

// stopTasks requests that the client's background work stops, and reports whether there
// is none. State.mu is held.
func (c *client) stopTasks() bool {
	for stop := range c.tasks {
		(*stop)()
	}
	return len(c.tasks) == 0
}

// Expire removes a client with all its state, even if its lease has not
// expired. It returns NFS4ERR_STALE_CLIENTID if the client does not exist, and
// NFS4ERR_DELAY while one of its calls runs. It also returns NFS4ERR_DELAY if
// the journal fails: the client is then removed, but others do not get its
// state.
func (s *State) Expire(id uint64) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	status := nfs4.OK
	switch c := s.clients[id]; {
	case c == nil:
		status = s.expireMachine(id, &deferred)
	case !c.confirmed:
		s.dropUnconfirmed(c)
	case !s.endClient(c, nil, anyRenewal, &deferred):
		status = nfs4.ErrDelay
	}
	s.mu.Unlock()
	if status == nfs4.OK && !s.storeQueue() {
		status = nfs4.ErrDelay
	}
	return status
}

// DestroyClientID implements DESTROY_CLIENTID (RFC 8881, Section 18.50).
func (s *State) DestroyClientID(id uint64) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	switch {
	case c == nil, c.v40 != nil:
		return nfs4.ErrStaleClientID
	case !c.confirmed:
		s.dropUnconfirmed(c)
		return nfs4.OK
	case c.hasState():
		return nfs4.ErrClientIDBusy
	}
	if !s.endClient(c, nil, anyRenewal, &deferred) {
		return nfs4.ErrDelay
	}
	return nfs4.OK
}
