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

// A Transport distinguishes the two servers, TCP and RDMA, that a daemon
// appears as. If both had the same name, a client would merge its mounts, and
// send an RDMA mount's calls over TCP.
type Transport uint8

// The values of Transport.
const (
	TCP Transport = iota
	RDMA
)

// A Principal identifies the sender of a call: the credential's flavor, and the user
// that it claims, or the name of a verified caller. A verified caller has no UID here:
// several may share a UID, and a caller's UID may change.
type Principal struct {
	Flavor, UID uint32
	Name        string // at most MaxName bytes
}

// A Host is the calling machine, as proven by its certificate (RFC 9289, Section 4.2): a
// hash of the certificate's subject, or zero. Calls from other machines cannot remove a
// client that was created by a Host: with AUTH_SYS, anyone can claim to be its Principal.
// A verified principal needs no Host.
type Host [32]byte

// MaxName is the maximum length of a Principal's Name in bytes.
const MaxName = 255

// Config configures a State. Now, Epoch and Lease are required.
type Config struct {
	// Now returns the time since any fixed moment, and must never go backwards.
	Now func() time.Duration

	// Epoch is a number that no earlier State of this server had. It must be
	// neither 0 nor all ones, with which special stateids begin. Every session
	// ID and stateid contains the epoch.
	Epoch uint32

	// Lease is the time after which a silent client loses state that another
	// client needs.
	Lease time.Duration

	// Courtesy is the time that a silent client keeps its state if no other
	// client needs it. 0 means a day.
	Courtesy time.Duration

	// Release releases the File of a closed Open, and the Files that remain
	// after Merge and Narrow. It is called once for each value, with no lock
	// held. Nil does nothing.
	Release func(file any)

	// ReleaseEnded releases the Files of removed clients in another client's
	// call, which must not wait for their storage. Nil means that Release does
	// not block.
	ReleaseEnded func(files []any)

	// Merge adds a further OPEN's File to an Open's File. Narrow removes from a
	// File the parts that access does not need, and returns these, or nil.
	// Mutexes of the State are held during both: neither may block or call the State. Either
	// may be nil.
	Merge  func(file, other any)
	Narrow func(file any, access uint32) (rest any)

	// LockWaited, if not nil, reports whether a host process waits for a lock that the
	// host holds for clients on the object with a Storage and a Key (Lock). known is
	// false if that is unknown. LockWaited must not wait for the storage.
	LockWaited func(storage any, key string) (waited, known bool)

	// Journal stores which clients have state: they may reclaim that state from
	// the next State, whose Past is the journal's content. Nil means that no
	// client can reclaim anything. If the journal fails, a grant that needs a
	// new record is NFS4ERR_DELAY.
	Journal Journal
	Past    Past

	// Stored, if not nil, is called with the error when the journal begins to
	// fail, and with nil when it works again.
	Stored func(error)
}

const defaultCourtesy = 24 * time.Hour

// Limits on the records that clients can create. The limits for all clients are
// shared between groups.
const (
	maxClients     = 8192 // records, confirmed and not
	maxUnconfirmed = 1024 // included in maxClients
	maxMachines    = 4096 // included in maxClients: their addresses may be forged, and they have no lease
	maxSessions    = 64   // per client
	maxAllSessions = 16384
	maxOpens       = 65536 // per client
	maxLockSets    = 65536 // per client
	maxHoldings    = slabSize
	maxLocks       = 65536 // per client
	maxAllLocks    = 1 << 20
	maxAllWaiting  = 1 << 14
	maxDelegations = 1 << 17
	maxConns       = 256       // per session
	replyMemory    = 512 << 20 // bytes of cached replies, which limit the slots
)

// A State holds one server's state. Its methods are safe for concurrent use.
type State struct {
	config Config

	mu               stateMutex
	owners           map[ownerKey]*clientOwner
	clients          map[uint64]*client // by client ID
	unconfirmed      list.List          // *client elements, the oldest first
	machines         map[Machine]*MachineRecord
	endingHolders    []*holder // removed clients and Machines with remaining state: see endClient
	lastClientNumber uint64    // the last client record's
	groups           map[fairshare.Name]*clientGroup
	usage            resourceUsage // by all groups
	shards           []fileShard   // the files
	lastStateID      atomic.Uint64 // the last stateid's number

	ledger     ledger
	counters   counterGrants
	unnotified map[ownerKey]struct{} // Machines not yet notified of the restart
	reclaimers map[Machine]ownerKey  // Machines that may reclaim, without Local: their records
	graceEnd   time.Duration         // see checkGrace
	trimAt     time.Duration         // when Sweep next trims records

	pendingReleases []pendingRelease // see releasePending
	delegations     struct {
		writes            atomic.Int64 // current number
		granted           atomic.Uint64
		recalled, revoked uint64
	}
	denyingOpens  atomic.Int64                // Opens with a deny mode, and OPENs that request one
	steppedLock   *steppedLock                // see addLock; may be nil
	releasers     map[any]*releaser           // by storage
	waitingFiles  map[*file]struct{}          // files with owners that wait for locks
	lockWaiters   map[lockOwnerKey]*list.List // *Waiting elements of Machines, by owner
	lockWait      func()                      // see NotifyLockWait
	hostLockPolls map[any]struct{}            // storage on which host locks are being polled
	background    sync.WaitGroup              // goroutines of releasers, polls and pending releases

	expired  expiredIDs
	specials specials
	seed     maphash.Seed // for the numbers in stateids
	sessions slab[Session]
	holdings slab[holding]
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
	s := &State{
		config: c, owners: make(map[ownerKey]*clientOwner), clients: make(map[uint64]*client), machines: make(map[Machine]*MachineRecord), shards: newFileShards(),
		lockWait: func() {}, releasers: make(map[any]*releaser),
		waitingFiles: make(map[*file]struct{}), lockWaiters: make(map[lockOwnerKey]*list.List), hostLockPolls: make(map[any]struct{}),
		groups: make(map[fairshare.Name]*clientGroup), seed: maphash.MakeSeed(),
	}
	startRankChecks()
	s.restoreRecords()
	return s
}

