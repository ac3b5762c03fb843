package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// rmOptions are the flags of rm.
type rmOptions struct {
	urls             []location
	recursive, force bool
}

func (a *app) newRm() *cobra.Command {
	var o rmOptions
	cmd := &cobra.Command{
		Use:   "rm [-r] [-f] URL...",
		Short: "Remove files, or directories with their contents",
		Args:  a.parseURLs(&o.urls),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.forEachURL(ctx, o.urls, func(r remote) error { return o.removeObject(ctx, r) })
		},
	}
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "r", false, "remove directories and everything below them")
	cmd.Flags().BoolVarP(&o.force, "force", "f", false, "ignore missing files")
	return cmd
}

// errIsRoot reports an attempt to remove the root of an export, which has no name within
// the export.
var errIsRoot = errors.New("this is the export itself, which only the server can remove")

func (o *rmOptions) removeObject(ctx context.Context, r remote) error {
	if r.rest == "" {
		return r.explainError(errIsRoot)
	}
	node, err := r.fs.Lstat(ctx, r.rest)
	switch {
	case o.force && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return r.explainError(err)
	case node.Attr.Type != nfs3.TypeDir:
		return r.explainError(r.fs.Remove(ctx, r.rest))
	case !o.recursive:
		return r.explainError(errors.New("is a directory: -r removes it with its contents"))
	}
	return r.explainError(r.fs.RemoveAll(ctx, r.rest))
}
