package nfs4server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Extended attributes (RFC 8276). A pseudo node can have none, but behaves like an object
// without any: Linux queries only the tree's root to find out whether a server supports them,
// and applies the result to all file systems.

// checkXattrs returns OK if the current object may have extended attributes, and checks a key
// unless it is nil.
func (x *compound) checkXattrs(ctx context.Context, key []byte) nfs4.Status {
	if x.current.node == nil {
		if err := x.current.use.Export.TriggerAutomount(); err != nil {
			return x.toStatus(err)
		}
		if x.current.use.Export.Xattrs == nil {
			return nfs4.ErrNotSupp
		}
		a, status := x.getAttr(ctx, &x.current)
		switch {
		case status != nfs4.OK:
			return status
		case a.Type != vfs.TypeReg && a.Type != vfs.TypeDir:
			return nfs4.ErrWrongType
		}
	}
	switch {
	case key == nil:
		return nfs4.OK
	case len(key) == 0:
		return nfs4.ErrInval
	case len(key) > vfs.MaxXattrName:
		return nfs4.ErrNameTooLong
	}
	return nfs4.OK
}

// xattrStatus returns the status for a file system error about an extended attribute.
func (x *compound) xattrStatus(err error) nfs4.Status {
	switch {
	case errors.Is(err, syscall.ENODATA):
		return nfs4.ErrNoXattr
	case errors.Is(err, syscall.E2BIG):
		return nfs4.ErrXattr2Big
	case errors.Is(err, syscall.ERANGE):
		return nfs4.ErrNameTooLong
	case errors.Is(err, syscall.EPERM):
		return nfs4.ErrPerm
	}
	return x.toStatus(err)
}

// serveGetXattr implements GETXATTR (RFC 8276, Section 8.4.1).
func serveGetXattr(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.checkXattrs(ctx, a.Name); status != nfs4.OK {
		return status
	}
	if x.current.node != nil {
		return nfs4.ErrNoXattr
	}
	u := x.current.use
	value, err := u.Export.Xattrs.GetXattr(ctx, &u.Cred, x.current.h, string(a.Name))
	if err != nil {
		return x.xattrStatus(err)
	}
	res := nfs4.GetXattrRes{Value: value}
	if status := x.reserveResults(4 + nfs4.XattrLen(len(value))); status != nfs4.OK {
		return status
	}
	mark := len(x.out)
	x.out = res.AppendTo(x.out)
	if x.bytesLeft() < 0 {
		status := x.tooBigStatus()
		x.out = x.out[:mark]
		return status
	}
	return nfs4.OK
}

// serveSetXattr implements SETXATTR (RFC 8276, Section 8.4.2).
func serveSetXattr(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.SetXattrArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case len(a.Value) > vfs.MaxXattrValue:
		return nfs4.ErrXattr2Big
	}
	return x.changeXattr(ctx, a.Key, func(u *exportUse) (vfs.WCC, error) {
		return u.Export.Xattrs.SetXattr(ctx, &u.Cred, x.current.h, string(a.Key), a.Value, vfs.XattrHow(a.How))
	})
}

// serveRemoveXattr implements REMOVEXATTR (RFC 8276, Section 8.4.4).
func serveRemoveXattr(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	return x.changeXattr(ctx, a.Name, func(u *exportUse) (vfs.WCC, error) {
		return u.Export.Xattrs.RemoveXattr(ctx, &u.Cred, x.current.h, string(a.Name))
	})
}

// changeXattr announces and makes a change to an extended attribute.
func (x *compound) changeXattr(ctx context.Context, key []byte, change func(u *exportUse) (vfs.WCC, error)) nfs4.Status {
	if status := x.checkXattrs(ctx, key); status != nfs4.OK {
		return status
	}
	if status := x.checkWritable(&x.current); status != nfs4.OK {
		return status
	}
	u := x.current.use
	if err := u.BeforeSetXattr(ctx, x.current.h); err != nil {
		return x.toStatus(err)
	}
	wcc, err := change(u)
	if err != nil {
		return x.xattrStatus(err)
	}
	res := nfs4.ChangeRes{Dir: changeInfo(u, &wcc)}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// A xattrName is a key in a listing. Keys are listed in the order of numbers derived only from
// the keys, so that a cookie keeps its position whichever keys are added or removed, even
// across a restart.
type xattrName struct {
	cookie uint64
	name   string
}

func sortByCookie(names []string) []xattrName {
	out := make([]xattrName, len(names))
	for i, name := range names {
		sum := sha256.Sum256([]byte(name))
		out[i] = xattrName{max(1, binary.BigEndian.Uint64(sum[:])), name} // 0 is the start
	}
	slices.SortFunc(out, func(a, b xattrName) int { return cmp.Compare(a.cookie, b.cookie) })
	return out
}

// serveListXattrs implements LISTXATTRS (RFC 8276, Section 8.4.3).
func serveListXattrs(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.ListXattrsArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.checkXattrs(ctx, nil)
	if status != nfs4.OK && status != nfs4.ErrWrongType {
		return status
	}
	var names []string
	// Objects of other types have an empty list, as on a host: Linux requests it, and would
	// turn an error into EIO.
	if x.current.node == nil && status == nfs4.OK {
		var err error
		u := x.current.use
		if names, err = u.Export.Xattrs.ListXattrs(ctx, &u.Cred, x.current.h); err != nil {
			return x.xattrStatus(err)
		}
	}
	limit := min(int64(a.MaxCount), int64(x.bytesLeft()-4))
	if x.afterItem {
		limit = min(limit, maxUnreserved)
	}
	res := nfs4.ListXattrsRes{Cookie: a.Cookie, EOF: true}
	n := int64(nfs4.XattrsLen)
	for _, k := range sortByCookie(names) {
		if k.cookie <= a.Cookie {
			continue
		}
		if n += int64(nfs4.XattrLen(len(k.name))); n > limit {
			res.EOF = false
			break
		}
		res.Names, res.Cookie = append(res.Names, []byte(k.name)), k.cookie
	}
	if nfs4.XattrsLen > limit || !res.EOF && len(res.Names) == 0 {
		return nfs4.ErrTooSmall
	}
	if !x.afterItem {
		x.reserveMemory(int(min(n, limit)) + 4)
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}
