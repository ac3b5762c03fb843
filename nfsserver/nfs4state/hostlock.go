package nfs4state

import (
	"iter"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// HostLocks are the locks that the server's host holds on one object for all
// clients: for each byte the strongest client lock, so that host processes and
// clients exclude each other. The State calls one method at a time, and never
// with a mutex held that other objects need. Methods may block on storage.
type HostLocks interface {
	// SetLock sets the lock of all bytes in r to kind. With NFS4ERR_DENIED a
	// host process holds a conflicting lock, and nothing has changed; that
	// cannot happen if kind is weaker than before. With NFS4ERR_NOTSUPP the
	// host does not support the lock: clients then exclude only each other.
	SetLock(r locks.Range, kind locks.Kind) nfs4.Status

	// TestLock returns a host process's lock that conflicts with SetLock, or
	// locks.None. It may also return NFS4ERR_NOTSUPP.
	TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, nfs4.Status)

	// Close unlocks all bytes, and cannot fail.
	Close()
}

// A hostFile is an object with locks on the host, or with a call that requests
// some. It outlives the object's file: until the host has unlocked the last byte,
// no second HostLocks may be opened, because the two would conflict.
//
// The host's lock of a byte is never weaker than the table's, and equal to it
// if dirty is empty and no call is running. A LOCK first makes the host's locks
// stronger, and then the table's. All other calls first make the table's locks
// weaker, and then the host's, which no process can prevent.
type hostFile struct {
	// mu is held during calls to the host, and throughout a LOCK, so that no
	// other call makes the object's locks stronger at the same time. It is
	// locked before all mutexes of the State.
	mu    checkedMutex[hostFileRank]
	locks HostLocks // nil: not open

	key     string
	shard   *fileShard
	storage any

	// The shard guards the rest.
	users        int           // callers that hold or wait for mu
	dirty        []locks.Range // may be locked more strongly on the host than in the table
	dirtyCover   locks.Range   // covers all ranges in dirty
	hasHostLocks bool          // the host has locks
}

// hostOwner is the lock-owner in LOCK4denied for host processes (RFC 8881,
// Section 18.10.3). Its client ID is never given to a client.
const hostOwner = "host"

// acquireHostFile returns an object's hostFile, with its mu held. The caller must call
// releaseHostFile.
func (s *State) acquireHostFile(a *Lock) *hostFile {
	h := s.useHostFile(a)
	h.mu.Lock()
	return h
}

// useHostFile returns an object's hostFile, which has one user more.
func (s *State) useHostFile(a *Lock) *hostFile {
	var held hold
	sh := s.shardOf(a.Key)
	s.lockShard(sh, &held, false)
	defer s.unlock(&held)
	h := sh.hostFiles[a.Key]
	if h == nil {
		h = &hostFile{key: a.Key, shard: sh, storage: a.Storage}
		if sh.hostFiles == nil {
			sh.hostFiles = make(map[string]*hostFile)
		}
		sh.hostFiles[a.Key] = h
	}
	h.users++
	return h
}

// releaseHostFile synchronizes the host's locks, and unlocks h.mu. The State must not
// be locked.
func (s *State) releaseHostFile(h *hostFile) {
	s.syncHostLocks(h)
	var held hold
	s.lockShard(h.shard, &held, false)
	h.users--
	if h.users == 0 && h.locks == nil {
		delete(h.shard.hostFiles, h.key)
	}
	s.unlock(&held)
	h.mu.Unlock()
}

// lockWithHost locks bytes in the table and on the host. It checks the table
// before and after the call to the host: calls that remove state do not wait for
// the host.
func (s *State) lockWithHost(by locker, a *Lock, whole bool, deferred *deferredWork) (id nfs4.StateID, d Denied, status nfs4.Status) {
	h := s.acquireHostFile(a)
	defer s.releaseHostFile(h)
	weaker, d, status := s.mayLockOnHost(by, a, whole, deferred)
	if status != nfs4.OK {
		return id, d, status
	}
	held, d, status := s.strengthenHost(h, a, weaker)
	s.lockHolder(by.lockHolder(), &deferred.hold, whole)
	defer s.unlock(&deferred.hold)
	s.lockFile(a.Key, &deferred.hold)
	var l lockTarget
	if status == nfs4.OK {
		l, d, status = s.mayLock(by, a, deferred)
	}
	if status == nfs4.OK {
		id, status = s.addLock(a, &l, deferred)
		h.hasHostLocks = h.hasHostLocks || held
	}
	if status != nfs4.OK || !slices.Equal(weaker, []locks.Range{a.Range}) {
		h.markDirty(a.Range) // parts must be unlocked
	}
	return id, d, status
}

