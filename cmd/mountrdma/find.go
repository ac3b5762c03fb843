package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// findOptions are the tests of find.
type findOptions struct {
	*app
	names       []string
	kind        string
	size, mtime string
	print0      bool

	sizeTest, mtimeTest findNumber
	now                 time.Time
	out                 *bufio.Writer
	stop                context.CancelCauseFunc // with the error of writing to out
}

// A findNumber is a number with a sign, as find(1) has it: +N is more than N, -N less.
type findNumber struct {
	sign  byte // 0: equal
	value int64
	unit  int64
}

func (a *app) newFind() *cobra.Command {
	o := findOptions{app: a}
	var urls []location
	cmd := &cobra.Command{
		Use:   "find URL... [--name PATTERN] [--type f|d|l] [--size N] [--mtime N]",
		Short: "Find files in trees",
		Long: `Print the URLs of the objects in trees that pass all tests. The flags may be written
with one dash, as for find(1). Symbolic links are not followed.

N is a number, +N for more than N, or -N for less. --size counts units of c (bytes),
k, M or G, rounded up; without a unit, blocks of 512 bytes. --mtime counts the days
since the last change of the data, rounded down.`,
		Example: `  mountrdma find nfs://server/data -name '*.log' -size +100M
  mountrdma find nfs://server/data -type f -mtime +30 -print0 | xargs -0 mountrdma rm`,
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(a.parseURLs(&urls)(cmd, args), o.parseTests())
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := context.WithCancelCause(cmd.Context())
			defer stop(nil)
			o.out, o.now, o.stop = bufio.NewWriter(a.stdout), time.Now(), stop
			err := a.forEachURL(ctx, urls, func(r remote) error { return o.findObjects(ctx, r) })
			if ferr := o.out.Flush(); err == nil {
				err = ferr
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.names, "name", nil, "last name matches `PATTERN` with *, ? and []; several: any of them")
	f.StringVar(&o.kind, "type", "", "`TYPE` f (file), d (directory), l (symbolic link), b, c, p or s")
	f.StringVar(&o.size, "size", "", "size in units, such as +100M")
	f.StringVar(&o.mtime, "mtime", "", "days since the data changed, such as -7")
	f.BoolVar(&o.print0, "print0", false, "end each URL with a zero byte")
	return cmd
}

// findFlags are the flags of find that may have one dash.
var findFlags = []string{"-name", "-type", "-size", "-mtime", "-print0"}

// expandFindFlags gives the flags of find two dashes.
func expandFindFlags(args []string) []string {
	i := slices.Index(args, "find")
	if i < 0 {
		return args
	}
	args = slices.Clone(args)
	for i++; i < len(args); i++ {
		if slices.Contains(findFlags, args[i]) {
			args[i] = "-" + args[i]
		}
	}
	return args
}

var findTypes = map[string]nfs3.Type{
	"f": nfs3.TypeReg, "d": nfs3.TypeDir, "l": nfs3.TypeLnk, "b": nfs3.TypeBlk, "c": nfs3.TypeChr, "p": nfs3.TypeFIFO, "s": nfs3.TypeSock,
}

// parseTests parses the tests. Its errors are usage errors.
func (o *findOptions) parseTests() (err error) {
	for _, pattern := range o.names {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--name %q is not a pattern: write a [ that stands for itself as \\[", pattern)
		}
	}
	if _, ok := findTypes[o.kind]; o.kind != "" && !ok {
		return fmt.Errorf("--type %q is not a type: write f, d, l, b, c, p or s", o.kind)
	}
	units := map[string]int64{"": 512, "c": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
	if o.sizeTest, err = parseFindNumber("--size", o.size, units); err != nil {
		return err
	}
	o.mtimeTest, err = parseFindNumber("--mtime", o.mtime, map[string]int64{"": int64(24 * time.Hour)})
	return err
}

func parseFindNumber(flag, word string, units map[string]int64) (n findNumber, err error) {
	if word == "" {
		return n, nil
	}
	digits := word
	if word[0] == '+' || word[0] == '-' {
		n.sign, digits = word[0], word[1:]
	}
	unit := strings.TrimLeft(digits, "0123456789")
	value, err := strconv.ParseUint(strings.TrimSuffix(digits, unit), 10, 31)
	n.value, n.unit = int64(value), units[unit]
	if err != nil || n.unit == 0 {
		return n, fmt.Errorf("%s %q is not a number: write N, +N or -N with a unit, as in find(1)", flag, word)
	}
	return n, nil
}

// matches reports whether a number of units passes the test.
func (n findNumber) matches(units int64) bool {
	switch n.sign {
	case '+':
		return units > n.value
	case '-':
		return units < n.value
	}
	return units == n.value
}

func (o *findOptions) findObjects(ctx context.Context, r remote) error {
	top, err := r.openObject(ctx)
	if err != nil {
		return err
	}
	return (&treeWalk{app: o.app, before: o.printMatch}).run(ctx, top)
}

// printMatch prints an object that passes all tests.
func (o *findOptions) printMatch(x object) error {
	matched := len(o.names) == 0
	for _, pattern := range o.names {
		ok, _ := path.Match(pattern, x.lastName()) // parseTests has checked it
		matched = matched || ok
	}
	if s := o.sizeTest; s.unit > 0 {
		units := x.attr.Size / uint64(s.unit)
		if x.attr.Size%uint64(s.unit) > 0 {
			units++
		}
		matched = matched && s.matches(int64(min(units, 1<<62)))
	}
	if m := o.mtimeTest; m.unit > 0 {
		matched = matched && m.matches(int64(o.now.Sub(goTime(x.attr.Mtime)))/m.unit)
	}
	if !matched || o.kind != "" && findTypes[o.kind] != x.attr.Type {
		return nil
	}
	end := byte('\n')
	if o.print0 {
		end = 0
	}
	_, err := o.out.WriteString(x.String() + string(end))
	if err != nil {
		o.stop(err)
	}
	return err
}
