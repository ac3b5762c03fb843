package copytree

import (
	"context"
	"io/fs"
	"path"
)

// isUpToDate reports whether there, the object that a copy of e would replace, is a copy
// of e already.
func (c *Copier) isUpToDate(src openFile, e *entry, to Tree, there *entry) (bool, error) {
	if there == nil || !there.kind.IsRegular() || !e.kind.IsRegular() {
		return false, nil
	}
	switch {
	case c.cfg.Checksum:
		return c.hasSameContent(src, e, to, there)
	case c.cfg.Update:
		return !e.mtime.After(there.mtime), nil
	}
	return false, nil
}

func (c *Copier) hasSameContent(src openFile, e *entry, to Tree, there *entry) (bool, error) {
	if e.size != there.size {
		return false, nil
	}
	f, err := to.openFile(c.ctx, *there)
	if err != nil {
		return false, err
	}
	defer f.closeFile()
	same, err := equalLength(c.ctx, src, f, 0, e.size)
	return err == nil && same == e.size, err
}

// showCopy shows a copy that a dry run does not make.
func (c *Copier) showCopy(from Tree, path string, to Tree, target string) {
	c.bar.withoutBar(func() { c.cfg.DryRun(from.Name(path), to.Name(target)) })
}

// An absentTree is a directory that a dry run does not create.
type absentTree struct {
	Tree   // the nearest directory that exists
	prefix string
}

func (t *absentTree) stat(context.Context, string, bool) (entry, error) {
	return entry{}, fs.ErrNotExist
}

func (t *absentTree) openSub(_ context.Context, name string, _ bool) (Tree, error) {
	return &absentTree{t.Tree, path.Join(t.prefix, name)}, nil
}

func (t *absentTree) Explain(name string, err error) error {
	return t.Tree.Explain(path.Join(t.prefix, name), err)
}

func (t *absentTree) Name(name string) string { return t.Tree.Name(path.Join(t.prefix, name)) }
func (t *absentTree) isFresh() bool           { return true }
func (t *absentTree) close()                  {} // the caller closes the Tree
