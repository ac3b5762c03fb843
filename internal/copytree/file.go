package copytree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// startFileCopy starts a job that copies a file.
func (c *Copier) startFileCopy(from Tree, e entry, to Tree, target string, parent *dirCopy) {
	c.bar.addFile(e.size)
	c.startJob(parent, func() {
		weight := c.memoryWeight(&e)
		if c.memory.Acquire(c.ctx, weight) != nil {
			return // ctx is done
		}
		defer c.memory.Release(weight)
		if err := c.copyFile(from, e, to, target); err != nil {
			c.Fail(err)
		}
	})
}

// memoryWeight returns the maximum memory, in bytes, that copying e may take.
func (c *Copier) memoryWeight(e *entry) int64 {
	const maxWeight = WriteWindow + readWindow
	if !e.kind.IsRegular() {
		return maxWeight
	}
	return min(max(e.size, minWeight), maxWeight)
}

var (
	errSame = errors.New("source and destination are the same file")
	errDir  = errors.New("is a directory, which a file cannot replace")
)

// copyFile copies e to target with its data and attributes, unless that is up to date. The
// returned error names the source or the target, whichever failed.
func (c *Copier) copyFile(from Tree, e entry, to Tree, target string) error {
	there, err := c.statTarget(&e, to, target)
	if err != nil {
		return to.Explain(target, err)
	}
	if c.cfg.DryRun != nil && !e.kind.IsRegular() { // opening a FIFO waits for its writer, or starts it
		c.showCopy(from, e.path, to, target)
		c.bar.countFile()
		return nil
	}
	src, err := from.openFile(c.ctx, e)
	if err != nil {
		return from.Explain(e.path, err)
	}
	defer src.closeFile()
	switch same, err := c.isUpToDate(src, &e, to, there); {
	case err != nil:
		return to.Explain(target, err)
	case same:
		c.bar.skipFile(e.size)
		return nil
	case c.cfg.DryRun != nil:
		c.showCopy(from, e.path, to, target)
		c.bar.addBytes(e.size)
		c.bar.countFile()
		return nil
	}
	c.warnAttributes(from, e.path, src)
	inPlace := there != nil && !there.kind.IsRegular()
	mode := e.mode &^ c.cfg.Umask & 0o777
	if c.cfg.Preserve || there != nil && !inPlace {
		mode &= 0o700 // no other user may read an incomplete copy
	}
	dst, err := c.openOutput(src, &e, to, target, mode|0o600, inPlace)
	if err != nil {
		return err
	}
	if !inPlace {
		dst.replaced = there
	}
	sourceFailed, err := c.writeOutput(src, dst, &e, mode)
	if cerr := dst.closeFile(); err == nil {
		sourceFailed, err = false, cerr
	}
	switch {
	case err == nil:
		c.bar.countFile()
		return nil
	case sourceFailed:
		err = from.Explain(e.path, err)
	default:
		err = to.Explain(target, err)
	}
	c.abandonPart(dst, &e)
	return err
}

// statTarget returns the object that a copy of e would replace, or nil. A symbolic link is
// returned itself.
func (c *Copier) statTarget(e *entry, to Tree, target string) (*entry, error) {
	if to.isFresh() {
		return nil, nil
	}
	there, err := to.stat(c.ctx, target, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case there.kind.IsDir():
		return nil, errDir
	}
	final := there
	if there.kind == fs.ModeSymlink {
		final, _ = to.stat(c.ctx, target, true)
	}
	if e.id.server != "" && final.id == e.id {
		return nil, errSame
	}
	return &there, nil
}

// writeOutput writes the data that dst lacks, and completes it. sourceFailed reports
// whether err came from the source.
func (c *Copier) writeOutput(src openFile, dst *output, e *entry, mode uint32) (sourceFailed bool, err error) {
	c.bar.skipBytes(dst.off)
	if sourceFailed, err := c.copyData(src, dst, e); err != nil {
		return sourceFailed, err
	}
	if dst.isResumed {
		if now, err := src.version(c.ctx); err != nil || now != e.version() {
			return true, errors.Join(err, errChanged)
		}
	}
	ch := c.newAttrChange(e, dst.to, dst.part != "")
	ch.resetAtime = dst.part != "" && !e.mark().IsZero()
	if old := dst.replaced; old != nil && !c.cfg.Preserve {
		ch.mode, ch.setOwner, ch.uid, ch.gid = old.mode&0o777, dst.to.mayChown(), old.uid, old.gid
	}
	change := ch.setTimes || dst.replaced != nil || ch.resetAtime || dst.isResumed || ch.setMode && mode|0o600 != mode
	return false, dst.complete(c, ch, change)
}

// newAttrChange returns the attribute changes for e's copy. created means that this copy
// created the object.
func (c *Copier) newAttrChange(e *entry, to Tree, created bool) attrChange {
	if !c.cfg.Preserve {
		return attrChange{setMode: created, mode: e.mode &^ c.cfg.Umask & 0o777}
	}
	c.warnLostTimes(e, to)
	return attrChange{
		setMode: true, mode: e.mode,
		setTimes: true, atime: e.atime, mtime: e.mtime,
		setOwner: to.mayChown(), uid: e.uid, gid: e.gid,
	}
}