// mayLockOnHost calls mayLock, and returns the weakerParts.
func (s *State) mayLockOnHost(by locker, a *Lock, whole bool, deferred *deferredWork) (weaker []locks.Range, d Denied, status nfs4.Status) {
	s.lockHolder(by.lockHolder(), &deferred.hold, whole)
	defer s.unlock(&deferred.hold)
	s.lockFile(a.Key, &deferred.hold)
	l, d, status := s.mayLock(by, a, deferred)
	if status == nfs4.OK {
		weaker, status = s.weakerParts(l.file, a, &deferred.hold)
	}
	return weaker, d, status
}

// weakerParts returns the parts of a lock's range that the host must lock more
// strongly before the lock is added to the table. Only the owner itself can already
// have such strong locks there. weakerParts may release State.mu: hostFile.mu is
// held, so no call makes locks stronger, and the host keeps those that are removed.
func (s *State) weakerParts(f *file, a *Lock, h *hold) (parts []locks.Range, status nfs4.Status) {
	rest := a.Range
	if !a.Exclusive && f != nil {
		for r, exclusive := range f.locks.Pieces(a.Range) {
			if h.isWhole() {
				s.mu.pauseLocked()
			} else if h.part.countEntry(); h.part.shouldPause() {
				return nil, statusNeedsState
			}
			if !exclusive {
				continue
			}
			if r.Start > rest.Start {
				parts = append(parts, locks.Range{Start: rest.Start, End: r.Start - 1})
			}
			if r.End == a.Range.End {
				return parts, nfs4.OK
			}
			rest.Start = r.End + 1
		}
	}
	return append(parts, rest), nfs4.OK
}

// strengthenHost locks parts of a lock's range on the host, and reports whether the
// host holds any. With NFS4ERR_DENIED it returns the host process's lock; a reclaim
// then gets NFS4ERR_RECLAIM_CONFLICT. h.mu is held.
func (s *State) strengthenHost(h *hostFile, a *Lock, parts []locks.Range) (held bool, d Denied, status nfs4.Status) {
	if status := h.openLocks(a); status != nfs4.OK {
		return false, d, ignoreNotSupp(status)
	}
	for _, r := range parts {
		switch d, status = s.setHostLock(h.locks, r, locks.KindOf(a.Exclusive)); {
		case status == nfs4.OK:
			held = true
		case status == nfs4.ErrDenied && a.Reclaim:
			return held, d, nfs4.ErrReclaimConflict
		case ignoreNotSupp(status) != nfs4.OK:
			return held, d, status
		}
	}
	return held, Denied{}, nfs4.OK
}

// ignoreNotSupp returns the client's status for a call to the host: if the host does
// not support locks, only the table's locks apply.
func ignoreNotSupp(status nfs4.Status) nfs4.Status {
	if status == nfs4.ErrNotSupp {
		return nfs4.OK
	}
	return status
}

// openLocks opens the locks on the host. h.mu is held.
func (h *hostFile) openLocks(a *Lock) nfs4.Status {
	if h.locks != nil {
		return nfs4.OK
	}
	opened, status := a.Host()
	if status == nfs4.OK {
		h.locks = opened
	}
	return status
}

// setHostLock calls HostLocks.SetLock, and returns the conflicting lock if there is
// one. If that lock is released before it is found, setHostLock tries once more.
func (s *State) setHostLock(h HostLocks, r locks.Range, kind locks.Kind) (Denied, nfs4.Status) {
	for again := true; ; again = false {
		if status := h.SetLock(r, kind); status != nfs4.ErrDenied {
			return Denied{}, status
		}
		at, found, status := h.TestLock(r, kind)
		switch {
		case status == nfs4.OK && found != locks.None:
			return s.hostDenied(at, found), nfs4.ErrDenied
		case !again:
			return s.hostDenied(r, locks.Exclusive), nfs4.ErrDenied
		}
	}
}

// hostClientID is the client ID in locks of host processes.
func (s *State) hostClientID() uint64 { return uint64(s.config.Epoch) << 32 }

