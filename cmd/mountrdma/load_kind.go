package main

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

// newLoad finds the object of the calls and returns their load.
func newLoad(ctx context.Context, r remote, o *benchOptions) (*load, error) {
	if o.op.Word == "null" {
		return &load{call: func(ctx context.Context, c link, _ []byte) (int, error) { return 0, c.nfs.Null(ctx) }}, nil
	}
	node, err := r.fs.Stat(ctx, r.rest)
	if err != nil {
		return nil, err
	}
	switch o.op.Word {
	case "getattr":
		return &load{call: func(ctx context.Context, c link, _ []byte) (int, error) {
			_, err := c.nfs.GetAttr(ctx, node.Handle)
			return 0, err
		}}, nil
	case "readdirplus":
		return listLoad(&node, r.rest)
	default:
		return dataLoad(ctx, r, o, &node)
	}
}

// listLoad returns a load of whole listings of a directory.
func listLoad(node *nfsclient.Node, path string) (*load, error) {
	if node.Attr.Type != nfs3.TypeDir {
		return nil, errors.New("not a directory, which readdirplus needs")
	}
	return &load{call: func(ctx context.Context, c link, _ []byte) (int, error) {
		for _, err := range c.fs.ReadDir(ctx, path) {
			if err != nil {
				return 0, err
			}
		}
		return 0, nil
	}}, nil
}

// dataLoad returns a load of READs or WRITEs of the blocks of a file.
func dataLoad(ctx context.Context, r remote, o *benchOptions, node *nfsclient.Node) (*load, error) {
	if node.Attr.Type != nfs3.TypeReg {
		return nil, errors.New("not a regular file, which " + o.op.Word + " needs")
	}
	info, err := r.nfs.FSInfo(ctx, r.fs.Root())
	if err != nil {
		return nil, err
	}
	l := &load{client: r.nfs, handle: node.Handle, writes: strings.HasSuffix(o.op.Word, "write")}
	longest := info.RTMax
	if l.writes {
		longest = info.WTMax
	}
	l.block = min(int(o.block), int(longest))
	blocks := node.Attr.Size / uint64(max(l.block, 1))
	if blocks == 0 || l.block == 0 {
		return nil, fmt.Errorf("has %d octets, less than one block of %d: copy a longer file there, or take a smaller --block", node.Attr.Size, l.block)
	}
	var turn atomic.Uint64
	next := func() uint64 { return (turn.Add(1) - 1) % blocks }
	if strings.HasPrefix(o.op.Word, "rand") {
		next = func() uint64 { return rand.Uint64N(blocks) }
	}
	offset := func() uint64 { return next() * uint64(l.block) }
	l.call = func(ctx context.Context, c link, p []byte) (int, error) {
		res, err := c.nfs.Read(ctx, node.Handle, offset(), p)
		if err == nil && len(res.Data) == 0 {
			err = errors.New("became shorter in the meantime")
		}
		return len(res.Data), err
	}
	if l.writes {
		l.call = func(ctx context.Context, c link, p []byte) (int, error) {
			res, err := c.nfs.Write(ctx, node.Handle, offset(), p, nfs3.Unstable)
			return int(res.Count), err
		}
	}
	return l, nil
}
