package nfs4state

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A HeldFile is a snapshot of what clients hold of a file, for administrators. It may mix moments:
// the State is unlocked while a long one is taken.
type HeldFile struct {
	Key         string
	Handle      string // a filehandle by which a client uses the file; may be empty
	Opens       []HeldOpen
	Delegations []HeldDelegation
	Locks       []HeldLock
	Waiters     []LockWaiter
	Omitted     bool // there are more of a kind than the limit
}

// A FileHolder is a client or Machine that holds a file, or waits for a lock.
type FileHolder struct {
	ID      uint64
	Name    string         // co_ownerid, or a Machine's name: any bytes
	Machine bool           // an NLM client
	Minor   uint32         // unless Machine
	Addr    netip.AddrPort // of NFSv4.0 clients and Machines
	Conn    any            // a connection of an NFSv4.1 client, or nil
}

// A HeldOpen is the modes of an open-owner's open, or of an NLM SHARE.
type HeldOpen struct {
	*FileHolder
	Access, Deny uint32 // ShareRead and ShareWrite
}

// A HeldDelegation is a client's delegation.
type HeldDelegation struct {
	*FileHolder
	Write    bool
	Recalled bool
}

// A HeldLock is a lock-owner's byte range.
type HeldLock struct {
	*FileHolder
	Owner     string // any bytes
	Range     locks.Range
	Exclusive bool
}

// A LockWaiter is a lock-owner that waits for a byte range.
type LockWaiter struct {
	HeldLock
	For    time.Duration // since its first request
	OnHost bool          // for a lock of a host process
}

// HeldKeys returns the keys of files of which a client, or any client if id is 0, holds anything: the
// first limit ones after the key after, or from the start if that is empty, in an order that does not
// change. rest is the number of further files. The status is NFS4ERR_STALE_CLIENTID if there is no
// such client.
func (s *State) HeldKeys(id uint64, after string, limit int) (keys []string, rest int, status nfs4.Status) {
	if id == 0 {
		keys, rest = s.allHeldKeys(after, limit)
		return keys, rest, nfs4.OK
	}
	h := s.findHolder(id)
	if h == nil {
		return nil, 0, nfs4.ErrStaleClientID
	}
	keys = s.keysOf(h, after)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	n := min(limit, len(keys))
	return keys[:n], len(keys) - n, nfs4.OK
}

// allHeldKeys returns keys of all files, by shard.
func (s *State) allHeldKeys(after string, limit int) (keys []string, rest int) {
	first := 0
	if after != "" {
		first = s.shardIndex(after)
	}
	for i := first; i < len(s.shards); i++ {
		w := s.walkShard(&s.shards[i])
		if len(keys) == limit {
			rest += len(w.shard.files)
			s.unlock(&w.hold)
			continue
		}
		var found []string
		for key := range w.shard.files {
			if i > first || key > after {
				found = append(found, key)
			}
			w.visitEntry()
		}
		s.unlock(&w.hold)
		slices.Sort(found)
		n := min(limit-len(keys), len(found))
		keys = append(keys, found[:n]...)
		rest += len(found) - n
	}
	return keys, rest
}

// WaitedKeys returns the keys of at most limit files for locks of which an owner waits, and the number
// of all these files. limit bounds how long other calls wait.
func (s *State) WaitedKeys(limit int) (keys []string, all int) {
	defer s.mu.lockPart(0).unlock()
	for f := range s.waitingFiles {
		if len(keys) == limit {
			break
		}
		keys = append(keys, f.key)
	}
	return keys, len(s.waitingFiles)
}

// findHolder returns the client or Machine with an ID, or nil.
func (s *State) findHolder(id uint64) *holder {
	p := s.mu.lockPart(0)
	defer func() { p.unlock() }()
	if c := s.clients[id]; c != nil {
		return &c.holder
	}
	for _, m := range s.machines {
		if m.id == id {
			return &m.holder
		}
		if p.countEntry(); p.shouldPause() {
			p.unlock()
			p = s.mu.lockPart(0)
		}
	}
	return nil
}

