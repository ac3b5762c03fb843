package exportset

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

// announceNames locks one or two names, and calls begin to look up the named objects and to
// announce the change.
func (q *Request) announceNames(ctx context.Context, a, b Place, begin func() (ready bool, _ error)) error {
	switch {
	case q.Export.Keys == nil:
		return nil
	case q.isDeferred(false):
		return Later
	case q.set.holders == nil:
		return nil
	}
	for {
		if err := q.lockNames(a, b); err != nil {
			return err
		}
		if q.isUndelegated() {
			return nil
		}
		ready, err := begin()
		if ready || err != nil {
			return err
		}
		q.set.nameLocks.unlockNames(&q.locked)
		if err := q.awaitHolders(ctx); err != nil {
			return err
		}
	}
}

// lockNames locks names until the request ends.
func (q *Request) lockNames(a, b Place) error {
	var names [2]uint64
	for i, p := range [...]Place{a, b} {
		dir, err := q.Key(p.Dir)
		if err != nil && !errors.Is(err, syscall.EOPNOTSUPP) {
			return err
		}
		names[i] = q.set.nameLocks.hashName(dir, p.Name)
	}
	q.set.nameLocks.lockNames(&q.locked, names)
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

// beginNameIfFree announces a change of a name if no client holds the directory or the object,
// if there is one, and reports whether it has. A result of false does not mean that the name is
// held. The caller's rights do not matter, because no client is notified of the change.
func (q *Request) beginNameIfFree(p Place) bool {
	if q.Export.Names == nil || !q.beginIfFree(q.Client, p.Dir) {
		return false
	}
	var err error
	q.keyBuf, err = q.Export.Names.AppendKeyOf(q.keyBuf[:0], p.Dir, p.Name)
	return errors.Is(err, syscall.ENOENT) || err == nil && q.set.holders.BeginFree(&q.change, 0, q.keyBuf)
}

// beginIfFree announces a change of an object if no client holds it, and reports whether it
// has.
func (q *Request) beginIfFree(client uint64, h vfs.Handle) bool {
	key, err := q.Key(h)
	return err == nil && q.set.holders.BeginFree(&q.change, client, key)
}

// beginNameChange announces a change of directories and of objects found in them by name. The
// objects may differ from those the client expects, so the client's own delegations of them are
// recalled too.
func (q *Request) beginNameChange(dirs, found []vfs.Handle) (ready bool, err error) {
	ready, err = q.beginChange(q.peer, dirs)
	if err != nil {
		return false, err
	}
	others, err := q.beginChange(nil, found)
	return ready && others, err
}

// BeforeUnlink is like BeforeSetAttr, but for REMOVE and RMDIR: for the directory and the
// removed object. If the name does not exist, the file system rejects the call, here and below.
// A name that leads to another export cannot be removed.
func (q *Request) BeforeUnlink(ctx context.Context, p Place) error {
	if err := q.checkNotNested(ctx, p); err != nil {
		return err
	}
	return q.announceNames(ctx, p, p, func() (bool, error) {
		if q.beginNameIfFree(p) {
			return true, nil
		}
		h, attr, found, err := q.lookupOptional(ctx, p)
		if !found {
			return true, err
		}
		if err := q.checkNameChange(ctx, p.Dir, attr); err != nil {
			return false, err
		}
		return q.beginNameChange([]vfs.Handle{p.Dir}, []vfs.Handle{h})
	})
}

// BeforeRename is like BeforeSetAttr, but for RENAME: for both directories, for the renamed
// object, whose ctime and perhaps ".." change, and for an object that has the new name. A name
// that leads to another export cannot be renamed.
func (q *Request) BeforeRename(ctx context.Context, from, to Place) error {
	for _, p := range []Place{from, to} {
		if err := q.checkNotNested(ctx, p); err != nil {
			return err
		}
	}
	return q.announceNames(ctx, from, to, func() (bool, error) {
		if q.beginNameIfFree(from) && q.beginNameIfFree(to) {
			return true, nil
		}
		h, attr, found, err := q.lookupOptional(ctx, from)
		if !found {
			return true, err
		}
		objects := []vfs.Handle{h}
		other, otherAttr, found, err := q.lookupOptional(ctx, to)
		if err != nil {
			return false, err
		}
		if found && other == h { // nothing changes, so every caller may do it
			return true, nil
		}
		if err := cmp.Or(q.checkNameChange(ctx, from.Dir, attr), q.checkNameChange(ctx, to.Dir, otherAttr)); err != nil {
			return false, err
		}
		if found {
			objects = append(objects, other)
		}
		return q.beginNameChange([]vfs.Handle{from.Dir, to.Dir}, objects)
	})
}

// BeforeLink is like BeforeSetAttr, but for LINK: for the file and the directory.
func (q *Request) BeforeLink(ctx context.Context, file vfs.Handle, p Place) error {
	if err := q.checkCreatesNoStep(ctx, p); err != nil {
		return err
	}
	return q.announceNames(ctx, p, p, func() (bool, error) {
		if q.beginNameIfFree(p) && q.beginIfFree(q.Client, file) {
			return true, nil
		}
		if _, _, found, err := q.lookupOptional(ctx, p); found || err != nil {
			return true, err
		}
		if q.isWriteDenied(ctx, p.Dir, vfs.TypeDir) {
			return false, Access
		}
		return q.beginChange(q.peer, []vfs.Handle{file, p.Dir})
	})
}

// A CreateEffect is the effect of a procedure that creates an object on an existing object with
// the same name.
type CreateEffect uint8

const (
	KeepObject   CreateEffect = iota // the object is unchanged
	TruncateFile                     // the size of a file is set
)

// BeforeMake is like BeforeSetAttr, but for CREATE, MKDIR, SYMLINK and MKNOD: for the
// directory, or for an existing object.
func (q *Request) BeforeMake(ctx context.Context, p Place, to CreateEffect) error {
	if err := q.checkCreatesNoStep(ctx, p); err != nil {
		return err
	}
	return q.announceNames(ctx, p, p, func() (bool, error) {
		if q.beginNameIfFree(p) {
			return true, nil
		}
		h, attr, found, err := q.lookupOptional(ctx, p)
		if attr.OK && attr.Type != vfs.TypeReg {
			to = KeepObject // only regular files have a size to set
		}
		switch {
		case found && to == TruncateFile:
			return q.beginChange(nil, []vfs.Handle{h})
		case found || err != nil:
			return true, err
		case q.isWriteDenied(ctx, p.Dir, vfs.TypeDir):
			return false, Access
		}
		return q.beginChange(q.peer, []vfs.Handle{p.Dir})
	})
}
