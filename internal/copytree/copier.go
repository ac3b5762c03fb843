package copytree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A Config configures a copy.
type Config struct {
	Recursive bool   // copy directories, and links as links
	Preserve  bool   // keep modes and times, and for root owners
	Jobs      int    // files in flight
	Umask     uint32 // of this process

	// Terminal, if not nil, shows a progress bar.
	Terminal io.Writer

	// Report prints an error while the copy continues. The bar is away
	// meanwhile.
	Report func(error)

	// Lost returns an error if err means that the copy cannot continue, because
	// a server is lost or ctx has ended.
	Lost func(ctx context.Context, err error) error
}

// A Copier copies trees. One goroutine walks through the source and makes
// directories. Up to Jobs jobs copy files and links.
//
//	walk ── mkdir ──▶ directory ──┬── file ── job ──┐
//	                              └── link ── job ──┴─ all done ─▶ its mode and times
type Copier struct {
	cfg    Config
	ctx    context.Context // of the whole copy, for its jobs
	cancel context.CancelCauseFunc
	jobs   errgroup.Group
	memory *semaphore.Weighted
	bar    *progress
	failed atomic.Bool
	made   map[fileID]bool // directories on servers that are destinations of this copy
}

// New returns a Copier for one copy. The caller must call Wait.
func New(ctx context.Context, cfg Config) *Copier {
	c := &Copier{cfg: cfg, memory: semaphore.NewWeighted(Memory), made: make(map[fileID]bool)}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.jobs.SetLimit(cfg.Jobs)
	c.bar = newProgress(cfg.Terminal)
	return c
}

// Context returns the context of the copy. It ends with an error that ends the
// copy.
func (c *Copier) Context() context.Context { return c.ctx }

// Stop ends the copy with an error.
func (c *Copier) Stop(err error) { c.cancel(err) }

// Wait waits for all jobs. It returns the error that ended the copy, or
// cli.ErrReported if others were reported.
func (c *Copier) Wait() error {
	_ = c.jobs.Wait() // jobs report their own errors
	c.bar.close()
	err := context.Cause(c.ctx)
	c.cancel(nil)
	if err == nil && c.failed.Load() {
		err = cli.ErrReported
	}
	return err
}

// Fail handles an error. An error that all further calls would share ends the
// copy; others are reported.
func (c *Copier) Fail(err error) {
	if c.ctx.Err() != nil {
		return // a consequence of the first error
	}
	if lost := c.cfg.Lost(c.ctx, err); lost != nil {
		c.cancel(lost)
		return
	}
	c.failed.Store(true)
	c.bar.aside(func() { c.cfg.Report(err) })
}

// Copy copies the object that path names to target. It returns once the walk
// through the source has ended; jobs may still copy files.
func (c *Copier) Copy(from Tree, path string, to Tree, target string) {
	e, err := from.stat(c.ctx, path, !c.cfg.Recursive || strings.HasSuffix(path, "/"))
	switch {
	case err != nil:
		c.Fail(from.Explain(path, err))
	case e.kind.IsDir() && !c.cfg.Recursive:
		c.Fail(from.Explain(path, errors.New("is a directory: -r copies it with its content")))
	case !c.cfg.Recursive && e.kind&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0 && e.handle == nil:
		c.file(from, e, to, target, nil) // a stream of unknown length
	default:
		c.object(from, e, to, target, nil)
	}
}

// object copies e. The directory parent finishes only after e is done.
func (c *Copier) object(from Tree, e entry, to Tree, target string, parent *directory) {
	switch {
	case e.kind.IsDir():
		c.dir(from, e, to, target, parent)
	case e.kind.IsRegular():
		c.file(from, e, to, target, parent)
	case e.kind == fs.ModeSymlink:
		c.job(parent, func() { c.link(from, e, to, target) })
	default:
		c.Fail(from.Explain(e.path, errors.New("not copied: no file, directory or symbolic link")))
	}
}

// job runs do in another goroutine as soon as one is free.
func (c *Copier) job(parent *directory, do func()) {
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
func (c *Copier) link(from Tree, e entry, to Tree, target string) {
	text, err := from.readlink(c.ctx, e)
	if err != nil {
		c.Fail(from.Explain(e.path, err))
		return
	}
	err = to.symlink(c.ctx, text, target)
	if errors.Is(err, fs.ErrExist) {
		if err = to.remove(c.ctx, target); err == nil {
			err = to.symlink(c.ctx, text, target)
		}
	}
	if err == nil && c.cfg.Preserve {
		err = to.setLink(c.ctx, target, c.change(&e, to, true))
	}
	if err != nil {
		c.Fail(to.Explain(target, err))
		return
	}
	c.bar.fileDone()
}
