//go:build linux

package posix

import (
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/leasesignal"
)

var _ vfs.Leaser = (*FS)(nil)

// Lease puts a lease on a regular file that c may read, or, for vfs.LeaseWrite,
// write to (vfs.Leaser). The daemon must have CAP_LEASE or be the file's owner,
// possibly by switching to the owner's uid. Lease also returns EAGAIN while this
// FS is writing to the file, or has written data that is not yet synced. File
// systems on which not every writer breaks a lease have no leases.
func (f *FS) Lease(_ context.Context, c *vfs.Cred, h vfs.Handle, scope vfs.LeaseScope, broken func()) (release func(), err error) {
	if !f.leases.allowed {
		return nil, unix.EOPNOTSUPP
	}
	acc := accRead
	if scope == vfs.LeaseWrite {
		acc = accWrite
	}
	o, fl, err := f.openData(c, h, acc)
	switch {
	case err == unix.EINVAL:
		return nil, unix.EOPNOTSUPP
	case err != nil:
		return nil, err
	}
	defer f.putObject(o)
	var st unix.Statx_t
	if err = f.statOrStale(o, &st); err == nil {
		err = f.recheckAccess(o, fl, c, &st)
	}
	if err != nil || scope == vfs.LeaseWrite {
		f.closeFile(o, fl)
	} else {
		defer f.closeFile(o, fl)
	}
	if err != nil {
		return nil, err
	}
	who := &leaseHolder{broken: broken}
	if scope == vfs.LeaseWrite {
		if err := f.leaseToWrite(who, o, c, st.Uid); err != nil {
			return nil, err
		}
		return func() { f.releaseWriter(who, o) }, nil
	}
	if err := f.closeWriters(o); err != nil {
		return nil, err
	}
	l := &f.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.byFD[o.fd]
	if le != nil && (le.broken || le.kind == unix.F_WRLCK) {
		return nil, unix.EAGAIN
	}
	if scope == vfs.LeaseAll {
		if err := f.observeEvents(who, o, c, observedEvents); err != nil {
			return nil, err
		}
	}
	if le == nil {
		if le, err = f.takeLease(o, fl.FD, unix.F_RDLCK, st.Uid); err != nil {
			l.stopObserving(who)
			return nil, err
		}
	}
	who.of = le
	le.holders = append(le.holders, who)
	return func() { f.releaseLease(who) }, nil
}

// takeLease takes the kernel's lease on o, which fd has open: for reading, or for F_WRLCK for
// reading and writing. l.mu is held, so that the lease has its holder before the watcher can report
// it broken.
func (f *FS) takeLease(o *object, fd, kind int, owner uint32) (*lease, error) {
	l := &f.leases
	if l.watcher == nil {
		w, err := leasesignal.Start(l.notifyFD, l.tellAll)
		if err != nil {
			return nil, err
		}
		l.watcher, l.byFD = w, make(map[int]*lease)
	}
	if n := leasedFDs.Add(1); n > l.max || n+heldFDs.Load() > max(f.cache.budget, minMaxFiles) {
		leasedFDs.Add(-1)
		return nil, unix.EMFILE
	}
	if err := f.setLease(o.fd, fd, kind, owner); err != nil {
		leasedFDs.Add(-1)
		return nil, err
	}
	le := &lease{o: o, kind: kind}
	l.byFD[o.fd] = le
	f.cache.pinObject(o)
	return le, nil
}

// closeWriters closes the files that the FS itself has open for writing, because these files would
// prevent a lease. It returns EAGAIN if such a file is in use, or if closing the file would wait
// for a disk. closeWriters waits for an open of o in progress, so the caller must not hold l.mu.
// The kernel sees any later writer.
func (f *FS) closeWriters(o *object) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, fl := range o.takeFiles(func(fl *file) bool { return fl.acc == accWrite && f.cache.isSettled(fl) }) {
		f.cache.closeFile(fl)
	}
	if slices.ContainsFunc(o.files, func(fl *file) bool { return fl.acc == accWrite }) {
		return unix.EAGAIN
	}
	return nil
}

// setLease makes the descriptor place a duplicate of fd, because an O_PATH
// descriptor cannot have a lease, and puts a lease on it.
func (f *FS) setLease(place, fd, kind int, owner uint32) error {
	if err := dupOver(fd, place); err != nil {
		return err
	}
	err := f.leases.watcher.SetOwner(place)
	if err == nil {
		err = setLease(place, kind)
	}
	if err == unix.EACCES && f.switches {
		w, werr := f.switchUID(owner)
		if werr != nil {
			return werr
		}
		err = setLease(place, kind)
		w.restore()
	}
	switch err {
	case unix.EINVAL: // from the file system, or because of /proc/sys/fs/leases-enable
		return unix.EOPNOTSUPP
	case unix.EACCES:
		f.leases.denied.Do(func() {
			f.log.Warn("the server cannot lease other users' files without CAP_LEASE: clients get no delegations for them; grant it CAP_LEASE")
		})
		return unix.EOPNOTSUPP
	}
	return err
}

// releaseLease removes a holder from its lease. When the last holder has gone,
// a process waiting for the lease may continue.
func (f *FS) releaseLease(who *leaseHolder) {
	if le := f.leases.removeHolder(who); le != nil {
		f.cache.unpinObject(le.o)
	}
}

// closeLeases gives all leases back. Then no release uses a descriptor any more.
func (f *FS) closeLeases() {
	l := &f.leases
	l.mu.Lock()
	var ended []*lease
	for _, le := range l.byFD {
		for _, h := range le.holders {
			h.of = nil
		}
		l.releaseLease(le)
		le.o.shared.Store(false)
		ended = append(ended, le)
	}
	w, ob := l.watcher, l.observer
	l.watcher, l.observer = nil, nil
	l.mu.Unlock()
	if w != nil {
		w.Stop()
	}
	if ob != nil {
		ob.closeWatches()
	}
	l.leaving.Lock() // waits for releases that came first
	defer l.leaving.Unlock()
	for _, le := range ended {
		f.cache.unpinObject(le.o)
	}
}
