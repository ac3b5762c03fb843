package nfs4state

import (
	"container/list"
	"math"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// An ownerKey names a client over its restarts: co_ownerid, and the transport
// by which it came.
type ownerKey struct {
	transport Transport
	id        string
}

// An owner has at most one confirmed record, and one that CREATE_SESSION has
// yet to confirm.
type owner struct{ confirmed, unconfirmed *client }

// A client is the record of one incarnation of a client. State.mu guards it,
// but for the sessions' own fields.
type client struct {
	id        uint64
	key       ownerKey
	verifier  nfs4.Verifier
	principal Principal
	host      Host
	protect   nfs4.StateProtect // as granted
	made      time.Duration
	waits     *list.Element // in State.unconfirmed, or nil
	confirmed bool
	ended     bool
	impl      string
	minor     uint32
	party     *party

	sequence uint32                 // of the last CREATE_SESSION
	created  *nfs4.CreateSessionRes // its results, for a retry

	seq       *seqClient    // of version 4.0, otherwise nil
	sessions  []*Session    // of version 4.0: the one in seq
	renewed   time.Duration // at the end of the last session, or when confirmed
	reclaimed bool          // RECLAIM_COMPLETE was received
	partial   bool          // grace has ended before it, after a reclaim
	had       kinds         // of state, since it was confirmed
	noted     uint64        // the number of its last record
	opens     map[openKey]*Open
	named     map[string]named // of a Machine, by filehandle: see KeyOf
	lockSets  int
	locks     int // in its lockSets
	revoked   map[*holding]struct{}
	work      map[*func()]struct{} // see Work

	delegations map[*file]*Delegation
	writes      int           // of these, those for writing
	relieved    time.Duration // see Relieve: not chosen before

	// Of the revoked state, delegations that were not returned in time, and the
	// rest.
	lostDelegations, lost atomic.Int32

	wants atomic.Int32 // sessions that asked for a backchannel
	paths atomic.Int32 // connections that are bound to backchannels
}

// silent returns for how long no call has renewed the client's lease. While one
// runs, that is 0 (RFC 8881, Section 8.3).
func (c *client) silent(now time.Duration) time.Duration {
	if c.managed() && c.holds() {
		return 0
	}
	last := c.renewed
	for _, s := range c.sessions {
		last = max(last, s.lastUse(now))
	}
	return now - last
}

// stateful reports whether c has state that CLID_INUSE protects.
func (c *client) stateful() bool {
	return len(c.sessions) > 0 && c.seq == nil || c.holds()
}

// holds reports whether c has state that it may reclaim after a restart.
func (c *client) holds() bool { return len(c.opens) > 0 || len(c.delegations) > 0 }

// refuses is Session.Refuses.
func (c *client) refuses(op nfs4.Op, p Principal, sealed bool) bool {
	return c.protect.MustEnforce.HasOp(op) && (c.principal != p || !sealed)
}

// strange reports whether a call comes from another Host than that of c, or from one
// that has proved nothing.
func (c *client) strange(h Host) bool { return c.host != Host{} && c.host != h }

// differs reports whether EXCHANGE_ID comes from another principal, or Host, than that
// of c. With a machine credential, the call's arguments must be protected too (RFC 8881,
// Section 2.4.3).
func (c *client) differs(x *Exchange) bool {
	return c.principal != x.Principal || c.strange(x.Host) || c.protect.How == nfs4.ProtectMachCred && !x.Sealed
}

// Refuses reports whether an operation is to be called by the machine credential of the
// session's client alone (SP4_MACH_CRED, RFC 8881, Section 18.35.3), and a call has
// another: of another principal, or not sealed (Exchange.Sealed).
func (s *Session) Refuses(op nfs4.Op, p Principal, sealed bool) bool {
	return s.client.refuses(op, p, sealed)
}

// Refuses is Session.Refuses of a client. It is false if there is no such client.
func (s *State) Refuses(id uint64, op nfs4.Op, p Principal, sealed bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	return c != nil && c.refuses(op, p, sealed)
}

// Strange reports whether a call comes from another Host than that which has made a
// client.
func (s *State) Strange(id uint64, h Host) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	return c != nil && c.strange(h)
}

// Protection returns the protection of a client's state.
func (s *State) Protection(id uint64) nfs4.StateProtect {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[id]; c != nil {
		return c.protect
	}
	return nfs4.StateProtect{}
}

