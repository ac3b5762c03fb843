package nfs4state

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Session is a client's session (RFC 8881, Section 2.10), or represents an
// NFSv4.0 client, which has no sessions (see State.ByClientID).
type Session struct {
	ID   nfs4.SessionID
	Fore nfs4.ChannelAttrs // as negotiated
	Back nfs4.ChannelAttrs

	// Protected reports that the session was created over TLS: unencrypted callbacks
	// must not be sent for it.
	Protected bool

	state  *State
	client *client
	index  uint32 // in State.sessions

	wantsCallbacks atomic.Bool   // the client requested a backchannel
	backConns      atomic.Int32  // connections bound to the backchannel
	fault          atomic.Bool   // see MarkBackFault
	backSlots      chan BackSlot // the free slots up to backTarget

	mu        checkedMutex[sessionRank]
	dead      bool
	renewedAt time.Duration // when the last call ended, or was last retried
	running   int           // slots that execute a call
	slotTable
	conns     map[any]uint32 // directions of bound connections
	lastConn  any            // the last connection in setDirections: most sessions have one
	lastDir   uint32         // its directions
	cbProgram uint32
	secParms  nfs4.SecParms

	// contexts are those that the client has offered for callbacks, or nil. Writers hold
	// mu.
	contexts atomic.Pointer[[]BackContext]

	idleBackSlots []BackSlot // free slots above backTarget
	backTarget    uint32     // the highest slot that may be used
}

// ClientID returns the client ID of the session's client.
func (s *Session) ClientID() uint64 { return s.client.id }

// lastRenewal returns the time at which a call last renewed the lease: now, if
// one is running.
func (s *Session) lastRenewal(now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running > 0 {
		return now
	}
	return s.renewedAt
}

