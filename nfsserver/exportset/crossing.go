package exportset

import (
	"context"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// NFSv4 clients see every export below another, in the tree of all exports. NFSv3 clients see one
// only if the upper export has crossmnt or the lower one nohide, as with knfsd: LOOKUP then crosses
// from one export into the other.

// FindCrossing returns the export into which an NFSv3 LOOKUP of a name in a directory of the entered
// export crosses, or nil. It compares names first: only one that leads to an export costs calls to
// the file system.
func (q *Request) FindCrossing(ctx context.Context, dir vfs.Handle, name []byte) *Exported {
	e := q.Export
	if string(name) == ".." {
		if e.upper != nil && dir == e.FS.Root() && q.seesBelow(ctx, e.upper, e) {
			return e.upper
		}
		return nil
	}
	if !q.MayCross(name) {
		return nil
	}
	return q.findBelow(ctx, &e.nested, nil, dir, name)
}

func (q *Request) findBelow(ctx context.Context, s *pathStep, names []string, dir vfs.Handle, name []byte) *Exported {
	for _, next := range s.steps {
		if next.export == nil {
			path := append(names[:len(names):len(names)], next.name)
			if found := q.findBelow(ctx, next, path, dir, name); found != nil {
				return found
			}
			continue
		}
		if next.name != string(name) || !q.seesBelow(ctx, q.Export, next.export) {
			continue
		}
		if h, err := lookupPath(ctx, q.Export.FS, names); err == nil && h == dir {
			return next.export
		}
	}
	return nil
}

// lookupPath looks up a path below the root of fs as the superuser.
func lookupPath(ctx context.Context, fs vfs.FS, names []string) (h vfs.Handle, err error) {
	h = fs.Root()
	for _, name := range names {
		if h, _, _, err = fs.Lookup(ctx, &superuser, h, name); err != nil {
			return h, err
		}
	}
	return h, nil
}

// seesBelow reports whether the client sees an export in the one above it.
func (q *Request) seesBelow(ctx context.Context, upper, lower *Exported) bool {
	v := q.set.accessFor(ctx, q.peer, q.snapshot, lower)
	if _, err := v.forFlavor(q.caller.Flavor); err != nil && err != Later && !IsSecurityDenial(err) {
		return false
	}
	if lower.IsSubmount() || v.clientOptions != nil && v.clientOptions.NoHide {
		return true
	}
	o := q.set.accessFor(ctx, q.peer, q.snapshot, upper).clientOptions
	return o != nil && crossesMounts(o)
}

// MayCross reports whether a name may lead from the entered export into another. It calls no file
// system.
func (q *Request) MayCross(name []byte) bool { return q.Export.nested.hasExport(name) }

func (s *pathStep) hasExport(name []byte) bool {
	for _, next := range s.steps {
		if next.export != nil && next.name == string(name) || next.export == nil && next.hasExport(name) {
			return true
		}
	}
	return false
}

// LookupAcross looks up a name that crosses into e, which FindCrossing has returned. It releases the
// call's permit, because a call that waited for two would keep the first from others.
func (q *Request) LookupAcross(ctx context.Context, e *Exported, name string) (h vfs.Handle, attr vfs.MaybeAttr, err error) {
	if err := q.checkCrossing(ctx, e); err != nil {
		return h, attr, err
	}
	if !e.enterCall() {
		return h, attr, Later // another snapshot is current already
	}
	defer e.leaveCall()
	q.ReleasePermit()
	runErr := q.set.RunWithPermit(ctx, q.peer, e, func() {
		h = e.FS.Root()
		if name == ".." {
			names := q.Export.namesBelow(e)
			if h, err = lookupPath(ctx, e.FS, names[:len(names)-1]); err != nil {
				return
			}
		}
		attr.Attr, err = e.FS.GetAttr(ctx, &q.Cred, h)
		attr.OK = err == nil
	})
	if runErr != nil {
		err = runErr
	}
	return h, attr, err
}

// checkCrossing returns the reason why the call may not cross into e, or nil.
func (q *Request) checkCrossing(ctx context.Context, e *Exported) error {
	o, err := q.set.accessFor(ctx, q.peer, q.snapshot, e).forFlavor(q.caller.Flavor)
	switch {
	case IsSecurityDenial(err):
		return Access
	case err == nil && o.Refer.Set():
		return Stale // NFSv3 has no referrals
	}
	return err
}