// hostDenied returns a host process's lock.
func (s *State) hostDenied(r locks.Range, kind locks.Kind) Denied {
	return Denied{Range: r, Exclusive: kind == locks.Exclusive, ClientID: s.hostClientID(), Owner: hostOwner}
}

// testLockWithHost tests a lock in the table and on the host.
func (s *State) testLockWithHost(by *holder, a *Lock, whole bool, deferred *deferredWork) (d Denied, status nfs4.Status) {
	h := s.acquireHostFile(a)
	defer s.releaseHostFile(h)
	d, status = s.testLock(by, a, whole, deferred)
	if status != nfs4.OK {
		return d, status
	}
	if status := h.openLocks(a); status != nfs4.OK {
		return d, ignoreNotSupp(status)
	}
	at, found, status := h.locks.TestLock(a.Range, locks.KindOf(a.Exclusive))
	if status == nfs4.OK && found != locks.None {
		return s.hostDenied(at, found), nfs4.ErrDenied
	}
	return d, ignoreNotSupp(status)
}

// maxDirty bounds the ranges in hostFile.dirty, which accumulate if the host
// cannot unlock. Beyond that, one range covers all.
const maxDirty = 1 << 10

// markDirty records that bytes may be locked more strongly on the host than in
// the table. The shard is locked.
func (h *hostFile) markDirty(r locks.Range) {
	if len(h.dirty) == 0 {
		h.dirtyCover = r
	}
	h.dirtyCover = locks.Range{Start: min(h.dirtyCover.Start, r.Start), End: max(h.dirtyCover.End, r.End)}
	if len(h.dirty) == maxDirty {
		h.dirty, r = h.dirty[:0], h.dirtyCover
	}
	h.dirty = append(h.dirty, r)
}

// queueHostUnlock records that the table has unlocked bytes of f, so that
// deferred synchronizes the host's locks.
func (f *file) queueHostUnlock(r locks.Range, deferred *deferredWork) {
	h := f.shard.hostFiles[f.key]
	if h == nil {
		return
	}
	h.markDirty(r)
	if n := len(deferred.syncHosts); n == 0 || deferred.syncHosts[n-1] != h {
		h.users++
		deferred.syncHosts = append(deferred.syncHosts, h)
	}
}

// A hostPart is a byte range with one kind of lock.
type hostPart struct {
	locks.Range
	kind locks.Kind
}

// maxParts bounds the work while the State is locked.
const maxParts = 64

// syncHostLocks makes the host's locks equal to the table's. If the host fails, the
// remaining ranges stay dirty for a later call. h.mu is held.
func (s *State) syncHostLocks(h *hostFile) {
	var held hold
	s.lockShard(h.shard, &held, false)
	settled := s.recordsStored(h.key)
	s.unlock(&held)
	if !settled && !s.storeQueue() {
		return // a removed client could reclaim its locks after a crash
	}
	for {
		s.lockShard(h.shard, &held, false)
		parts, locked := h.takeDirty(h.shard.files[h.key])
		s.entriesIn(&held).entries += len(parts)
		s.unlock(&held)
		switch {
		case h.locks == nil:
			return
		case !locked:
			h.locks.Close()
			h.locks = nil
			return
		case len(parts) == 0:
			return
		}
		for i, p := range parts {
			switch h.locks.SetLock(p.Range, p.kind) {
			case nfs4.OK, nfs4.ErrNotSupp, nfs4.ErrDenied: // the host never had the table's stronger lock
				continue
			}
			s.lockShard(h.shard, &held, false)
			for _, p := range parts[i:] {
				h.markDirty(p.Range)
			}
			s.unlock(&held)
			return
		}
	}
}

// takeDirty removes dirty ranges, and returns the table's locks in them. It also
// reports whether the table has any locks of the object. The shard is locked.
func (h *hostFile) takeDirty(f *file) (parts []hostPart, locked bool) {
	if f == nil || !f.locks.Locked() {
		h.dirty, h.hasHostLocks = nil, false
		return nil, false
	}
	for len(h.dirty) > 0 && len(parts) < maxParts {
		last := len(h.dirty) - 1
		rest, end := h.dirty[last], false
		h.dirty = h.dirty[:last]
		for r, exclusive := range f.locks.Pieces(rest) {
			if r.Start > rest.Start {
				parts = append(parts, hostPart{locks.Range{Start: rest.Start, End: r.Start - 1}, locks.None})
			}
			parts = append(parts, hostPart{r, locks.KindOf(exclusive)})
			end = r.End == rest.End
			rest.Start = r.End + 1
			if end || len(parts) >= maxParts {
				break
			}
		}
		switch {
		case end:
		case len(parts) < maxParts:
			parts = append(parts, hostPart{rest, locks.None})
		default:
			h.dirty = append(h.dirty, rest)
		}
	}
	return parts, true
}

