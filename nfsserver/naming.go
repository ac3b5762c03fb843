package nfsserver

import (
	"cmp"
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// The object behind a name is looked up before the name is changed, because a
// client may hold a delegation of the object. The name stays locked from then
// until the change has been made; otherwise one of two concurrent changes could
// affect an object that only the other has announced. No request waits for a
// client while it holds a lock.
//
//	lock ─▶ look up ─▶ begin ─ready─▶ change, unlock
//	 ▲                   │
//	 └── wait ◀─ unlock ─┘

// A place is a name in a directory.
type place struct {
	dir  vfs.Handle
	name string
}

// beforeNames locks one or two names, and calls begin to look up the objects
// there and announce the change.
func (q *request) beforeNames(ctx context.Context, a, b place, begin func() (ready bool, _ nfs3.Status)) nfs3.Status {
	if q.export.keys == nil || q.server.grants == nil {
		return nfs3.OK
	}
	for {
		if status := q.lock(a, b); status != nfs3.OK {
			return status
		}
		if q.blind() {
			return nfs3.OK
		}
		ready, status := begin()
		if ready || status != nfs3.OK {
			return status
		}
		q.server.changing.unlock(&q.locked)
		if status := q.await(ctx); status != nfs3.OK {
			return status
		}
	}
}

// lock locks names until the request ends.
func (q *request) lock(a, b place) nfs3.Status {
	var names [2]uint64
	for i, p := range [...]place{a, b} {
		dir, err := q.keyOf(p.dir)
		if err != nil && !errors.Is(err, syscall.EOPNOTSUPP) {
			return q.status(err)
		}
		names[i] = q.server.changing.number(dir, p.name)
	}
	q.server.changing.lock(&q.locked, names)
	return nfs3.OK
}

// lookupOptional looks up a name that need not exist.
func (q *request) lookupOptional(ctx context.Context, p place) (h vfs.Handle, attr vfs.MaybeAttr, found bool, _ nfs3.Status) {
	h, attr, _, err := q.export.fs.Lookup(ctx, &q.cred, p.dir, p.name)
	if errors.Is(err, syscall.ENOENT) {
		return h, attr, false, nfs3.OK
	}
	return h, attr, err == nil, q.status(err)
}

// beginNames announces a change of directories and of objects found in them by
// name. The objects may differ from those the client expects, so the client's
// own delegations of them are recalled too.
func (q *request) beginNames(dirs, found []vfs.Handle) (ready bool, status nfs3.Status) {
	ready, status = q.begin(q.call.Peer, dirs)
	if status != nfs3.OK {
		return false, status
	}
	others, status := q.begin(nil, found)
	return ready && others, status
}

// beforeUnlink is beforeSetAttr for REMOVE and RMDIR: for the directory and the
// removed object. If the name does not exist, the file system refuses the call,
// here and below.
func (q *request) beforeUnlink(ctx context.Context, p place) nfs3.Status {
	return q.beforeNames(ctx, p, p, func() (bool, nfs3.Status) {
		h, attr, found, status := q.lookupOptional(ctx, p)
		if !found {
			return true, status
		}
		if status := q.mayTake(ctx, p.dir, attr); status != nfs3.OK {
			return false, status
		}
		return q.beginNames([]vfs.Handle{p.dir}, []vfs.Handle{h})
	})
}

// beforeRename is beforeSetAttr for RENAME: for both directories, for the
// renamed object, whose ctime and perhaps ".." change, and for an object that
// has the new name.
func (q *request) beforeRename(ctx context.Context, from, to place) nfs3.Status {
	return q.beforeNames(ctx, from, to, func() (bool, nfs3.Status) {
		h, attr, found, status := q.lookupOptional(ctx, from)
		if !found {
			return true, status
		}
		objects := []vfs.Handle{h}
		other, over, found, status := q.lookupOptional(ctx, to)
		if status != nfs3.OK {
			return false, status
		}
		if status := cmp.Or(q.mayTake(ctx, from.dir, attr), q.mayTake(ctx, to.dir, over)); status != nfs3.OK {
			if found && other == h { // nothing changes, so every caller may do it
				return true, nfs3.OK
			}
			return false, status
		}
		if found {
			objects = append(objects, other)
		}
		return q.beginNames([]vfs.Handle{from.dir, to.dir}, objects)
	})
}

// beforeLink is beforeSetAttr for LINK: for the file and the directory.
func (q *request) beforeLink(ctx context.Context, file vfs.Handle, p place) nfs3.Status {
	return q.beforeNames(ctx, p, p, func() (bool, nfs3.Status) {
		if _, _, found, status := q.lookupOptional(ctx, p); found || status != nfs3.OK {
			return true, status
		}
		if q.barred(ctx, p.dir, vfs.TypeDir) {
			return false, nfs3.ErrAcces
		}
		return q.begin(q.call.Peer, []vfs.Handle{file, p.dir})
	})
}

// A taken is the effect of a procedure that makes an object on an existing
// object of that name.
type taken uint8

const (
	leaves taken = iota // the object is unchanged
	cuts                // the size of a file is set
)

// beforeMake is beforeSetAttr for CREATE, MKDIR, SYMLINK and MKNOD: for the
// directory, or for an existing object.
func (q *request) beforeMake(ctx context.Context, p place, to taken) nfs3.Status {
	return q.beforeNames(ctx, p, p, func() (bool, nfs3.Status) {
		h, attr, found, status := q.lookupOptional(ctx, p)
		if attr.OK && attr.Type != vfs.TypeReg {
			to = leaves // only regular files have a size to set
		}
		switch {
		case found && to == cuts:
			return q.begin(nil, []vfs.Handle{h})
		case found || status != nfs3.OK:
			return true, status
		case q.barred(ctx, p.dir, vfs.TypeDir):
			return false, nfs3.ErrAcces
		}
		return q.begin(q.call.Peer, []vfs.Handle{p.dir})
	})
}
