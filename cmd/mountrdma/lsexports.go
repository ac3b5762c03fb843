package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// addLongHelp adds --help without -h, which means human-readable sizes.
func addLongHelp(cmd *cobra.Command) {
	cmd.Flags().Bool("help", false, "help for "+cmd.Name())
}

// exportsBelow returns the names in a directory that is above the exports and in none of
// them: then opening it fails with err.
func (r remote) exportsBelow(err error) (names []string) {
	if err == nil || r.session == nil {
		return nil
	}
	if _, held := r.findExport(r.path); held {
		return nil
	}
	for _, e := range r.exports {
		if below, ok := strings.CutPrefix(cleanPath(e.Path), strings.TrimSuffix(r.path, "/")+"/"); ok {
			name, _, _ := strings.Cut(below, "/")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// listExports lists a directory above the exports.
func (o *lsOptions) listExports(ctx context.Context, r remote, names []string) error {
	named := len(o.urls) > 1 || o.recursive
	o.printTitle(r, &named)
	lines := make([]lsLine, 0, len(names))
	for _, name := range names {
		line := lsLine{name: name}
		if o.long {
			line.details = o.exportDetails(ctx, r.childOf(name))
		}
		lines = append(lines, line)
	}
	o.printLines(r, lines, new(lsWidths))
	if !o.recursive {
		return nil
	}
	for _, name := range names {
		o.separate()
		child, err := o.openURL(ctx, r.childOf(name).location)
		if below := child.exportsBelow(err); len(below) > 0 {
			err = o.listExports(ctx, child, below)
		} else if err == nil {
			err = o.listDir(ctx, child, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exportDetails returns the attributes of an export's root, or none if this host or user
// may not mount it, or if the directory is only above exports.
func (o *lsOptions) exportDetails(ctx context.Context, r remote) *lsDetails {
	r, err := o.openURL(ctx, r.location)
	if err != nil {
		return new(lsDetails)
	}
	node, err := r.fs.Stat(ctx, r.rest)
	return &lsDetails{hasAttr: err == nil, attr: node.Attr}
}
