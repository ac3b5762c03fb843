package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

func (a *app) newMv() *cobra.Command {
	var urls []location
	return &cobra.Command{
		Use:   "mv URL... URL",
		Short: "Rename or move files and directories within an export",
		Long: `Rename files and directories, or move them into a directory, if the last URL is
one. A file at the new name is replaced. Both URLs must be in one export: to move
between exports or servers, use "mountrdma cp -r -p", then "mountrdma rm -r".`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("mv needs a source and a destination: URL... URL")
			}
			if err := a.parseURLs(&urls)(cmd, args); err != nil {
				return err
			}
			names := make(map[string]location)
			for _, l := range urls[:len(urls)-1] {
				if other, ok := names[l.lastName()]; ok {
					return fmt.Errorf("%v and %v would become the same file", other, l)
				}
				names[l.lastName()] = l
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, last := cmd.Context(), len(urls)-1
			to, isDir, err := a.openDestination(ctx, urls[last])
			if err == nil && !isDir && last > 1 {
				err = to.explainError(errors.New("no such directory: several sources need one"))
			}
			if err != nil {
				return err
			}
			return a.forEachURL(ctx, urls[:last], func(r remote) error { return r.moveTo(ctx, to.entryFor(r.lastName(), isDir)) })
		},
	}
}

// openDestination opens the place to which objects get new names, and reports whether it is
// a directory.
func (a *app) openDestination(ctx context.Context, l location) (r remote, isDir bool, err error) {
	if r, err = a.openURL(ctx, l); err != nil {
		return r, false, err
	}
	node, err := r.fs.Stat(ctx, r.rest)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !l.dir:
		return r, false, nil
	case err != nil:
		if lost := fatalError(ctx, err); lost != nil {
			return r, false, lost
		}
		return r, false, r.explainError(err)
	}
	return r, node.Attr.Type == nfs3.TypeDir, nil
}

// entryFor returns the place for an object with a name: in r if that is a directory,
// otherwise r itself.
func (r remote) entryFor(name string, isDir bool) remote {
	if isDir {
		return r.childOf(name)
	}
	return r
}

func (r remote) moveTo(ctx context.Context, to remote) error {
	switch {
	case r.rest == "":
		return r.explainError(errIsRoot)
	case r.fs != to.fs:
		return r.explainError(fmt.Errorf("cannot move to %v, in another export or server: use cp -r -p, then rm -r", to.location))
	}
	from, err := r.openObject(ctx)
	there, terr := to.openObject(ctx)
	if err == nil && terr == nil && there.attr.FSID == from.attr.FSID && there.attr.FileID == from.attr.FileID {
		return r.explainNames(errors.New("are the same file"), to) // for which RENAME does nothing
	}
	return r.explainNames(r.fs.Rename(ctx, strings.TrimSuffix(r.rest, "/"), to.rest), to)
}

// explainNames adds both URLs to an error.
func (r remote) explainNames(err error, to remote) error {
	if err == nil {
		return nil
	}
	return &plainError{fmt.Sprintf("%v -> %v", r.location, to.location), err, r.cred.UID}
}
