package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
)

// v3Attributes are those that an NFSv3 GETATTR returns.
var v3Attributes = nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrFileID, nfs4.AttrMode,
	nfs4.AttrNumLinks, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrRawDev, nfs4.AttrSpaceUsed, nfs4.AttrTimeAccess,
	nfs4.AttrTimeMetadata, nfs4.AttrTimeModify)

// useNFSv4 sets the call to its NFSv4 form, with the object at a path from the
// server's root.
func (l *Load) useNFSv4(ctx context.Context, s *nfs4client.Session, path string) error {
	if l.cfg.Op == "null" {
		l.call = func(ctx context.Context, c Link, _ []byte) (int, error) {
			return 0, c.Session.Sequence(ctx)
		}
		return nil
	}
	h, err := s.Walk(ctx, path)
	if err != nil {
		return err
	}
	attrs, err := s.GetAttr(ctx, h, nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrSize))
	if err != nil {
		return err
	}
	switch l.cfg.Op {
	case "getattr":
		l.call = func(ctx context.Context, c Link, _ []byte) (int, error) {
			_, err := c.Session.GetAttr(ctx, h, v3Attributes)
			return 0, err
		}
		return nil
	case "readdirplus", "open":
		if attrs.Type != nfs4.TypeDir {
			return errors.New("not a directory, which " + l.cfg.Op + " needs")
		}
		if l.cfg.Op == "open" {
			return l.openByNameV4(ctx, s, h)
		}
		l.call = func(ctx context.Context, c Link, _ []byte) (int, error) {
			for _, err := range c.Session.ReadDir(ctx, h, v3Attributes) {
				if err != nil {
					return 0, err
				}
			}
			return 0, nil
		}
		return nil
	}
	return l.readOrWriteV4(s, path, &attrs)
}

// openByNameV4 sets the call to OPEN, READ and CLOSE for a directory's files, one
// after another.
func (l *Load) openByNameV4(ctx context.Context, s *nfs4client.Session, dir nfs4.FH) error {
	var names []string
	for e, err := range s.ReadDir(ctx, dir, nfs4.BitmapOf(nfs4.AttrType)) {
		if err != nil {
			return err
		}
		if e.Attrs.Type == nfs4.TypeReg {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		return errors.New("has no files")
	}
	l.block = l.cfg.Block
	var turn atomic.Uint64
	l.call = func(ctx context.Context, c Link, p []byte) (int, error) {
		f, err := c.Session.Open(ctx, dir, names[(turn.Add(1)-1)%uint64(len(names))], nfs4client.OpenFlags{Read: true})
		if err != nil {
			return 0, err
		}
		n, err := f.ReadAt(ctx, p, 0)
		if err != nil && err != io.EOF {
			return n, err
		}
		return n, f.Close(ctx)
	}
	return nil
}

// readOrWriteV4 sets the call to READ or WRITE for a file's blocks.
func (l *Load) readOrWriteV4(s *nfs4client.Session, path string, attrs *nfs4.Attrs) error {
	if attrs.Type != nfs4.TypeReg {
		return errors.New("not a regular file, which " + l.cfg.Op + " needs")
	}
	l.writes = strings.HasSuffix(l.cfg.Op, "write")
	longest := s.MaxRead()
	if l.writes {
		longest = s.MaxWrite()
	}
	l.block = min(l.cfg.Block, longest)
	blocks := attrs.Size / uint64(max(l.block, 1))
	if blocks == 0 || l.block == 0 {
		return fmt.Errorf("has %d bytes, less than one block of %d: copy a longer file there, or take a smaller --block", attrs.Size, l.block)
	}
	cut := strings.LastIndexByte(path, '/')
	dir, name := path[:max(cut, 0)], path[cut+1:]
	l.open = func(ctx context.Context, c Link) (*nfs4client.File, error) {
		h, err := c.Session.Walk(ctx, dir)
		if err != nil {
			return nil, err
		}
		return c.Session.Open(ctx, h, name, nfs4client.OpenFlags{Read: !l.writes, Write: l.writes})
	}
	var turn atomic.Uint64
	next := func() uint64 { return (turn.Add(1) - 1) % blocks }
	if strings.HasPrefix(l.cfg.Op, "rand") {
		next = func() uint64 { return rand.Uint64N(blocks) }
	}
	l.call = func(ctx context.Context, c Link, p []byte) (int, error) {
		n, err := c.file.ReadAt(ctx, p, next()*uint64(l.block))
		if err == io.EOF {
			err = nil
		}
		if err == nil && n == 0 {
			err = errors.New("became shorter in the meantime")
		}
		return n, err
	}
	if l.writes {
		l.call = func(ctx context.Context, c Link, p []byte) (int, error) {
			res, err := c.file.WriteAt(ctx, p, next()*uint64(l.block), nfs4.Unstable)
			return int(res.Count), err
		}
	}
	return nil
}

// openFiles returns the links, each with the open file that its calls use.
func (l *Load) openFiles(ctx context.Context, links []Link) ([]Link, error) {
	if l.open == nil {
		return links, nil
	}
	links = slices.Clone(links)
	for i := range links {
		f, err := l.open(ctx, links[i])
		if err != nil {
			return nil, err
		}
		links[i].file, l.files = f, append(l.files, f)
	}
	return links, nil
}

// closeFiles puts written data on stable storage and closes the files.
func (l *Load) closeFiles(ctx context.Context) error {
	if l.writes {
		if _, err := l.files[0].Commit(ctx); err != nil {
			return err
		}
	}
	for _, f := range l.files {
		if err := f.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}