// deferredWork collects work that must be done after the State is unlocked, such
// as releasing the files of closed opens. Until then it has what is locked.
type deferredWork struct {
	hold

	firstFile  any   // CLOSE releases only one, and so needs no allocation
	files      []any // the others
	endedFiles []any // removed clients' files

	pendingReleases []pendingRelease // delegations' files

	freedFiles []*file // files with bytes that have become free

	unfinished bool // removed clients have remaining state: see endAllState

	syncHosts []*hostFile // the caller synchronizes their host locks
	syncLater []*hostFile // their host locks are synchronized in the background
}

func (r *deferredWork) addFile(file any) {
	switch {
	case file == nil:
	case r.firstFile == nil:
		r.firstFile = file
	default:
		r.files = append(r.files, file)
	}
}

// syncInBackground lets a goroutine synchronize the host's locks: the caller must not wait for the
// host.
func (r *deferredWork) syncInBackground() {
	r.syncLater, r.syncHosts = append(r.syncLater, r.syncHosts...), nil
}

// runDeferred synchronizes the host's locks, passes the files to
// Config.Release, and notifies waiting lock-owners. No lock may be held.
func (s *State) runDeferred(r deferredWork) {
	if r.unfinished {
		s.endAllState()
	}
	for _, h := range r.syncHosts {
		h.mu.Lock()
		s.releaseHostFile(h)
	}
	s.syncHostsLater(r.syncLater)
	if r.firstFile != nil {
		s.config.Release(r.firstFile)
	}
	for _, f := range r.files {
		s.config.Release(f)
	}
	if len(r.endedFiles) > 0 {
		s.config.ReleaseEnded(r.endedFiles)
	}
	s.releasePending(r.pendingReleases)
	for _, f := range r.freedFiles {
		s.notifyWaiters(f)
	}
}

// Sweep removes clients that have been silent for longer than Config.Courtesy. If the host
// holds locks for a client, host processes may wait for these without a call to the server:
// the client is removed after a lease if such a process waits, and after two leases if that
// is unknown (Config.LockWaited). Sweep removes unconfirmed records that are older than a
// lease (RFC 8881, Section 18.35.4), tries again to release locks that the host has failed
// to release, and removes unused NFSv4.0 owners. It ends the grace period, trims records
// once per lease, and retries writes to a failing journal. The caller must call Sweep
// periodically.
func (s *State) Sweep() {
	now := s.config.Now()
	var deferred deferredWork
	onHost := s.hostCourtesy(now)
	s.mu.Lock()
	s.checkGrace()
	trims := now >= s.trimAt
	if trims {
		s.trimAt = now + s.config.Lease
		s.trimCounters(true)
	}
	for _, c := range s.clients {
		s.mu.pauseLocked()
		switch {
		case c.ended:
		case s.isLapsed(c):
			s.dropUnconfirmed(c)
		case c.confirmed:
			courtesy := s.config.Courtesy
			if short := onHost[c]; short > 0 {
				courtesy = min(courtesy, short)
			}
			if s.endClient(c, nil, now-courtesy, &deferred) {
				continue
			}
			if c.v40 != nil {
				s.forgetRested(c, &deferred)
			}
			if trims {
				s.trimRecord(c, true)
			}
		}
	}
	s.removeIdleMachines(now, &deferred)
	for i := range s.shards {
		for _, h := range s.shards[i].hostFiles {
			s.mu.pauseLocked()
			if h.users == 0 && len(h.dirty) > 0 {
				h.users++
				deferred.syncLater = append(deferred.syncLater, h)
			}
		}
	}
	deferred.pendingReleases = append(deferred.pendingReleases, s.pendingReleases...)
	s.pendingReleases = nil
	s.mu.Unlock()
	s.storeQueue()
	s.runDeferred(deferred)
}

// isLapsed reports whether a record was not confirmed within a lease.
func (s *State) isLapsed(c *client) bool {
	return !c.confirmed && s.config.Now()-c.createdAt > s.config.Lease
}

// isOwnEpoch reports whether this State created an identifier with the given
// epoch.
func (s *State) isOwnEpoch(epoch uint32) bool { return epoch == s.config.Epoch }

// sessionID creates the ID of the session that the slab stores at an index. The
// random part makes it unpredictable, and different from an earlier session's
// ID.
func (s *State) sessionID(index uint32) (id nfs4.SessionID) {
	binary.BigEndian.PutUint32(id[:], s.config.Epoch)
	binary.BigEndian.PutUint32(id[4:], index)
	rand.Read(id[8:]) // never fails
	return id
}
