package nfs4server

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

const (
	// A COPY ends after maxCopy bytes or after copyTime, and the client goes on:
	// its slot, and a permit, are free for other calls meanwhile.
	maxCopy  = 16 << 20
	copyTime = 100 * time.Millisecond

	// copyPiece is the most that is copied at once, in bytes: as much as a
	// WRITE has. passPiece is the same for a copy through memory.
	copyPiece = 1 << 20
	passPiece = 64 << 10
)

// A copying is a COPY or CLONE from the saved to the current object.
type copying struct {
	x        *compound
	from, to *realm.File // nil: by handle
	src, dst uint64      // offsets
	n        uint64      // bytes left
	size     uint64      // of the source
	one      bool        // the source is the target
	apart    bool        // it must not be
	later    bool        // an earlier part was copied: the source may have become shorter, or be closed

	committed vfs.Stable
	pass      []byte // memory of a copy through it
}

// begin checks the objects and stateids, announces the change, and determines
// the number of bytes. end must follow if the status is OK.
func (c *copying) begin(ctx context.Context, src, dst *nfs4.StateID, count uint64) nfs4.Status {
	x := c.x
	attr, status := x.regularFile(ctx, &x.saved)
	if status != nfs4.OK {
		return status
	}
	if _, status = x.regularFile(ctx, &x.current); status != nfs4.OK {
		return status
	}
	var err error
	switch c.one, err = x.oneFile(); {
	case err != nil:
		return x.status(err)
	case c.one && c.apart:
		return nfs4.ErrInval
	}
	opened, status := x.mayRead(ctx, &x.saved, &x.specialSource, src, &attr)
	if c.later && status == nfs4.ErrBadStateID { // closed, or a delegation that was recalled
		opened, status = x.mayRead(ctx, &x.saved, &x.specialSource, &nfs4.AnonymousStateID, &attr)
	}
	c.size = attr.Size
	switch {
	case status != nfs4.OK:
		return status
	case c.later:
		count = min(count, attr.Size-min(c.src, attr.Size))
	case c.src > attr.Size || count > attr.Size-c.src:
		return nfs4.ErrInval
	case count == 0:
		count = attr.Size - c.src
	}
	c.n, c.committed = count, vfs.FileSync
	if c.dst > realm.MaxFileSize || c.n > realm.MaxFileSize-c.dst {
		return nfs4.ErrFBig
	}
	if err := x.work(ctx, &x.current); err != nil { // writeTo may wait
		return x.status(err)
	}
	if c.to, status = x.writeTo(ctx, dst); status == nfs4.OK {
		c.from = x.saved.use.FileOf(opened, vfs.OpenRead)
	}
	return status
}

func (c *copying) end() {
	done(c.from)
	done(c.to)
}

// oneFile reports whether the saved and the current object are one.
func (x *compound) oneFile() (bool, error) {
	key, err := x.key(&x.saved)
	if err != nil {
		return false, err
	}
	source := string(key)
	key, err = x.key(&x.current)
	return source == string(key), err
}

// copyData is COPY (RFC 7862, Section 15.2), within the server, which copies in order.
// If the client does not ask for a final answer, and there is more to copy than one
// call may take, the copy goes on after the answer.
func copyData(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CopyArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case len(a.Sources) > 0:
		return nfs4.ErrPartnerNotSupp
	}
	c := copying{x: x, src: a.SrcOffset, dst: a.DstOffset, apart: true}
	if status := c.begin(ctx, &a.SrcStateID, &a.DstStateID, a.Count); status != nfs4.OK {
		return status
	}
	defer c.end()
	// Read the verifier before the copy, as WRITE does.
	verf := x.current.use.Export.FS.WriteVerifier()
	count, err := c.run(ctx)
	if err != nil && count == 0 {
		return x.dataStatus(ctx, err)
	} // otherwise the client asks for the rest, and then gets the error
	res := nfs4.CopyRes{Consecutive: true, Synchronous: true}
	res.Response.Count, res.Response.Committed, res.Response.Verf = count, nfs4.Stable(c.committed), verifierOf(verf)
	if !a.Synchronous && err == nil && count > 0 && c.n > 0 {
		res.Synchronous = !x.offload(&a, &c, &res.Response)
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// run copies in pieces, and returns how many bytes it has copied.
func (c *copying) run(ctx context.Context) (count uint64, err error) {
	for start := time.Now(); c.n > 0 && count < maxCopy; {
		n, err := c.piece(ctx)
		count += n
		c.src, c.dst, c.n = c.src+n, c.dst+n, c.n-n
		if n == 0 || err != nil {
			return count, err
		}
		if time.Since(start) >= copyTime || ctx.Err() != nil {
			break
		}
	}
	return count, nil
}

// piece copies some bytes, by the file system if it can.
func (c *copying) piece(ctx context.Context) (uint64, error) {
	x := c.x
	u := x.current.use
	if x.saved.use == u && u.Export.Copier != nil && c.pass == nil {
		n, err := u.Export.Copier.CopyRange(ctx, &u.Cred, c.from.Part(x.saved.h, c.src), c.to.Part(x.current.h, c.dst), min(c.n, copyPiece))
		if n > 0 {
			c.committed = vfs.Unstable
		}
		if n > 0 || !errors.Is(err, syscall.EOPNOTSUPP) {
			return n, err
		}
	}
	if c.pass == nil {
		c.pass = make([]byte, passPiece)
	}
	return c.passOn(ctx)
}

// passOn copies some bytes through memory.
func (c *copying) passOn(ctx context.Context) (uint64, error) {
	x := c.x
	if err := x.work(ctx, &x.saved); err != nil {
		return 0, err
	}
	p := c.pass[:min(c.n, passPiece)]
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
	if err := x.work(ctx, &x.current); err != nil {
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

// clone is CLONE (RFC 7862, Section 15.13).
func clone(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.CloneArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	c := copying{x: x, src: a.SrcOffset, dst: a.DstOffset}
	if status := c.begin(ctx, &a.SrcStateID, &a.DstStateID, a.Count); status != nfs4.OK {
		return unlocked(status)
	}
	defer c.end()
	return unlocked(c.clone(ctx))
}

// clone lets the file system share the bytes.
func (c *copying) clone(ctx context.Context) nfs4.Status {
	x := c.x
	u := x.current.use
	align := uint64(u.Export.CloneAlign)
	switch {
	case x.saved.use != u:
		return nfs4.ErrXDev
	case align == 0:
		return nfs4.ErrNotSupp
	case c.src%align != 0, c.dst%align != 0, c.n%align != 0 && c.src+c.n != c.size,
		c.one && c.src < c.dst+c.n && c.dst < c.src+c.n:
		return nfs4.ErrInval
	case c.n == 0:
		return x.done(nfs4.OK)
	}
	err := u.Export.Copier.CloneRange(ctx, &u.Cred, c.from.Part(x.saved.h, c.src), c.to.Part(x.current.h, c.dst), c.n)
	return x.done(x.status(err))
}
