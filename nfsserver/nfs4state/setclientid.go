package nfs4state

import (
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// sessionless is set in addition to a Transport in the ownerKeys of NFSv4.0
// clients: a client with the same name in a later version is another client.
const sessionless Transport = 1 << 7

// A client40 is the additional record of an NFSv4.0 client: its owners'
// sequences replace sessions.
type client40 struct {
	// session represents the client in the State's methods. It has no slots,
	// and counts the running calls.
	session Session

	addr          netip.AddrPort // the last SETCLIENTID's
	confirm       nfs4.Verifier  // the verifier that confirms or has confirmed the record
	callback      Callback
	callbackWorks bool       // the callback works
	update        *seqUpdate // not yet confirmed by SETCLIENTID_CONFIRM, or nil

	owners  map[seqKey]*seqOwner
	openers map[Principal]int // the number of owners with open files
	resting list.List         // *seqOwner elements; see restOwner
}

// A seqUpdate is a SETCLIENTID of an incarnation that is already confirmed: it
// can change only the callback.
type seqUpdate struct {
	addr     netip.AddrPort
	confirm  nfs4.Verifier
	callback Callback
}

// A Callback describes an NFSv4.0 client's callback service.
type Callback struct {
	Program, Ident uint32
	NetID, UAddr   string // as sent by the client
	Addr           netip.AddrPort
}

// A SetClientID holds the SETCLIENTID arguments that affect the state.
type SetClientID struct {
	Transport Transport
	Principal Principal
	Host      Host
	Party     fairshare.Name // the client group that limits apply to
	Addr      netip.AddrPort // the client's, for lists of clients
	ID        []byte
	Verifier  nfs4.Verifier
	Callback  Callback
}

// SetClientID looks up or creates a client record, in the five cases of RFC
// 7530, Section 16.33.5. If the status is OK, it returns the client ID and the
// verifier for SETCLIENTID_CONFIRM; with NFS4ERR_CLID_INUSE, the callback of
// the client that uses the name.
func (s *State) SetClientID(a *SetClientID) (id uint64, confirm nfs4.Verifier, using Callback, status nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	rand.Read(confirm[:]) // never fails
	key := ownerKey{a.Transport | sessionless, string(a.ID)}
	var c *client
	if o := s.owners[key]; o != nil {
		c = o.confirmed
	}
	switch {
	case s.isNameReserved(key, a.Principal, a.Host, false):
		return 0, confirm, using, nfs4.ErrClidInUse
	case c != nil && (c.principal != a.Principal || c.isForeignHost(a.Host)):
		if !s.expireIfIdle(c, &deferred) {
			return 0, confirm, c.v40.callback, nfs4.ErrClidInUse
		}
	case c != nil && c.verifier == a.Verifier:
		if o := s.owners[key]; o.unconfirmed != nil {
			s.dropUnconfirmed(o.unconfirmed)
		}
		c.addKnownAddr(a.Party)
		c.v40.update = &seqUpdate{a.Addr, confirm, a.Callback}
		return c.id, confirm, using, nfs4.OK
	case c != nil && !c.isManagedBy(&Caller{a.Principal, a.Host, a.Party}):
		if status := s.checkRival(c, &deferred); status != nfs4.OK {
			return 0, confirm, c.v40.callback, status
		}
	case c != nil:
		c.v40.update = nil
	}
	id, _, _, status = s.newClient(key, &Exchange{Verifier: a.Verifier, Principal: a.Principal, Host: a.Host, Party: a.Party}, &deferred)
	if status == nfs4.OK {
		c := s.clients[id]
		c.v40 = &client40{addr: a.Addr, confirm: confirm, callback: a.Callback, owners: make(map[seqKey]*seqOwner)}
		c.v40.session.state, c.v40.session.client = s, c
	}
	return id, confirm, using, status
}

// ConfirmClientID implements SETCLIENTID_CONFIRM (RFC 7530, Section 16.34.5). The
// state of an earlier incarnation is removed when a new one is confirmed.
func (s *State) ConfirmClientID(t Transport, p Principal, h Host, id uint64, confirm nfs4.Verifier) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	if c != nil && s.isLapsed(c) {
		s.dropUnconfirmed(c)
		c = nil
	}
	if c == nil || c.key.transport != t|sessionless {
		return nfs4.ErrStaleClientID
	}
	u := c.v40.update
	switch known := c.v40.confirm == confirm || u != nil && u.confirm == confirm; {
	case !known:
		return nfs4.ErrStaleClientID
	case c.principal != p, c.isForeignHost(h):
		return nfs4.ErrClidInUse
	case !c.confirmed:
		if !s.confirmClient(c, nil, &deferred) {
			return nfs4.ErrDelay // a call of the old incarnation is running
		}
		c.sessions = []*Session{&c.v40.session}
		c.v40.session.renewedAt = c.renewedAt
	case u != nil && u.confirm == confirm:
		c.v40.addr, c.v40.confirm, c.v40.callback, c.v40.update = u.addr, u.confirm, u.callback, nil
		c.v40.callbackWorks = false // until it is tried
	}
	return nfs4.OK
}

