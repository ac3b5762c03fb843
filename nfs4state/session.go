package nfs4state

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Session is a session of a client (RFC 8881, Section 2.10), or stands for a
// client of version 4.0, which has no sessions (see State.ByClientID).
type Session struct {
	ID   nfs4.SessionID
	Fore nfs4.ChannelAttrs // as negotiated
	Back nfs4.ChannelAttrs

	// Protected reports that the session was made inside of TLS: callbacks in clear are
	// not for it.
	Protected bool

	state  *State
	client *client
	index  uint32 // in State.sessions
	cost   int    // bytes that its slots can keep

	callbacks atomic.Bool   // the client asked for a backchannel
	backs     atomic.Int32  // connections that are bound to it
	fault     atomic.Bool   // see BackFault
	backSlots chan BackSlot // to be used

	mu        sync.Mutex
	dead      bool
	used      time.Duration // the end of the last call, or the last repetition of one
	running   int           // slots that execute a call
	slots     []slot
	conns     map[any]uint32 // directions of bound connections
	last      any            // the connection that bind has seen last: most sessions have one
	lastDir   uint32         // its directions
	cbProgram uint32
	secParms  nfs4.SecParms

	// contexts are those by which the client has offered to be called, or nil. It changes
	// under mu.
	contexts atomic.Pointer[[]BackContext]

	idleBack   []BackSlot // not to be used
	backTarget uint32     // the highest of those to be used
}

// ClientID returns the ID of the session's client.
func (s *Session) ClientID() uint64 { return s.client.id }

// lastUse returns when a call last renewed the lease: now, if one runs.
func (s *Session) lastUse(now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running > 0 {
		return now
	}
	return s.used
}

