package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// lsOptions are the flags of ls.
type lsOptions struct {
	*app
	urls            []location
	long, recursive bool
	out             *bufio.Writer
	tame            bool // somebody reads along: no control characters
}

func (a *app) newLs() *cobra.Command {
	o := lsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "ls [-l] [-R] URL...",
		Short: "List directories",
		Long: `List directories, sorted by the octets of the names, one name on a line. Names are
written as they are, and on a terminal with ? for what cannot be shown there.`,
		Args: a.urls(&o.urls),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVarP(&o.long, "long", "l", false, "with mode, links, user, group, size and time")
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "R", false, "with all directories below")
	return cmd
}

func (o *lsOptions) run(ctx context.Context) error {
	o.out, o.tame = bufio.NewWriter(o.stdout), isTerminal(o.stdout)
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

// list lists what a URL names: a directory's content, or the object itself.
func (o *lsOptions) list(ctx context.Context, r remote) error {
	stat := r.fs.Stat
	if o.long {
		stat = r.fs.Lstat
	}
	node, err := stat(ctx, r.rest)
	if err != nil {
		return r.explain(err)
	}
	if node.Attr.Type != nfs3.TypeDir {
		e := nfsclient.DirEntry{Name: r.base(), Handle: node.Handle, Attr: nfs3.PostOpAttr{OK: true, Attr: node.Attr}}
		return r.explain(o.print(ctx, r, []nfsclient.DirEntry{e}))
	}
	return o.listDir(ctx, r, len(o.urls) > 1 || o.recursive)
}

// listDir lists a directory, after its name if named.
func (o *lsOptions) listDir(ctx context.Context, r remote, named bool) error {
	var entries []nfsclient.DirEntry
	for e, err := range r.fs.ReadDir(ctx, r.rest) {
		if err != nil {
			return r.explain(err)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b nfsclient.DirEntry) int { return cmp.Compare(a.Name, b.Name) })
	if named {
		fmt.Fprintf(o.out, "%v:\n", r.location)
	}
	if err := o.print(ctx, r, entries); err != nil {
		return r.explain(err)
	}
	if !o.recursive {
		return nil
	}
	for _, e := range entries {
		if e.Attr.OK && e.Attr.Attr.Type == nfs3.TypeDir {
			o.out.WriteByte('\n')
			if err := o.listDir(ctx, r.child(e.Name), true); err != nil {
				return err
			}
		}
	}
	return nil
}

// print prints entries, in columns where they are long.
func (o *lsOptions) print(ctx context.Context, r remote, entries []nfsclient.DirEntry) error {
	if !o.long {
		for _, e := range entries {
			fmt.Fprintln(o.out, o.show(e.Name))
		}
		return nil
	}
	var rows [][]string
	var widths [6]int
	for _, e := range entries {
		row, err := o.row(ctx, r, &e)
		if err != nil {
			return err
		}
		for i := range widths {
			widths[i] = max(widths[i], len(row[i]))
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		for i, w := range widths {
			fmt.Fprintf(o.out, "%*s ", w, row[i])
		}
		fmt.Fprintln(o.out, row[len(widths)])
	}
	return nil
}

// row returns mode, links, user, group, size, time and name of an entry.
func (o *lsOptions) row(ctx context.Context, r remote, e *nfsclient.DirEntry) ([]string, error) {
	a, name := &e.Attr.Attr, o.show(e.Name)
	if !e.Attr.OK {
		return []string{"?", "?", "?", "?", "?", "?", name}, nil
	}
	if a.Type == nfs3.TypeLnk {
		res, err := r.fs.Client().ReadLink(ctx, e.Handle)
		if err != nil {
			return nil, err
		}
		name += " -> " + o.show(string(res.Path))
	}
	size := strconv.FormatUint(a.Size, 10)
	if a.Type == nfs3.TypeBlk || a.Type == nfs3.TypeChr {
		size = fmt.Sprintf("%d,%d", a.Rdev.Major, a.Rdev.Minor)
	}
	return []string{
		modeString(a), strconv.FormatUint(uint64(a.Nlink), 10),
		strconv.FormatUint(uint64(a.UID), 10), strconv.FormatUint(uint64(a.GID), 10),
		size, goTime(a.Mtime).Format("2006-01-02 15:04"), name,
	}, nil
}

// show returns a name as it is printed.
func (o *lsOptions) show(name string) string {
	if o.tame {
		return tame(name)
	}
	return name
}
