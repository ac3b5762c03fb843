package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// dfOptions are the flags of df.
type dfOptions struct{ human, inodes bool }

func (a *app) newDf() *cobra.Command {
	var o dfOptions
	var urls []location
	cmd := &cobra.Command{
		Use:   "df [-h] [-i] URL...",
		Short: "Show the space on file systems",
		Long: `Show the total, used and available space of the file systems that hold the URLs, in
KiB. nfs://SERVER stands for all exports of the server that are not below another one.`,
		Args: a.parseURLs(&urls),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
			o.printTitle(w)
			err := a.forEachLocation(ctx, urls, func(r remote, err error) error { return a.showSpace(ctx, w, &o, r, err) })
			return errors.Join(err, w.Flush())
		},
	}
	cmd.Flags().BoolVarP(&o.human, "human-readable", "h", false, "sizes like 1.5K and 23M, in powers of 1024")
	cmd.Flags().BoolVarP(&o.inodes, "inodes", "i", false, "show the number of files, instead of space")
	addLongHelp(cmd)
	return cmd
}

// showSpace prints a line for the file system of r, or for each export below r.
func (a *app) showSpace(ctx context.Context, w io.Writer, o *dfOptions, r remote, err error) error {
	if names := r.exportsBelow(err); len(names) > 0 {
		urls := make([]location, 0, len(names))
		for _, name := range names {
			urls = append(urls, r.childOf(name).location)
		}
		return a.forEachLocation(ctx, urls, func(r remote, err error) error { return a.showSpace(ctx, w, o, r, err) })
	}
	if err != nil {
		return err
	}
	node, err := r.fs.Stat(ctx, r.rest)
	if err != nil {
		return r.explainError(err)
	}
	space, err := r.fs.Client().FSStat(ctx, node.Handle)
	if err != nil {
		return r.explainError(err)
	}
	o.printLine(w, r.location, &space)
	return nil
}

func (o *dfOptions) printTitle(w io.Writer) {
	columns := []string{"1K-blocks", "Used", "Available", "Use%"}
	switch {
	case o.inodes:
		columns = []string{"Inodes", "IUsed", "IFree", "IUse%"}
	case o.human:
		columns = []string{"Size", "Used", "Avail", "Use%"}
	}
	fmt.Fprintf(w, "%s\t  URL\n", strings.Join(columns, "\t"))
}

func (o *dfOptions) printLine(w io.Writer, l location, s *nfs3.FSStatRes) {
	total, free, avail := s.TotalBytes, s.FreeBytes, s.AvailBytes
	format := func(n uint64) string { return fmt.Sprint(toKiB(n)) }
	switch {
	case o.inodes:
		total, free, avail = s.TotalFiles, s.FreeFiles, s.AvailFiles
		format = func(n uint64) string { return fmt.Sprint(n) }
	case o.human:
		format = formatColumn
	}
	used := total - min(free, total)
	percent := "-"
	if sum := float64(used) + float64(avail); sum > 0 {
		percent = fmt.Sprintf("%.0f%%", math.Ceil(100*float64(used)/sum))
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t  %v\n", format(total), format(used), format(avail), percent, l)
}
