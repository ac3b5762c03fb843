package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// New finds the object for the calls, at a path in link's export, and returns their
// Load.
func New(ctx context.Context, link Link, path string, cfg Config) (*Load, error) {
	l := &Load{cfg: cfg}
	if link.Session != nil {
		return l, l.useNFSv4(ctx, link.Session, path)
	}
	if cfg.Op == "null" {
		l.call = func(ctx context.Context, c Link, _ []byte) (int, error) { return 0, c.Client.Null(ctx) }
		return l, nil
	}
	node, err := link.FS.Stat(ctx, path)
	if err != nil {
		return nil, err
	}
	switch cfg.Op {
	case "getattr":
		l.call = func(ctx context.Context, c Link, _ []byte) (int, error) {
			_, err := c.Client.GetAttr(ctx, node.Handle)
			return 0, err
		}
	case "readdirplus":
		err = l.listDirectory(&node, path)
	case "open":
		err = l.openByName(ctx, link, &node, path)
	default:
		err = l.readOrWrite(ctx, link, &node)
	}
	return l, err
}

// listDirectory sets the call to a whole directory listing.
func (l *Load) listDirectory(node *nfsclient.Node, path string) error {
	if node.Attr.Type != nfs3.TypeDir {
		return errors.New("not a directory, which readdirplus needs")
	}
	l.call = func(ctx context.Context, c Link, _ []byte) (int, error) {
		for _, err := range c.FS.ReadDir(ctx, path) {
			if err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	return nil
}

// openByName sets the call to LOOKUP, ACCESS and READ for a directory's files, one
// after another: the NFSv3 counterpart to OPEN, READ and CLOSE.
func (l *Load) openByName(ctx context.Context, link Link, node *nfsclient.Node, path string) error {
	if node.Attr.Type != nfs3.TypeDir {
		return errors.New("not a directory, which open needs")
	}
	var names []string
	for e, err := range link.FS.ReadDir(ctx, path) {
		if err != nil {
			return err
		}
		if e.Attr.Attr.Type == nfs3.TypeReg {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		return errors.New("has no files")
	}
	l.block = l.cfg.Block
	var turn atomic.Uint64
	l.call = func(ctx context.Context, c Link, p []byte) (int, error) {
		name := names[(turn.Add(1)-1)%uint64(len(names))]
		found, err := c.Client.Lookup(ctx, node.Handle, name)
		if err != nil {
			return 0, err
		}
		if _, err = c.Client.Access(ctx, found.Object, nfs3.AccessRead); err != nil {
			return 0, err
		}
		res, err := c.Client.Read(ctx, found.Object, 0, p)
		return len(res.Data), err
	}
	return nil
}

// readOrWrite sets the call to READ or WRITE for a file's blocks.
func (l *Load) readOrWrite(ctx context.Context, link Link, node *nfsclient.Node) error {
	if node.Attr.Type != nfs3.TypeReg {
		return errors.New("not a regular file, which " + l.cfg.Op + " needs")
	}
	info, err := link.Client.FSInfo(ctx, link.FS.Root())
	if err != nil {
		return err
	}
	l.client, l.handle, l.writes = link.Client, node.Handle, strings.HasSuffix(l.cfg.Op, "write")
	longest := info.RTMax
	if l.writes {
		longest = info.WTMax
	}
	l.block = min(l.cfg.Block, int(longest))
	blocks := node.Attr.Size / uint64(max(l.block, 1))
	if blocks == 0 || l.block == 0 {
		return fmt.Errorf("has %d bytes, less than one block of %d: copy a longer file there, or take a smaller --block", node.Attr.Size, l.block)
	}
	var turn atomic.Uint64
	next := func() uint64 { return (turn.Add(1) - 1) % blocks }
	if strings.HasPrefix(l.cfg.Op, "rand") {
		next = func() uint64 { return rand.Uint64N(blocks) }
	}
	offset := func() uint64 { return next() * uint64(l.block) }
	l.call = func(ctx context.Context, c Link, p []byte) (int, error) {
		res, err := c.Client.Read(ctx, node.Handle, offset(), p)
		if err == nil && len(res.Data) == 0 {
			err = errors.New("became shorter in the meantime")
		}
		return len(res.Data), err
	}
	if l.writes {
		l.call = func(ctx context.Context, c Link, p []byte) (int, error) {
			res, err := c.Client.Write(ctx, node.Handle, offset(), p, nfs3.Unstable)
			return int(res.Count), err
		}
	}
	return nil
}
