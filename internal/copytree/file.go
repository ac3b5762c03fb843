package copytree

import (
	"context"
	"errors"
	"io"

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
			return
		}
		c.bar.countFile()
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

// errSame reports a copy that would truncate its source.
var errSame = errors.New("source and destination are the same file")

// copyFile copies e to target with its data and attributes. The returned error names the
// source or the target, whichever failed.
func (c *Copier) copyFile(from Tree, e entry, to Tree, target string) error {
	if e.id.server != "" {
		if existing, err := to.stat(c.ctx, target, true); err == nil && existing.id == e.id {
			return to.Explain(target, errSame)
		}
	}
	src, err := from.openFile(c.ctx, e)
	if err != nil {
		return from.Explain(e.path, err)
	}
	defer src.closeFile()
	c.warnAttributes(from, e.path, src)
	mode := e.mode &^ c.cfg.Umask & 0o777
	if c.cfg.Preserve {
		mode &= 0o700 // no other user may read an incomplete copy
	}
	dst, err := to.createFile(c.ctx, target, mode|0o600)
	if err != nil {
		return to.Explain(target, err)
	}
	sourceFailed, err := c.copyData(src, dst, &e)
	if ch := c.newAttrChange(&e, to, true); err == nil && (ch.setTimes || mode|0o600 != mode) {
		sourceFailed, err = false, dst.setAttr(c.ctx, ch)
	}
	if local, ok := dst.(*localFile); ok && err == nil {
		sourceFailed, err = false, local.syncData()
	}
	if cerr := dst.closeFile(); err == nil {
		sourceFailed, err = false, cerr
	}
	switch {
	case err == nil:
		return nil
	case sourceFailed:
		return from.Explain(e.path, err)
	}
	return to.Explain(target, err)
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

// copyData copies a file's content. source reports whether err came from reading the source.
func (c *Copier) copyData(from, to openFile, e *entry) (source bool, err error) {
	local, ok := from.(*localFile)
	if ok {
		return c.uploadFile(local, to.(*remoteFile).File, e) // cp rejects copies from local to local
	}
	src := from.(*remoteFile).File
	if dst, ok := to.(*localFile); ok {
		return c.downloadFile(src, dst, e)
	}
	return c.relayFile(src, to.(*remoteFile).File)
}

// uploadFile copies src's data between its holes.
func (c *Copier) uploadFile(src *localFile, dst *nfsclient.File, e *entry) (source bool, err error) {
	if !e.kind.IsRegular() || !e.isSparse() {
		r := &countingReader{r: src, bar: c.bar}
		_, err := dst.CopyFrom(c.ctx, r, 0)
		return r.hasFailed(), err
	}
	parts, err := src.dataExtents(e.size)
	if err != nil {
		return true, err
	}
	end := int64(0)
	for _, x := range parts {
		c.bar.addBytes(x.off - end)
		r := &countingReader{r: io.NewSectionReader(src, x.off, x.n), bar: c.bar}
		if _, err := dst.CopyFrom(c.ctx, r, x.off); err != nil {
			return r.hasFailed(), err
		}
		end = x.off + x.n
	}
	if end < e.size {
		c.bar.addBytes(e.size - end)
		return false, dst.Truncate(c.ctx, uint64(e.size))
	}
	return false, nil
}

func (c *Copier) downloadFile(src *nfsclient.File, dst *localFile, e *entry) (source bool, err error) {
	w := &countingWriter{w: dst, bar: c.bar}
	holes := &sparseWriter{f: dst.File}
	sparse := e.isSparse() && dst.isRegular()
	if sparse {
		w.w = holes
	}
	err = c.fetchContent(src, w, e.size)
	if err == nil && sparse {
		return false, holes.setLength()
	}
	return err != nil && !w.hasFailed(), err
}

// fetchContent writes all of src to w. Servers prepare buffers of the length that a
// READ requests. For a small file, fetchContent therefore requests its length plus
// one byte, which shows whether the file has grown.
func (c *Copier) fetchContent(src *nfsclient.File, w io.Writer, size int64) error {
	done := int64(0)
	if size < smallFile {
		b := buf.Default.Get(int(size) + 1)
		defer b.Release()
		n, err := src.ReadAt(c.ctx, b.B, 0)
		if err != nil && err != io.EOF {
			return err
		}
		if _, werr := w.Write(b.B[:n]); werr != nil || err == io.EOF {
			return werr
		}
		done = int64(n)
	}
	_, err := src.CopyTo(c.ctx, w, done)
	return err
}

// relayFile copies from one server to another, through a pipe.
func (c *Copier) relayFile(src, dst *nfsclient.File) (source bool, err error) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		_, err := src.CopyTo(ctx, &countingWriter{w: w, bar: c.bar}, 0)
		_ = w.CloseWithError(err)
		read <- err
	}()
	_, err = dst.CopyFrom(ctx, r, 0)
	_ = r.CloseWithError(errSinkFailed)
	cancel()
	if rerr := <-read; rerr != nil && !errors.Is(rerr, errSinkFailed) && c.ctx.Err() == nil && errors.Is(err, rerr) {
		return true, rerr
	}
	return false, err
}

// errSinkFailed is the error that a source gets when its sink fails.
var errSinkFailed = errors.New("the copy was abandoned")
