package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// duOptions are the flags of du.
type duOptions struct {
	*app
	summarize, human, apparent bool

	out  *bufio.Writer
	seen map[seenFile]bool // files with several names
	sums []uint64          // bytes, by depth
}

// A seenFile identifies a file.
type seenFile struct {
	server   server
	fs, file uint64
}

func (a *app) newDu() *cobra.Command {
	o := duOptions{app: a, seen: make(map[seenFile]bool)}
	var urls []location
	cmd := &cobra.Command{
		Use:   "du [-s] [-h] URL...",
		Short: "Show the space that directories and files take",
		Long: `Show the space that each directory takes with everything below it, in KiB. A file
with several names counts once.`,
		Args: a.parseURLs(&urls),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			o.out = bufio.NewWriter(a.stdout)
			err := a.forEachURL(ctx, urls, func(r remote) error { return o.measureTree(ctx, r) })
			return errors.Join(err, o.out.Flush())
		},
	}
	cmd.Flags().BoolVarP(&o.summarize, "summarize", "s", false, "show only the sum for each URL")
	cmd.Flags().BoolVarP(&o.human, "human-readable", "h", false, "sizes like 1.5K and 23M, in powers of 1024")
	cmd.Flags().BoolVar(&o.apparent, "apparent-size", false, "sum the lengths of files, instead of the space they take")
	addLongHelp(cmd)
	return cmd
}

func (o *duOptions) measureTree(ctx context.Context, r remote) error {
	top, err := r.openObject(ctx)
	if err != nil {
		return err
	}
	o.sums = []uint64{0}
	err = (&treeWalk{app: o.app, before: o.addObject, after: o.finishDir}).run(ctx, top)
	if top.attr.Type != nfs3.TypeDir {
		o.print(o.sums[0], top)
	}
	return err
}

// addObject adds an object to its directory, or begins the sum of a directory.
func (o *duOptions) addObject(x object) error {
	size := x.attr.Used
	if o.apparent {
		size = x.attr.Size
	}
	if x.attr.Type == nfs3.TypeDir {
		o.sums = append(o.sums[:x.depth+1], size)
		return nil
	}
	if id := (seenFile{x.server, x.attr.FSID, x.attr.FileID}); x.attr.Nlink > 1 {
		if o.seen[id] {
			return nil
		}
		if len(o.seen) < maxSeenFiles {
			o.seen[id] = true
		}
	}
	o.sums[x.depth] += size
	return nil
}

// finishDir adds a directory's sum to its parent's.
func (o *duOptions) finishDir(x object) error {
	sum := o.sums[x.depth+1]
	o.sums = o.sums[:x.depth+1]
	o.sums[x.depth] += sum
	if !o.summarize || x.depth == 0 {
		o.print(sum, x)
	}
	return nil
}

func (o *duOptions) print(size uint64, x object) {
	text := formatColumn(size)
	if !o.human {
		text = fmt.Sprint(toKiB(size))
	}
	fmt.Fprintf(o.out, "%s\t%v\n", text, x.location)
}

// toKiB returns a size in KiB, rounded up.
func toKiB(n uint64) uint64 { return n/1024 + (n%1024+1023)/1024 }