// keysOf returns the keys of a holder's files that are greater than after, some of them repeatedly.
func (s *State) keysOf(h *holder, after string) (keys []string) {
	p := s.mu.lockPart(h.part)
	defer func() { p.unlock() }()
	add := func(key string) {
		if key > after {
			keys = append(keys, key)
		}
		if p.countEntry(); p.shouldPause() {
			p.unlock()
			p = s.mu.lockPart(h.part)
		}
	}
	if m := h.machine; m != nil {
		for key := range m.files {
			add(key)
		}
		return keys
	}
	for at := range h.client.opens {
		add(at.file.key)
	}
	for f := range h.client.delegations {
		add(f.key)
	}
	return keys
}

// HeldFile returns what a client, or every client if id is 0, holds of the file with a key, and who
// waits for its locks. It returns at most limit entries of each kind, so that many opens hide no locks
// or waiters, and false if nobody holds the file.
func (s *State) HeldFile(key string, id uint64, limit int) (HeldFile, bool) {
	r := fileReader{shardWalk: s.walkShard(s.shardOf(key)), file: HeldFile{Key: key}, id: id, limit: limit, holders: make(map[*holder]*FileHolder), seen: make(map[*Open]struct{})}
	defer func() { s.unlock(&r.hold) }()
	if f := r.shard.files[key]; f != nil {
		r.readFile(f)
	}
	r.file.sortEntries()
	return r.file, len(r.file.Opens)+len(r.file.Delegations)+len(r.file.Locks)+len(r.file.Waiters) > 0
}

// A shardWalk visits entries of a shard, which it locks.
type shardWalk struct {
	hold
	state *State
	shard *fileShard
}

// walkShard locks a shard; the caller must unlock the hold.
func (s *State) walkShard(sh *fileShard) shardWalk {
	w := shardWalk{state: s, shard: sh}
	s.lockShard(sh, &w.hold, false)
	return w
}

// visitEntry counts an entry, and unlocks the shard for a moment after many.
func (w *shardWalk) visitEntry() {
	if w.part.countEntry(); w.part.shouldPause() {
		w.state.unlock(&w.hold)
		w.state.lockShard(w.shard, &w.hold, false)
	}
}

// A fileReader reads a HeldFile. What it has read of may change at each visitEntry.
type fileReader struct {
	shardWalk
	file    HeldFile
	id      uint64 // 0: of all clients
	limit   int
	holders map[*holder]*FileHolder
	seen    map[*Open]struct{} // in the file: when another one is closed, one may move
}

func (r *fileReader) readFile(f *file) {
	r.readOpens(f)
	r.readDelegations(f)
	for m, held := range f.machines {
		if r.wants(&m.holder) && !r.readShares(held) {
			break
		}
		r.visitEntry()
	}
	for _, owner := range f.owners {
		if r.wants(owner.holder) && !r.readLocks(owner) {
			break
		}
		r.visitEntry()
	}
	if f.queue == nil {
		return
	}
	for _, w := range f.queue.byLock {
		if !r.readWaiter(w) {
			break
		}
		r.visitEntry()
	}
}

