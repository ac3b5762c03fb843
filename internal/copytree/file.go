package copytree

import (
	"context"
	"errors"
	"io"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// file starts a job that copies a file.
func (c *Copier) file(from Tree, e entry, to Tree, target string, parent *directory) {
	c.bar.found(e.size)
	c.job(parent, func() {
		weight := c.weight(&e)
		if c.memory.Acquire(c.ctx, weight) != nil {
			return // ctx has ended
		}
		defer c.memory.Release(weight)
		if err := c.copyFile(from, e, to, target); err != nil {
			c.Fail(err)
			return
		}
		c.bar.fileDone()
	})
}

// weight returns the largest amount of memory, in bytes, that copying e may
// take.
func (c *Copier) weight(e *entry) int64 {
	const most = WriteWindow + readWindow
	if !e.kind.IsRegular() {
		return most
	}
	return min(max(e.size, leastWeight), most)
}

// errSame reports a copy that would empty its source.
var errSame = errors.New("source and destination are the same file")

func (c *Copier) copyFile(from Tree, e entry, to Tree, target string) error {
	if e.id != (fileID{}) {
		if there, err := to.stat(c.ctx, target, true); err == nil && there.id == e.id {
			return to.Explain(target, errSame)
		}
	}
	src, err := from.open(c.ctx, e)
	if err != nil {
		return from.Explain(e.path, err)
	}
	defer src.close()
	mode := e.mode &^ c.cfg.Umask & 0o777
	if c.cfg.Preserve {
		mode &= 0o700 // no other user may read an incomplete copy
	}
	dst, err := to.create(c.ctx, target, mode|0o600)
	if err != nil {
		return to.Explain(target, err)
	}
	mine, err := c.data(src, dst, &e)
	if ch := c.change(&e, to, true); err == nil && (ch.setTimes || mode|0o600 != mode) {
		mine, err = false, dst.set(c.ctx, ch)
	}
	if local, ok := dst.(*localFile); ok && err == nil {
		mine, err = false, local.sync()
	}
	if cerr := dst.close(); err == nil {
		mine, err = false, cerr
	}
	switch {
	case err == nil:
		return nil
	case mine:
		return from.Explain(e.path, err)
	}
	return to.Explain(target, err)
}

// change returns the attribute changes for a copy of e. made reports whether
// this copy created the object.
func (c *Copier) change(e *entry, to Tree, made bool) change {
	if !c.cfg.Preserve {
		return change{setMode: made, mode: e.mode &^ c.cfg.Umask & 0o777}
	}
	return change{
		setMode: true, mode: e.mode,
		setTimes: true, atime: e.atime, mtime: e.mtime,
		setOwner: to.mayChown(), uid: e.uid, gid: e.gid,
	}
}

// data copies the content of a file. source reports that err is the source's.
func (c *Copier) data(from, to file, e *entry) (source bool, err error) {
	local, ok := from.(*localFile)
	if ok {
		return c.upload(local, to.(*remoteFile).File, e) // cp refuses local to local
	}
	src := from.(*remoteFile).File
	if dst, ok := to.(*localFile); ok {
		return c.download(src, dst, e)
	}
	return c.relay(src, to.(*remoteFile).File)
}

// upload copies the parts of src between its holes.
func (c *Copier) upload(src *localFile, dst *nfsclient.File, e *entry) (source bool, err error) {
	if !e.kind.IsRegular() || !e.sparse() {
		r := &countingReader{r: src, bar: c.bar}
		_, err := dst.CopyFrom(c.ctx, r, 0)
		return r.failed(), err
	}
	parts, err := src.extents(e.size)
	if err != nil {
		return true, err
	}
	end := int64(0)
	for _, x := range parts {
		c.bar.add(x.off - end)
		r := &countingReader{r: io.NewSectionReader(src, x.off, x.n), bar: c.bar}
		if _, err := dst.CopyFrom(c.ctx, r, x.off); err != nil {
			return r.failed(), err
		}
		end = x.off + x.n
	}
	if end < e.size {
		c.bar.add(e.size - end)
		return false, dst.Truncate(c.ctx, uint64(e.size))
	}
	return false, nil
}

func (c *Copier) download(src *nfsclient.File, dst *localFile, e *entry) (source bool, err error) {
	w := &countingWriter{w: dst, bar: c.bar}
	holes := &sparseWriter{f: dst.File}
	sparse := e.sparse() && dst.regular()
	if sparse {
		w.w = holes
	}
	err = c.fetch(src, w, e.size)
	if err == nil && sparse {
		return false, holes.end()
	}
	return err != nil && !w.failed(), err
}

// fetch writes all of src to w. Servers prepare buffers of the length that a
// READ asks for. Of a small file, fetch therefore asks for its length plus one
// byte, which shows whether the file has grown.
func (c *Copier) fetch(src *nfsclient.File, w io.Writer, size int64) error {
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

// relay copies from server to server, through a pipe.
func (c *Copier) relay(src, dst *nfsclient.File) (source bool, err error) {
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
var errSinkFailed = errors.New("the copy is not wanted any more")
