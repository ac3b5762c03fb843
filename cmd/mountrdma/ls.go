package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// lsOptions are the flags of ls.
type lsOptions struct {
	*app
	urls            []location
	long, recursive bool
	unsorted        bool
	out             *bufio.Writer
	tame            bool // output is a terminal: no control characters
}

func (a *app) newLs() *cobra.Command {
	o := lsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "ls [-l] [-R] [-U] URL...",
		Short: "List directories",
		Long: `List directories, sorted by the bytes of the names, one name on a line. Names are
written unchanged, or on a terminal with ? for unprintable characters.

Sorting a directory takes memory for all of its names. With -U names are written
as they arrive, for directories of any size.`,
		Args: a.urls(&o.urls),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVarP(&o.long, "long", "l", false, "with mode, links, user, group, size and time")
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "R", false, "with all directories below")
	cmd.Flags().BoolVarP(&o.unsorted, "unsorted", "U", false, "in the server's order, as they come")
	return cmd
}

func (o *lsOptions) run(ctx context.Context) error {
	o.out, o.tame = bufio.NewWriter(o.stdout), cli.IsTerminal(o.stdout)
	first := true
	err := o.each(ctx, o.urls, func(r remote) error {
		if !first {
			o.out.WriteByte('\n')
		}
		first = false
		return o.list(ctx, r)
	})
	if ferr := o.out.Flush(); err == nil {
		err = ferr
	}
	return err
}

// list lists the object that a URL names: a directory's content, or the object
// itself.
func (o *lsOptions) list(ctx context.Context, r remote) error {
	stat := r.fs.Stat
	if o.long {
		stat = r.fs.Lstat
	}
	node, err := stat(ctx, r.rest)
	if err != nil {
		return r.explain(err)
	}
	if node.Attr.Type == nfs3.TypeDir {
		return o.listDir(ctx, r, len(o.urls) > 1 || o.recursive)
	}
	e := nfsclient.DirEntry{Name: r.base(), Handle: node.Handle, Attr: nfs3.PostOpAttr{OK: true, Attr: node.Attr}}
	line, err := o.line(ctx, r, &e)
	if err != nil {
		return r.explain(err)
	}
	o.print([]lsLine{line}, new(lsWidths))
	return nil
}

// listDir lists a directory, preceded by its name if named is set.
func (o *lsOptions) listDir(ctx context.Context, r remote, named bool) error {
	dirs, err := o.listEntries(ctx, r, named)
	if err != nil {
		return r.explain(err)
	}
	for _, name := range dirs {
		o.out.WriteByte('\n')
		if err := o.listDir(ctx, r.child(name), true); err != nil {
			return err
		}
	}
	return nil
}

// listEntries lists one directory. It returns the names of the subdirectories
// to list next.
func (o *lsOptions) listEntries(ctx context.Context, r remote, named bool) (dirs []string, err error) {
	var lines []lsLine
	var widths lsWidths
	for e, err := range o.entries(ctx, r) {
		if err != nil {
			return nil, err
		}
		line, err := o.line(ctx, r, &e)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
		if o.recursive && e.Attr.OK && e.Attr.Attr.Type == nfs3.TypeDir {
			dirs = append(dirs, e.Name)
		}
		if o.unsorted && len(lines) == lsPiece {
			o.title(r, &named)
			o.print(lines, &widths)
			lines = lines[:0]
		}
	}
	o.title(r, &named)
	if !o.unsorted {
		slices.SortFunc(lines, func(a, b lsLine) int { return cmp.Compare(a.name, b.name) })
		slices.Sort(dirs)
	}
	o.print(lines, &widths)
	return dirs, nil
}

// entries asks only for the attributes that are shown.
func (o *lsOptions) entries(ctx context.Context, r remote) iter.Seq2[nfsclient.DirEntry, error] {
	if o.long || o.recursive {
		return r.fs.ReadDir(ctx, r.rest)
	}
	return r.fs.ReadNames(ctx, r.rest)
}

// title writes a directory's name once.
func (o *lsOptions) title(r remote, named *bool) {
	if *named {
		fmt.Fprintf(o.out, "%v:\n", r.location)
	}
	*named = false
}
