package copytree

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// An output is the file that a copy writes: NAME.part, which becomes NAME when it is
// complete and stable.
//
//	createPart ─┐
//	            ├─▶ data ─▶ COMMIT or fsync ─▶ attributes ─▶ renamePart ─▶ syncNames
//	resumePart ─┘
//
// A symbolic link, device or FIFO at NAME is written through instead.
type output struct {
	openFile
	to   Tree
	path string
	part string // "": the file is written in place
	off  int64  // the length that is already there

	replaced *entry // the file at path, whose mode and owner stay without Preserve; or nil

	isResumed bool
}

// partName returns the name under which path grows. The name of a long name has the same
// length, so that every file system that allows the one allows the other.
func partName(path string) string {
	i := strings.LastIndexByte(path, '/') + 1
	dir, name := path[:i], path[i:]
	if len(name) > MaxNameLength {
		sum := sha256.Sum256([]byte(name))
		cut := len(name) - len(".01234567.part")
		for cut > 0 && !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = fmt.Sprintf("%s.%x", name[:cut], sum[:4])
	}
	return dir + name + ".part"
}

var (
	errPartExists = errors.New("exists: a copy was interrupted or is in progress; --resume continues it, or remove the file")
	errPartKind   = errors.New("is not the partial file of an earlier copy: rename or remove it")
	errPartOwner  = errors.New("is another user's file: rename or remove it")
	errPartInUse  = errors.New("another copy is writing it: wait until it is complete")
	errPartOther  = errors.New("is not a part of this version of the source, which may have changed: remove it, or let --resume --checksum compare all of it")
	errPartDiffer = errors.New("has other data than the source: it is a part of another version or file; remove it, and copy again")
	errChanged    = errors.New("changed while it was copied: remove the partial file, and copy again")
)

// mark returns a time that identifies e's version, and the zero time for a small file. A
// partial copy has it as its atime, which no WRITE changes.
func (e *entry) mark() time.Time {
	if !e.kind.IsRegular() || e.size < smallFile {
		return time.Time{}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %d %d %v", e.id.server, e.id.fs, e.id.file, e.version())
	sum := h.Sum(nil)
	// The range is that of all file systems.
	sec := 1 + binary.BigEndian.Uint32(sum)%(1<<31-1)
	return time.Unix(int64(sec), int64(1000*(binary.BigEndian.Uint32(sum[4:])%1e6)))
}

// openOutput opens the file in which the copy of src to path grows.
func (c *Copier) openOutput(src openFile, e *entry, to Tree, path string, mode uint32, inPlace bool) (*output, error) {
	o := &output{to: to, path: path}
	var err error
	if inPlace {
		if o.openFile, err = to.createFile(c.ctx, path, mode); err != nil {
			return nil, to.Explain(path, err)
		}
		return o, nil
	}
	if strings.HasSuffix(path, "/") {
		return nil, to.Explain(path, unix.EISDIR)
	}
	o.part = partName(path)
	o.openFile, err = to.createPart(c.ctx, o.part, mode, e)
	if errors.Is(err, fs.ErrExist) {
		o.isResumed = true
		o.openFile, o.off, err = c.resumePart(src, e, to, o.part)
	} else if err != nil {
		err = to.Explain(path, err)
	}
	return o, err
}

// resumePart opens an existing partial file and returns the length that is the source's.
// The length of a file alone proves little: after a crash of the server or of this host its
// end may be missing or have gaps. A file that is of this version is trusted except for its
// end, which is compared with the source.
func (c *Copier) resumePart(src openFile, e *entry, to Tree, part string) (openFile, int64, error) {
	there, err := to.stat(c.ctx, part, false)
	switch {
	case err != nil:
		return nil, 0, to.Explain(part, err)
	case !there.kind.IsRegular() || there.nlink > 1:
		return nil, 0, to.Explain(part, errPartKind)
	case !c.cfg.Resume:
		return nil, 0, to.Explain(part, errPartExists)
	}
	isOurs := !e.mark().IsZero() && there.atime.Equal(e.mark())
	trusted := int64(0)
	switch {
	case there.size > e.size:
		return nil, 0, to.Explain(part, errPartOther)
	case c.cfg.Checksum:
	case isOurs:
		trusted = max(0, there.size-unstableTail)
	case there.size > unstableTail:
		return nil, 0, to.Explain(part, errPartOther)
	}
	f, err := to.openPart(c.ctx, there, isOurs)
	if err != nil {
		return nil, 0, to.Explain(part, err)
	}
	same, err := equalLength(c.ctx, src, f, trusted, there.size)
	hasGap := isOurs || c.cfg.Checksum && same >= smallFile
	if err == nil && same < there.size && !hasGap {
		err = errPartDiffer
	}
	if now, verr := f.version(c.ctx); err == nil && verr == nil && now != there.version() {
		err = errPartInUse
	}
	if err == nil && same < there.size { // a copy with holes does not overwrite what is there
		err = f.truncate(c.ctx, same)
	}
	if mark := e.mark(); err == nil && !mark.IsZero() { // reading may have replaced it
		err = f.setAttr(c.ctx, attrChange{setMark: true, atime: mark})
	}
	if err != nil {
		_ = f.closeFile()
		return nil, 0, to.Explain(part, err)
	}
	return f, same, nil
}

// complete gives the file its attributes and its final name.
func (o *output) complete(c *Copier, ch attrChange, change bool) error {
	if change {
		if err := o.setAttr(c.ctx, ch); err != nil {
			return err
		}
	}
	if local, ok := o.openFile.(*localFile); ok {
		if err := local.syncData(); err != nil {
			return err
		}
	}
	if o.part == "" {
		return nil
	}
	if err := o.to.renamePart(c.ctx, o.openFile, o.part, o.path); err != nil {
		return err
	}
	if local, ok := o.to.(*hostTree); ok && local.top == nil { // otherwise finishDir does
		return o.to.syncNames(c.ctx, o.path)
	}
	return nil
}

// abandonPart removes a partial file that cannot be resumed, and records one that can.
func (c *Copier) abandonPart(o *output, e *entry) {
	if o.part == "" {
		return
	}
	if e.mark().IsZero() && !o.isResumed {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), cleanupTime)
		defer cancel()
		if o.to.remove(ctx, o.part) == nil {
			return
		}
	}
	remedy := "--resume continues it"
	if !e.kind.IsRegular() {
		remedy = "remove it"
	}
	c.parts.mu.Lock()
	defer c.parts.mu.Unlock()
	if c.parts.count++; c.parts.count <= maxListedParts {
		c.parts.list = append(c.parts.list, o.to.Explain(o.part, fmt.Errorf("is incomplete: %s", remedy)))
	}
}

// reportParts names the partial files that the copy leaves.
func (c *Copier) reportParts() {
	for _, err := range c.parts.list {
		c.cfg.Report(err)
	}
	if more := c.parts.count - len(c.parts.list); more > 0 {
		c.cfg.Report(fmt.Errorf("%d more files with the suffix .part are incomplete", more))
	}
}
