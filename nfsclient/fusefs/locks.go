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
	"github.com/nfsrdma/nfsrdma/nfsclient/nlmclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// lastByte is the End in the kernel's request for a lock to the file's end.
const lastByte = 1<<63 - 1

// lockOwners are the owners that have locked a file through one open file.
type lockOwners struct {
	lost atomic.Bool // another client has taken over a lock of one of these

	mu     sync.Mutex
	owners map[nlmclient.Owner]bool // true: another client has taken over a lock of the owner
}

// pendingReleases holds the files with locks of flock(2) or F_OFD_SETLK whose
// descriptor was closed. If it was the last, their RELEASE will unlock. The kernel
// sends RELEASE after close(2) has returned, one after the other, so lock requests
// wait while they arrive. If none arrives for releaseSettle, the files have other
// descriptors.
type pendingReleases struct {
	any atomic.Bool // all may have elements

	mu   sync.Mutex
	all  map[*openFile]pendingRelease
	last time.Time // last FLUSH or RELEASE for such a file
}

type pendingRelease struct {
	since    time.Time
	released chan struct{} // closed after RELEASE
}

func (c *pendingReleases) expectRelease(f *openFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[*openFile]pendingRelease)
	}
	k, found := c.all[f]
	if !found {
		k.released = make(chan struct{})
	}
	c.last = time.Now()
	k.since = c.last
	c.all[f] = k
	c.any.Store(true)
}

func (c *pendingReleases) finishRelease(f *openFile) {
	if !c.any.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, found := c.all[f]; found {
		close(k.released)
		delete(c.all, f)
		c.any.Store(len(c.all) > 0)
		c.last = time.Now()
	}
}

// awaitReleases waits until the kernel releases n's files that may have been
// closed.
func (c *pendingReleases) awaitReleases(ctx context.Context, n *node) {
	for c.any.Load() {
		k, left := c.findPending(n)
		if left <= 0 {
			return
		}
		t := time.NewTimer(left)
		select {
		case <-k.released:
		case <-t.C:
		case <-ctx.Done():
			return
		}
		t.Stop()
	}
}

// findPending returns one of n's files that may have been closed, and how long to
// wait for it.
func (c *pendingReleases) findPending(n *node) (k pendingRelease, left time.Duration) {
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
	return pendingRelease{}, 0
}

// lockCapabilities returns the FUSE capabilities for locks that the kernel passes
// on.
func (c *Config) lockCapabilities() (caps uint64) {
	if c.sharesPOSIX() {
		caps |= fuse.CAP_POSIX_LOCKS
	}
	if c.Locks != nil && !c.LocalFlock {
		caps |= fuse.CAP_FLOCK_LOCKS
	}
	return caps
}

// sharesPOSIX reports whether fcntl(2) locks are taken at the server.
func (c *Config) sharesPOSIX() bool { return c.Locks != nil && !c.LocalPOSIX }

// GetLk implements fuse.RawFileSystem.
func (m *Mount) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	f := m.files.findFile(in.Fh)
	if f == nil || m.cfg.Locks == nil {
		return fuse.EBADF
	}
	f.confirmOpened()
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	m.releases.awaitReleases(o, f.n)
	h, found, err := m.cfg.Locks.Test(o, lockRequest(o, f, in))
	if err != nil {
		return m.lockErrorStatus(f.n, err)
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
	f := m.files.findFile(in.Fh)
	if f == nil || m.cfg.Locks == nil {
		return fuse.EBADF
	}
	f.confirmOpened()
	o := m.beginRequest(cancel, &in.InHeader)
	defer m.endRequest(o)
	r := lockRequest(o, f, in)
	if in.Lk.Typ == unix.F_UNLCK {
		return m.releaseRange(o, f, r.Owner, r.Range)
	}
	m.releases.awaitReleases(o, f.n)
	if m.cfg.Locks.Holds(r.Handle, r.Owner) { // the lock may become shared
		if err := m.syncData(o, f.n); err != nil {
			return m.errorStatus(err)
		}
	}
	f.lockers.add(r.Owner) // before a loss
	err := m.acquireLock(o, r, wait)
	if err != nil {
		m.dropLockOwner(f, r.Owner)
		return m.lockErrorStatus(f.n, err)
	}
	f.lockers.add(r.Owner) // again, because another thread may have unlocked in the meantime
	f.n.locked.Store(true)
	f.prefetch.Store(nil)
	m.dropStaleData(o, f.n)
	return fuse.OK
}

// lockRequest returns the request of in. It uses the identity of the file's opener,
// whose rights the server checks.
func lockRequest(o *op, f *openFile, in *fuse.LkIn) *nlmclient.Request {
	cred := f.who.cred
	cred.Flavor = rpcmsg.AuthSys // as Linux's client does, whatever flavor the mount uses
	r := &nlmclient.Request{
		Handle: f.n.fh, Owner: nlmclient.Owner{ID: in.Owner, Flock: in.LkFlags&fuse.LK_FLOCK != 0},
		PID: in.Lk.Pid, Cred: cred, Range: locks.Range{Start: in.Lk.Start, End: in.Lk.End},
		Exclusive: in.Lk.Typ == unix.F_WRLCK, Interrupt: o.cancel,
	}
	if in.Lk.End >= lastByte {
		r.Range.End = locks.ToEnd
	}
	return r
}

