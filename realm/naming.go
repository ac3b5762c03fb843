package realm

import (
	"cmp"
	"context"
	"errors"
	"syscall"

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

// A Place is a name in a directory.
type Place struct {
	Dir  vfs.Handle
	Name string
}

// beforeNames locks one or two names, and calls begin to look up the named
// objects and to announce the change.
func (q *Request) beforeNames(ctx context.Context, a, b Place, begin func() (ready bool, _ error)) error {
	switch {
	case q.Export.Keys == nil:
		return nil
	case q.realm.trusted():
		return Later
	case q.realm.grants == nil && q.realm.holders == nil:
		return nil
	}
	for {
		if err := q.lock(a, b); err != nil {
			return err
		}
		if q.blind() {
			return nil
		}
		ready, err := begin()
		if ready || err != nil {
			return err
		}
		q.realm.changing.unlock(&q.locked)
		if err := q.await(ctx); err != nil {
			return err
		}
	}
}

// lock locks names until the request ends.
func (q *Request) lock(a, b Place) error {
	var names [2]uint64
	for i, p := range [...]Place{a, b} {
		dir, err := q.Key(p.Dir)
		if err != nil && !errors.Is(err, syscall.EOPNOTSUPP) {
			return err
		}
		names[i] = q.realm.changing.number(dir, p.Name)
	}
	q.realm.changing.lock(&q.locked, names)
	return nil
}

// lookupOptional looks up a name that need not exist.
func (q *Request) lookupOptional(ctx context.Context, p Place) (h vfs.Handle, attr vfs.MaybeAttr, found bool, _ error) {
	h, attr, _, err := q.Export.FS.Lookup(ctx, &q.Cred, p.Dir, p.Name)
	if errors.Is(err, syscall.ENOENT) {
		return h, attr, false, nil
	}
	return h, attr, err == nil, err
}

// free is begin for a name, and reports whether nobody holds the directory or the
// object, if there is one. If free returns false, the name may still be free. The
// caller's rights do not matter, since nobody is told of the change.
func (q *Request) free(p Place) bool {
	if q.Export.Names == nil || !q.beginFree(q.Client, p.Dir) {
		return false
	}
	var err error
	q.key, err = q.Export.Names.AppendKeyOf(q.key[:0], p.Dir, p.Name)
	return errors.Is(err, syscall.ENOENT) || err == nil && q.realm.holders.BeginFree(&q.change.holders, 0, q.key)
}

// beginFree is begin for an object that is probably free, as free is for a name.
func (q *Request) beginFree(client uint64, h vfs.Handle) bool {
	if !q.realm.grants.Blind(&q.change.grants) {
		return false
	}
	key, err := q.Key(h)
	return err == nil && q.realm.holders.BeginFree(&q.change.holders, client, key)
}

// beginNames announces a change of directories and of objects found in them by
// name. The objects may differ from those the client expects, so the client's
// own delegations of them are recalled too.
func (q *Request) beginNames(dirs, found []vfs.Handle) (ready bool, err error) {
	ready, err = q.begin(q.peer, dirs)
	if err != nil {
		return false, err
	}
	others, err := q.begin(nil, found)
	return ready && others, err
}

// BeforeUnlink is BeforeSetAttr for REMOVE and RMDIR: for the directory and the
// removed object. If the name does not exist, the file system refuses the call,
// here and below.
func (q *Request) BeforeUnlink(ctx context.Context, p Place) error {
	return q.beforeNames(ctx, p, p, func() (bool, error) {
		if q.free(p) {
			return true, nil
		}
		h, attr, found, err := q.lookupOptional(ctx, p)
		if !found {
			return true, err
		}
		if err := q.mayTake(ctx, p.Dir, attr); err != nil {
			return false, err
		}
		return q.beginNames([]vfs.Handle{p.Dir}, []vfs.Handle{h})
	})
}

// BeforeRename is BeforeSetAttr for RENAME: for both directories, for the
// renamed object, whose ctime and perhaps ".." change, and for an object that
// has the new name.
func (q *Request) BeforeRename(ctx context.Context, from, to Place) error {
	return q.beforeNames(ctx, from, to, func() (bool, error) {
		if q.free(from) && q.free(to) {
			return true, nil
		}
		h, attr, found, err := q.lookupOptional(ctx, from)
		if !found {
			return true, err
		}
		objects := []vfs.Handle{h}
		other, over, found, err := q.lookupOptional(ctx, to)
		if err != nil {
			return false, err
		}
		if err := cmp.Or(q.mayTake(ctx, from.Dir, attr), q.mayTake(ctx, to.Dir, over)); err != nil {
			if found && other == h { // nothing changes, so every caller may do it
				return true, nil
			}
			return false, err
		}
		if found {
			objects = append(objects, other)
		}
		return q.beginNames([]vfs.Handle{from.Dir, to.Dir}, objects)
	})
}

// BeforeLink is BeforeSetAttr for LINK: for the file and the directory.
func (q *Request) BeforeLink(ctx context.Context, file vfs.Handle, p Place) error {
	return q.beforeNames(ctx, p, p, func() (bool, error) {
		if q.free(p) && q.beginFree(q.Client, file) {
			return true, nil
		}
		if _, _, found, err := q.lookupOptional(ctx, p); found || err != nil {
			return true, err
		}
		if q.barred(ctx, p.Dir, vfs.TypeDir) {
			return false, Access
		}
		return q.begin(q.peer, []vfs.Handle{file, p.Dir})
	})
}

// A Taken is the effect of a procedure that makes an object on an existing
// object of that name.
type Taken uint8

const (
	Leaves Taken = iota // the object is unchanged
	Cuts                // the size of a file is set
)

// BeforeMake is BeforeSetAttr for CREATE, MKDIR, SYMLINK and MKNOD: for the
// directory, or for an existing object.
func (q *Request) BeforeMake(ctx context.Context, p Place, to Taken) error {
	return q.beforeNames(ctx, p, p, func() (bool, error) {
		if q.free(p) {
			return true, nil
		}
		h, attr, found, err := q.lookupOptional(ctx, p)
		if attr.OK && attr.Type != vfs.TypeReg {
			to = Leaves // only regular files have a size to set
		}
		switch {
		case found && to == Cuts:
			return q.begin(nil, []vfs.Handle{h})
		case found || err != nil:
			return true, err
		case q.barred(ctx, p.Dir, vfs.TypeDir):
			return false, Access
		}
		return q.begin(q.peer, []vfs.Handle{p.Dir})
	})
}
