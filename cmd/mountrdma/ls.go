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
	human, json     bool
	out             *bufio.Writer
	toTerminal      bool // output is a terminal: print no control characters
}

func (a *app) newLs() *cobra.Command {
	o := lsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "ls [-l] [-h] [-R] [-U] URL...",
		Short: "List directories",
		Long: `List directories, one name per line, sorted by the bytes of the names. Names are
printed unchanged, or on a terminal with ? for unprintable characters.

Sorting a directory needs memory for all of its names. With -U, names are printed
as they arrive, for directories of any size.

The exports of a server are listed like directories: of nfs://SERVER, and of any
directory above them.

--json prints one object per line and entry: url name type mode nlink uid gid size
used fsid fileid atime mtime ctime, and target of a symbolic link. mode is octal.
In a name that is not UTF-8, U+FFFD replaces the wrong bytes; url has them all.`,
		Args: a.parseURLs(&o.urls),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVarP(&o.long, "long", "l", false, "show mode, links, user, group, size and time")
	cmd.Flags().BoolVarP(&o.human, "human-readable", "h", false, "with -l: sizes like 1.5K and 23M, in powers of 1024")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON objects")
	addLongHelp(cmd)
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "R", false, "list all directories below, too")
	cmd.Flags().BoolVarP(&o.unsorted, "unsorted", "U", false, "print names in the server's order, as they arrive")
	return cmd
}

func (o *lsOptions) run(ctx context.Context) error {
	o.out, o.toTerminal = bufio.NewWriter(o.stdout), cli.IsTerminal(o.stdout)
	o.long = o.long || o.json
	first := true
	err := o.forEachLocation(ctx, o.urls, func(r remote, err error) error {
		names := r.exportsBelow(err)
		if err != nil && len(names) == 0 {
			return err
		}
		if !first {
			o.separate()
		}
		first = false
		if len(names) > 0 {
			return o.listExports(ctx, r, names)
		}
		return o.listObject(ctx, r)
	})
	if ferr := o.out.Flush(); err == nil {
		err = ferr
	}
	return err
}

// listObject lists a directory's content, or any other object itself.
func (o *lsOptions) listObject(ctx context.Context, r remote) error {
	stat := r.fs.Stat
	if o.long {
		stat = r.fs.Lstat
	}
	node, err := stat(ctx, r.rest)
	if err != nil {
		return r.explainError(err)
	}
	if node.Attr.Type == nfs3.TypeDir {
		return o.listDir(ctx, r, len(o.urls) > 1 || o.recursive)
	}
	e := nfsclient.DirEntry{Name: r.lastName(), Handle: node.Handle, Attr: nfs3.PostOpAttr{OK: true, Attr: node.Attr}}
	line, err := o.newLine(ctx, r, &e)
	if err != nil {
		return r.explainError(err)
	}
	at := r
	at.path = parentDir(r.path)
	o.printLines(at, []lsLine{line}, new(lsWidths))
	return nil
}

// separate prints an empty line between two directories.
func (o *lsOptions) separate() {
	if !o.json {
		o.out.WriteByte('\n')
	}
}

// listDir lists a directory, with its name as a title if named is set.
func (o *lsOptions) listDir(ctx context.Context, r remote, named bool) error {
	dirs, err := o.listEntries(ctx, r, named)
	if err != nil {
		return r.explainError(err)
	}
	for _, name := range dirs {
		o.separate()
		if err := o.listDir(ctx, r.childOf(name), true); err != nil {
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
	for e, err := range o.readEntries(ctx, r) {
		if err != nil {
			return nil, err
		}
		line, err := o.newLine(ctx, r, &e)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
		if o.recursive && e.Attr.OK && e.Attr.Attr.Type == nfs3.TypeDir {
			dirs = append(dirs, e.Name)
		}
		if o.unsorted && len(lines) == lsPiece {
			o.printTitle(r, &named)
			o.printLines(r, lines, &widths)
			lines = lines[:0]
		}
	}
	o.printTitle(r, &named)
	if !o.unsorted {
		slices.SortFunc(lines, func(a, b lsLine) int { return cmp.Compare(a.name, b.name) })
		slices.Sort(dirs)
	}
	o.printLines(r, lines, &widths)
	return dirs, nil
}

// readEntries requests only the attributes that are shown.
func (o *lsOptions) readEntries(ctx context.Context, r remote) iter.Seq2[nfsclient.DirEntry, error] {
	if o.long || o.recursive {
		return r.fs.ReadDir(ctx, r.rest)
	}
	return r.fs.ReadNames(ctx, r.rest)
}

// printTitle prints a directory's name once.
func (o *lsOptions) printTitle(r remote, named *bool) {
	if *named && !o.json {
		fmt.Fprintf(o.out, "%v:\n", r.location)
	}
	*named = false
}
