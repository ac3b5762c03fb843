package copytree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// linkedFiles holds the source files with several names. The first name that the
// walk finds is copied; the others become links to the copy.
type linkedFiles struct {
	mu  sync.Mutex
	all map[fileID]*linkedFile
}

// A linkedFile is a source file with several names.
type linkedFile struct {
	remaining uint32 // number of names that the walk has not found
	copying   bool   // a job copies the file
	copied    bool   // copy is a complete copy
	copy      destination
	waiting   []sourceName // found while the file was being copied
}

// A destination is a path in a destination tree.
type destination struct {
	to   Tree
	path string
}

// A sourceName is one name of a source file, and its destination.
type sourceName struct {
	from   Tree
	e      entry
	to     destination
	parent *dirCopy
}

// errNoLink means that a destination cannot have a hard link.
var errNoLink = errors.New("hard links are copied as separate files")

// copyLinkedObject copies a file with several names, or creates another name for
// its copy.
func (c *Copier) copyLinkedObject(n sourceName) {
	c.links.mu.Lock()
	l := c.links.all[n.e.id]
	switch {
	case l == nil && len(c.links.all) >= maxLinked:
		c.links.mu.Unlock()
		c.warnOnce(warnLinks, fmt.Errorf("more than %d files with several names: %w", maxLinked, errNoLink))
		c.startFileCopy(n.from, n.e, n.to.to, n.to.path, n.parent)
		return
	case l == nil:
		l = &linkedFile{remaining: n.e.nlink}
		c.links.all[n.e.id] = l
	}
	if l.remaining--; l.remaining == 0 {
		delete(c.links.all, n.e.id)
	}
	n.parent.addWork()
	switch {
	case l.copying:
		c.bar.addFile(0)
		l.waiting = append(l.waiting, n)
		c.links.mu.Unlock()
	case l.copied:
		c.links.mu.Unlock()
		c.bar.addFile(0)
		c.jobs.Go(func() error { c.linkToCopy(l, n); return nil })
	default:
		l.copying = true
		c.links.mu.Unlock()
		c.bar.addFile(n.e.size)
		c.jobs.Go(func() error { c.copyLinked(l, n); return nil })
	}
}

// copyLinked copies a file, and then creates the other names that the walk has
// found. If copying fails, the next name is copied instead.
func (c *Copier) copyLinked(l *linkedFile, n sourceName) {
	for more := true; more; {
		copied := c.copyName(n)
		n.parent.finishWork()
		c.links.mu.Lock()
		waiting := l.waiting
		if more = !copied && len(waiting) > 0; more {
			n, l.waiting = waiting[0], waiting[1:]
			c.links.mu.Unlock()
			continue
		}
		l.copying, l.copied, l.copy, l.waiting = false, copied, n.to, nil
		c.links.mu.Unlock()
		for _, n := range waiting {
			c.linkToCopy(l, n)
		}
	}
}

// copyName copies the file at a name, and reports whether the copy is complete.
func (c *Copier) copyName(n sourceName) bool {
	if c.ctx.Err() != nil {
		return false
	}
	weight := c.memoryWeight(&n.e)
	if c.memory.Acquire(c.ctx, weight) != nil {
		return false // ctx has ended
	}
	defer c.memory.Release(weight)
	if err := c.copyFile(n.from, n.e, n.to.to, n.to.path); err != nil {
		c.Fail(err)
		return false
	}
	return true
}

// linkToCopy creates another name for a file that has been copied.
func (c *Copier) linkToCopy(l *linkedFile, n sourceName) {
	defer n.parent.finishWork()
	if c.ctx.Err() != nil {
		return
	}
	to := n.to.to
	err := to.link(c.ctx, l.copy, n.to.path)
	if errors.Is(err, fs.ErrExist) {
		err = c.replaceByLink(l, n)
	}
	switch {
	case err == nil:
		c.bar.countFile()
	case cannotLink(err):
		c.warnOnce(warnLinks, to.Explain(n.to.path, fmt.Errorf("%w: %w", errNoLink, err)))
		c.copyName(n)
	default:
		c.Fail(to.Explain(n.to.path, err))
	}
}

// replaceByLink removes the object at a name, unless it is up to date, and makes the
// name a link to the copied file. The object may be the copy itself: sources with the
// same name have the same destination.
func (c *Copier) replaceByLink(l *linkedFile, source sourceName) error {
	n := source.to
	there, err := n.to.stat(c.ctx, n.path, false)
	if err != nil {
		return err
	}
	if there.kind.IsDir() {
		return unix.EISDIR
	}
	first, err := l.copy.to.stat(c.ctx, l.copy.path, false)
	switch {
	case err != nil && n.path == l.copy.path:
		return errNoLink // it may be the copy, whose directory may be closed
	case err == nil && first.id == there.id:
		return nil
	}
	src, err := source.from.openFile(c.ctx, source.e)
	if err != nil {
		return err
	}
	defer src.closeFile()
	if same, err := c.isUpToDate(src, &source.e, n.to, &there); err != nil || same {
		return err
	}
	if err := n.to.remove(c.ctx, n.path); err != nil {
		return err
	}
	return n.to.link(c.ctx, l.copy, n.path)
}

// cannotLink reports whether an error means that the file cannot have the name, but
// a copy may.
func cannotLink(err error) bool {
	for _, cause := range []error{errNoLink, unix.EXDEV, unix.EMLINK, unix.EPERM, unix.EOPNOTSUPP} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

func (t *hostTree) link(_ context.Context, first destination, path string) error {
	from, ok := first.to.(*hostTree)
	if !ok || from.top != t.top {
		return errNoLink // the first name's directory may be closed
	}
	if info, err := from.lstatBelow(first.path); err != nil || !info.Mode().IsRegular() {
		return errNoLink // a symbolic link that existed before leads to the copy
	}
	if t.top == nil {
		return unix.Link(first.path, path)
	}
	return t.top.Link(filepath.Join(from.pathFromTop, first.path), filepath.Join(t.pathFromTop, path))
}

// lstatBelow calls Lstat for path, even after t has been closed.
func (t *hostTree) lstatBelow(path string) (fs.FileInfo, error) {
	if t.top == nil {
		return t.fs.Lstat(path)
	}
	return t.top.Lstat(filepath.Join(t.pathFromTop, path))
}

func (t *remoteTree) link(ctx context.Context, first destination, to string) error {
	from, ok := first.to.(*remoteTree)
	if !ok || from.Server != t.Server {
		return errNoLink
	}
	node, err := from.FS.Stat(ctx, first.path)
	if err != nil {
		return err
	}
	dir, base := path.Split(to)
	in := t.FS
	if dir != "" {
		if in, err = in.Sub(ctx, dir); err != nil {
			return err
		}
	}
	_, err = t.FS.Client().Link(ctx, &nfs3.LinkArgs{File: node.Handle, Link: nfs3.DirOpArgs{Dir: in.Root(), Name: []byte(base)}})
	return err
}
