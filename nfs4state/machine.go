package nfs4state

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Machine names a client of the Network Lock Manager (NLM), by which clients of
// NFS version 3 lock files. Machines of one name at two addresses are two clients, so
// that no machine can use the locks of another by its name alone. Local is this
// server's address at which the client calls: the client believes calls from
// that address alone.
type Machine struct {
	Addr, Local netip.Addr
	Name        string // caller_name: any bytes
}

// lockManager is in the place of a Transport in the names of Machines.
const lockManager Transport = 1 << 6

// key returns the name of m's client record. An address that is missing has no text there.
func (m *Machine) key() ownerKey {
	addr, _ := m.Addr.MarshalText()
	local, _ := m.Local.MarshalText()
	return ownerKey{lockManager, string(addr) + " " + string(local) + " " + m.Name}
}

// machineOf returns the Machine of a client record, if it is of one.
func machineOf(key ownerKey) (m Machine, ok bool) {
	if key.transport != lockManager {
		return m, false
	}
	addr, rest, _ := strings.Cut(key.id, " ")
	local, name, _ := strings.Cut(rest, " ")
	m.Name = name
	m.Addr, _ = netip.ParseAddr(addr) // of our own making, but for an address that is missing
	m.Local, _ = netip.ParseAddr(local)
	return m, true
}

// managed reports whether c is a Machine: it has no lease, and keeps what it
// holds until it gives that back, or tells that it has restarted, or an administrator
// ends it.
func (c *client) managed() bool { return c.key.transport == lockManager }

// EnterMachine begins a call of a Machine, and returns the Session that stands for it
// until Leave. A Machine that holds nothing is forgotten at Leave or, if it had something,
// after a lease: calls of machines without end, whose addresses may be false, leave nothing.
// NFS4ERR_DELAY says that there is no room for another, and NFS4ERR_GRACE that the Machine
// has restarted, and a call from before that runs yet: see EndMachines.
func (s *State) EnterMachine(m Machine, party fairshare.Name) (*Session, nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := m.key()
	o := s.owners[key]
	if o == nil {
		if _, _, _, status := s.newClient(key, &Exchange{Party: party}, &gone); status != nfs4.OK {
			return nil, status
		}
		o = s.owners[key]
		c := o.unconfirmed
		session := &Session{state: s, client: c, used: s.config.Now()}
		s.confirm(c, nil, &gone)
		c.sessions = []*Session{session}
	}
	session := o.confirmed.sessions[0]
	if session.enter() != nfs4.OK {
		return nil, nfs4.ErrGrace
	}
	return session, nfs4.OK
}

// leaveMachine ends a Machine at the end of its last call that runs, if the Machine is over (see
// EndMachines), or if it holds nothing, and nothing is to be remembered of it.
func (s *State) leaveMachine(c *client, over bool) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.ledger.records[c.key]; c.ended || !over && (known || c.holds()) {
		return
	}
	s.end(c, nil, always, &gone) // unless another call has begun
}

// Enter begins another call of a Machine, and returns false if the Machine has ended. Leave
// must follow.
func (s *Session) Enter() bool { return s.enter() == nfs4.OK }

// Machine returns the Machine of a session, if it is of one.
func (s *Session) Machine() (Machine, bool) { return machineOf(s.client.key) }

// Machines returns the Machines that have had locks when an earlier State ended, and
// are to be told of the restart. Those that may reclaim come first, because grace runs
// meanwhile; the others could not be told so far.
func (p *Past) Machines() (list []Machine) {
	var others []Machine
	for key, r := range p.clients {
		switch m, ok := machineOf(key); {
		case ok && r.revoked:
			others = append(others, m)
		case ok:
			list = append(list, m)
		}
	}
	return append(list, others...)
}

// expected reports whether a Machine may reclaim, or has yet to hear of the restart: its
// record stays, however long it is silent. State.mu is held.
func (s *State) expected(key ownerKey) bool {
	_, untold := s.untold[key]
	r, ok := s.ledger.records[key]
	return ok && (untold || !r.fresh)
}

// Told notes that a Machine of Past.Machines has heard of the restart: the next State
// tells it nothing, unless the Machine has locks again.
func (s *State) Told(m Machine) {
	s.mu.Lock()
	key := m.key()
	delete(s.untold, key)
	o, r := s.owners[key], s.ledger.records[key]
	over := r.fresh && (o == nil || o.confirmed == nil || !o.confirmed.holds())
	if over {
		s.strike(key)
	}
	s.mu.Unlock()
	if over {
		s.store()
	}
}