// copyData copies a file's content from offset dst.off. sourceFailed reports whether err came
// from reading the source.
func (c *Copier) copyData(src openFile, dst *output, e *entry) (sourceFailed bool, err error) {
	switch from := src.(type) {
	case *localFile:
		return c.uploadFile(from, dst.openFile.(*remoteFile).File, e, dst.off) // cp rejects copies from local to local
	case *streamFile:
		return c.uploadStream(from, dst.openFile.(*remoteFile).File)
	}
	from := src.(*remoteFile).File
	switch to := dst.openFile.(type) {
	case *localFile:
		return c.downloadFile(from, to, e, dst.off)
	case *streamFile:
		w := &countingWriter{w: to.w, bar: c.bar}
		err := c.fetchContent(from, w, 0, e.size)
		return err != nil && !w.hasFailed(), err
	}
	return c.relayFile(from, dst.openFile.(*remoteFile).File, dst.off)
}

func (c *Copier) uploadStream(src io.Reader, dst *nfsclient.File) (sourceFailed bool, err error) {
	r := &countingReader{r: src, bar: c.bar}
	_, err = dst.CopyFrom(c.ctx, r, 0)
	return r.hasFailed(), err
}

// uploadFile copies src's data between its holes.
func (c *Copier) uploadFile(src *localFile, dst *nfsclient.File, e *entry, off int64) (sourceFailed bool, err error) {
	if !e.kind.IsRegular() {
		return c.uploadStream(src, dst)
	}
	if !e.isSparse() {
		r := &countingReader{r: io.NewSectionReader(src, off, math.MaxInt64-off), bar: c.bar}
		_, err := dst.CopyFrom(c.ctx, r, off)
		return r.hasFailed(), err
	}
	parts, err := src.dataExtents(e.size)
	if err != nil {
		return true, err
	}
	end := off
	for _, x := range parts {
		if x = x.after(end); x.n == 0 {
			continue
		}
		c.bar.skipBytes(x.off - end)
		r := &countingReader{r: io.NewSectionReader(src, x.off, x.n), bar: c.bar}
		if _, err := dst.CopyFrom(c.ctx, r, x.off); err != nil {
			return r.hasFailed(), err
		}
		end = x.off + x.n
	}
	if end < e.size {
		c.bar.skipBytes(e.size - end)
		return false, dst.Truncate(c.ctx, uint64(e.size))
	}
	return false, nil
}

func (c *Copier) downloadFile(src *nfsclient.File, dst *localFile, e *entry, off int64) (sourceFailed bool, err error) {
	stable := &syncingWriter{Writer: dst, f: dst}
	w := &countingWriter{w: stable, bar: c.bar}
	holes := &sparseWriter{f: dst.File, off: off}
	regular := dst.isRegular()
	sparse := e.isSparse() && regular
	switch {
	case sparse:
		stable.Writer = holes
	case !regular:
		w.w = dst
	case off > 0:
		if _, err := dst.Seek(off, io.SeekStart); err != nil {
			return false, err
		}
	}
	err = c.fetchContent(src, w, off, e.size)
	sourceFailed = err != nil && !w.hasFailed()
	if serr := stable.wait(); err == nil {
		err = serr
	}
	if err == nil && sparse {
		return false, holes.setLength()
	}
	return sourceFailed, err
}

// fetchContent writes all of src after offset off to w. Servers prepare buffers of the
// length that a READ requests. For a small file, fetchContent therefore requests its
// length plus one byte, which shows whether the file has grown.
func (c *Copier) fetchContent(src *nfsclient.File, w io.Writer, off, size int64) error {
	if off == 0 && size < smallFile {
		b := buf.Default.Get(int(size) + 1)
		defer b.Release()
		n, err := src.ReadAt(c.ctx, b.B, 0)
		if err != nil && err != io.EOF {
			return err
		}
		if _, werr := w.Write(b.B[:n]); werr != nil || err == io.EOF {
			return werr
		}
		off = int64(n)
	}
	_, err := src.CopyTo(c.ctx, w, off)
	return err
}

// relayFile copies from one server to another, through a pipe.
func (c *Copier) relayFile(src, dst *nfsclient.File, off int64) (source bool, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		_, err := src.CopyTo(ctx, &countingWriter{w: w, bar: c.bar}, off)
		_ = w.CloseWithError(err)
		read <- err
	}()
	_, err = dst.CopyFrom(ctx, r, off)
	_ = r.CloseWithError(errSinkFailed)
	cancel()
	if rerr := <-read; rerr != nil && !errors.Is(rerr, errSinkFailed) && c.ctx.Err() == nil && errors.Is(err, rerr) {
		return true, rerr
	}
	return false, err
}

// errSinkFailed is the error that a source gets when its sink fails.
var errSinkFailed = errors.New("the copy was abandoned")
