package nfs4state

import (
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// sessionless is set, beside a Transport, in the names of the clients of version
// 4.0: a client of one name by a later version is another client.
const sessionless Transport = 1 << 7

// A seqClient is what the record of a client of version 4.0 has besides: the
// sequences of its owners take the place of sessions.
type seqClient struct {
	// session stands for the client in the State's methods. It has no slots,
	// and counts the calls that run.
	session Session

	addr     netip.AddrPort // of the last SETCLIENTID
	confirm  nfs4.Verifier  // which confirms the record, or has done so
	callback Callback
	answers  bool       // callback works
	update   *seqUpdate // which SETCLIENTID_CONFIRM has yet to confirm, or nil

	owners  map[seqKey]*seqOwner
	resting list.List // of *seqOwner; see rest
}

// A seqUpdate is a SETCLIENTID of the incarnation that is confirmed already: it
// may change the callback alone.
type seqUpdate struct {
	addr     netip.AddrPort
	confirm  nfs4.Verifier
	callback Callback
}

// A Callback is what a client of version 4.0 says of its callbacks.
type Callback struct {
	Program, Ident uint32
	NetID, UAddr   string // as the client says
	Addr           netip.AddrPort
}

// A SetClientID is the arguments of SETCLIENTID that matter to the state.
type SetClientID struct {
	Transport Transport
	Principal Principal
	Host      Host
	Party     fairshare.Name // by which limits are shared out
	Addr      netip.AddrPort // of the client, for lists of clients
	ID        []byte
	Verifier  nfs4.Verifier
	Callback  Callback
}

// SetClientID looks up or makes a client record, by the five cases of RFC 7530,
// Section 16.33.5. With OK it returns the client ID and the verifier by which
// SETCLIENTID_CONFIRM confirms it; with NFS4ERR_CLID_INUSE, the callback of the
// client that has the name.
func (s *State) SetClientID(a *SetClientID) (id uint64, confirm nfs4.Verifier, using Callback, status nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	rand.Read(confirm[:]) // never fails
	key := ownerKey{a.Transport | sessionless, string(a.ID)}
	var c *client
	if o := s.owners[key]; o != nil {
		c = o.confirmed
	}
	switch {
	case s.reserved(key, a.Principal, a.Host, false):
		return 0, confirm, using, nfs4.ErrClidInUse
	case c != nil && (c.principal != a.Principal || c.strange(a.Host)):
		if !s.giveWay(c, &gone) {
			return 0, confirm, c.seq.callback, nfs4.ErrClidInUse
		}
	case c != nil && c.verifier == a.Verifier:
		if o := s.owners[key]; o.unconfirmed != nil {
			s.drop(o.unconfirmed)
		}
		c.seq.update = &seqUpdate{a.Addr, confirm, a.Callback}
		return c.id, confirm, using, nfs4.OK
	case c != nil:
		c.seq.update = nil
	}
	id, _, _, status = s.newClient(key, &Exchange{Verifier: a.Verifier, Principal: a.Principal, Host: a.Host, Party: a.Party}, &gone)
	if status == nfs4.OK {
		c := s.clients[id]
		c.seq = &seqClient{addr: a.Addr, confirm: confirm, callback: a.Callback, owners: make(map[seqKey]*seqOwner)}
		c.seq.session.state, c.seq.session.client = s, c
	}
	return id, confirm, using, status
}

// ConfirmClientID is SETCLIENTID_CONFIRM (RFC 7530, Section 16.34.5). The state of
// an earlier incarnation ends when a new one is confirmed.
func (s *State) ConfirmClientID(t Transport, p Principal, h Host, id uint64, confirm nfs4.Verifier) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	if c != nil && s.lapsed(c) {
		s.drop(c)
		c = nil
	}
	if c == nil || c.key.transport != t|sessionless {
		return nfs4.ErrStaleClientID
	}
	u := c.seq.update
	switch known := c.seq.confirm == confirm || u != nil && u.confirm == confirm; {
	case !known:
		return nfs4.ErrStaleClientID
	case c.principal != p, c.strange(h):
		return nfs4.ErrClidInUse
	case !c.confirmed:
		if !s.confirm(c, nil, &gone) {
			return nfs4.ErrDelay // a call of the old incarnation runs
		}
		c.sessions = []*Session{&c.seq.session}
		c.seq.session.used = c.renewed
	case u != nil && u.confirm == confirm:
		c.seq.addr, c.seq.confirm, c.seq.callback, c.seq.update = u.addr, u.confirm, u.callback, nil
		c.seq.answers = false // until it is tried
	}
	return nfs4.OK
}

