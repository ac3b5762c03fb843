package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// An lsLine is the output of ls for one entry. All lines of a directory are in
// memory until they are sorted.
type lsLine struct {
	name string
	more *lsMore // with -l
}

type lsMore struct {
	target string // " -> " and the target of a symbolic link
	known  bool
	attr   nfs3.Attr
}

// line returns the line of an entry.
func (o *lsOptions) line(ctx context.Context, r remote, e *nfsclient.DirEntry) (lsLine, error) {
	l := lsLine{name: e.Name}
	if !o.long {
		return l, nil
	}
	l.more = &lsMore{known: e.Attr.OK, attr: e.Attr.Attr}
	if e.Attr.OK && e.Attr.Attr.Type == nfs3.TypeLnk {
		res, err := r.fs.Client().ReadLink(ctx, e.Handle)
		if err != nil {
			return l, err
		}
		l.more.target = " -> " + string(res.Path)
	}
	return l, nil
}

// lsWidths are the widths of the columns in front of the name.
type lsWidths [6]int

// print prints lines. Long lines have columns, never narrower than those of
// earlier calls.
func (o *lsOptions) print(lines []lsLine, widths *lsWidths) {
	if !o.long {
		for i := range lines {
			o.out.WriteString(o.show(lines[i].name))
			o.out.WriteByte('\n')
		}
		return
	}
	for i := range lines {
		for k, field := range lines[i].more.fields() {
			widths[k] = max(widths[k], len(field))
		}
	}
	for i := range lines {
		l := &lines[i]
		for k, field := range l.more.fields() {
			fmt.Fprintf(o.out, "%*s ", widths[k], field)
		}
		fmt.Fprintln(o.out, o.show(l.name+l.more.target))
	}
}

// fields returns mode, links, user, group, size and time.
func (m *lsMore) fields() [len(lsWidths{})]string {
	if !m.known {
		return [...]string{"?", "?", "?", "?", "?", "?"}
	}
	a := &m.attr
	size := strconv.FormatUint(a.Size, 10)
	if a.Type == nfs3.TypeBlk || a.Type == nfs3.TypeChr {
		size = fmt.Sprintf("%d,%d", a.Rdev.Major, a.Rdev.Minor)
	}
	return [...]string{
		modeString(a), strconv.FormatUint(uint64(a.Nlink), 10),
		strconv.FormatUint(uint64(a.UID), 10), strconv.FormatUint(uint64(a.GID), 10),
		size, goTime(a.Mtime).Format("2006-01-02 15:04"),
	}
}

// show returns name as ls prints it.
func (o *lsOptions) show(name string) string {
	if o.tame {
		return tame(name)
	}
	return name
}
