package copytree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A Config configures a copy.
type Config struct {
	Recursive bool   // copy directories, and links as links
	Preserve  bool   // keep modes, times and hard links, and, for root, owners
	Jobs      int    // files in flight
	Umask     uint32 // this process's umask
	Resume    bool   // continue partial files
	Update    bool   // skip files whose copies are not older
	Checksum  bool   // skip files whose copies have the same content; compare all of partial files

	// Exclude reports whether an object below a source is not copied. path is relative
	// to the source.
	Exclude func(path string) bool

	// DryRun, if not nil, is called with each object that would be copied, instead of
	// copying it.
	DryRun func(from, to string)

	// Terminal, if not nil, shows a progress bar.
	Terminal io.Writer

	// Report prints an error while the copy continues. The bar is hidden for that
	// time.
	Report func(error)

	// Lost returns an error if err means that the copy cannot continue, because the
	// connection to a server is lost or ctx is done.
	Lost func(ctx context.Context, err error) error
}

// A Copier copies trees. One goroutine walks through the source and creates
// directories. Up to Jobs jobs copy files and links.
//
//	walk ── mkdir ──▶ directory ──┬── file ── job ──┐
//	                              └── link ── job ──┴─ all done ─▶ its mode and times
type Copier struct {
	cfg          Config
	ctx          context.Context // the whole copy's context, for its jobs
	cancel       context.CancelCauseFunc
	jobs         errgroup.Group
	memory       *semaphore.Weighted
	bar          *progressBar
	failed       atomic.Bool
	destinations map[fileID]bool // directories on servers that this copy writes
	links        linkedFiles
	warned       [numWarnings]atomic.Bool
	parts        leftParts
}

// leftParts are the partial files that a copy leaves.
type leftParts struct {
	mu    sync.Mutex
	list  []error // at most maxListedParts
	count int
}

// New returns a Copier for one copy. The caller must call Wait.
func New(ctx context.Context, cfg Config) *Copier {
	c := &Copier{cfg: cfg, memory: semaphore.NewWeighted(Memory), destinations: make(map[fileID]bool)}
	c.links.all = make(map[fileID]*linkedFile)
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.jobs.SetLimit(cfg.Jobs)
	c.bar = newProgress(cfg.Terminal)
	return c
}

// Context returns the copy's context. It is canceled by the error that stops the
// copy.
func (c *Copier) Context() context.Context { return c.ctx }

// Stop stops the copy with an error.
func (c *Copier) Stop(err error) { c.cancel(err) }

// Wait waits for all jobs. It returns the error that stopped the copy, or
// cli.ErrReported if others were reported.
func (c *Copier) Wait() error {
	_ = c.jobs.Wait() // jobs report their own errors
	err := context.Cause(c.ctx)
	c.bar.close(err == nil && !c.failed.Load())
	c.reportParts()
	c.cancel(nil)
	if err == nil && c.failed.Load() {
		err = cli.ErrReported
	}
	return err
}

// Summary returns what the copy has done.
func (c *Copier) Summary() Summary { return c.bar.summary() }

// Fail handles an error. An error that all further calls would share stops the
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
	c.bar.withoutBar(func() { c.cfg.Report(err) })
}

// Copy copies the object that path names to target. It returns when the walk
// through the source is complete; jobs may still copy files.
func (c *Copier) Copy(from Tree, path string, to Tree, target string) {
	e, err := from.stat(c.ctx, path, !c.cfg.Recursive || strings.HasSuffix(path, "/"))
	switch {
	case err != nil:
		c.Fail(from.Explain(path, err))
	case e.kind.IsDir() && !c.cfg.Recursive:
		c.Fail(from.Explain(path, errors.New("is a directory: -r copies it with its content")))
	case isStream(from) || !c.cfg.Recursive && e.kind&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0 && e.handle == nil:
		c.startFileCopy(from, e, to, target, nil) // a stream with unknown length
	default:
		c.copyObject(from, e, to, target, nil)
	}
}

// copyObject copies e. The directory parent is complete only after e is.
func (c *Copier) copyObject(from Tree, e entry, to Tree, target string, parent *dirCopy) {
	switch {
	case e.kind.IsDir():
		c.copyDir(from, e, to, target, parent)
	case e.kind.IsRegular() && e.nlink > 1 && (c.cfg.Recursive || c.cfg.Preserve) && c.cfg.DryRun == nil:
		c.copyLinkedObject(sourceName{from, e, destination{to, target}, parent})
	case e.kind.IsRegular():
		c.startFileCopy(from, e, to, target, parent)
	case e.kind == fs.ModeSymlink:
		c.startJob(parent, func() { c.copySymlink(from, e, to, target) })
	default:
		c.Fail(from.Explain(e.path, errors.New("not copied: not a file, directory or symbolic link")))
	}
}

// startJob runs do in another goroutine as soon as fewer than Jobs run.
func (c *Copier) startJob(parent *dirCopy, do func()) {
	parent.addWork()
	c.jobs.Go(func() error {
		defer parent.finishWork()
		if c.ctx.Err() == nil {
			do()
		}
		return nil
	})
}

// copySymlink copies a symbolic link.
func (c *Copier) copySymlink(from Tree, e entry, to Tree, target string) {
	if c.cfg.DryRun != nil {
		c.showCopy(from, e.path, to, target)
		return
	}
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
		err = to.setLinkAttr(c.ctx, target, c.newAttrChange(&e, to, true))
	}
	if err != nil {
		c.Fail(to.Explain(target, err))
		return
	}
	c.bar.countFile()
}