// killSessions makes all later calls of the sessions fail with NFS4ERR_BADSESSION. If a
// call is running, except one of own, if a call has renewed the lease at the time since or
// later, or if free then returns false, killSessions returns false and changes nothing.
// All sessions are locked at the same time, so that no session is dead only for a moment,
// and no lease is renewed in between.
func killSessions(sessions []*Session, own *Session, since time.Duration, free func() bool) bool {
	for _, s := range sessions {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	for _, s := range sessions {
		if s.isBusy(own) || s.renewedAt >= since {
			return false
		}
	}
	if !free() {
		return false
	}
	for _, s := range sessions {
		s.dead = true
	}
	return true
}

// isBusy reports whether a call is running, except one of own.
func (s *Session) isBusy(own *Session) bool {
	return s.running > 1 || s.running == 1 && s != own
}

// endSession removes a dead session from the tables, but not from its client. A
// session without slots is in no table.
func (s *State) endSession(session *Session) {
	if session.slots == nil {
		return
	}
	s.sessions.remove(session.index, session.client.part)
	s.addUsage(session.client.group, liveSessions, -1)
	s.addUsage(session.client.group, replyBytes, -session.replyCost)
	session.mu.Lock()
	defer session.mu.Unlock()
	session.client.backPaths.Add(-session.backConns.Swap(0))
	session.conns, session.lastConn, session.lastDir = nil, nil, 0
	if session.wantsCallbacks.Swap(false) {
		session.client.wantingSessions.Add(-1)
	}
}

// setDirections sets a connection's directions, and removes it if it has none. The
// caller holds s.mu.
func (s *Session) setDirections(conn any, dir uint32) {
	change := int32(dir&nfs4.BindBack)/2 - int32(s.conns[conn]&nfs4.BindBack)/2
	s.backConns.Add(change)
	s.client.backPaths.Add(change)
	if dir&nfs4.BindBack != 0 && !s.wantsCallbacks.Swap(true) {
		s.client.wantingSessions.Add(1)
	}
	s.lastConn, s.lastDir = conn, dir
	if dir == 0 {
		s.lastConn = nil
		delete(s.conns, conn)
		return
	}
	s.conns[conn] = dir
}

// connDirections returns a connection's directions, and whether it is bound. The
// caller holds s.mu.
func (s *Session) connDirections(conn any) (dir uint32, bound bool) {
	if s.lastDir != 0 && conn == s.lastConn {
		return s.lastDir, true
	}
	dir, bound = s.conns[conn]
	return dir, bound
}

// Create holds the arguments of CREATE_SESSION, with the channels that the
// server grants. Fore.MaxRequests is the number of slots that the session may
// have at any time.
type Create struct {
	Principal Principal
	Host      Host
	Party     fairshare.Name
	ClientID  uint64
	Sequence  uint32
	Flags     uint32 // as granted
	Fore      nfs4.ChannelAttrs
	Back      nfs4.ChannelAttrs
	CBProgram uint32
	SecParms  nfs4.SecParms
	Contexts  []BackContext // for the Handles in SecParms
	Refused   nfs4.Status   // if not OK: no session can have these channels or SecParms
	Conn      any           // the connection of the call
	Own       *Session      // the session of the call's COMPOUND, or nil
	Protected bool          // the connection uses TLS
}

// CreateSession creates a session, and confirms the client's record (RFC 8881,
// Section 18.36.4). A retry gets the results of the first call.
func (s *State) CreateSession(a *Create) nfs4.CreateSessionRes {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[a.ClientID]
	if c != nil && s.isLapsed(c) {
		s.dropUnconfirmed(c)
		c = nil
	}
	switch {
	case c == nil, c.v40 != nil:
		return nfs4.CreateSessionRes{Status: nfs4.ErrStaleClientID}
	case c.isForeignHost(a.Host), c.principal.Name != "" && c.principal != a.Principal:
		return nfs4.CreateSessionRes{Status: nfs4.ErrClidInUse}
	case !c.isManagedBy(&Caller{a.Principal, a.Host, a.Party}): // a retry would disclose the session
		// A client whose address has changed sends its verifier in EXCHANGE_ID, and
		// gets the same client ID.
		return nfs4.CreateSessionRes{Status: nfs4.ErrStaleClientID}
	case a.Sequence == c.sequence && c.createResult != nil:
		return *c.createResult
	case a.Sequence != c.sequence+1:
		return nfs4.CreateSessionRes{Status: nfs4.ErrSeqMisordered}
	case !c.confirmed && c.principal != a.Principal:
		return nfs4.CreateSessionRes{Status: nfs4.ErrClidInUse}
	case a.Refused != nfs4.OK:
		return s.keepCreateResult(c, a, nfs4.CreateSessionRes{Status: a.Refused})
	case len(c.sessions) >= maxSessions, !s.ensureQuota(c.group, liveSessions, 1, &deferred), c.ended:
		return s.keepCreateResult(c, a, nfs4.CreateSessionRes{Status: nfs4.ErrNoSpc})
	}
	if !c.confirmed && !s.confirmClient(c, a.Own, &deferred) {
		return nfs4.CreateSessionRes{Status: nfs4.ErrDelay} // a call of the old incarnation is running
	}
	session := &Session{
		Fore: a.Fore, Back: a.Back, Protected: a.Protected, state: s, client: c, renewedAt: s.config.Now(),
		cbProgram: a.CBProgram, secParms: a.SecParms, conns: make(map[any]uint32),
	}
	s.addUsage(c.group, liveSessions, 1)
	s.initSlots(session, a.Fore.MaxRequests)
	dir := nfs4.BindFore
	if a.Flags&nfs4.SessionConnBackChan != 0 {
		dir = nfs4.BindBoth
	}
	session.addContexts(a.Contexts)
	session.setDirections(a.Conn, dir)
	session.initBackSlots()
	session.index = s.sessions.takeIndex(c.part)
	session.ID = s.sessionID(session.index)
	s.sessions.put(session.index, session)
	c.sessions = append(c.sessions, session)
	return s.keepCreateResult(c, a, nfs4.CreateSessionRes{
		Session: session.ID, Sequence: a.Sequence, Flags: a.Flags, Fore: session.Fore, Back: a.Back,
	})
}

// keepCreateResult caches the results of CREATE_SESSION for a retry.
func (s *State) keepCreateResult(c *client, a *Create, res nfs4.CreateSessionRes) nfs4.CreateSessionRes {
	c.sequence, c.createResult = a.Sequence, &res
	return res
}

// confirmClient makes c its owner's confirmed record, and removes an earlier
// incarnation. It returns false if a call of the earlier one is running.
func (s *State) confirmClient(c *client, own *Session, deferred *deferredWork) bool {
	o := s.owners[c.key]
	if old := o.confirmed; old != nil && !s.endClient(old, own, anyRenewal, deferred) {
		return false
	}
	o.confirmed, o.unconfirmed = c, nil
	s.unconfirmed.Remove(c.unconfirmedElem)
	s.addUsage(c.group, unconfirmedRecords, -1)
	c.confirmed, c.renewedAt, c.unconfirmedElem = true, s.config.Now(), nil
	return true
}

// Session returns the session with an ID, or nil.
func (s *State) Session(id nfs4.SessionID) *Session {
	if !s.isOwnEpoch(binary.BigEndian.Uint32(id[:])) {
		return nil
	}
	session := s.sessions.get(binary.BigEndian.Uint32(id[4:]))
	if session == nil || session.ID != id {
		return nil
	}
	return session
}

// Manages reports whether a call may destroy the session: its connection is bound to it
// (RFC 8881, Section 18.37.3), or it may manage the client.
func (s *Session) Manages(by *Caller, conn any) bool {
	s.mu.Lock()
	_, bound := s.connDirections(conn)
	s.mu.Unlock()
	return bound || s.state.MayManage(s.client.id, by)
}

// Admits reports whether a principal may bind its connection to the session, or change its
// backchannel: if the client's principal is verified, it must be the same. Otherwise any
// caller that knows the session ID may do so, as with SEQUENCE: from any address, because a
// client may have several network interfaces (RFC 8881, Sections 2.10.5 and 18.34.3), and
// with any certificate, because the host's certificate may have been replaced.
func (s *Session) Admits(p Principal) bool {
	c := s.client
	return c.principal.Name == "" || c.principal == p
}

// DestroySession implements DESTROY_SESSION (RFC 8881, Section 18.37). own is
// the COMPOUND's session, or nil: the call itself does not keep its session
// alive.
func (s *State) DestroySession(id nfs4.SessionID, own *Session) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.Session(id)
	if session == nil {
		return nfs4.ErrBadSession
	}
	if !killSessions([]*Session{session}, own, anyRenewal, func() bool { return true }) {
		return nfs4.ErrDelay
	}
	s.endSession(session)
	c := session.client
	c.renewedAt = max(c.renewedAt, session.lastRenewal(s.config.Now()))
	i := slices.Index(c.sessions, session)
	c.sessions = slices.Delete(c.sessions, i, i+1)
	return nfs4.OK
}