// sortEntries sorts the snapshot: opens and delegations by client, locks by offset, and waiters by
// their time.
func (f *HeldFile) sortEntries() {
	slices.SortStableFunc(f.Opens, func(a, b HeldOpen) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(f.Delegations, func(a, b HeldDelegation) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(f.Locks, func(a, b HeldLock) int {
		return cmp.Or(cmp.Compare(a.Range.Start, b.Range.Start), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Owner, b.Owner))
	})
	slices.SortFunc(f.Waiters, func(a, b LockWaiter) int { return cmp.Compare(b.For, a.For) })
}

// wants reports whether the reader is for a holder.
func (r *fileReader) wants(h *holder) bool { return r.id == 0 || r.id == h.id }

// hasSpace reports whether the snapshot may have one more entry of a kind.
func (r *fileReader) hasSpace(entries int) bool {
	r.file.Omitted = r.file.Omitted || entries >= r.limit
	return entries < r.limit
}

// isFirstVisit reports whether the reader has not read an open or delegation yet.
func (r *fileReader) isFirstVisit(o *Open) bool {
	_, seen := r.seen[o]
	r.seen[o] = struct{}{}
	return !seen
}

func (r *fileReader) useHandle(handle string) {
	if r.file.Handle == "" {
		r.file.Handle = strings.Clone(handle)
	}
}

func (r *fileReader) readOpens(f *file) {
	for i := len(f.opens) - 1; i >= 0; i-- {
		if o := f.opens[i]; r.wants(&o.client.holder) && r.isFirstVisit(o) {
			if !r.hasSpace(len(r.file.Opens)) {
				return
			}
			r.useHandle(o.key.handle)
			modes := o.modes.Load()
			r.file.Opens = append(r.file.Opens, HeldOpen{r.describeHolder(&o.client.holder), modes & nfs4.ShareBoth, modes >> denyShift})
		}
		r.visitEntry()
		i = min(i, len(f.opens))
	}
}

func (r *fileReader) readDelegations(f *file) {
	for i := len(f.delegations) - 1; i >= 0; i-- {
		if d := f.delegations[i]; r.wants(&d.client.holder) && r.isFirstVisit(&d.Open) {
			if !r.hasSpace(len(r.file.Delegations)) {
				return
			}
			r.useHandle(d.key.handle)
			r.file.Delegations = append(r.file.Delegations, HeldDelegation{r.describeHolder(&d.client.holder), d.Writes(), d.recalled})
		}
		r.visitEntry()
		i = min(i, len(f.delegations))
	}
}

func (r *fileReader) readShares(f *machineFile) bool {
	if len(f.handles) > 0 {
		r.useHandle(f.handles[0].handle)
	}
	for _, modes := range f.shares {
		if !r.hasSpace(len(r.file.Opens)) {
			return false
		}
		r.file.Opens = append(r.file.Opens, HeldOpen{r.describeHolder(&f.machine.holder), modes & nfs4.ShareBoth, modes >> denyShift})
		r.visitEntry()
	}
	return true
}

func (r *fileReader) readLocks(owner *lockOwner) bool {
	for lock := range owner.ranges.Within(locks.Range{End: locks.ToEnd}) {
		if !r.hasSpace(len(r.file.Locks)) {
			return false
		}
		r.file.Locks = append(r.file.Locks, HeldLock{r.describeHolder(owner.holder), owner.name, lock.Range, lock.Exclusive})
		r.visitEntry()
	}
	return true
}

// readWaiter reads a waiting lock-owner, unless it has given up: see startTurn.
func (r *fileReader) readWaiter(w *Waiting) bool {
	s := r.state
	now := s.config.Now()
	if !w.queued || w.holder.client != nil && now-w.deniedAt > 2*s.config.Lease {
		return true
	}
	if !r.hasSpace(len(r.file.Waiters)) {
		return false
	}
	r.file.Waiters = append(r.file.Waiters, LockWaiter{
		HeldLock{r.describeHolder(w.holder), w.name, w.lock.Range, w.lock.Exclusive}, now - w.since, w.heldOnHost,
	})
	return true
}

// describeHolder describes a holder. A part is locked.
func (r *fileReader) describeHolder(h *holder) *FileHolder {
	d := r.holders[h]
	if d != nil {
		return d
	}
	d = &FileHolder{ID: h.id, Name: h.key.id}
	r.holders[h] = d
	switch c := h.client; {
	case c == nil:
		d.Name, d.Machine, d.Addr = h.machine.Name, true, netip.AddrPortFrom(h.machine.Addr, 0)
	case c.v40 != nil:
		d.Addr = c.v40.addr
	default:
		d.Minor = c.minor
		for _, session := range c.sessions {
			r.part.countEntry()
			if d.Conn = session.anyConn(); d.Conn != nil {
				break
			}
		}
	}
	return d
}

// anyConn returns a connection that is bound to the session, or nil.
func (s *Session) anyConn() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		return conn
	}
	return nil
}
