package nfs4server

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// regularFile checks the object of an operation that has NFS4ERR_WRONG_TYPE for
// all but regular files (RFC 7862, Sections 15.1.3, 15.2.3, 15.4.3 and
// 15.13.3), and returns its attributes.
func (x *compound) regularFile(ctx context.Context, o *object) (vfs.Attr, nfs4.Status) {
	if o.node != nil {
		return vfs.Attr{}, nfs4.ErrWrongType
	}
	attr, status := x.attr(ctx, o)
	if status == nfs4.OK && regular(&attr) != nfs4.OK {
		status = nfs4.ErrWrongType
	}
	return attr, status
}

// writeTo checks whether the client may write to the current object by a
// stateid, and announces the change. It returns the open file, or nil if calls
// by the handle must do. Done must follow.
func (x *compound) writeTo(ctx context.Context, id *nfs4.StateID) (*realm.File, nfs4.Status) {
	if status := x.mayChange(&x.current); status != nfs4.OK {
		return nil, status
	}
	opened, status := x.mayUse(ctx, id, nfs4.ShareWrite)
	if status != nfs4.OK {
		return nil, status
	}
	f := x.current.use.FileOf(opened, vfs.OpenWrite)
	if err := x.announceWrite(ctx, opened, f); err != nil {
		done(f)
		return nil, x.status(err)
	}
	return f, nfs4.OK
}

// done is Done of a File that may be nil.
func done(f *realm.File) {
	if f != nil {
		f.Done()
	}
}

// unlocked converts the status of a share denial for operations that have no
// NFS4ERR_LOCKED (RFC 7862, Section 11.2).
func unlocked(status nfs4.Status) nfs4.Status {
	if status == nfs4.ErrLocked {
		return nfs4.ErrAccess
	}
	return status
}

// allocate is ALLOCATE (RFC 7862, Section 15.1), and deallocate DEALLOCATE
// (15.4).
func allocate(ctx context.Context, x *compound) nfs4.Status {
	return x.changeSpace(ctx, vfs.Spacer.Allocate)
}

func deallocate(ctx context.Context, x *compound) nfs4.Status {
	return x.changeSpace(ctx, vfs.Spacer.Deallocate)
}

func (x *compound) changeSpace(ctx context.Context, change func(s vfs.Spacer, ctx context.Context, c *vfs.Cred, p vfs.Part, n uint64) error) nfs4.Status {
	var a nfs4.RangeArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	_, status := x.regularFile(ctx, &x.current)
	switch {
	case status != nfs4.OK:
		return status
	case x.current.use.Export.Spacer == nil:
		return nfs4.ErrNotSupp
	case a.Length == 0 || a.Offset+a.Length < a.Offset:
		return nfs4.ErrInval
	}
	f, status := x.writeTo(ctx, &a.StateID)
	if status != nfs4.OK {
		return unlocked(status)
	}
	defer done(f)
	u := x.current.use
	return x.done(x.status(change(u.Export.Spacer, ctx, &u.Cred, f.Part(x.current.h, a.Offset), a.Length)))
}

// toRead checks the current object of an operation that reads as READ does, and
// the stateid. It returns the object's attributes and the open file, or nil if
// calls by the handle must do. Done must follow.
func (x *compound) toRead(ctx context.Context, id *nfs4.StateID) (vfs.Attr, *realm.File, nfs4.Status) {
	if status := x.file(ctx); status != nfs4.OK {
		return vfs.Attr{}, nil, status
	}
	attr, status := x.attr(ctx, &x.current)
	if status == nfs4.OK {
		status = regular(&attr)
	}
	if status != nfs4.OK {
		return attr, nil, status
	}
	opened, status := x.mayRead(ctx, &x.current, &x.special, id, &attr)
	if status != nfs4.OK {
		return attr, nil, status
	}
	return attr, x.current.use.FileOf(opened, vfs.OpenRead), nfs4.OK
}

// nextContent returns the next data or hole of the current file, as vfs.Spacer does.
// Without one, all is data.
func (x *compound) nextContent(ctx context.Context, f *realm.File, a *vfs.Attr, off uint64, hole bool) (at uint64, eof bool, err error) {
	u := x.current.use
	if s := u.Export.Spacer; s != nil {
		at, eof, err = s.Seek(ctx, &u.Cred, f.Part(x.current.h, off), hole)
		if !errors.Is(err, syscall.EOPNOTSUPP) {
			return at, eof, err
		}
	}
	if _, _, err := x.readAt(ctx, f, &nfs4.ReadArgs{}, nil); err != nil { // checks the rights
		return 0, false, err
	}
	switch {
	case off >= a.Size:
		return 0, false, syscall.ENXIO
	case hole:
		return a.Size, true, nil
	}
	return off, false, nil
}

// seek is SEEK (RFC 7862, Section 15.11).
func seek(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.SeekArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.What > nfs4.ContentHole:
		return nfs4.ErrUnionNotSupp
	}
	attr, f, status := x.toRead(ctx, &a.StateID)
	if status != nfs4.OK {
		return status
	}
	defer done(f)
	at, eof, err := x.nextContent(ctx, f, &attr, a.Offset, a.What == nfs4.ContentHole)
	switch {
	case errors.Is(err, syscall.ENXIO):
		return nfs4.ErrNXIO
	case err != nil:
		return x.status(err)
	}
	res := nfs4.SeekRes{EOF: eof, Offset: at}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// hints are the hints of IO_ADVISE that a file system may follow.
var hints = [...]struct {
	hint   nfs4.Advice
	advice vfs.Advice
}{
	{nfs4.AdviseNormal, vfs.AdviseNormal},
	{nfs4.AdviseSequential, vfs.AdviseSequential},
	{nfs4.AdviseRandom, vfs.AdviseRandom},
	{nfs4.AdviseWillNeed, vfs.AdviseWillNeed},
	{nfs4.AdviseDontNeed, vfs.AdviseDontNeed},
	{nfs4.AdviseNoReuse, vfs.AdviseNoReuse},
}

// ioAdvise is IO_ADVISE (RFC 7862, Section 15.5). A stateid that does not let
// the client read is no error: nothing is followed.
func ioAdvise(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.IOAdviseArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	_, f, status := x.toRead(ctx, &a.StateID)
	defer done(f)
	res := nfs4.IOAdviseRes{}
	switch status {
	case nfs4.OK:
		if err := x.advise(ctx, f, &a, &res.Hints); err != nil {
			return x.status(err)
		}
	case nfs4.ErrOpenMode, nfs4.ErrLocked:
	default:
		return status
	}
	if res.Hints.Empty() {
		res.Hints = nfs4.BitmapOf(nfs4.AdviseNormal)
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// advise passes hints to the file system, and returns those that it follows.
func (x *compound) advise(ctx context.Context, f *realm.File, a *nfs4.IOAdviseArgs, followed *nfs4.Bitmap) error {
	u := x.current.use
	s := u.Export.Spacer
	if s == nil || a.Offset > realm.MaxFileSize {
		return nil
	}
	for _, h := range hints {
		one := nfs4.BitmapOf(h.hint)
		if !a.Hints.Any(&one) {
			continue
		}
		err := s.Advise(ctx, &u.Cred, f.Part(x.current.h, a.Offset), a.Count, h.advice)
		switch {
		case err == nil:
			followed.Words[0] |= one.Words[0]
		case !errors.Is(err, syscall.EOPNOTSUPP):
			return err
		}
	}
	return nil
}
