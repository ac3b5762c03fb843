package fusefs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/lockclient"
	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// lastByte is the kernel's End of a lock without an end.
const lastByte = 1<<63 - 1

// lockers are the owners that have locked a file through an open file.
type lockers struct {
	lost atomic.Bool // another client has got a lock of one of these

	mu     sync.Mutex
	owners map[lockclient.Owner]bool // true: another client has got a lock of the owner
}

// closes are the files with locks of flock(2) or of F_OFD_SETLK of which a
// descriptor was closed. If it was the last, their RELEASE will unlock. The kernel
// sends RELEASE after close(2) has returned, one after the other, so requests for
// locks wait while they come. If none comes for releaseSettle, the files have other
// descriptors.
type closes struct {
	any atomic.Bool // all may have elements

	mu   sync.Mutex
	all  map[*file]closing
	last time.Time // of a FLUSH or RELEASE of such a file
}

type closing struct {
	since time.Time
	over  chan struct{} // closed after RELEASE
}

func (c *closes) begin(f *file) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[*file]closing)
	}
	k, found := c.all[f]
	if !found {
		k.over = make(chan struct{})
	}
	c.last = time.Now()
	k.since = c.last
	c.all[f] = k
	c.any.Store(true)
}

func (c *closes) end(f *file) {
	if !c.any.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, found := c.all[f]; found {
		close(k.over)
		delete(c.all, f)
		c.any.Store(len(c.all) > 0)
		c.last = time.Now()
	}
}

// wait waits for RELEASE of the files of n that may have been closed.
func (c *closes) wait(ctx context.Context, n *node) {
	for c.any.Load() {
		k, left := c.of(n)
		if left <= 0 {
			return
		}
		t := time.NewTimer(left)
		select {
		case <-k.over:
		case <-t.C:
		case <-ctx.Done():
			return
		}
		t.Stop()
	}
}

// of returns a file of n that may have been closed, and how long to wait for it.
func (c *closes) of(n *node) (k closing, left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for f, k := range c.all {
		if f.n != n {
			continue
		}
		if left := min(releaseSettle-now.Sub(c.last), releaseWait-now.Sub(k.since)); left > 0 {
			return k, left
		}
	}
	return closing{}, 0
}

// locksCaps returns which locks the kernel hands over.
func (c *Config) locksCaps() (caps uint64) {
	if c.sharesPOSIX() {
		caps |= fuse.CAP_POSIX_LOCKS
	}
	if c.Locks != nil && !c.LocalFlock {
		caps |= fuse.CAP_FLOCK_LOCKS
	}
	return caps
}

// sharesPOSIX reports whether locks of fcntl(2) hold at the server.
func (c *Config) sharesPOSIX() bool { return c.Locks != nil && !c.LocalPOSIX }

// GetLk implements fuse.RawFileSystem.
func (m *Mount) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	f := m.files.file(in.Fh)
	if f == nil || m.cfg.Locks == nil {
		return fuse.EBADF
	}
	f.opened()
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	m.closes.wait(o, f.n)
	h, found, err := m.cfg.Locks.Test(o, lockRequest(o, f, in))
	if err != nil {
		return m.lockFail(f.n, err)
	}
	out.Lk = fuse.FileLock{Typ: unix.F_UNLCK}
	if found {
		out.Lk = fuse.FileLock{Start: h.Range.Start, End: min(h.Range.End, lastByte), Typ: unix.F_RDLCK, Pid: h.PID}
		if h.Exclusive {
			out.Lk.Typ = unix.F_WRLCK
		}
	}
	return fuse.OK
}

// SetLk implements fuse.RawFileSystem.
func (m *Mount) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return m.setLock(cancel, in, false)
}

// SetLkw implements fuse.RawFileSystem. A signal ends the wait.
func (m *Mount) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return m.setLock(cancel, in, true)
}