// hostFilesOf yields the objects on which the host holds locks for a client. State.mu is
// held, but released for moments.
func (s *State) hostFilesOf(c *client) iter.Seq[*hostFile] {
	return func(yield func(*hostFile) bool) {
		if c.locks == 0 {
			return
		}
		visit := func(o *Open) bool {
			h := o.key.file.shard.hostFiles[o.Key]
			more := h == nil || !h.hasHostLocks || !s.hasLocks(o) || yield(h)
			s.mu.pauseLocked()
			return more
		}
		for _, o := range c.opens {
			if !visit(o) {
				return
			}
		}
		for _, d := range c.delegations {
			if !visit(&d.Open) {
				return
			}
		}
	}
}

// hasLocks reports whether any bytes are locked through o. State.mu is held, but released for
// moments.
func (s *State) hasLocks(o *Open) bool {
	for _, l := range o.locks {
		s.mu.pauseLocked()
		if l.part.Len() > 0 {
			return true
		}
	}
	return false
}

// hostCourtesy returns the time for which clients with locks on the host may be silent: a
// lease if a host process waits for such a lock, and two leases if that is unknown.
// Config.Courtesy applies to other clients. State.mu must not be held.
func (s *State) hostCourtesy(now time.Duration) map[*client]time.Duration {
	type locked struct {
		by      *client
		storage any
		key     string
	}
	var all []locked
	s.mu.Lock()
	for _, c := range s.clients {
		s.mu.pauseLocked()
		s.mu.countSilentFor(&c.holder)
		if c.confirmed && c.silentFor(now) > s.config.Lease {
			for h := range s.hostFilesOf(c) {
				all = append(all, locked{c, h.storage, h.key})
			}
		}
	}
	s.mu.Unlock()
	courtesy := make(map[*client]time.Duration)
	for _, l := range all {
		switch waited, known := s.lockWaited(l.storage, l.key); {
		case waited:
			courtesy[l.by] = s.config.Lease
		case !known && courtesy[l.by] == 0:
			courtesy[l.by] = 2 * s.config.Lease
		}
	}
	return courtesy
}

func (s *State) lockWaited(storage any, key string) (waited, known bool) {
	if s.config.LockWaited == nil {
		return false, false
	}
	return s.config.LockWaited(storage, key)
}

// A releaser synchronizes host locks on one storage for callers that must not
// wait for it.
type releaser struct {
	queue   []*hostFile
	running int // goroutines
}

// maxReleasers bounds the goroutines of a releaser: each may wait for an object
// whose storage does not respond.
const maxReleasers = 8

// syncHostsLater synchronizes objects' host locks in the background. No lock
// may be held.
func (s *State) syncHostsLater(hosts []*hostFile) {
	if len(hosts) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range hosts {
		s.mu.pauseLocked()
		q := s.releasers[h.storage]
		if q == nil {
			q = new(releaser)
			s.releasers[h.storage] = q
		}
		q.queue = append(q.queue, h)
		if q.running < maxReleasers {
			q.running++
			s.background.Go(func() { s.runReleaser(h.storage, q) })
		}
	}
}

// runReleaser synchronizes a releaser's objects until none is left.
func (s *State) runReleaser(storage any, q *releaser) {
	for {
		s.mu.Lock()
		if len(q.queue) == 0 {
			if q.running--; q.running == 0 {
				delete(s.releasers, storage)
			}
			s.mu.Unlock()
			return
		}
		h := q.queue[0]
		q.queue = q.queue[1:]
		s.mu.Unlock()
		h.mu.Lock()
		s.releaseHostFile(h)
	}
}

// WaitForHostLocks waits until the host has released the locks of removed clients.
// Neither Sweep, PollLocks nor a client's call may be running.
func (s *State) WaitForHostLocks() { s.background.Wait() }
