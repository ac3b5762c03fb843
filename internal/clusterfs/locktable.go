package clusterfs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A lockOwner owns locks of flock(2), or byte-range locks of fcntl(2). Those of one
// kind do not conflict with those of the other.
type lockOwner struct {
	s     *session
	owner uint64 // the kernel's
	flock bool
}

// lockedObject is a node's locks of one kind.
type lockedObject struct {
	locks.Object
	owners map[lockOwner]*locks.Part
}

// objectKey is an inode, not a node: locks last longer than a lost session's
// references.
type objectKey struct {
	inodeKey
	flock bool
}

// A lockTable has the locks of all hosts.
type lockTable struct {
	mu      sync.Mutex
	objects map[objectKey]*lockedObject
	changed chan struct{} // closed and replaced when a lock is released
}

func (t *lockTable) init() {
	t.objects, t.changed = map[objectKey]*lockedObject{}, make(chan struct{})
}

func lockRange(l *fuse.FileLock) locks.Range {
	if l.End >= 1<<63-1 {
		return locks.Range{Start: l.Start, End: locks.ToEnd}
	}
	return locks.Range{Start: l.Start, End: l.End}
}

// set sets or releases a lock, and returns EAGAIN and a channel if it must wait.
func (t *lockTable) set(n *node, w lockOwner, l *fuse.FileLock) (wait <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.s.fenced.Load() {
		return nil, unix.ESHUTDOWN
	}
	o := t.object(n, w.flock)
	part := o.owners[w]
	if l.Typ == unix.F_UNLCK {
		if part != nil {
			part.Owner().Unlock(lockRange(l))
			t.noteRelease()
		}
		return nil, nil
	}
	exclusive := l.Typ == unix.F_WRLCK
	if part == nil {
		part = o.NewOwner(w).NewPart()
	}
	if _, found := o.Conflict(part.Owner(), lockRange(l), exclusive); found {
		return t.changed, unix.EAGAIN
	}
	part.Lock(lockRange(l), exclusive)
	o.owners[w] = part
	t.noteRelease() // a weaker lock may let others in
	return nil, nil
}

func (t *lockTable) object(n *node, flock bool) *lockedObject {
	key := objectKey{n.key, flock}
	o := t.objects[key]
	if o == nil {
		o = &lockedObject{owners: map[lockOwner]*locks.Part{}}
		t.objects[key] = o
	}
	return o
}

func (t *lockTable) noteRelease() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// release releases all of an owner's locks on a node.
func (t *lockTable) release(n *node, w lockOwner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releaseLocked(objectKey{n.key, w.flock}, w)
}

func (t *lockTable) releaseLocked(key objectKey, w lockOwner) {
	o := t.objects[key]
	if o == nil || o.owners[w] == nil {
		return
	}
	o.owners[w].Drop()
	delete(o.owners, w)
	if len(o.owners) == 0 {
		delete(t.objects, key)
	}
	t.noteRelease()
}

// releaseHandle releases byte-range locks that belong to an open file, for which the
// kernel sends no FLUSH.
func (t *lockTable) releaseHandle(n *node, s *session, h *handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for owner := range h.owners {
		t.releaseLocked(objectKey{n.key, false}, lockOwner{s, owner, false})
	}
}

func (t *lockTable) releaseSession(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, o := range t.objects {
		for w := range o.owners {
			if w.s == s {
				t.releaseLocked(key, w)
			}
		}
	}
}

// conflict returns a lock that keeps w from setting l.
func (t *lockTable) conflict(n *node, w lockOwner, l *fuse.FileLock) (locks.Lock, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.object(n, w.flock)
	var owner *locks.Owner
	if part := o.owners[w]; part != nil {
		owner = part.Owner()
	}
	return o.Conflict(owner, lockRange(l), l.Typ == unix.F_WRLCK)
}

func (t *lockTable) noteOwner(h *handle, w lockOwner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !w.flock {
		h.owners[w.owner] = true
	}
}

func (f *rawFS) lockOwner(in *fuse.LkIn) lockOwner {
	return lockOwner{f.s, in.Owner, in.LkFlags&fuse.FUSE_LK_FLOCK != 0}
}

func (f *rawFS) GetLk(_ <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	n, err := f.e.nodes.get(in.NodeId)
	if err != nil {
		return fuse.ToStatus(err)
	}
	out.Lk = in.Lk
	l, found := f.e.locks.conflict(n, f.lockOwner(in), &in.Lk)
	if !found {
		out.Lk.Typ = unix.F_UNLCK
		return fuse.OK
	}
	out.Lk = fuse.FileLock{Start: l.Start, End: min(l.End, 1<<63-1), Typ: unix.F_RDLCK}
	if l.Exclusive {
		out.Lk.Typ = unix.F_WRLCK
	}
	return fuse.OK
}

func (f *rawFS) SetLk(_ <-chan struct{}, in *fuse.LkIn) fuse.Status { return f.setLk(in, nil) }

// SetLkw waits until the lock is free, the request is interrupted, or the engine has
// given the host up.
func (f *rawFS) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return f.setLk(in, cancel)
}

func (f *rawFS) setLk(in *fuse.LkIn, cancel <-chan struct{}) fuse.Status {
	n, h, err := f.open(in.NodeId, in.Fh)
	if err != nil {
		return fuse.ToStatus(err)
	}
	w := f.lockOwner(in)
	f.e.locks.noteOwner(h, w)
	wait, err := f.e.locks.set(n, w, &in.Lk)
	for err == unix.EAGAIN && cancel != nil {
		if !f.s.waits(wait, cancel) {
			err = unix.EINTR
			break
		}
		wait, err = f.e.locks.set(n, w, &in.Lk)
	}
	return f.record(Record{Op: lockOp(w, in.Lk.Typ)}, n, "", err)
}

// waits waits for changed, and reports false if the session ends before.
func (s *session) waits(changed, cancel <-chan struct{}) bool {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	select {
	case <-changed:
		return true
	case <-cancel:
	case <-over:
	case <-s.exited:
	}
	return false
}

func lockOp(w lockOwner, kind uint32) string {
	op := "fcntl"
	if w.flock {
		op = "flock"
	}
	switch kind {
	case unix.F_RDLCK:
		return op + " shared"
	case unix.F_WRLCK:
		return op + " exclusive"
	}
	return op + " release"
}