// ByClientID begins a call of version 4.0 of the client with a client ID, and
// returns the Session that stands for the client until Leave. A client whose
// state was lost is NFS4ERR_EXPIRED for a while (RFC 7530, Section 9.6.3.2). To calls
// that do not come from its Host it is unknown: they can guess the client ID.
func (s *State) ByClientID(t Transport, h Host, id uint64) (*Session, nfs4.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	switch {
	case c == nil && s.expired.ids.has(id):
		return nil, nfs4.ErrExpired
	case c == nil || !c.confirmed || c.key.transport != t|sessionless, c.strange(h):
		return nil, nfs4.ErrStaleClientID
	}
	return &c.seq.session, c.seq.session.enter()
}

// ByStateID is ByClientID for the client to which a stateid was given. A special
// stateid is no client's: it is NFS4ERR_BAD_STATEID.
func (s *State) ByStateID(t Transport, by Host, id *nfs4.StateID) (*Session, nfs4.Status) {
	switch h := s.at(id); {
	case id.Special():
		return nil, nfs4.ErrBadStateID
	case !s.ours(binary.BigEndian.Uint32(id.Other[:])):
		return nil, nfs4.ErrStaleStateID
	case h != nil && h.client.key.transport == t|sessionless && !h.client.strange(by):
		return &h.client.seq.session, h.client.seq.session.enter()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired.stateids.has(id.Other) {
		return nil, nfs4.ErrExpired
	}
	return nil, nfs4.ErrBadStateID
}

// enter begins a call of a client of version 4.0, which does not end meanwhile.
func (s *Session) enter() nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return nfs4.ErrExpired
	}
	s.running++
	return nfs4.OK
}

// Leave ends a call of a client of version 4.0 or of a Machine. The client's lease runs from now.
func (s *Session) Leave() {
	now := s.state.config.Now()
	s.mu.Lock()
	s.running--
	s.used = max(s.used, now)
	last, dead := s.running == 0, s.dead
	s.mu.Unlock()
	if last && s.client.managed() {
		s.state.leaveMachine(s.client, dead)
	}
}

// die makes every later call fail, while some run.
func (s *Session) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

// Renew returns the status of RENEW, which needs the principal that made the
// client ID, or one that has a file open (RFC 7530, Section 16.28.5). A client that
// has delegations, and whose callback does not work, is told so.
func (s *State) Renew(session *Session, p Principal) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	switch {
	case c.principal != p && !c.opens40(p):
		return nfs4.ErrAccess
	case len(c.delegations) > 0 && !c.seq.answers:
		return nfs4.ErrCBPathDown
	}
	return nfs4.OK
}

// opens40 reports whether a principal has a file open, as a client of version 4.0.
func (c *client) opens40(p Principal) bool {
	for _, o := range c.seq.owners {
		if !o.key.lock && o.uses > 0 && o.principal == p {
			return true
		}
	}
	return false
}

// CallbackAnswers notes whether the callback of a client of version 4.0 works.
func (s *State) CallbackAnswers(id uint64, at Callback, works bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[id]; c != nil && c.seq != nil && c.seq.callback == at {
		c.seq.answers = works
	}
}

// expired has the identifiers of version 4.0 that clients have lost with their
// leases, as far as they are remembered. State.mu guards it.
type expired struct {
	ids      memory[uint64]
	stateids memory[[nfs4.OtherSize]byte]
}

// A memory has the last maxRemembered of the values that were added to it.
type memory[K comparable] struct {
	set    map[K]struct{}
	oldest []K // a ring
	at     int
}

// maxRemembered bounds a memory. A client that shows an older stateid finds
// another status, and recovers all the same.
const maxRemembered = 16 << 10

func (m *memory[K]) add(k K) {
	if m.set == nil {
		m.set = make(map[K]struct{})
	}
	m.set[k] = struct{}{}
	if len(m.oldest) < maxRemembered {
		m.oldest = append(m.oldest, k)
		return
	}
	delete(m.set, m.oldest[m.at])
	m.oldest[m.at] = k
	m.at = (m.at + 1) % maxRemembered
}

func (m *memory[K]) has(k K) bool { _, ok := m.set[k]; return ok }

// expire remembers the identifiers of a client that ends. State.mu is held.
func (s *State) expire(c *client) {
	s.expired.ids.add(c.id)
	for _, d := range c.delegations {
		s.expired.stateids.add(d.other)
	}
	for _, o := range c.opens {
		s.expired.stateids.add(o.other)
		for _, set := range o.locks {
			s.expired.stateids.add(set.other)
		}
	}
}
