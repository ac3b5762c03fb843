package nfs4server

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

const (
	// A COPY returns after maxCopy bytes or after maxCopyTime, and the client continues it: its
	// slot and a permit are free for other calls in the meantime.
	maxCopy     = 16 << 20
	maxCopyTime = 100 * time.Millisecond

	// maxPieceLen is the maximum number of bytes to copy at once: the same as for a WRITE.
	// maxBufferLen is the same for a copy through memory.
	maxPieceLen  = 1 << 20
	maxBufferLen = 64 << 10
)

// A copyJob is a COPY or CLONE from the saved to the current object.
type copyJob struct {
	x           *compound
	from, to    *exportset.File // nil: by handle
	src, dst    uint64          // offsets
	left        uint64          // bytes left
	size        uint64          // source's size
	isSameFile  bool            // the source is the target
	mustDiffer  bool            // the source must not be the target
	isContinued bool            // an earlier part was copied: the source may have become shorter or been closed

	committed vfs.Stable
	buf       []byte // buffer for a copy through memory
}

// prepare checks the objects and stateids, announces the change, and determines the number of
// bytes. If the status is OK, the caller must call releaseFiles.
func (c *copyJob) prepare(ctx context.Context, src, dst *nfs4.StateID, count uint64) nfs4.Status {
	x := c.x
	attr, status := x.checkRegularFile(ctx, &x.saved)
	if status != nfs4.OK {
		return status
	}
	if _, status = x.checkRegularFile(ctx, &x.current); status != nfs4.OK {
		return status
	}
	var err error
	switch c.isSameFile, err = x.isSameFile(); {
	case err != nil:
		return x.toStatus(err)
	case c.isSameFile && c.mustDiffer:
		return nfs4.ErrInval
	}
	opened, status := x.checkReadStateID(ctx, &x.saved, &x.sourceSpecialUse, src, &attr)
	if c.isContinued && status == nfs4.ErrBadStateID { // closed, or the delegation was recalled
		opened, status = x.checkReadStateID(ctx, &x.saved, &x.sourceSpecialUse, &nfs4.AnonymousStateID, &attr)
	}
	c.size = attr.Size
	switch {
	case status != nfs4.OK:
		return status
	case c.isContinued:
		count = min(count, attr.Size-min(c.src, attr.Size))
	case c.src > attr.Size || count > attr.Size-c.src:
		return nfs4.ErrInval
	case count == 0:
		count = attr.Size - c.src
	}
	c.left, c.committed = count, vfs.FileSync
	if c.dst > exportset.MaxFileSize || c.left > exportset.MaxFileSize-c.dst {
		return nfs4.ErrFBig
	}
	if err := x.acquirePermit(ctx, &x.current); err != nil { // beginWrite may wait
		return x.toStatus(err)
	}
	if c.to, status = x.beginWrite(ctx, dst); status == nfs4.OK {
		c.from = x.saved.use.FileOf(opened, vfs.OpenRead)
	}
	return status
}

func (c *copyJob) releaseFiles() {
	finishFile(c.from)
	finishFile(c.to)
}

// isSameFile reports whether the saved and the current object are the same file.
func (x *compound) isSameFile() (bool, error) {
	key, err := x.objectKey(&x.saved)
	if err != nil {
		return false, err
	}
	source := string(key)
	key, err = x.objectKey(&x.current)
	return source == string(key), err
}