func (m *Mount) setLock(cancel <-chan struct{}, in *fuse.LkIn, wait bool) fuse.Status {
	f := m.files.file(in.Fh)
	if f == nil || m.cfg.Locks == nil {
		return fuse.EBADF
	}
	f.opened()
	o := m.begin(cancel, &in.InHeader)
	defer m.end(o)
	r := lockRequest(o, f, in)
	if in.Lk.Typ == unix.F_UNLCK {
		return m.unlock(o, f, r.Owner, r.Range)
	}
	m.closes.wait(o, f.n)
	if m.cfg.Locks.Holds(r.Handle, r.Owner) { // the lock may become shared
		if err := m.sync(o, f.n); err != nil {
			return m.fail(err)
		}
	}
	f.lockers.add(r.Owner) // before a loss
	err := m.lock(o, r, wait)
	if err != nil {
		m.unlocked(f, r.Owner)
		return m.lockFail(f.n, err)
	}
	f.lockers.add(r.Owner) // again, because another thread may have unlocked meanwhile
	f.n.locked.Store(true)
	f.prefetch.Store(nil)
	m.freshen(o, f.n)
	return fuse.OK
}

// lockRequest returns the request of in. It is made as the caller that opened
// the file, whose rights the server checks.
func lockRequest(o *op, f *file, in *fuse.LkIn) *lockclient.Request {
	cred := f.who.cred
	cred.Flavor = rpcmsg.AuthSys // as Linux's client locks, whatever the flavour of the mount
	r := &lockclient.Request{
		Handle: f.n.fh, Owner: lockclient.Owner{ID: in.Owner, Flock: in.LkFlags&fuse.LK_FLOCK != 0},
		PID: in.Lk.Pid, Cred: cred, Range: locks.Range{Start: in.Lk.Start, End: in.Lk.End},
		Exclusive: in.Lk.Typ == unix.F_WRLCK, Interrupt: o.cancel,
	}
	if in.Lk.End >= lastByte {
		r.Range.End = locks.ToEnd
	}
	return r
}

// lock locks. A lock of flock(2) that is to become another kind is given up if it
// must wait, because two owners could otherwise wait for each other for ever.
func (m *Mount) lock(o *op, r *lockclient.Request, wait bool) error {
	if r.Owner.Flock && wait && m.cfg.Locks.Holds(r.Handle, r.Owner) {
		err := m.cfg.Locks.Lock(o, r)
		if !errors.Is(err, lockclient.ErrDenied) {
			return err
		}
		if err := m.cfg.Locks.Release(o, r.Handle, r.Owner); err != nil {
			return err
		}
	}
	r.Wait = wait
	err := m.cfg.Locks.Lock(o, r)
	if errors.Is(err, lockclient.ErrDenied) && m.departs(o, r) {
		err = m.cfg.Locks.Lock(o, r)
	}
	return err
}

// departs waits for the unlock by a process that has ended, whose FLUSH and
// RELEASE the kernel sends without waiting. It returns false if another process
// has the lock, possibly of an open file that the ended process has left.
func (m *Mount) departs(o *op, r *lockclient.Request) bool {
	var pid uint32
	for end := time.Now().Add(closeWait); time.Now().Before(end); time.Sleep(settlePoll) {
		h, found := m.cfg.Locks.Local(r)
		switch pid = h.PID; {
		case !found:
			return true
		case o.Err() != nil || pid == 0 || pid == m.outlived.Load() || syscall.Kill(int(pid), 0) != syscall.ESRCH && !zombie(pid):
			return false
		}
	}
	m.outlived.Store(pid)
	return false
}

// unlock unlocks once the data that were written under the lock are on stable storage,
// except those of mappings, which only msync(2) and munmap(2) hand over. Data that the
// server loses in a crash are sent again, which must not happen once another may write.
func (m *Mount) unlock(o *op, f *file, owner lockclient.Owner, r locks.Range) fuse.Status {
	if err := m.sync(o, f.n); err != nil {
		return m.fail(err)
	}
	if err := m.cfg.Locks.Unlock(o, f.n.fh, owner, r); err != nil {
		return m.lockFail(f.n, err)
	}
	m.unlocked(f, owner)
	return fuse.OK
}