// Bind implements BIND_CONN_TO_SESSION (RFC 8881, Section 18.34). It binds a
// connection to the channels in dir, and returns the directions that are now
// bound. With BindForeOrBoth and BindBackOrBoth it binds both, because Linux
// treats less as an error.
func (s *Session) Bind(conn any, dir uint32) (bound uint32, status nfs4.Status) {
	switch dir {
	case nfs4.BindForeOrBoth, nfs4.BindBackOrBoth:
		dir = nfs4.BindBoth
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.connDirections(conn)
	switch {
	case s.dead:
		return 0, nfs4.ErrBadSession
	case ok && have != dir && dir != nfs4.BindBoth:
		return 0, nfs4.ErrInval // it requests other channels
	case !ok && len(s.conns) >= maxConns:
		return 0, nfs4.ErrDelay
	}
	s.setDirections(conn, dir)
	return dir, nfs4.OK
}

// Unbind removes a closed connection.
func (s *Session) Unbind(conn any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setDirections(conn, 0)
}

// Ended reports whether the session has been destroyed.
func (s *Session) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// SetCallback implements BACKCHANNEL_CTL (RFC 8881, Section 18.33). It adds contexts,
// which belong to the Handles in parms, to the session's.
func (s *Session) SetCallback(program uint32, parms nfs4.SecParms, contexts []BackContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cbProgram, s.secParms = program, parms
	s.addContexts(contexts)
}

// SequenceFlags returns SEQUENCE's status flags (RFC 8881, Section 18.46.3): this session, or
// none of the client's sessions, has a connection for a requested backchannel; the
// contexts for callbacks expire within a lease, or have expired; the client has not yet
// freed revoked stateids.
func (s *State) SequenceFlags(session *Session) (flags uint32) {
	if session.wantsCallbacks.Load() && session.backConns.Load() == 0 {
		flags = nfs4.SeqCBPathDownSession
	}
	if session.fault.Load() {
		flags |= nfs4.SeqBackchannelFault
	}
	if session.contexts.Load() != nil {
		switch _, left := session.longestContext(); {
		case left <= 0:
			flags |= nfs4.SeqCBGSSContextsExpired
		case left <= s.config.Lease:
			flags |= nfs4.SeqCBGSSContextsExpiring
		}
	}
	c := session.client
	if c.wantingSessions.Load() > 0 && c.backPaths.Load() == 0 {
		flags |= nfs4.SeqCBPathDown
	}
	if c.lostOthers.Load() > 0 {
		flags |= nfs4.SeqAdminStateRevoked
	}
	if c.lostDelegations.Load() > 0 {
		flags |= nfs4.SeqRecallableStateRevoked
	}
	return flags
}