// kill makes every later call of some sessions NFS4ERR_BADSESSION. If a call runs,
// except one of own, if a call has renewed the lease at the time since or later, or
// if free then returns false, kill returns false and changes nothing. All sessions are
// locked at once, so that no session is dead for a moment only, and no renewal comes in
// between.
func kill(sessions []*Session, own *Session, since time.Duration, free func() bool) bool {
	for _, s := range sessions {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	for _, s := range sessions {
		if s.busy(own) || s.used >= since {
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

// busy reports whether a call runs, besides the one of own that asks.
func (s *Session) busy(own *Session) bool {
	return s.running > 1 || s.running == 1 && s != own
}

// endSession removes a dead session from the tables, but not from its client. A
// session without slots is in none.
func (s *State) endSession(session *Session) {
	if session.slots == nil {
		return
	}
	s.sessions.remove(session.index)
	s.use(session.client.party, liveSessions, -1)
	s.use(session.client.party, replyBytes, -session.cost)
	session.mu.Lock()
	defer session.mu.Unlock()
	for conn := range session.conns {
		session.bind(conn, 0)
	}
	if session.callbacks.Swap(false) {
		session.client.wants.Add(-1)
	}
}

// bind sets the directions of a connection, and forgets one that has none. The
// caller holds s.mu.
func (s *Session) bind(conn any, dir uint32) {
	change := int32(dir&nfs4.BindBack)/2 - int32(s.conns[conn]&nfs4.BindBack)/2
	s.backs.Add(change)
	s.client.paths.Add(change)
	if dir&nfs4.BindBack != 0 && !s.callbacks.Swap(true) {
		s.client.wants.Add(1)
	}
	s.last, s.lastDir = conn, dir
	if dir == 0 {
		s.last = nil
		delete(s.conns, conn)
		return
	}
	s.conns[conn] = dir
}

// directions returns the directions of a connection, and whether it is bound. The
// caller holds s.mu.
func (s *Session) directions(conn any) (dir uint32, bound bool) {
	if s.lastDir != 0 && conn == s.last {
		return s.lastDir, true
	}
	dir, bound = s.conns[conn]
	return dir, bound
}

// Create is the arguments of CREATE_SESSION, with the channels as the server
// grants them.
type Create struct {
	Principal Principal
	Host      Host
	ClientID  uint64
	Sequence  uint32
	Flags     uint32 // as granted
	Fore      nfs4.ChannelAttrs
	Back      nfs4.ChannelAttrs
	CBProgram uint32
	SecParms  nfs4.SecParms
	Contexts  []BackContext // of the Handles in SecParms
	Refused   nfs4.Status   // of the channels and SecParms: no session can be made with them
	Conn      any           // the connection of the call
	Own       *Session      // the session of the call's COMPOUND, or nil
	Protected bool          // the connection is inside of TLS
}

// CreateSession makes a session, and confirms the client's record (RFC 8881,
// Section 18.36.4). A retry gets the results of the first call.
func (s *State) CreateSession(a *Create) nfs4.CreateSessionRes {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[a.ClientID]
	if c != nil && s.lapsed(c) {
		s.drop(c)
		c = nil
	}
	switch {
	case c == nil, c.seq != nil:
		return nfs4.CreateSessionRes{Status: nfs4.ErrStaleClientID}
	case c.strange(a.Host): // a retry would tell it the session
		return nfs4.CreateSessionRes{Status: nfs4.ErrClidInUse}
	case a.Sequence == c.sequence && c.created != nil:
		return *c.created
	case a.Sequence != c.sequence+1:
		return nfs4.CreateSessionRes{Status: nfs4.ErrSeqMisordered}
	case !c.confirmed && c.principal != a.Principal:
		return nfs4.CreateSessionRes{Status: nfs4.ErrClidInUse}
	case a.Refused != nfs4.OK:
		return s.created(c, a, nfs4.CreateSessionRes{Status: a.Refused})
	case len(c.sessions) >= maxSessions, !s.room(c.party, liveSessions, 1, &gone), c.ended:
		return s.created(c, a, nfs4.CreateSessionRes{Status: nfs4.ErrNoSpc})
	}
	if !c.confirmed && !s.confirm(c, a.Own, &gone) {
		return nfs4.CreateSessionRes{Status: nfs4.ErrDelay} // a call of the old incarnation runs
	}
	session := &Session{
		Fore: a.Fore, Back: a.Back, Protected: a.Protected, state: s, client: c, used: s.config.Now(),
		cbProgram: a.CBProgram, secParms: a.SecParms, conns: make(map[any]uint32),
	}
	session.Fore.MaxRequests, session.cost = s.share(c.party, &a.Fore)
	session.slots = make([]slot, session.Fore.MaxRequests)
	s.use(c.party, liveSessions, 1)
	s.use(c.party, replyBytes, session.cost)
	dir := nfs4.BindFore
	if a.Flags&nfs4.SessionConnBackChan != 0 {
		dir = nfs4.BindBoth
	}
	session.addContexts(a.Contexts)
	session.bind(a.Conn, dir)
	session.openBack()
	session.index = s.sessions.take()
	session.ID = s.sessionID(session.index)
	s.sessions.put(session.index, session)
	c.sessions = append(c.sessions, session)
	return s.created(c, a, nfs4.CreateSessionRes{
		Session: session.ID, Sequence: a.Sequence, Flags: a.Flags, Fore: session.Fore, Back: a.Back,
	})
}

// share returns the number of slots of a session and the bytes that these can
// keep. Each session gets a small part of the bytes that are left to its party,
// but one slot in any case: among very many sessions, the later ones are slower.
func (s *State) share(p *party, fore *nfs4.ChannelAttrs) (slots uint32, cost int) {
	each := slotSize + max(uncachedLimit, int(fore.MaxResponseSizeCached))
	left := min(most[replyBytes]-s.used[replyBytes], most[replyBytes]/2-p.used[replyBytes])
	slots = min(fore.MaxRequests, uint32(max(left/sessionPart/each, 1)))
	return slots, int(slots) * each
}

const (
	sessionPart = 256 // a session may take one part in so many of the memory that is left
	slotSize    = 128 // bytes of a slot besides its reply, more or less
)

// created keeps the results of CREATE_SESSION for a retry.
func (s *State) created(c *client, a *Create, res nfs4.CreateSessionRes) nfs4.CreateSessionRes {
	c.sequence, c.created = a.Sequence, &res
	return res
}

// confirm makes c the record of its owner, in place of an earlier incarnation.
// If a call of the earlier one runs, confirm returns false.
func (s *State) confirm(c *client, own *Session, gone *released) bool {
	o := s.owners[c.key]
	if old := o.confirmed; old != nil && !s.end(old, own, always, gone) {
		return false
	}
	o.confirmed, o.unconfirmed = c, nil
	s.unconfirmed.Remove(c.waits)
	s.use(c.party, unconfirmedRecords, -1)
	c.confirmed, c.renewed, c.waits = true, s.config.Now(), nil
	return true
}

// Session returns the session of an ID, or nil.
func (s *State) Session(id nfs4.SessionID) *Session {
	if !s.ours(binary.BigEndian.Uint32(id[:])) {
		return nil
	}
	session := s.sessions.get(binary.BigEndian.Uint32(id[4:]))
	if session == nil || session.ID != id {
		return nil
	}
	return session
}

// DestroySession is DESTROY_SESSION (RFC 8881, Section 18.37). own is the
// session of the COMPOUND, or nil: the call itself keeps no session alive.
func (s *State) DestroySession(id nfs4.SessionID, own *Session) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.Session(id)
	if session == nil {
		return nfs4.ErrBadSession
	}
	if !kill([]*Session{session}, own, always, func() bool { return true }) {
		return nfs4.ErrDelay
	}
	s.endSession(session)
	c := session.client
	c.renewed = max(c.renewed, session.lastUse(s.config.Now()))
	i := slices.Index(c.sessions, session)
	c.sessions = slices.Delete(c.sessions, i, i+1)
	return nfs4.OK
}

// Bind is BIND_CONN_TO_SESSION (RFC 8881, Section 18.34). Bind binds a connection
// to the channels in dir, and returns the directions that are bound now. With
// BindForeOrBoth and BindBackOrBoth these are both, because Linux takes less
// for a fault.
func (s *Session) Bind(conn any, dir uint32) (bound uint32, status nfs4.Status) {
	switch dir {
	case nfs4.BindForeOrBoth, nfs4.BindBackOrBoth:
		dir = nfs4.BindBoth
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.directions(conn)
	switch {
	case s.dead:
		return 0, nfs4.ErrBadSession
	case ok && have != dir && dir != nfs4.BindBoth:
		return 0, nfs4.ErrInval // it demands other channels
	case !ok && len(s.conns) >= maxConns:
		return 0, nfs4.ErrDelay
	}
	s.bind(conn, dir)
	return dir, nfs4.OK
}

// Unbind forgets a connection that has ended.
func (s *Session) Unbind(conn any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bind(conn, 0)
}

// Ended reports whether the session has been destroyed.
func (s *Session) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// SetCallback is BACKCHANNEL_CTL (RFC 8881, Section 18.33): contexts, of the Handles in
// parms, are added to those that the session has.
func (s *Session) SetCallback(program uint32, parms nfs4.SecParms, contexts []BackContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cbProgram, s.secParms = program, parms
	s.addContexts(contexts)
}

// Flags returns the status flags of SEQUENCE (RFC 8881, Section 18.46.3): of
// the backchannels that the client asked for, this session has no connection, or
// none has any; the contexts for callbacks end within a lease, or have ended; the client
// has yet to free stateids that were revoked.
func (s *State) Flags(session *Session) (flags uint32) {
	if session.callbacks.Load() && session.backs.Load() == 0 {
		flags = nfs4.SeqCBPathDownSession
	}
	if session.fault.Load() {
		flags |= nfs4.SeqBackchannelFault
	}
	if session.contexts.Load() != nil {
		switch _, left := session.backContext(); {
		case left <= 0:
			flags |= nfs4.SeqCBGSSContextsExpired
		case left <= s.config.Lease:
			flags |= nfs4.SeqCBGSSContextsExpiring
		}
	}
	c := session.client
	if c.wants.Load() > 0 && c.paths.Load() == 0 {
		flags |= nfs4.SeqCBPathDown
	}
	if c.lost.Load() > 0 {
		flags |= nfs4.SeqAdminStateRevoked
	}
	if c.lostDelegations.Load() > 0 {
		flags |= nfs4.SeqRecallableStateRevoked
	}
	return flags
}