// unlocked removes an owner without locks, and its losses, from those of f.
func (m *Mount) unlocked(f *file, owner lockclient.Owner) {
	f.lockers.remove(owner, func() bool { return m.cfg.Locks.Holds(f.n.fh, owner) })
}

// releaseLocks unlocks what an owner has locked of f's file, when the owner
// closes any descriptor of the file. If the process is killed while the server does
// not take its data, the locks go once it has.
func (m *Mount) releaseLocks(cancel <-chan struct{}, h *fuse.InHeader, f *file, owner lockclient.Owner) {
	if m.cfg.Locks == nil {
		return
	}
	if !m.cfg.Locks.Holds(f.n.fh, owner) {
		m.unlocked(f, owner)
		return
	}
	o := m.begin(cancel, h)
	defer m.end(o)
	o.isClose()
	if m.unlock(o, f, owner, locks.Range{End: locks.ToEnd}) != fuse.OK {
		m.notes.Go(func() {
			if m.sync(m.life, f.n) == nil {
				_ = m.cfg.Locks.Release(m.life, f.n.fh, owner) // otherwise the mount has ended
				m.unlocked(f, owner)
			}
		})
	}
}

// freshen makes the kernel read the data of n anew, because another client may
// have written them before it unlocked. Data that were read under a delegation are current.
// Data that a mapping has changed go to the server.
func (m *Mount) freshen(o *op, n *node) {
	if n.trusted(o, delegation.FileData) && n.readHeld() {
		return
	}
	m.suspect(n)
	p := m.emptied(n)
	_ = m.server.InodeNotify(n.id, 0, 0) // all data; the file is open, so the kernel knows it
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pages == nil || p.tick > n.pages.tick {
		n.pages = p
	}
}

// lockFail returns the status that a program gets for an error of a lock.
func (m *Mount) lockFail(n *node, err error) fuse.Status {
	_, auth := errors.AsType[rpcmsg.AuthError](err)
	if auth || errors.Is(err, context.Canceled) {
		return m.fail(err)
	}
	errno := lockclient.Errno(err)
	switch errno {
	case syscall.ENOLCK:
		m.complain(err)
	case syscall.ESTALE:
		m.table.lose(n)
	}
	return fuse.Status(errno)
}

// lostLock makes reads and writes fail that rely on a lock which another client
// has got, until the owner unlocks or closes the file.
func (m *Mount) lostLock(handle []byte, owner lockclient.Owner) {
	n := m.table.known(handle)
	if n == nil {
		return
	}
	for _, f := range m.files.of(n) {
		f.lockers.lose(owner)
	}
	m.noting.RLock()
	defer m.noting.RUnlock()
	if !m.noted {
		m.notes.Go(func() { _ = m.server.InodeNotify(n.id, 0, 0) }) // so that reads come here
	}
}

func (l *lockers) add(o lockclient.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owners == nil {
		l.owners = make(map[lockclient.Owner]bool)
	}
	if _, found := l.owners[o]; !found {
		l.owners[o] = false
	}
}

// remove removes an owner unless holds says that it has locks. holds is asked under
// the lock, so that an owner that is added after its lock was granted stays.
func (l *lockers) remove(o lockclient.Owner, holds func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, found := l.owners[o]; !found || holds() {
		return
	}
	delete(l.owners, o)
	l.lost.Store(slices.Contains(slices.Collect(maps.Values(l.owners)), true))
}

func (l *lockers) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owners) > 0
}

// all returns the owners.
func (l *lockers) all() []lockclient.Owner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.owners))
}

func (l *lockers) lose(o lockclient.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, found := l.owners[o]; found {
		l.owners[o] = true
		l.lost.Store(true)
	}
}