// giveWay ends a client whose name another principal or Host asks for, if the client has
// no state or is silent. State.mu is held.
func (s *State) giveWay(c *client, gone *released) bool {
	since := always
	if c.stateful() {
		since = s.config.Now() - s.config.Lease
	}
	return s.end(c, nil, since, gone)
}

// An Exchange is the arguments of EXCHANGE_ID that matter to the state.
type Exchange struct {
	Transport Transport
	Principal Principal
	Host      Host
	Sealed    bool              // the call's arguments are protected against changes
	Protect   nfs4.StateProtect // that the server grants to a new record
	Party     fairshare.Name    // by which limits are shared out
	Owner     []byte
	Verifier  nfs4.Verifier
	Update    bool   // EXCHGID4_FLAG_UPD_CONFIRMED_REC_A
	Impl      string // for lists of clients
	Minor     uint32 // minor version, likewise
}

// ExchangeID looks up or makes a client record, by the nine cases of RFC 8881,
// Section 18.35.4. With OK it returns the client ID, the sequence ID of the
// client's next CREATE_SESSION, and whether the record is confirmed.
func (s *State) ExchangeID(x *Exchange) (id uint64, sequence uint32, confirmed bool, status nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
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
	case x.Update && c.differs(x):
		return 0, 0, false, nfs4.ErrPerm
	case x.Update:
		c.impl = x.Impl
		return c.id, c.sequence + 1, true, nfs4.OK
	case s.reserved(key, x.Principal, x.Host, x.Sealed):
		return 0, 0, false, nfs4.ErrClidInUse
	case c != nil && c.strange(x.Host) && c.principal == x.Principal && c.verifier == x.Verifier:
		// Who knows the verifier, which has crossed the network encrypted, is the same
		// incarnation. It learns that, as Linux wants to for a second mount in clear, but
		// changes nothing, and can make no session (see CreateSession).
		return c.id, c.sequence + 1, true, nfs4.OK
	case c != nil && c.differs(x):
		if !s.giveWay(c, &gone) {
			return 0, 0, false, nfs4.ErrClidInUse
		}
	case c != nil && c.verifier == x.Verifier:
		if o.unconfirmed != nil {
			s.drop(o.unconfirmed)
		}
		return c.id, c.sequence + 1, true, nfs4.OK
	}
	return s.newClient(key, x, &gone)
}

// newClient makes an unconfirmed record, in place of an earlier one.
func (s *State) newClient(key ownerKey, x *Exchange, gone *released) (
	id uint64, sequence uint32, confirmed bool, status nfs4.Status,
) {
	if o := s.owners[key]; o != nil && o.unconfirmed != nil {
		s.drop(o.unconfirmed)
	}
	p := s.party(x.Party)
	if !s.mayUse(p, unconfirmedRecords, 1) {
		s.drop(s.oldestUnconfirmed(p))
	}
	if !s.room(p, clientRecords, 1, gone) {
		s.use(p, clientRecords, 0) // the party may have nothing
		return 0, 0, false, nfs4.ErrDelay
	}
	p = s.party(x.Party)
	o := s.owners[key]
	if o == nil {
		o = &owner{}
		s.owners[key] = o
	}
	c := &client{
		id: s.clientID(), key: key, verifier: x.Verifier, principal: x.Principal, host: x.Host, protect: x.Protect,
		made: s.config.Now(), impl: x.Impl, minor: x.Minor, opens: make(map[openKey]*Open), party: p,
	}
	s.use(p, clientRecords, 1)
	s.use(p, unconfirmedRecords, 1)
	c.waits = s.unconfirmed.PushBack(c)
	o.unconfirmed = c
	s.clients[c.id] = c
	return c.id, c.sequence + 1, false, nfs4.OK
}

// oldestUnconfirmed returns the oldest unconfirmed record of a party, or of all
// parties if this one has none. A client that goes on after EXCHANGE_ID confirms
// its record within a round trip: the oldest record is the least likely to be
// confirmed.
func (s *State) oldestUnconfirmed(p *party) *client {
	for e := s.unconfirmed.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*client); c.party == p {
			return c
		}
	}
	return s.unconfirmed.Front().Value.(*client)
}