// ByClientID begins an NFSv4.0 call by the client with a client ID, and returns the
// Session that represents the client until Leave. For some time after a client has
// lost its state, the status is NFS4ERR_EXPIRED (RFC 7530, Section 9.6.3.2). A client
// is unknown to calls from another Host, which could guess the client ID.
func (s *State) ByClientID(t Transport, h Host, id uint64) (*Session, nfs4.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	switch {
	case c == nil && s.expired.ids.has(id):
		return nil, nfs4.ErrExpired
	case c == nil || !c.confirmed || c.key.transport != t|sessionless, c.isForeignHost(h):
		return nil, nfs4.ErrStaleClientID
	}
	return &c.v40.session, c.v40.session.beginCall()
}

// ByStateID begins an NFSv4.0 call by the client that has a stateid, like
// ByClientID. A special stateid belongs to no client: the status is
// NFS4ERR_BAD_STATEID.
func (s *State) ByStateID(t Transport, by Host, id *nfs4.StateID) (*Session, nfs4.Status) {
	switch h := s.lookupHolding(id); {
	case id.Special():
		return nil, nfs4.ErrBadStateID
	case !s.isOwnEpoch(binary.BigEndian.Uint32(id.Other[:])):
		return nil, nfs4.ErrStaleStateID
	case h != nil && h.client.key.transport == t|sessionless && !h.client.isForeignHost(by):
		return &h.client.v40.session, h.client.v40.session.beginCall()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired.stateids.has(id.Other) {
		return nil, nfs4.ErrExpired
	}
	return nil, nfs4.ErrBadStateID
}

// MadeBy reports whether a call's principal and group are those that created the session's
// NFSv4.0 client. An unverified principal must also have the same group, because it can be
// claimed from any address.
func (s *Session) MadeBy(p Principal, party fairshare.Name) bool {
	c := s.client
	return c.principal == p && (p.Name != "" || c.group.name == party)
}

// OpenedBy reports whether a call may open a file in the client's name, as all users of the
// client's host do: MadeBy is true, or both principals are unverified and the address is
// the same.
func (s *Session) OpenedBy(p Principal, party fairshare.Name) bool {
	c := s.client
	return s.MadeBy(p, party) || p.Name == "" && c.principal.Name == "" && c.group.name == party
}

// beginCall begins a call by an NFSv4.0 client, which is not removed during the call.
func (s *Session) beginCall() nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return nfs4.ErrExpired
	}
	s.running++
	return nfs4.OK
}

// Leave ends a call by an NFSv4.0 client. It renews the client's lease.
func (s *Session) Leave() {
	now := s.state.config.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.renewedAt = max(s.renewedAt, now)
}

// Renew returns the status of RENEW, which requires the principal that created the
// client ID, or one that has a file open (RFC 7530, Section 16.28.5). It is
// NFS4ERR_CB_PATH_DOWN if the client has delegations and its callback does not
// work.
func (s *State) Renew(session *Session, p Principal) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	switch {
	case c.principal != p && c.v40.openers[p] == 0:
		return nfs4.ErrAccess
	case len(c.delegations) > 0 && !c.v40.callbackWorks:
		return nfs4.ErrCBPathDown
	}
	return nfs4.OK
}

// CallbackAnswers records whether an NFSv4.0 client's callback works.
func (s *State) CallbackAnswers(id uint64, at Callback, works bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[id]; c != nil && c.v40 != nil && c.v40.callback == at {
		c.v40.callbackWorks = works
	}
}

// expiredIDs has the NFSv4.0 client IDs and stateids that clients have recently
// lost with their leases. State.mu guards it.
type expiredIDs struct {
	ids      recentSet[uint64]
	stateids recentSet[[nfs4.OtherSize]byte]
}

// A recentSet has the last maxRemembered values that were added to it.
type recentSet[K comparable] struct {
	set    map[K]struct{}
	oldest []K // ring buffer
	at     int
}

// maxRemembered bounds a recentSet. A client that sends an older stateid gets
// another status, and also recovers.
const maxRemembered = 16 << 10

func (m *recentSet[K]) add(k K) {
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

func (m *recentSet[K]) has(k K) bool { _, ok := m.set[k]; return ok }