// EndMachines ends all Machines at an address whose names are chosen, with all that
// they hold. One whose calls run ends with the last of them. Until then its further calls
// fail: what a machine locks after its restart must not end with what it had before.
func (s *State) EndMachines(addr netip.Addr, chosen func(name string) bool) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		m, ok := machineOf(c.key)
		if !ok || m.Addr != addr || !chosen(m.Name) {
			continue
		}
		if !s.end(c, nil, always, &gone) {
			c.sessions[0].die()
		}
	}
}

// MachineNames returns the names of the Machines at an address, without duplicates.
func (s *State) MachineNames(addr netip.Addr) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if m, ok := machineOf(c.key); ok && m.Addr == addr && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// InGrace reports whether a session's Machine may do nothing but reclaim: a client
// may still reclaim a lock that could be in the way, or the Machine itself may.
func (s *State) InGrace(session *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locksWait(session.client)
}

// locksWait reports whether locks of a client that are no reclaims must wait. State.mu
// is held.
func (s *State) locksWait(c *client) bool {
	return s.reclaims(c) || s.grace() && s.ledger.staleLocks+s.ledger.staleDelegations > 0
}

// The open-owners of a Machine. By the Open of its locks, a Machine locks an object,
// which it need not open; the other Opens are SHAREs.
const (
	lockOpener  = "L"
	shareOpener = "S" // and oh
)

// lockArgsOf is lockArgs for a Machine, and opens the object for its locks if that
// is not open yet. State.mu is held.
func (s *State) lockArgsOf(c *client, a *Lock) (l lockable, status nfs4.Status) {
	if a.For != nil && !a.For.queued {
		return l, nfs4.ErrBadStateID
	}
	if l.open, status = s.openFor(c, lockOpener, a.Key, a.Handle, a.File); status == nfs4.OK {
		l.owner = l.open.key.file.owners[lockOwnerKey{c, string(a.Owner)}]
		l.set = l.open.locks[l.owner]
	}
	return l, status
}

// openFor returns the Open of an object for a Machine, made without modes if there is
// none. State.mu is held.
func (s *State) openFor(c *client, owner, key string, handle []byte, file any) (*Open, nfs4.Status) {
	if c.ended {
		return nil, nfs4.ErrBadSession
	}
	f := s.files[key]
	if f != nil {
		if o := c.opens[openKey{owner: owner, file: f}]; o != nil {
			o.addName(handle)
			return o, nfs4.OK
		}
	}
	if len(c.opens) >= maxOpens || !s.mayUse(c.party, stateids, costOf(len(owner))) || s.writtenByOther(key, c) {
		return nil, nfs4.ErrDelay
	}
	o := s.newOpen(c, owner, key, "")
	o.File, o.notifies = file, true
	o.key.file.machines++
	o.addName(handle)
	s.slab.put(o.index, &o.holding)
	return o, nfs4.OK
}

// maxNames bounds the filehandles that are remembered of an Open: an object has one in each
// export.
const maxNames = 8

// A named is an object that Opens of a Machine name by a filehandle.
type named struct {
	key   string
	opens int
}

// addName notes a filehandle of the object of an Open of a Machine.
func (o *Open) addName(handle []byte) {
	if len(o.names) >= maxNames || slices.Contains(o.names, string(handle)) {
		return
	}
	o.names = append(o.names, string(handle))
	c := o.client
	if c.named == nil {
		c.named = make(map[string]named)
	}
	c.named[string(handle)] = named{o.Key, c.named[string(handle)].opens + 1}
}

// dropNames forgets the filehandles of an Open that ends.
func (o *Open) dropNames() {
	c := o.client
	for _, handle := range o.names {
		n := c.named[handle]
		if n.opens--; n.opens == 0 {
			delete(c.named, handle)
			continue
		}
		c.named[handle] = n
	}
}

// KeyOf returns the Key of an object that a session's Machine has locked or shared by a
// filehandle. It finds objects that have been removed since.
func (s *State) KeyOf(session *Session, handle []byte) (key string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := session.client.named[string(handle)]
	return n.key, ok
}

// tidy ends the Opens of an object that a Machine has no use for any more: nothing
// is locked through them, nobody waits, and they are no SHAREs. State.mu is held.
func (s *State) tidy(c *client, key string, gone *released) {
	f := s.files[key]
	if !c.managed() || f == nil {
		return
	}
	o := c.opens[openKey{owner: lockOpener, file: f}]
	if o == nil {
		return
	}
	for _, set := range o.locks {
		if set.part.Len() == 0 {
			s.endLocks(set, gone)
		}
	}
	if len(o.locks) == 0 && !slices.ContainsFunc(f.waiting, func(w *Waiting) bool { return w.open == o }) {
		s.closeOpen(o, gone)
	}
}

// tidyAfter is tidy, with State.mu not held.
func (s *State) tidyAfter(c *client, key string, gone *released) {
	if c.managed() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tidy(c, key, gone)
	}
}