// clientID returns a client ID that no record has. Number 0 is no client's.
func (s *State) clientID() uint64 {
	for {
		s.number++
		id := uint64(s.config.Epoch)<<32 | uint64(s.number)
		if s.clients[id] == nil && s.number != 0 {
			return id
		}
	}
}

// drop removes an unconfirmed record, which has neither sessions nor opens.
func (s *State) drop(c *client) {
	o := s.owners[c.key]
	o.unconfirmed = nil
	s.unconfirmed.Remove(c.waits)
	s.use(c.party, unconfirmedRecords, -1)
	s.forget(c, o)
}

// forget removes c from the tables.
func (s *State) forget(c *client, o *owner) {
	c.ended = true
	delete(s.clients, c.id)
	s.use(c.party, clientRecords, -1)
	if o.confirmed == nil && o.unconfirmed == nil {
		delete(s.owners, c.key)
	}
}

// always, as the time for end, ends a client whenever its lease was renewed.
const always time.Duration = math.MaxInt64

// end ends a confirmed client with all its state. If a call has renewed the lease
// at the time since or later, if a call runs now, or if work for the client has yet to
// end, end returns false and changes nothing else. A call of the session own, which
// asks for the end, does not count.
func (s *State) end(c *client, own *Session, since time.Duration, gone *released) bool {
	if c.managed() && c.holds() && since != always || c.renewed >= since || !kill(c.sessions, own, since, c.rests) {
		return false
	}
	struck := s.strike(c.key)
	for _, session := range c.sessions {
		s.endSession(session)
	}
	c.sessions = nil
	if c.seq != nil {
		s.expire(c)
	}
	var files released
	for _, o := range c.opens {
		s.free(o.Key, struck)
		s.closeOpen(o, &files)
	}
	if c.seq != nil {
		s.endOwners(c)
	}
	for _, d := range c.delegations {
		s.endDelegation(d, struck, gone)
	}
	if files.file != nil {
		gone.ended = append(append(gone.ended, files.file), files.files...)
	}
	gone.later = append(gone.later, files.hosts...)
	gone.freed = append(gone.freed, files.freed...)
	for h := range c.revoked {
		s.freeRevoked(h)
	}
	o := s.owners[c.key]
	o.confirmed = nil
	s.forget(c, o)
	return true
}

// Work begins work for a client apart from its calls: while it lasts, the client does
// not end, but the work does not renew its lease. The session by which the client has
// asked for the work may end (RFC 7862, Section 4.8). If the client is to end, stop is
// called, and must make the work end soon. stop must not wait. end ends the work. Work
// returns false if the client has ended.
func (s *Session) Work(stop func()) (end func(), ok bool) {
	state, c := s.state, s.client
	state.mu.Lock()
	defer state.mu.Unlock()
	if c.ended {
		return nil, false
	}
	if c.work == nil {
		c.work = make(map[*func()]struct{})
	}
	c.work[&stop] = struct{}{}
	return func() {
		state.mu.Lock()
		defer state.mu.Unlock()
		delete(c.work, &stop)
	}, true
}

// rests stops the work for the client, and reports whether there is none. State.mu is
// held.
func (c *client) rests() bool {
	for stop := range c.work {
		(*stop)()
	}
	return len(c.work) == 0
}

// Expire ends a client with all its state, whenever its lease was renewed. It
// returns NFS4ERR_STALE_CLIENTID if there is no such client, and NFS4ERR_DELAY
// while a call of the client runs, or if the journal fails: the client has
// then ended, but others do not get its state.
func (s *State) Expire(id uint64) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	status := nfs4.OK
	switch c := s.clients[id]; {
	case c == nil:
		status = nfs4.ErrStaleClientID
	case !c.confirmed:
		s.drop(c)
	case !s.end(c, nil, always, &gone):
		status = nfs4.ErrDelay
	}
	s.mu.Unlock()
	if status == nfs4.OK && !s.store() {
		status = nfs4.ErrDelay
	}
	return status
}

// DestroyClientID is DESTROY_CLIENTID (RFC 8881, Section 18.50).
func (s *State) DestroyClientID(id uint64) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	switch {
	case c == nil, c.seq != nil:
		return nfs4.ErrStaleClientID
	case !c.confirmed:
		s.drop(c)
		return nfs4.OK
	case c.stateful():
		return nfs4.ErrClientIDBusy
	}
	var none released
	if !s.end(c, nil, always, &none) {
		return nfs4.ErrDelay
	}
	return nfs4.OK
}
