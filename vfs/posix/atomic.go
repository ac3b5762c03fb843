//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// expect tells the witness of the reports that a change of names in o will cause, if the
// caller wants to know whether the change is atomic. o.wcc is held, and o's attributes from
// before the change are read next. The result is nil if the directory is not watched;
// otherwise settle must follow.
func (f *FS) expect(ctx context.Context, o *object, due ...report) *watchedDir {
	if !vfs.WantsAtomic(ctx) {
		return nil
	}
	if o.watched == nil || o.watched.hasGone() {
		o.watched = f.watch(o)
	}
	d := o.watched
	if d == nil {
		return nil
	}
	w := &f.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	d.due, d.met, d.cookie, d.odd = due, 0, 0, false
	return d
}

// beginNames is beginChange for a change of names, with the reports that it will cause.
// endNames must follow, unless there is an error.
func (f *FS) beginNames(ctx context.Context, o *object, st *unix.Statx_t, due report) (*watchedDir, error) {
	o.wcc.Lock()
	d := f.expect(ctx, o, due)
	if err := f.stat(o, st); err != nil {
		d.settle()
		o.wcc.Unlock()
		return nil, err
	}
	o.begun = attrs.begin(f.idOf(o.ino))
	return d, nil
}

func (f *FS) endNames(o *object, d *watchedDir) {
	d.settle()
	f.endChange(o)
}

// expectRename is expect for a rename, whose parts are reported in this order. In one
// directory left has both.
func (f *FS) expectRename(ctx context.Context, d *object, from string, e *object, to string) (left, came *watchedDir) {
	out, in := report{unix.IN_MOVED_FROM, from}, report{unix.IN_MOVED_TO, to}
	if d == e {
		return f.expect(ctx, d, out, in), nil
	}
	return f.expect(ctx, d, out), f.expect(ctx, e, in)
}

// settle ends what expect has begun. If atomic was not called, because the change has failed,
// then a report that looked like its own was of somebody else's.
func (d *watchedDir) settle() {
	if d == nil {
		return
	}
	w := &d.f.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.met > 0 && !d.gone {
		d.count()
	}
	d.due, d.met = nil, 0
}

// atomic reports whether a change of d is the only one since expect. It has succeeded, and
// after are the attributes from after it. same, if not nil, looks whether the reports are of
// this change and no other: if not, the change attribute moves on.
func (d *watchedDir) atomic(after *vfs.MaybeAttr, same func() bool) bool {
	if d == nil {
		return false
	}
	w := &d.f.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.gone || d.met == 0 || len(d.due) > 0 || same != nil && !same() {
		return false // settle counts what there was
	}
	fresh := d.fresh
	d.met, d.fresh = 0, false
	// A change of names sets both times alike. The kernel does not report a change of
	// mtime alone as one.
	a := &after.Attr
	return !d.odd && !fresh && after.OK && a.Mtime == a.Ctime && d.f.unique(a)
}

// stillNames reports whether a name in e still belongs to the object that was renamed to it.
// The kernel reports two renames from elsewhere to one name, one after the other, as one.
func (f *FS) stillNames(e *object, name string, n *named) bool {
	var st unix.Statx_t
	return f.statName(e, name, &st) == nil && st.Ino == n.st.Ino && f.exported(&st)
}
