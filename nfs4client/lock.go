package nfs4client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Range is a range of bytes of a file. End is the offset of the last byte.
type Range = locks.Range

// ToEnd is the End of a Range without an end.
const ToEnd = locks.ToEnd

// held are the byte-range locks of a File, as the server has confirmed them.
type held struct {
	turn   chan struct{} // has an element while a LOCK or LOCKU runs
	object locks.Object
	part   *locks.Part
	less   change       // under way
	id     nfs4.StateID // zero: the server has told none yet
}

// A change takes locks away, or makes them shared. The server may have made the change
// before it answers, and may have given the bytes to others.
type change struct {
	r    Range
	kind changeKind
}

type changeKind int

const (
	noChange changeKind = iota
	toShared
	toUnlocked
)

// end ends the change under way. If it is or may be made, the locks are noted so.
func (h *held) end(made bool) {
	if made {
		h.less.apply(h.part)
	}
	h.less = change{}
}

// apply makes the change to the locks of a part.
func (c change) apply(p *locks.Part) {
	switch c.kind {
	case toShared:
		for _, l := range slices.Collect(p.Within(c.r)) {
			p.Lock(l.Range, false)
		}
	case toUnlocked:
		p.Owner().Unlock(c.r)
	}
}

func (h *held) init() {
	h.turn = make(chan struct{}, 1)
	h.part = h.object.NewOwner(nil).NewPart()
}

// Lock locks the bytes of r for f, in place of f's earlier locks of them (RFC
// 8881, Section 18.10). The lock lasts until Unlock or Close, also over a restart
// of the server. Lock does not wait for other locks: the error is then
// NFS4ERR_DENIED, which is syscall.EAGAIN. If ctx ends, the bytes may be locked
// until Close, and those that were to become shared may be.
func (f *File) Lock(ctx context.Context, r Range, exclusive bool) error {
	args := nfs4.LockArgs{Type: nfs4.LockRead, Offset: r.Start, Length: lengthOf(r), Owner: nfs4.StateOwner{Owner: f.owner[:]}}
	if exclusive {
		args.Type = nfs4.LockWrite
	}
	less := change{r: r}
	if !exclusive {
		less.kind = toShared
	}
	var res nfs4.LockRes
	return f.locking(ctx, less, func(c *Compound, open, lock nfs4.StateID) bool {
		if args.New = lock == (nfs4.StateID{}); args.New {
			lock = open
		}
		args.StateID = current(lock)
		c.Add(nfs4.OpLock, &args, &res)
		return true
	}, func() {
		f.held.id = res.StateID
		f.held.part.Lock(r, exclusive)
	})
}

// Unlock unlocks the bytes of r that f has locked (RFC 8881, Section 18.12). If ctx
// ends, the bytes may be locked until Close, but not after a restart of the server.
func (f *File) Unlock(ctx context.Context, r Range) error {
	args := nfs4.LockUArgs{Type: nfs4.LockWrite, Offset: r.Start, Length: lengthOf(r)}
	var res nfs4.StateIDRes
	return f.locking(ctx, change{r, toUnlocked}, func(c *Compound, _, lock nfs4.StateID) bool {
		args.StateID = current(lock)
		c.Add(nfs4.OpLockU, &args, &res)
		return lock != (nfs4.StateID{})
	}, func() {
		f.held.id = res.StateID
		f.held.part.Owner().Unlock(r)
	})
}

// lengthOf returns the length of r in a call, in which all ones mean to the end.
func lengthOf(r Range) uint64 {
	if r.End == ToEnd {
		return ToEnd
	}
	return r.End - r.Start + 1
}

// locking makes a LOCK or a LOCKU until the server in force has answered it: a
// repetition does no harm. add adds the operation, or reports that it is not
// needed. done notes its success. If the server restarts meanwhile, what less takes
// away is not reclaimed, for others may have it.
func (f *File) locking(ctx context.Context, less change, add func(c *Compound, open, lock nfs4.StateID) bool, done func()) error {
	select {
	case f.held.turn <- struct{}{}: // so that f notes locks in the order in which the server made them
		defer func() { <-f.held.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c := f.s.compound()
	defer f.s.put(c)
	f.mu.Lock()
	f.held.less = less
	f.mu.Unlock()
	made := true // or perhaps
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held.end(made)
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
		err = f.s.Do(ctx, c)
		switch {
		case err == nil && f.note(c.epoch, done):
			return nil
		case err == nil, errors.Is(err, ErrUncertain), f.renewed(err, epoch):
		default:
			made = !refused(err)
			return err
		}
	}
}

// lockState returns the stateids of the open and of its locks.
func (f *File) lockState() (open, lock nfs4.StateID, epoch uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id, f.held.id, f.epoch, f.err
}

// note notes the success of a LOCK or a LOCKU. It refuses that after a restart
// of the server: the reclaim may have begun without it.
func (f *File) note(epoch uint64, done func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.s.listed.Load() != epoch {
		return false
	}
	done()
	return true
}

// toReclaim returns the locks of f, of which others can have none.
func (f *File) toReclaim() []locks.Lock {
	var kept locks.Object
	part := kept.NewOwner(nil).NewPart()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held.object.Union(Range{End: ToEnd}, func(r Range, exclusive bool) bool {
		part.Lock(r, exclusive)
		return true
	})
	f.held.less.apply(part)
	return slices.Collect(part.Within(Range{End: ToEnd}))
}

// locked reports whether f has locks, of which others can have none.
func (f *File) locked() bool { return len(f.toReclaim()) > 0 }

// relock reclaims the locks of f through an open that was reclaimed (RFC 8881,
// Section 8.4.2.1). It returns the stateid of the locks.
func (f *File) relock(ctx context.Context, g *generation, open nfs4.StateID) (id nfs4.StateID, err error) {
	all := f.toReclaim()
	c := f.s.compound()
	defer f.s.put(c)
	for i, l := range all {
		args := nfs4.LockArgs{Type: nfs4.LockRead, Reclaim: true, Offset: l.Start, Length: lengthOf(l.Range), StateID: current(id)}
		if l.Exclusive {
			args.Type = nfs4.LockWrite
		}
		if args.New = i == 0; args.New {
			args.StateID, args.Owner = current(open), nfs4.StateOwner{Owner: f.owner[:]}
		}
		var res nfs4.LockRes
		c.Reset()
		c.PutFH(f.fh)
		c.Add(nfs4.OpLock, &args, &res)
		if err := f.s.within(ctx, g, c); err != nil {
			return id, err
		}
		id = res.StateID
	}
	return id, nil
}

// release closes an open on the server of which f makes no use, because its
// locks are lost.
func (f *File) release(ctx context.Context, g *generation, open nfs4.StateID) error {
	c := f.s.compound()
	defer f.s.put(c)
	c.PutFH(f.fh)
	c.Add(nfs4.OpClose, &nfs4.CloseArgs{StateID: open}, new(nfs4.StateIDRes))
	if err := f.s.within(ctx, g, c); !refused(err) {
		return err
	}
	return nil
}

// lockLost returns the error of a file whose locks the server has not given back
// for a reason.
func lockLost(reason error) error { return fmt.Errorf("%w: %w", ErrLockLost, reason) }
