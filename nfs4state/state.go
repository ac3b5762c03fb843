package nfs4state

import (
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Transport tells the two servers apart that a daemon is to its clients: over
// TCP and over RDMA. A client that reached both under one name would merge its
// mounts, and send over one what belongs on the other.
type Transport uint8

// The values of Transport.
const (
	TCP Transport = iota
	RDMA
)

// A Principal is the maker of a call: the flavour and the user of its credential.
type Principal struct{ Flavor, UID uint32 }

// Config configures a State. Now, Epoch and Lease are required.
type Config struct {
	// Now returns the time since any fixed moment. It must never go back.
	Now func() time.Duration

	// Epoch is a number that no earlier State of this server had, neither 0
	// nor all ones, which special stateids begin with. It is part of every
	// client ID, session ID and stateid.
	Epoch uint32

	// Lease is the time after which a silent client loses what another needs.
	Lease time.Duration

	// Courtesy is how long a silent client keeps its state if nobody needs it.
	// 0 means a day.
	Courtesy time.Duration

	// Release gives back the File of an Open that has ended. It may be nil.
	Release func(file any)
}

const defaultCourtesy = 24 * time.Hour

// The bounds of the records that clients can make.
const (
	maxClients     = 8192 // records, confirmed and not
	maxUnconfirmed = 1024 // of these
	maxSessions    = 64   // of a client
	maxAllSessions = 16384
	maxOpens       = 65536 // of a client
	maxAllOpens    = slabSize
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
	live        int                // sessions
	replies     int                // bytes that the slots of all sessions can keep
	files       map[string]*file
	opens       int
	opened      uint64 // number of the last Open

	denying  atomic.Int64 // Opens with a deny mode
	seed     maphash.Seed // of the numbers in stateids
	sessions slab[Session]
	slab     slab[Open]
}

// New returns an empty State.
func New(c Config) *State {
	if c.Courtesy == 0 {
		c.Courtesy = defaultCourtesy
	}
	if c.Release == nil {
		c.Release = func(any) {}
	}
	seed := maphash.MakeSeed()
	return &State{
		config: c, owners: make(map[ownerKey]*owner), clients: make(map[uint64]*client), files: make(map[string]*file),
		seed: seed,
		// A State of the same second, before a restart, has other client IDs.
		number: uint32(maphash.Comparable(seed, c.Epoch)),
	}
}

// released collects the files of ended opens while a lock is held.
type released []any

// give hands the files to Config.Release. No lock may be held.
func (s *State) give(r released) {
	for _, f := range r {
		if f != nil {
			s.config.Release(f)
		}
	}
}

// Sweep ends clients that have been silent for longer than Config.Courtesy, and
// drops unconfirmed records that are older than a lease (RFC 8881, Section
// 18.35.4). The caller calls it now and then.
func (s *State) Sweep() {
	now := s.config.Now()
	var gone released
	s.mu.Lock()
	for _, c := range s.clients {
		switch {
		case !c.confirmed && now-c.made > s.config.Lease:
			s.drop(c)
		case c.confirmed:
			s.end(c, nil, now-s.config.Courtesy, &gone)
		}
	}
	s.mu.Unlock()
	s.give(gone)
}

// makeRoom ends the client that has been silent the longest, if that is longer
// than a lease.
func (s *State) makeRoom(gone *released) {
	now := s.config.Now()
	var oldest *client
	longest := s.config.Lease
	for _, c := range s.clients {
		if silent := c.silent(now); c.confirmed && silent > longest {
			oldest, longest = c, silent
		}
	}
	if oldest != nil {
		s.end(oldest, nil, now-s.config.Lease, gone)
	}
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