// acquireLock requests a lock. A flock(2) lock that must wait to become another
// kind is released first, because two owners could otherwise wait for each other
// forever.
func (m *Mount) acquireLock(o *op, r *nlmclient.Request, wait bool) error {
	if r.Owner.Flock && wait && m.cfg.Locks.Holds(r.Handle, r.Owner) {
		err := m.cfg.Locks.Lock(o, r)
		if !errors.Is(err, nlmclient.ErrDenied) {
			return err
		}
		if err := m.cfg.Locks.Release(o, r.Handle, r.Owner); err != nil {
			return err
		}
	}
	r.Wait = wait
	err := m.cfg.Locks.Lock(o, r)
	if errors.Is(err, nlmclient.ErrDenied) && m.awaitExitedHolder(o, r) {
		err = m.cfg.Locks.Lock(o, r)
	}
	return err
}

// awaitExitedHolder waits for the unlock by a process that has exited, whose FLUSH
// and RELEASE the kernel sends without waiting. It returns false if another process
// has the lock, possibly through an open file that it inherited from the exited
// process.
func (m *Mount) awaitExitedHolder(o *op, r *nlmclient.Request) bool {
	var pid uint32
	for end := time.Now().Add(closeWait); time.Now().Before(end); time.Sleep(settlePoll) {
		h, found := m.cfg.Locks.Local(r)
		switch pid = h.PID; {
		case !found:
			return true
		case o.Err() != nil || pid == 0 || pid == m.exitedHolder.Load() || syscall.Kill(int(pid), 0) != syscall.ESRCH && !isZombie(pid):
			return false
		}
	}
	m.exitedHolder.Store(pid)
	return false
}

// releaseRange unlocks a range once the data that were written under the lock are
// on stable storage, except those in mappings, which only msync(2) and munmap(2)
// pass on. Data that the server loses in a crash are sent again, which must not
// happen once another client may write.
func (m *Mount) releaseRange(o *op, f *openFile, owner nlmclient.Owner, r locks.Range) fuse.Status {
	if err := m.syncData(o, f.n); err != nil {
		return m.errorStatus(err)
	}
	if err := m.cfg.Locks.Unlock(o, f.n.fh, owner, r); err != nil {
		return m.lockErrorStatus(f.n, err)
	}
	m.dropLockOwner(f, owner)
	return fuse.OK
}

// dropLockOwner removes an owner without locks, and its lost locks, from f's
// owners.
func (m *Mount) dropLockOwner(f *openFile, owner nlmclient.Owner) {
	f.lockers.remove(owner, func() bool { return m.cfg.Locks.Holds(f.n.fh, owner) })
}

// releaseLocks releases an owner's locks on f's file, when the owner closes any
// descriptor of the file. If the process is killed while the server does not accept
// its data, the locks are released once it has.
func (m *Mount) releaseLocks(cancel <-chan struct{}, h *fuse.InHeader, f *openFile, owner nlmclient.Owner) {
	if m.cfg.Locks == nil {
		return
	}
	if !m.cfg.Locks.Holds(f.n.fh, owner) {
		m.dropLockOwner(f, owner)
		return
	}
	o := m.beginRequest(cancel, h)
	defer m.endRequest(o)
	o.markClose()
	if m.releaseRange(o, f, owner, locks.Range{End: locks.ToEnd}) != fuse.OK {
		m.notifications.Go(func() {
			if m.syncData(m.ctx, f.n) == nil {
				_ = m.cfg.Locks.Release(m.ctx, f.n.fh, owner) // fails only if the mount has ended
				m.dropLockOwner(f, owner)
			}
		})
	}
}

// dropStaleData makes the kernel read n's data again, because another client may
// have written them before it unlocked. Data that were read under a delegation are
// current. Data changed through a mapping are sent to the server.
func (m *Mount) dropStaleData(o *op, n *node) {
	if n.ensureTrusted(o, delegation.FileData) && n.hasPagesUnderGrant() {
		return
	}
	m.invalidateAttr(n)
	m.dropPages(n)
}

// lockErrorStatus returns the status that a program gets for a lock error.
func (m *Mount) lockErrorStatus(n *node, err error) fuse.Status {
	_, auth := errors.AsType[rpcmsg.AuthError](err)
	if auth || errors.Is(err, context.Canceled) {
		return m.errorStatus(err)
	}
	errno := nlmclient.Errno(err)
	switch errno {
	case syscall.ENOLCK:
		m.logFailure(err)
	case syscall.ESTALE:
		m.table.removeAllNames(n)
	}
	return fuse.Status(errno)
}

// handleLostLock makes reads and writes fail that rely on a lock that another
// client has taken over, until the owner unlocks or closes the file.
func (m *Mount) handleLostLock(handle []byte, owner nlmclient.Owner) {
	n := m.table.findHandle(handle)
	if n == nil {
		return
	}
	for _, f := range m.files.listNodeFiles(n) {
		f.lockers.markLost(owner)
	}
	m.notifyMu.RLock()
	defer m.notifyMu.RUnlock()
	if !m.notifyClosed {
		m.notifications.Go(func() { _ = m.server.InodeNotify(n.id, 0, 0) }) // so that reads reach this process
	}
}

func (l *lockOwners) add(o nlmclient.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owners == nil {
		l.owners = make(map[nlmclient.Owner]bool)
	}
	if _, found := l.owners[o]; !found {
		l.owners[o] = false
	}
}

// remove removes an owner unless holds reports that it has locks. holds is called
// under the mutex, so that an owner that is added after its lock was granted stays.
func (l *lockOwners) remove(o nlmclient.Owner, holds func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, found := l.owners[o]; !found || holds() {
		return
	}
	delete(l.owners, o)
	l.lost.Store(slices.Contains(slices.Collect(maps.Values(l.owners)), true))
}

func (l *lockOwners) hasOwners() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owners) > 0
}

// listOwners returns the owners.
func (l *lockOwners) listOwners() []nlmclient.Owner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.owners))
}

func (l *lockOwners) markLost(o nlmclient.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, found := l.owners[o]; found {
		l.owners[o] = true
		l.lost.Store(true)
	}
}
