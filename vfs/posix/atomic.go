//go:build linux

package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// expectReports registers the reports that a name change in o will cause, if the caller wants to
// know whether the change is atomic. o.wcc is held, and the caller reads o's attributes from before
// the change next. The result is nil if the directory is not watched; otherwise settleReports must
// follow.
func (f *FS) expectReports(ctx context.Context, o *object, due ...nameReport) *watchedDir {
	if !vfs.WantsAtomic(ctx) {
		return nil
	}
	if o.watched == nil || o.watched.isUnwatched() {
		o.watched = f.watchDir(o)
	}
	d := o.watched
	if d == nil {
		return nil
	}
	w := &f.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	d.expected, d.matched, d.cookie, d.unexpected = due, 0, 0, false
	return d
}

// beginNames is beginChange for a name change, with the reports that it will cause. endNames must
// follow, unless there is an error.
func (f *FS) beginNames(ctx context.Context, o *object, st *unix.Statx_t, due nameReport) (*watchedDir, error) {
	o.wcc.Lock()
	d := f.expectReports(ctx, o, due)
	if err := f.statOrStale(o, st); err != nil {
		d.settleReports()
		o.wcc.Unlock()
		return nil, err
	}
	o.changeBegun = attrs.beginChange(f.idOf(o.ino))
	return d, nil
}

func (f *FS) endNames(o *object, d *watchedDir) {
	d.settleReports()
	f.endChange(o)
}

// expectRename is expectReports for a rename, whose parts are reported in this order. In one
// directory left has both.
func (f *FS) expectRename(ctx context.Context, d *object, from string, e *object, to string) (left, came *watchedDir) {
	out, in := nameReport{unix.IN_MOVED_FROM, from}, nameReport{unix.IN_MOVED_TO, to}
	if d == e {
		return f.expectReports(ctx, d, out, in), nil
	}
	return f.expectReports(ctx, d, out), f.expectReports(ctx, e, in)
}

// settleReports ends what expectReports began. If isAtomic was not called, because the change
// failed, a report that matched came from another change.
func (d *watchedDir) settleReports() {
	if d == nil {
		return
	}
	w := &d.f.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.matched > 0 && !d.unwatched {
		d.bumpChange()
	}
	d.expected, d.matched = nil, 0
}

// isAtomic reports whether d's successful change is the only one since expectReports. after are the
// attributes read after it. same, if not nil, checks that the reports belong to this change: if
// not, the change attribute moves on.
func (d *watchedDir) isAtomic(after *vfs.MaybeAttr, same func() bool) bool {
	if d == nil {
		return false
	}
	w := &d.f.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.unwatched || d.matched == 0 || len(d.expected) > 0 || same != nil && !same() {
		return false // settleReports counts them
	}
	fresh := d.fresh
	d.matched, d.fresh = 0, false
	// A name change sets both times alike. The kernel does not report a change to mtime alone
	// as one.
	a := &after.Attr
	return !d.unexpected && !fresh && after.OK && a.Mtime == a.Ctime && d.f.isUnique(a)
}

// stillNames reports whether a name in e still belongs to the object that was renamed to it.
// The kernel reports two renames from elsewhere to one name, one after the other, as one.
func (f *FS) stillNames(e *object, name string, n *namedObject) bool {
	var st unix.Statx_t
	return f.statName(e, name, &st) == nil && st.Ino == n.st.Ino && f.isExported(&st)
}
