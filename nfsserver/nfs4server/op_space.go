package nfs4server

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// checkRegularFile checks the object of an operation that returns NFS4ERR_WRONG_TYPE for all
// objects but regular files (RFC 7862, Sections 15.1.3, 15.2.3, 15.4.3 and 15.13.3), and
// returns its attributes.
func (x *compound) checkRegularFile(ctx context.Context, o *object) (vfs.Attr, nfs4.Status) {
	if o.node != nil {
		return vfs.Attr{}, nfs4.ErrWrongType
	}
	attr, status := x.getAttr(ctx, o)
	if status == nfs4.OK && checkRegular(&attr) != nfs4.OK {
		status = nfs4.ErrWrongType
	}
	return attr, status
}

// beginWrite checks whether the client may write to the current object with a stateid, and
// announces the change. It returns the open file, or nil to use the handle. The caller must
// call finishFile.
func (x *compound) beginWrite(ctx context.Context, id *nfs4.StateID) (*exportset.File, nfs4.Status) {
	if status := x.checkWritable(&x.current); status != nfs4.OK {
		return nil, status
	}
	opened, status := x.checkStateID(ctx, id, nfs4.ShareWrite)
	if status != nfs4.OK {
		return nil, status
	}
	f := x.current.use.FileOf(opened, vfs.OpenWrite)
	if err := x.announceWrite(ctx, opened, f); err != nil {
		finishFile(f)
		return nil, x.toStatus(err)
	}
	return f, nfs4.OK
}

// finishFile calls Done unless f is nil.
func finishFile(f *exportset.File) {
	if f != nil {
		f.Done()
	}
}

// withoutLocked converts the status of a share denial for operations without NFS4ERR_LOCKED
// (RFC 7862, Section 11.2).
func withoutLocked(status nfs4.Status) nfs4.Status {
	if status == nfs4.ErrLocked {
		return nfs4.ErrAccess
	}
	return status
}

// serveAllocate implements ALLOCATE (RFC 7862, Section 15.1), and serveDeallocate DEALLOCATE
// (15.4).
func serveAllocate(ctx context.Context, x *compound) nfs4.Status {
	return x.changeSpace(ctx, vfs.Spacer.Allocate)
}

func serveDeallocate(ctx context.Context, x *compound) nfs4.Status {
	return x.changeSpace(ctx, vfs.Spacer.Deallocate)
}

func (x *compound) changeSpace(ctx context.Context, change func(s vfs.Spacer, ctx context.Context, c *vfs.Cred, p vfs.Part, n uint64) error) nfs4.Status {
	var a nfs4.RangeArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	_, status := x.checkRegularFile(ctx, &x.current)
	switch {
	case status != nfs4.OK:
		return status
	case x.current.use.Export.Spacer == nil:
		return nfs4.ErrNotSupp
	case a.Length == 0 || a.Offset+a.Length < a.Offset:
		return nfs4.ErrInval
	}
	f, status := x.beginWrite(ctx, &a.StateID)
	if status != nfs4.OK {
		return withoutLocked(status)
	}
	defer finishFile(f)
	u := x.current.use
	return x.appendStatus(x.toStatus(change(u.Export.Spacer, ctx, &u.Cred, f.Part(x.current.h, a.Offset), a.Length)))
}

// beginRead checks the current object and the stateid of an operation that reads as READ does.
// It returns the object's attributes and the open file, or nil to use the handle. The caller
// must call finishFile.
func (x *compound) beginRead(ctx context.Context, id *nfs4.StateID) (vfs.Attr, *exportset.File, nfs4.Status) {
	if status := x.checkFile(ctx); status != nfs4.OK {
		return vfs.Attr{}, nil, status
	}
	attr, status := x.getAttr(ctx, &x.current)
	if status == nfs4.OK {
		status = checkRegular(&attr)
	}
	if status != nfs4.OK {
		return attr, nil, status
	}
	opened, status := x.checkReadStateID(ctx, &x.current, &x.specialUse, id, &attr)
	if status != nfs4.OK {
		return attr, nil, status
	}
	return attr, x.current.use.FileOf(opened, vfs.OpenRead), nfs4.OK
}

// seekContent returns the next data or hole in the current file, as vfs.Spacer does. Without a
// Spacer, the whole file is data.
func (x *compound) seekContent(ctx context.Context, f *exportset.File, a *vfs.Attr, off uint64, hole bool) (at uint64, eof bool, err error) {
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

// serveSeek implements SEEK (RFC 7862, Section 15.11).
func serveSeek(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.SeekArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.What > nfs4.ContentHole:
		return nfs4.ErrUnionNotSupp
	}
	attr, f, status := x.beginRead(ctx, &a.StateID)
	if status != nfs4.OK {
		return status
	}
	defer finishFile(f)
	at, eof, err := x.seekContent(ctx, f, &attr, a.Offset, a.What == nfs4.ContentHole)
	switch {
	case errors.Is(err, syscall.ENXIO):
		return nfs4.ErrNXIO
	case err != nil:
		return x.toStatus(err)
	}
	res := nfs4.SeekRes{EOF: eof, Offset: at}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// adviceTable contains the IO_ADVISE hints that a file system may follow.
var adviceTable = [...]struct {
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

// serveIOAdvise implements IO_ADVISE (RFC 7862, Section 15.5). A stateid that does not let the
// client read is not an error: no hint is followed then.
func serveIOAdvise(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.IOAdviseArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	_, f, status := x.beginRead(ctx, &a.StateID)
	defer finishFile(f)
	res := nfs4.IOAdviseRes{}
	switch status {
	case nfs4.OK:
		if err := x.adviseFile(ctx, f, &a, &res.Hints); err != nil {
			return x.toStatus(err)
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

// adviseFile passes hints to the file system, and returns those that it follows.
func (x *compound) adviseFile(ctx context.Context, f *exportset.File, a *nfs4.IOAdviseArgs, followed *nfs4.Bitmap) error {
	u := x.current.use
	s := u.Export.Spacer
	if s == nil || a.Offset > exportset.MaxFileSize {
		return nil
	}
	for _, h := range adviceTable {
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
