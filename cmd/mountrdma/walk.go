package main

import (
	"bytes"
	"context"
	"errors"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// An object is an object found in a tree, with its attributes.
type object struct {
	remote
	handle nfs3.FH
	attr   nfs3.Attr
	depth  int
}

// A treeWalk is a walk through a tree. before is called with each object, and after, if not
// nil, with each directory when everything below it has been visited.
type treeWalk struct {
	*app
	before, after func(object) error

	failed bool // an error was printed
}

var (
	errTooDeep  = errors.New("directories are nested too deeply")
	errReplaced = errors.New("was replaced while the tree was read")
)

// run visits an object and everything below it, and follows no symbolic links. It prints the
// error of an object, and continues with the next one unless the connection is lost.
func (w *treeWalk) run(ctx context.Context, top object) error {
	err := w.visit(ctx, top.fs, top.rest, top)
	if err == nil && w.failed {
		err = cli.ErrReported
	}
	return err
}

// report prints an error, unless it ends the walk.
func (w *treeWalk) report(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if lost := fatalError(ctx, err); lost != nil {
		return lost
	}
	w.printError(err)
	w.failed = true
	return nil
}

// visit visits o, whose path in parent is name.
func (w *treeWalk) visit(ctx context.Context, parent *nfsclient.FS, name string, o object) error {
	err := w.report(ctx, w.before(o))
	switch {
	case err != nil || o.attr.Type != nfs3.TypeDir:
		return err
	case o.depth == maxWalkDepth:
		return w.report(ctx, o.explainError(errTooDeep))
	}
	in, err := openListedDir(ctx, parent, name, o.handle)
	if err != nil {
		return w.report(ctx, o.explainError(err))
	}
	for e, err := range in.ReadDir(ctx, "") {
		if err = w.visitEntry(ctx, in, o, &e, err); err != nil {
			return err
		}
	}
	if w.after == nil {
		return nil
	}
	return w.report(ctx, w.after(o))
}

// openListedDir opens a directory, unless another object, such as a symbolic link that leads
// out of the tree, has its name now. A mount point's handle may differ from the listed one.
func openListedDir(ctx context.Context, parent *nfsclient.FS, name string, listed nfs3.FH) (*nfsclient.FS, error) {
	dir, err := parent.Sub(ctx, name)
	if err != nil || bytes.Equal(dir.Root(), listed) {
		return dir, err
	}
	if node, err := parent.Lstat(ctx, name); err != nil || !bytes.Equal(dir.Root(), node.Handle) {
		return nil, errors.Join(errReplaced, err)
	}
	return dir, nil
}

// visitEntry visits an entry of a directory, or reports the error of listing it.
func (w *treeWalk) visitEntry(ctx context.Context, in *nfsclient.FS, dir object, e *nfsclient.DirEntry, err error) error {
	if err != nil {
		return w.report(ctx, dir.explainError(err))
	}
	child := object{remote: dir.childOf(e.Name), handle: e.Handle, attr: e.Attr.Attr, depth: dir.depth + 1}
	if !e.Attr.OK || e.Handle == nil {
		node, err := in.Lstat(ctx, e.Name)
		if err != nil {
			return w.report(ctx, child.explainError(err))
		}
		child.handle, child.attr = node.Handle, node.Attr
	}
	return w.visit(ctx, in, e.Name, child)
}

// openObject returns the object itself that a URL names, with its attributes.
func (r remote) openObject(ctx context.Context) (object, error) {
	node, err := r.fs.Lstat(ctx, r.rest)
	return object{remote: r, handle: node.Handle, attr: node.Attr}, r.explainError(err)
}
