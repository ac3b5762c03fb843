package nfs4client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A Range is a byte range in a file. End is the last byte's offset.
type Range = locks.Range

// ToEnd is the End for a Range without an upper bound.
const ToEnd = locks.ToEnd

// heldLocks are a File's byte-range locks as the server has confirmed them.
type heldLocks struct {
	sem     chan struct{} // has an element while a LOCK or LOCKU is in flight
	object  locks.Object
	ranges  *locks.Part
	change  lockChange   // the change in flight
	stateID nfs4.StateID // zero: the server has sent none yet
}

// A lockChange is a removal or downgrade of locks. The server may have made the
// change before it replies, and may have granted the bytes to other owners.
type lockChange struct {
	affected Range
	kind     lockChangeKind
}

type lockChangeKind int

const (
	noChange lockChangeKind = iota
	toShared
	toUnlocked
)

// endChange finishes the change in flight. If the server has made it, or may
// have, the recorded locks change too.
func (h *heldLocks) endChange(made bool) {
	if made {
		h.change.applyTo(h.ranges)
	}
	h.change = lockChange{}
}

// applyTo applies the change to p's locks.
func (c lockChange) applyTo(p *locks.Part) {
	switch c.kind {
	case toShared:
		for _, l := range slices.Collect(p.Within(c.affected)) {
			p.Lock(l.Range, false)
		}
	case toUnlocked:
		p.Owner().Unlock(c.affected)
	}
}

func (h *heldLocks) initLocks() {
	h.sem = make(chan struct{}, 1)
	h.ranges = h.object.NewOwner(nil).NewPart()
}

// Lock locks the bytes in r for f, and replaces f's earlier locks on them (RFC
// 8881, Section 18.10). The lock lasts until Unlock or Close, even if the
// server restarts. Lock does not wait for conflicting locks: the error is then
// NFS4ERR_DENIED, which matches syscall.EAGAIN. If ctx ends, the bytes may be
// locked until Close, and a downgrade to shared may have taken effect.
func (f *File) Lock(ctx context.Context, r Range, exclusive bool) error {
	args := nfs4.LockArgs{Type: nfs4.LockRead, Offset: r.Start, Length: lockLength(r), Owner: nfs4.StateOwner{Owner: f.owner[:]}}
	if exclusive {
		args.Type = nfs4.LockWrite
	}
	less := lockChange{affected: r}
	if !exclusive {
		less.kind = toShared
	}
	var res nfs4.LockRes
	return f.changeLocks(ctx, less, func(c *Compound, open, lock nfs4.StateID) bool {
		if args.New = lock == (nfs4.StateID{}); args.New {
			lock = open
		}
		args.StateID = latestStateID(lock)
		c.Add(nfs4.OpLock, &args, &res)
		return true
	}, func() {
		f.locks.stateID = res.StateID
		f.locks.ranges.Lock(r, exclusive)
	})
}

// Unlock unlocks the bytes in r that f has locked (RFC 8881, Section 18.12). If
// ctx ends, the bytes may remain locked until Close, but not after the server
// restarts.
func (f *File) Unlock(ctx context.Context, r Range) error {
	args := nfs4.LockUArgs{Type: nfs4.LockWrite, Offset: r.Start, Length: lockLength(r)}
	var res nfs4.StateIDRes
	return f.changeLocks(ctx, lockChange{r, toUnlocked}, func(c *Compound, _, lock nfs4.StateID) bool {
		args.StateID = latestStateID(lock)
		c.Add(nfs4.OpLockU, &args, &res)
		return lock != (nfs4.StateID{})
	}, func() {
		f.locks.stateID = res.StateID
		f.locks.ranges.Owner().Unlock(r)
	})
}

// lockLength returns r's length for a call, in which all ones mean to the end
// of the file.
func lockLength(r Range) uint64 {
	if r.End == ToEnd {
		return ToEnd
	}
	return r.End - r.Start + 1
}

