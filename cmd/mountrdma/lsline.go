package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// An lsLine is the output of ls for one entry. All lines of a directory stay in memory
// until they are sorted.
type lsLine struct {
	name    string
	details *lsDetails // with -l
}

type lsDetails struct {
	target  string // of a symbolic link, or ""
	hasAttr bool
	attr    nfs3.Attr
}

// newLine returns the line for an entry.
func (o *lsOptions) newLine(ctx context.Context, r remote, e *nfsclient.DirEntry) (lsLine, error) {
	l := lsLine{name: e.Name}
	if !o.long {
		return l, nil
	}
	l.details = &lsDetails{hasAttr: e.Attr.OK, attr: e.Attr.Attr}
	if e.Attr.OK && e.Attr.Attr.Type == nfs3.TypeLnk {
		res, err := r.fs.Client().ReadLink(ctx, e.Handle)
		if err != nil {
			return l, err
		}
		l.details.target = string(res.Path)
	}
	return l, nil
}

// lsWidths are the widths of the columns before the name.
type lsWidths [6]int

// printLines prints lines of a directory. Columns of long lines are never narrower than in
// earlier calls.
func (o *lsOptions) printLines(dir remote, lines []lsLine, widths *lsWidths) {
	switch {
	case o.json:
		for i := range lines {
			l := &lines[i]
			_ = printJSON(o.out, newObjectInfo(dir.childOf(l.name).location, l.name, l.details)) // Flush returns the error
		}
		return
	case !o.long:
		for i := range lines {
			o.out.WriteString(o.displayName(lines[i].name))
			o.out.WriteByte('\n')
		}
		return
	}
	for i := range lines {
		for k, field := range lines[i].details.fields(o.human) {
			widths[k] = max(widths[k], len(field))
		}
	}
	for i := range lines {
		l := &lines[i]
		for k, field := range l.details.fields(o.human) {
			fmt.Fprintf(o.out, "%*s ", widths[k], field)
		}
		name := l.name
		if l.details.target != "" {
			name += " -> " + l.details.target
		}
		fmt.Fprintln(o.out, o.displayName(name))
	}
}

// fields returns mode, links, user, group, size and time.
func (m *lsDetails) fields(human bool) [len(lsWidths{})]string {
	if !m.hasAttr {
		return [...]string{"?", "?", "?", "?", "?", "?"}
	}
	a := &m.attr
	size := strconv.FormatUint(a.Size, 10)
	if human {
		size = formatColumn(a.Size)
	}
	if a.Type == nfs3.TypeBlk || a.Type == nfs3.TypeChr {
		size = fmt.Sprintf("%d,%d", a.Rdev.Major, a.Rdev.Minor)
	}
	return [...]string{
		modeString(a), strconv.FormatUint(uint64(a.Nlink), 10),
		strconv.FormatUint(uint64(a.UID), 10), strconv.FormatUint(uint64(a.GID), 10),
		size, goTime(a.Mtime).Format("2006-01-02 15:04"),
	}
}

// displayName returns name in the form in which ls prints it.
func (o *lsOptions) displayName(name string) string {
	if o.toTerminal {
		return replaceUnprintable(name)
	}
	return name
}
