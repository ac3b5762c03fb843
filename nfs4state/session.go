package nfs4state

import (
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Session is a session of a client (RFC 8881, Section 2.10).
type Session struct {
	ID   nfs4.SessionID
	Fore nfs4.ChannelAttrs // as negotiated
	Back nfs4.ChannelAttrs

	client *client

	mu        sync.Mutex
	dead      bool
	used      time.Duration // the last SEQUENCE that succeeded
	running   int           // slots that execute a call
	slots     []slot
	conns     map[any]uint32 // directions of bound connections
	callbacks bool           // the client asked for a backchannel
	cbProgram uint32
	secParms  nfs4.SecParms
}

// ClientID returns the ID of the session's client.
func (s *Session) ClientID() uint64 { return s.client.id }

func (s *Session) lastUse() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// kill makes every later call NFS4ERR_BADSESSION. It returns false if a call
// runs, except one of own.
func (s *Session) kill(own *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running > 1 || s.running == 1 && s != own {
		return false
	}
	s.dead = true
	return true
}

func (s *Session) revive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = false
}

// Create is the arguments of CREATE_SESSION, with the channels as the server
// grants them.
type Create struct {
	Principal Principal
	ClientID  uint64
	Sequence  uint32
	Flags     uint32 // as granted
	Fore      nfs4.ChannelAttrs
	Back      nfs4.ChannelAttrs
	CBProgram uint32
	SecParms  nfs4.SecParms
	Refused   nfs4.Status // of the channels: no session can be made with them
	Conn      any         // the connection of the call
	Own       *Session    // the session of the call's COMPOUND, or nil
}

// CreateSession makes a session, and confirms the client record of its client
// ID (RFC 8881, Section 18.36.4). A retry gets the results of the first call.
func (s *State) CreateSession(a *Create) nfs4.CreateSessionRes {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[a.ClientID]
	switch {
	case c == nil:
		return nfs4.CreateSessionRes{Status: nfs4.ErrStaleClientID}
	case a.Sequence == c.sequence && c.created != nil:
		return *c.created
	case a.Sequence != c.sequence+1:
		return nfs4.CreateSessionRes{Status: nfs4.ErrSeqMisordered}
	case !c.confirmed && c.principal != a.Principal:
		return nfs4.CreateSessionRes{Status: nfs4.ErrClidInUse}
	case a.Refused != nfs4.OK:
		return s.created(c, a, nfs4.CreateSessionRes{Status: a.Refused})
	case len(c.sessions) >= maxSessions:
		return s.created(c, a, nfs4.CreateSessionRes{Status: nfs4.ErrNoSpc})
	}
	if !c.confirmed && !s.confirm(c, a.Own, &gone) {
		return nfs4.CreateSessionRes{Status: nfs4.ErrDelay} // a call of the old incarnation runs
	}
	session := &Session{
		ID: s.sessionID(), Fore: a.Fore, Back: a.Back, client: c, used: s.config.Now(),
		slots: make([]slot, a.Fore.MaxRequests), cbProgram: a.CBProgram, secParms: a.SecParms,
		conns: map[any]uint32{a.Conn: nfs4.BindFore},
	}
	if a.Flags&nfs4.SessionConnBackChan != 0 {
		session.conns[a.Conn] = nfs4.BindBoth
		session.callbacks = true
	}
	c.sessions = append(c.sessions, session)
	s.sessions.Store(session.ID, session)
	return s.created(c, a, nfs4.CreateSessionRes{
		Session: session.ID, Sequence: a.Sequence, Flags: a.Flags, Fore: a.Fore, Back: a.Back,
	})
}

// created keeps the results of CREATE_SESSION for a retry.
func (s *State) created(c *client, a *Create, res nfs4.CreateSessionRes) nfs4.CreateSessionRes {
	c.sequence, c.created = a.Sequence, &res
	return res
}

// confirm makes c the record of its owner, in place of an earlier incarnation.
// It returns false if a call of that one runs.
func (s *State) confirm(c *client, own *Session, gone *released) bool {
	o := s.owners[c.key]
	if old := o.confirmed; old != nil && !s.end(old, own, gone) {
		return false
	}
	o.confirmed, o.unconfirmed = c, nil
	s.owners[c.key] = o // end may have removed it
	c.confirmed, c.renewed = true, s.config.Now()
	s.unconfirmed--
	return true
}

// Session returns the session of an ID, or nil.
func (s *State) Session(id nfs4.SessionID) *Session {
	session, _ := s.sessions.Load(id)
	if session == nil {
		return nil
	}
	return session.(*Session)
}

// DestroySession is DESTROY_SESSION (RFC 8881, Section 18.37). own is the
// session of the COMPOUND, or nil: its own call does not keep it alive.
func (s *State) DestroySession(id nfs4.SessionID, own *Session) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.Session(id)
	if session == nil {
		return nfs4.ErrBadSession
	}
	session.mu.Lock()
	allowed := 0
	if session == own {
		allowed = 1
	}
	if session.dead || session.running > allowed {
		defer session.mu.Unlock()
		if session.dead {
			return nfs4.ErrBadSession
		}
		return nfs4.ErrDelay
	}
	session.dead = true
	used := session.used
	session.mu.Unlock()
	s.sessions.Delete(id)
	c := session.client
	c.renewed = max(c.renewed, used)
	for i, other := range c.sessions {
		if other == session {
			c.sessions = append(c.sessions[:i:i], c.sessions[i+1:]...)
			break
		}
	}
	return nfs4.OK
}

// Bind is BIND_CONN_TO_SESSION (RFC 8881, Section 18.34): it binds a connection
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
	have, ok := s.conns[conn]
	switch {
	case s.dead:
		return 0, nfs4.ErrBadSession
	case ok && have&dir != dir && dir != nfs4.BindBoth:
		return 0, nfs4.ErrInval // bound to another channel
	case !ok && len(s.conns) >= maxConns:
		return 0, nfs4.ErrDelay
	}
	s.conns[conn] = have | dir
	s.callbacks = s.callbacks || dir&nfs4.BindBack != 0
	return dir, nfs4.OK
}

// Unbind forgets a connection that has ended.
func (s *Session) Unbind(conn any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// SetCallback is BACKCHANNEL_CTL (RFC 8881, Section 18.33).
func (s *Session) SetCallback(program uint32, parms nfs4.SecParms) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cbProgram, s.secParms = program, parms
}

// Flags returns the status flags of SEQUENCE (RFC 8881, Section 18.46.3).
func (s *State) Flags(session *Session) (flags uint32) {
	session.mu.Lock()
	defer session.mu.Unlock()
	if !session.callbacks {
		return 0
	}
	for _, dir := range session.conns {
		if dir&nfs4.BindBack != 0 {
			return 0
		}
	}
	return nfs4.SeqCBPathDown | nfs4.SeqCBPathDownSession
}
