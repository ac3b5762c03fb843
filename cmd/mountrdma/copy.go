package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A copier copies trees. One goroutine walks through the source and makes
// directories. Up to inFlight jobs copy files and links.
//
//	walk ── mkdir ──▶ directory ──┬── file ── job ──┐
//	                              └── link ── job ──┴─ all done ─▶ its mode and times
type copier struct {
	*app
	*cpOptions
	ctx    context.Context // of the whole copy, for its jobs
	cancel context.CancelCauseFunc
	jobs   errgroup.Group
	memory *semaphore.Weighted
	bar    *progress
	failed atomic.Bool
	made   map[fileID]bool // directories on servers that are destinations of this copy
}

func newCopier(ctx context.Context, a *app, o *cpOptions) *copier {
	c := &copier{app: a, cpOptions: o, memory: semaphore.NewWeighted(copyMemory), made: make(map[fileID]bool)}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.jobs.SetLimit(o.inFlight)
	c.bar = newProgress(a.stderr, o.quiet)
	return c
}

// wait waits for all jobs.
func (c *copier) wait() error {
	_ = c.jobs.Wait() // jobs report their own errors
	c.bar.close()
	err := context.Cause(c.ctx)
	c.cancel(nil)
	if err == nil && c.failed.Load() {
		err = cli.ErrReported
	}
	return err
}

// fail handles an error. An error that all further calls would share ends the
// copy; others are reported.
func (c *copier) fail(err error) {
	if c.ctx.Err() != nil {
		return // a consequence of the first error
	}
	if lost := lost(c.ctx, err); lost != nil {
		c.cancel(lost)
		return
	}
	c.failed.Store(true)
	c.bar.aside(func() { c.report(err) })
}

// source copies the object that path names to target.
func (c *copier) source(from tree, path string, to tree, target string) {
	e, err := from.stat(c.ctx, path, !c.recursive || strings.HasSuffix(path, "/"))
	switch {
	case err != nil:
		c.fail(from.explain(path, err))
	case e.kind.IsDir() && !c.recursive:
		c.fail(from.explain(path, errors.New("is a directory: -r copies it with all that is in it")))
	case !c.recursive && e.kind&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0 && e.handle == nil:
		c.file(from, e, to, target, nil) // a stream of unknown length
	default:
		c.object(from, e, to, target, nil)
	}
}

// object copies e. The directory parent finishes only after e is done.
func (c *copier) object(from tree, e entry, to tree, target string, parent *directory) {
	switch {
	case e.kind.IsDir():
		c.dir(from, e, to, target, parent)
	case e.kind.IsRegular():
		c.file(from, e, to, target, parent)
	case e.kind == fs.ModeSymlink:
		c.job(parent, func() { c.link(from, e, to, target) })
	default:
		c.fail(from.explain(e.path, errors.New("not copied: no file, directory or symbolic link")))
	}
}

// job runs do in another goroutine as soon as one is free.
func (c *copier) job(parent *directory, do func()) {
	parent.wait()
	c.jobs.Go(func() error {
		defer parent.done()
		if c.ctx.Err() == nil {
			do()
		}
		return nil
	})
}

// link copies a symbolic link.
func (c *copier) link(from tree, e entry, to tree, target string) {
	text, err := from.readlink(c.ctx, e)
	if err != nil {
		c.fail(from.explain(e.path, err))
		return
	}
	err = to.symlink(c.ctx, text, target)
	if errors.Is(err, fs.ErrExist) {
		if err = to.remove(c.ctx, target); err == nil {
			err = to.symlink(c.ctx, text, target)
		}
	}
	if err == nil && c.preserve {
		err = to.setLink(c.ctx, target, c.change(&e, to, true))
	}
	if err != nil {
		c.fail(to.explain(target, err))
		return
	}
	c.bar.fileDone()
}
