package copytree

import (
	"errors"
	"io/fs"
	"path"
	"sync/atomic"
)

// A dirCopy is a directory that is being copied. It gets its mode and times once
// its content no longer changes. On a nil *dirCopy addWork and finishWork do
// nothing.
type dirCopy struct {
	c          *Copier
	parent     *dirCopy
	from, to   Tree
	entry      entry
	path       string       // relative to the source
	created    bool         // this copy created it
	unfinished atomic.Int32 // units of unfinished work in it: the walk, its directories, its jobs
}

func (d *dirCopy) addWork() {
	if d != nil {
		d.unfinished.Add(1)
	}
}

// finishWork ends one unit of work, and finishes each directory whose last one it
// was.
func (d *dirCopy) finishWork() {
	for ; d != nil && d.unfinished.Add(-1) == 0; d = d.parent {
		d.finishDir()
	}
}

func (d *dirCopy) finishDir() {
	defer d.from.close()
	defer d.to.close()
	if d.c.ctx.Err() != nil || d.c.cfg.DryRun != nil {
		return
	}
	if err := d.to.syncNames(d.c.ctx, "."); err != nil {
		d.c.Fail(d.to.Explain("", err))
	}
	ch := d.c.newAttrChange(&d.entry, d.to, d.created)
	if !ch.setMode && !ch.setTimes {
		return
	}
	if err := d.to.setAttr(d.c.ctx, ch); err != nil {
		d.c.Fail(d.to.Explain("", err))
	}
}

// copyDir copies a directory.
func (c *Copier) copyDir(from Tree, e entry, to Tree, target string, parent *dirCopy) {
	if c.destinations[e.id] {
		c.Fail(from.Explain(e.path, errors.New("not copied: it is the destination itself")))
		return
	}
	made, err := c.makeDir(from, e, to, target, parent == nil)
	if err != nil {
		c.Fail(to.Explain(target, err))
		return
	}
	d := &dirCopy{c: c, parent: parent, entry: e, created: made}
	if d.from, err = from.openSub(c.ctx, e.path, false); err != nil {
		c.Fail(from.Explain(e.path, err))
		return
	}
	switch {
	case parent == nil && made && c.cfg.DryRun == nil:
		err = to.syncNames(c.ctx, target)
	case parent != nil:
		d.path = path.Join(parent.path, e.path)
	}
	if err == nil && made && c.cfg.DryRun != nil {
		d.to = &absentTree{to, target}
	} else if err == nil {
		d.to, err = to.openSub(c.ctx, target, made)
	}
	if err != nil {
		d.from.close()
		c.Fail(to.Explain(target, err))
		return
	}
	c.warnDirectory(c.ctx, d.from)
	parent.addWork()
	d.addWork()
	defer d.finishWork()
	for child, err := range d.from.listEntries(c.ctx) {
		if err != nil {
			c.Fail(d.from.Explain(child.path, err))
		} else if c.cfg.Exclude == nil || !c.cfg.Exclude(path.Join(d.path, child.path)) {
			c.copyObject(d.from, child, d.to, child.path, d)
		}
		if c.ctx.Err() != nil {
			return
		}
	}
}

// makeDir creates a directory, unless path is one already.
func (c *Copier) makeDir(from Tree, source entry, to Tree, path string, top bool) (made bool, err error) {
	made = true
	if c.cfg.DryRun == nil {
		err = to.mkdir(c.ctx, path, source.mode&^c.cfg.Umask&0o777|0o700)
	} else if _, err = to.stat(c.ctx, path, top); err == nil {
		err = fs.ErrExist
	} else if errors.Is(err, fs.ErrNotExist) {
		c.showCopy(from, source.path, to, path)
		return true, nil
	}
	if top || errors.Is(err, fs.ErrExist) {
		e, serr := to.stat(c.ctx, path, top)
		if serr == nil && e.kind.IsDir() {
			made, err = err == nil, nil
			c.recordDestination(e.id)
		}
	}
	return made, err
}

// recordDestination records a destination directory. A source that contains its own
// destination would otherwise be copied forever.
func (c *Copier) recordDestination(id fileID) {
	if id.server != "" {
		c.destinations[id] = true
	}
}
