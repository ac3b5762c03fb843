package copytree

import (
	"errors"
	"io/fs"
	"sync/atomic"
)

// A directory is a directory that is being copied. It gets its mode and times
// once nothing in it changes any more. On a nil *directory wait and done do
// nothing.
type directory struct {
	c        *Copier
	parent   *directory
	from, to Tree
	entry    entry
	made     bool         // by this copy
	left     atomic.Int32 // unfinished work in it: the walk, its directories, its jobs
}

func (d *directory) wait() {
	if d != nil {
		d.left.Add(1)
	}
}

// done ends a wait.
func (d *directory) done() {
	for ; d != nil && d.left.Add(-1) == 0; d = d.parent {
		d.finish()
	}
}

func (d *directory) finish() {
	defer d.from.close()
	defer d.to.close()
	ch := d.c.change(&d.entry, d.to, d.made)
	if d.c.ctx.Err() != nil || !ch.setMode && !ch.setTimes {
		return
	}
	if err := d.to.set(d.c.ctx, ch); err != nil {
		d.c.Fail(d.to.Explain("", err))
	}
}

// dir copies a directory.
func (c *Copier) dir(from Tree, e entry, to Tree, target string, parent *directory) {
	if c.made[e.id] {
		c.Fail(from.Explain(e.path, errors.New("not copied: it is the destination itself")))
		return
	}
	made, err := c.makeDir(to, target, e.mode&^c.cfg.Umask&0o777|0o700, parent == nil)
	if err != nil {
		c.Fail(to.Explain(target, err))
		return
	}
	d := &directory{c: c, parent: parent, entry: e, made: made}
	if d.from, err = from.sub(c.ctx, e.path, false); err != nil {
		c.Fail(from.Explain(e.path, err))
		return
	}
	if d.to, err = to.sub(c.ctx, target, made); err != nil {
		d.from.close()
		c.Fail(to.Explain(target, err))
		return
	}
	parent.wait()
	d.wait()
	defer d.done()
	for child, err := range d.from.list(c.ctx) {
		if err != nil {
			c.Fail(d.from.Explain(child.path, err))
		} else {
			c.object(d.from, child, d.to, child.path, d)
		}
		if c.ctx.Err() != nil {
			return
		}
	}
}

// makeDir makes a directory, unless path is one already.
func (c *Copier) makeDir(to Tree, path string, mode uint32, top bool) (made bool, err error) {
	made = true
	err = to.mkdir(c.ctx, path, mode)
	if top || errors.Is(err, fs.ErrExist) {
		e, serr := to.stat(c.ctx, path, top)
		if serr == nil && e.kind.IsDir() {
			made, err = err == nil, nil
			c.noteMade(e.id)
		}
	}
	return made, err
}

// noteMade records a destination directory. A source that contains its own
// destination would otherwise be copied for ever.
func (c *Copier) noteMade(id fileID) {
	if id != (fileID{}) {
		c.made[id] = true
	}
}