// changeLocks sends a LOCK or LOCKU, and repeats it until the current server
// has replied, which is safe. add adds the operation, or reports that it is not
// needed. done records its success. If the server restarts before that, the
// locks that change removes are not reclaimed, because other owners may have
// them.
func (f *File) changeLocks(ctx context.Context, less lockChange, add func(c *Compound, open, lock nfs4.StateID) bool, done func()) error {
	select {
	case f.locks.sem <- struct{}{}: // so that f records locks in the order in which the server granted them
		defer func() { <-f.locks.sem }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	f.mu.Lock()
	f.locks.change = less
	f.mu.Unlock()
	made := true // or possibly made
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.locks.endChange(made)
	}()
	for {
		open, lock, epoch, err := f.lockState()
		if err != nil {
			return err
		}
		c.Reset()
		c.PutFH(f.fh)
		if !add(c, open, lock) {
			return nil
		}
		err = f.session.Do(ctx, c)
		switch {
		case err == nil && f.recordLocks(c.epoch, done):
			return nil
		case err == nil, errors.Is(err, ErrUncertain), f.isStateReplaced(err, epoch):
		default:
			made = !isStatusError(err)
			return err
		}
	}
}

// lockState returns the stateids for the open and its locks, their epoch, and
// the error if f is lost.
func (f *File) lockState() (open, lock nfs4.StateID, epoch uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stateID, f.locks.stateID, f.epoch, f.err
}

// recordLocks calls done to record a successful LOCK or LOCKU. It returns false
// if the server has restarted since, because the reclaim may have begun without
// it.
func (f *File) recordLocks(epoch uint64, done func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session.listedEpoch.Load() != epoch {
		return false
	}
	done()
	return true
}

// reclaimableLocks returns f's locks that no other owner can have been granted.
func (f *File) reclaimableLocks() []locks.Lock {
	var kept locks.Object
	part := kept.NewOwner(nil).NewPart()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks.object.Union(Range{End: ToEnd}, func(r Range, exclusive bool) bool {
		part.Lock(r, exclusive)
		return true
	})
	f.locks.change.applyTo(part)
	return slices.Collect(part.Within(Range{End: ToEnd}))
}

// hasLocks reports whether f has reclaimable locks.
func (f *File) hasLocks() bool { return len(f.reclaimableLocks()) > 0 }

// reclaimLocks reclaims f's locks with the stateid of its reclaimed open (RFC
// 8881, Section 8.4.2.1). It returns the locks' stateid.
func (f *File) reclaimLocks(ctx context.Context, g *sessionState, open nfs4.StateID) (id nfs4.StateID, err error) {
	all := f.reclaimableLocks()
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	for i, l := range all {
		args := nfs4.LockArgs{Type: nfs4.LockRead, Reclaim: true, Offset: l.Start, Length: lockLength(l.Range), StateID: latestStateID(id)}
		if l.Exclusive {
			args.Type = nfs4.LockWrite
		}
		if args.New = i == 0; args.New {
			args.StateID, args.Owner = latestStateID(open), nfs4.StateOwner{Owner: f.owner[:]}
		}
		var res nfs4.LockRes
		c.Reset()
		c.PutFH(f.fh)
		c.Add(nfs4.OpLock, &args, &res)
		if err := f.session.doInSession(ctx, g, c); err != nil {
			return id, err
		}
		id = res.StateID
	}
	return id, nil
}

// closeOpen closes an open on the server that f does not use, because its locks
// are lost.
func (f *File) closeOpen(ctx context.Context, g *sessionState, open nfs4.StateID) error {
	c := f.session.getCompound()
	defer f.session.putCompound(c)
	c.PutFH(f.fh)
	c.Add(nfs4.OpClose, &nfs4.CloseArgs{StateID: open}, new(nfs4.StateIDRes))
	if err := f.session.doInSession(ctx, g, c); !isStatusError(err) {
		return err
	}
	return nil
}

// lockLostError returns the error for a file whose locks could not be
// reclaimed, with the reason.
func lockLostError(reason error) error { return fmt.Errorf("%w: %w", ErrLockLost, reason) }