// Release unlocks bytes of an object for an owner of a session's Machine, and removes
// the owner from the queue for these bytes. It takes Owner, Key and Range of the
// arguments. NFS4ERR_DELAY says that the Machine has too many locks to split one.
func (s *State) Release(session *Session, a *Lock) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	f := s.files[a.Key]
	if c.ended || f == nil {
		return nfs4.OK
	}
	for _, w := range slices.Clone(f.waiting) {
		if w.open.client == c && w.name == string(a.Owner) && w.lock.Range == a.Range {
			s.stopWaiting(w)
			gone.frees(f)
		}
	}
	defer s.tidy(c, a.Key, &gone)
	o := c.opens[openKey{owner: lockOpener, file: f}]
	if o == nil {
		return nfs4.OK
	}
	set := o.locks[f.owners[lockOwnerKey{c, string(a.Owner)}]]
	if set == nil {
		return nfs4.OK
	}
	return s.unlockSet(set, a, &gone)
}

// GiveBack takes a lock back that was granted to a Waiting, which does not want it any
// more: the bytes are locked again as they were before, as Lock.Before has them.
func (s *State) GiveBack(session *Session, a *Lock) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	f := s.files[a.Key]
	if c.ended || f == nil {
		return
	}
	defer s.tidy(c, a.Key, &gone)
	o := c.opens[openKey{owner: lockOpener, file: f}]
	if o == nil {
		return
	}
	set := o.locks[f.owners[lockOwnerKey{c, string(a.Owner)}]]
	if set == nil {
		return
	}
	before := set.owner.owner.Len()
	set.owner.owner.Unlock(a.Range)
	for _, l := range a.Before {
		set.part.Lock(l.Range, l.Exclusive)
	}
	s.countLocks(c, set.owner.owner.Len()-before)
	gone.frees(f)
	s.unlockHost(a.Key, &gone, func(yield func(locks.Range) bool) { yield(a.Range) })
}

// StopWaiting removes an owner of a session's Machine from the queue for a lock. It
// returns false if the owner does not wait for that lock.
func (s *State) StopWaiting(session *Session, a *Lock) bool {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	f := s.files[a.Key]
	if f == nil {
		return false
	}
	i := slices.IndexFunc(f.waiting, func(w *Waiting) bool { return w.asks(c, string(a.Owner), a) })
	if i < 0 {
		return false
	}
	s.stopWaiting(f.waiting[i])
	gone.frees(f)
	s.tidy(c, a.Key, &gone)
	return true
}

// A Share is the arguments of State.Share.
type Share struct {
	Owner        []byte // oh
	Key          string // of the object
	Access, Deny uint32 // ShareRead and ShareWrite
	Reclaim      bool
	File         any // as in Lock, like Handle
	Handle       []byte
}

// Share opens an object for an owner of a session's Machine with a deny mode, in
// place of the owner's earlier modes (SHARE of NLM).
func (s *State) Share(session *Session, a *Share) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	return s.settling(func() nfs4.Status {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.denying.Add(1) // see BeginSpecial; also while the owner's earlier modes are out of force
		defer s.denying.Add(-1)
		return s.tryShare(session.client, a, &gone)
	})
}

func (s *State) tryShare(c *client, a *Share, gone *released) nfs4.Status {
	had := kinds(0)
	if a.Deny != 0 {
		had = hadDeny
	}
	switch {
	case a.Reclaim:
		if status := s.mayReclaim(c, had); status != nfs4.OK {
			return status
		}
	case s.reclaims(c), s.grace() && (a.Deny != 0 || s.ledger.staleDeny > 0):
		return nfs4.ErrGrace
	}
	o, status := s.openFor(c, shareOpener+string(a.Owner), a.Key, a.Handle, a.File)
	if status != nfs4.OK {
		return status
	}
	before := o.asked
	s.setAsked(o, 0)
	switch {
	case !s.reserve(a.Key, c, modes(a.Access, a.Deny), gone):
		status = nfs4.ErrShareDenied
	case a.Deny != 0 && s.underWay(a.Key, a.Deny):
		status = nfs4.ErrDelay
	case !s.note(c, had, a.Key):
		status = unsettled
	default:
		before = 1 << modes(a.Access, a.Deny)
	}
	if s.setAsked(o, before); before == 0 {
		s.closeOpen(o, gone)
	}
	return status
}

// Unshare takes back what Share has opened, if anything.
func (s *State) Unshare(session *Session, a *Share) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	if f := s.files[a.Key]; f != nil {
		if o := c.opens[openKey{owner: shareOpener + string(a.Owner), file: f}]; o != nil {
			s.closeOpen(o, &gone)
		}
	}
}

// shares returns the number of the SHAREs of a Machine.
func (c *client) shares() (n int) {
	for _, o := range c.opens {
		if o.asked != 0 {
			n++
		}
	}
	return n
}
