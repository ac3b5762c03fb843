package nfs4state

import (
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Transport tells the two servers apart that a daemon is to its clients: over
// TCP and over RDMA. A client that reached both under one name would merge its
// mounts, and send calls of a mount by RDMA over TCP.
type Transport uint8

// The values of Transport.
const (
	TCP Transport = iota
	RDMA
)

// A Principal is the maker of a call: the flavour of its credential, and the user that
// the credential claims, or the name of a verified caller. A verified caller has no UID
// here: several may have the same one, and one may have another tomorrow.
type Principal struct {
	Flavor, UID uint32
	Name        string // at most MaxName bytes
}

// A Host is the machine that makes calls, as its certificate proves it (RFC 9289,
// Section 4.2): a hash of the certificate's owner, or zero. A client whose record one has
// made is not ended by calls of others: with AUTH_SYS, everyone can claim to be its
// Principal. A principal that is verified needs no Host.
type Host [32]byte

// MaxName is the length in bytes of the longest Name of a Principal.
const MaxName = 255

// Config configures a State. Now, Epoch and Lease are required.
type Config struct {
	// Now returns the time since any fixed moment, and must never go back.
	Now func() time.Duration

	// Epoch is a number that no earlier State of this server had, neither 0
	// nor all ones, which special stateids begin with. Every client ID, session
	// ID and stateid has the epoch in it.
	Epoch uint32

	// Lease is the time after which a silent client loses state that another
	// client needs.
	Lease time.Duration

	// Courtesy is how long a silent client keeps its state if nobody needs it.
	// 0 means a day.
	Courtesy time.Duration

	// Release gives back the File of an Open that has ended, and the Files that
	// Merge and Narrow leave over: each value once, and with no lock held. Nil
	// does nothing.
	Release func(file any)

	// ReleaseEnded is Release for all Opens of clients that have ended, at the
	// call of another client, which must not wait for the storage of these.
	// Nil means that Release does not wait.
	ReleaseEnded func(files []any)

	// Merge adds the File of a further OPEN to the File of an Open. Narrow takes
	// the parts from a File that access does not need, and returns these, or
	// nil. The State is locked during both: neither must wait or call the State.
	// Either may be nil.
	Merge  func(file, other any)
	Narrow func(file any, access uint32) (rest any)

	// Journal has on stable storage which clients have state: they may reclaim
	// that state from the next State, whose Past is the content of the journal.
	// Nil means that no client can reclaim anything. A grant that a record is
	// missing for, because the journal fails, is NFS4ERR_DELAY.
	Journal Journal
	Past    Past

	// Stored, if not nil, is told when the journal begins to fail, with the
	// error, and when that has ended, with nil.
	Stored func(error)
}

const defaultCourtesy = 24 * time.Hour

// The bounds of the records that clients can make. Those of all clients are
// shared out by party.
const (
	maxClients     = 8192 // records, confirmed and not
	maxUnconfirmed = 1024 // of these
	maxSessions    = 64   // of a client
	maxAllSessions = 16384
	maxOpens       = 65536 // of a client
	maxLockSets    = 65536 // of a client
	maxHoldings    = slabSize
	maxLocks       = 65536 // of a client
	maxAllLocks    = 1 << 20
	maxAllWaiting  = 1 << 14
	maxDelegations = 1 << 17
	maxConns       = 256       // of a session
	replyMemory    = 512 << 20 // bytes of kept replies, which slots are granted for
)

// A State is the state of one server. Its methods are safe for concurrent use.
type State struct {
	config Config

	mu          sync.Mutex
	owners      map[ownerKey]*owner
	clients     map[uint64]*client // by client ID
	unconfirmed list.List          // of *client, the oldest first
	number      uint32             // of the last client ID
	parties     map[fairshare.Name]*party
	used        [resources]int // by all parties
	files       map[string]*file
	named       uint64 // number of the last stateid

	ledger   ledger
	untold   map[ownerKey]struct{} // Machines that have yet to hear of the restart
	graceEnd time.Duration         // see grace

	withheld    []withheld // see giveWithheld
	delegations struct {
		writes                     int // at present
		granted, recalled, revoked uint64
	}
	denying   atomic.Int64                // Opens with a deny mode, and OPENs that ask for one
	hosts     map[string]*hostFile        // by object
	releasers map[any]*releaser           // by storage
	waiting   map[*file]struct{}          // files with owners that wait for locks
	asking    map[lockOwnerKey][]*Waiting // those of Machines, by owner
	looking   map[any]struct{}            // storage of which locks on the host are looked at
	releasing sync.WaitGroup              // their goroutines

	expired  expired
	specials specials
	seed     maphash.Seed // of the numbers in stateids
	sessions slab[Session]
	slab     slab[holding]
}

// New returns an empty State.
func New(c Config) *State {
	if c.Courtesy == 0 {
		c.Courtesy = defaultCourtesy
	}
	if c.Release == nil {
		c.Release = func(any) {}
	}
	if c.ReleaseEnded == nil {
		c.ReleaseEnded = func(files []any) {
			for _, f := range files {
				c.Release(f)
			}
		}
	}
	if c.Merge == nil {
		c.Merge = func(any, any) {}
	}
	if c.Narrow == nil {
		c.Narrow = func(any, uint32) any { return nil }
	}
	seed := maphash.MakeSeed()
	s := &State{
		config: c, owners: make(map[ownerKey]*owner), clients: make(map[uint64]*client), files: make(map[string]*file),
		hosts: make(map[string]*hostFile), releasers: make(map[any]*releaser),
		waiting: make(map[*file]struct{}), asking: make(map[lockOwnerKey][]*Waiting), looking: make(map[any]struct{}),
		parties: make(map[fairshare.Name]*party), seed: seed,
		// A State of the same second, before a restart, has other client IDs.
		number: uint32(maphash.Comparable(seed, c.Epoch)),
	}
	s.restore()
	return s
}

// released collects the files of ended opens while a lock is held.
type released struct {
	file  any   // the first: CLOSE releases one, and needs no memory for it
	files []any // the others
	ended []any // of clients that have ended

	withheld []withheld // of delegations

	freed []*file // of which bytes have become free

	hosts []*hostFile // whose locks the caller brings up to date
	later []*hostFile // whose locks are brought up to date in the background
}

func (r *released) add(file any) {
	switch {
	case file == nil:
	case r.file == nil:
		r.file = file
	default:
		r.files = append(r.files, file)
	}
}

// give brings the locks on the host up to date, and hands the files to
// Config.Release. No lock may be held.
func (s *State) give(r released) {
	for _, h := range r.hosts {
		h.mu.Lock()
		s.leaveHost(h)
	}
	s.settleLater(r.later)
	if r.file != nil {
		s.config.Release(r.file)
	}
	for _, f := range r.files {
		s.config.Release(f)
	}
	if len(r.ended) > 0 {
		s.config.ReleaseEnded(r.ended)
	}
	s.giveWithheld(r.withheld)
	for _, f := range r.freed {
		s.wake(f)
	}
}

// Sweep ends clients that have been silent for longer than Config.Courtesy, or
// for two leases if the server's host holds locks for them: no call tells of a
// process of the host that these locks keep out. Sweep drops unconfirmed records
// that are older than a lease (RFC 8881, Section 18.35.4), and tries again to
// release locks that the host has failed to release, and forgets owners of version
// 4.0 that are not in use. Sweep ends grace, and writes
// to a journal that has failed. The caller calls Sweep now and then.
func (s *State) Sweep() {
	now := s.config.Now()
	var gone released
	s.mu.Lock()
	s.grace()
	for _, c := range s.clients {
		switch {
		case s.lapsed(c):
			s.drop(c)
		case c.confirmed:
			courtesy := s.config.Courtesy
			if short := 2 * s.config.Lease; c.silent(now) > short && s.onHost(c) {
				courtesy = min(courtesy, short)
			}
			if c.managed() {
				if s.expected(c.key) {
					continue
				}
				courtesy = s.config.Lease // of one that holds nothing
			}
			if !s.end(c, nil, now-courtesy, &gone) && c.seq != nil {
				s.forgetRested(c, &gone)
			}
		}
	}
	for _, h := range s.hosts {
		if h.users == 0 && len(h.dirty) > 0 {
			h.users++
			gone.later = append(gone.later, h)
		}
	}
	gone.withheld = append(gone.withheld, s.withheld...)
	s.withheld = nil
	s.mu.Unlock()
	s.store()
	s.give(gone)
}

// lapsed reports whether a record was not confirmed within a lease.
func (s *State) lapsed(c *client) bool {
	return !c.confirmed && s.config.Now()-c.made > s.config.Lease
}

// ours reports whether this State made an identifier with the given epoch.
func (s *State) ours(epoch uint32) bool { return epoch == s.config.Epoch }

// sessionID makes the ID of the session that the slab stores at an index. The
// random part keeps it from being guessed, and from being that of an earlier
// session.
func (s *State) sessionID(index uint32) (id nfs4.SessionID) {
	binary.BigEndian.PutUint32(id[:], s.config.Epoch)
	binary.BigEndian.PutUint32(id[4:], index)
	rand.Read(id[8:]) // never fails
	return id
}