// serveCopy implements COPY within the server (RFC 7862, Section 15.2). It copies in order. If
// the client does not require a synchronous copy, and there is more to copy than one call may
// copy, the copy continues after the reply.
func serveCopy(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CopyArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case len(a.Sources) > 0:
		return nfs4.ErrPartnerNotSupp
	}
	c := copyJob{x: x, src: a.SrcOffset, dst: a.DstOffset, mustDiffer: true}
	if status := c.prepare(ctx, &a.SrcStateID, &a.DstStateID, a.Count); status != nfs4.OK {
		return status
	}
	defer c.releaseFiles()
	// Read the verifier before the copy, as WRITE does.
	verf := x.current.use.Export.FS.WriteVerifier()
	count, err := c.run(ctx)
	if err != nil && count == 0 {
		return x.fileStatus(ctx, err)
	} // otherwise the client requests the rest, and then gets the error
	res := nfs4.CopyRes{Consecutive: true, Synchronous: true}
	res.Response.Count, res.Response.Committed, res.Response.Verf = count, nfs4.Stable(c.committed), toVerifier(verf)
	if !a.Synchronous && err == nil && count > 0 && c.left > 0 {
		res.Synchronous = !x.startOffload(&a, &c, &res.Response)
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// run copies in pieces, and returns the number of bytes copied.
func (c *copyJob) run(ctx context.Context) (count uint64, err error) {
	for start := time.Now(); c.left > 0 && count < maxCopy; {
		if c.x.server.tenure.Over() {
			return count, exportset.Later
		}
		n, err := c.copyPiece(ctx)
		count += n
		c.src, c.dst, c.left = c.src+n, c.dst+n, c.left-n
		if n == 0 || err != nil {
			return count, err
		}
		if time.Since(start) >= maxCopyTime || ctx.Err() != nil {
			break
		}
	}
	return count, nil
}

// copyPiece copies some bytes, in the file system if it can.
func (c *copyJob) copyPiece(ctx context.Context) (uint64, error) {
	x := c.x
	u := x.current.use
	if x.saved.use == u && u.Export.Copier != nil && c.buf == nil {
		n, err := u.Export.Copier.CopyRange(ctx, &u.Cred, c.from.Part(x.saved.h, c.src), c.to.Part(x.current.h, c.dst), min(c.left, maxPieceLen))
		if n > 0 {
			c.committed = vfs.Unstable
		}
		if n > 0 || !errors.Is(err, syscall.EOPNOTSUPP) {
			return n, err
		}
	}
	if c.buf == nil {
		c.buf = make([]byte, maxBufferLen)
	}
	return c.copyThroughMemory(ctx)
}

// copyThroughMemory copies some bytes through memory.
func (c *copyJob) copyThroughMemory(ctx context.Context) (uint64, error) {
	x := c.x
	if err := x.acquirePermit(ctx, &x.saved); err != nil {
		return 0, err
	}
	p := c.buf[:min(c.left, maxBufferLen)]
	var n int
	var err error
	if u := x.saved.use; c.from != nil {
		n, _, err = c.from.Read(ctx, p, c.src)
	} else {
		n, _, _, err = u.Export.FS.Read(ctx, &u.Cred, x.saved.h, p, c.src)
	}
	if err != nil || n == 0 {
		return 0, err
	}
	if err := x.acquirePermit(ctx, &x.current); err != nil {
		return 0, err
	}
	var how vfs.Stable
	if u := x.current.use; c.to != nil {
		n, how, err = c.to.Write(ctx, p[:n], c.dst, vfs.Unstable)
	} else {
		n, how, _, err = u.Export.FS.Write(ctx, &u.Cred, x.current.h, p[:n], c.dst, vfs.Unstable)
	}
	c.committed = min(c.committed, how)
	return uint64(n), err
}

// serveClone implements CLONE (RFC 7862, Section 15.13).
func serveClone(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CloneArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	c := copyJob{x: x, src: a.SrcOffset, dst: a.DstOffset}
	if status := c.prepare(ctx, &a.SrcStateID, &a.DstStateID, a.Count); status != nfs4.OK {
		return withoutLocked(status)
	}
	defer c.releaseFiles()
	return withoutLocked(c.cloneRange(ctx))
}

// cloneRange lets the file system share the bytes.
func (c *copyJob) cloneRange(ctx context.Context) nfs4.Status {
	x := c.x
	u := x.current.use
	align := uint64(u.Export.CloneAlign)
	switch {
	case x.saved.use != u:
		return nfs4.ErrXDev
	case align == 0:
		return nfs4.ErrNotSupp
	case c.src%align != 0, c.dst%align != 0, c.left%align != 0 && c.src+c.left != c.size,
		c.isSameFile && c.src < c.dst+c.left && c.dst < c.src+c.left:
		return nfs4.ErrInval
	case c.left == 0:
		return x.appendStatus(nfs4.OK)
	}
	err := u.Export.Copier.CloneRange(ctx, &u.Cred, c.from.Part(x.saved.h, c.src), c.to.Part(x.current.h, c.dst), c.left)
	return x.appendStatus(x.toStatus(err))
}
