package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/copytree"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// cpOptions are the flags and arguments of cp.
type cpOptions struct {
	recursive, preserve, quiet bool
	inFlight                   int

	sources []operand
	dest    operand
}

// An operand is a URL or a local path.
type operand struct {
	url   bool
	local string
	location
}

func (a *app) newCp() *cobra.Command {
	o := cpOptions{inFlight: 16}
	cmd := &cobra.Command{
		Use:   "cp [-r] [-p] SRC... DST",
		Short: "Copy files and trees from, to and between servers",
		Long: `Copy files and trees between local paths and URLs, in both directions, and from
URL to URL. DST is a directory if there are several SRC; a copy into an existing
directory keeps the name of its source.

With -r, directories are copied with their content, and symbolic links as links;
without -r, links are followed. An existing file is emptied first, holes stay
holes, and modes are the source's less the umask. Devices, sockets and FIFOs are
not copied.

A file counts as copied when it is on stable storage, by COMMIT at a server and
by fsync here; new local names of files, links and directories are as stable as
the local file system makes them by that fsync. Exit status 0 means that all of
SRC is stable. If copying an object fails, standard error names it, the rest is
still copied, and the exit status is 1; an incomplete file stays as it is.

A large file needs ` + mib(copytree.FileMemory) + ` of memory at most, and all together need ` + mib(copytree.Memory) + `.`,
		Example: `  mountrdma cp -r -p /home/me/project nfs://server/data
  mountrdma cp nfs://server/data/a nfs://server/data/b /tmp
  mountrdma cp -r nfs://old/data nfs://new/data`,
		Args: o.understand(a),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.cp(cmd.Context(), &o) },
	}
	f := cmd.Flags()
	f.BoolVarP(&o.recursive, "recursive", "r", false, "copy directories and all below them, and links as links")
	f.BoolVarP(&o.preserve, "preserve", "p", false, "keep modes and times, and for root owners")
	f.IntVarP(&o.inFlight, "jobs", "j", o.inFlight, "files in flight")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress bar on a terminal either")
	return cmd
}

func mib(n int) string { return fmt.Sprintf("%d MiB", n>>20) }

// understand parses the arguments. Its errors are usage errors.
func (o *cpOptions) understand(a *app) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < 2 {
			return errors.New("cp needs a source and a destination: SRC... DST")
		}
		for _, arg := range args {
			op, err := parseOperand(arg, a.overTCP())
			if err != nil {
				return err
			}
			o.sources = append(o.sources, op)
		}
		last := len(args) - 1
		o.sources, o.dest = o.sources[:last], o.sources[last]
		names := make(map[string]operand)
		for _, src := range o.sources {
			if !src.url && !o.dest.url {
				return fmt.Errorf("neither %s nor %s is a URL: use cp(1) for local files", src.local, o.dest.local)
			}
			if other, ok := names[src.name()]; ok {
				return fmt.Errorf("%v and %v would become the same file", other, src)
			}
			names[src.name()] = src
		}
		return errors.Join(cli.Within("--jobs", int64(o.inFlight), 1, maxJobs), a.checkFlags())
	}
}

func parseOperand(arg string, tcp bool) (operand, error) {
	if isURL(arg) {
		l, err := parseURL(arg, tcp)
		return operand{url: true, location: l}, err
	}
	if arg == "" {
		return operand{}, errors.New("an empty path names no file")
	}
	return operand{local: arg}, nil
}

// name returns the name of a source in the directory that it is copied into, or
// "" if its content goes into that directory itself.
func (o operand) name() string {
	if o.url {
		name := o.base()
		if name == ".." {
			return ""
		}
		return name
	}
	switch name := filepath.Base(o.local); name {
	case ".", "..", "/":
		return ""
	default:
		return name
	}
}

// String returns the operand as it was given.
func (o operand) String() string {
	if o.url {
		return o.location.String()
	}
	return o.local
}

// find returns the tree that contains an operand, and the operand's path there.
func (a *app) find(ctx context.Context, o operand) (copytree.Tree, string, error) {
	if !o.url {
		return copytree.Host(explainLocal), o.local, nil
	}
	r, err := a.open(ctx, o.location)
	if err != nil {
		return nil, "", err
	}
	return r.tree(), r.rest, nil
}

// tree returns the export that r lies in.
func (r remote) tree() copytree.Tree {
	at := r.location
	at.path = clean(strings.TrimSuffix(r.path, strings.TrimSuffix(r.rest, "/")))
	uid := r.cred.UID
	return copytree.Remote{FS: r.fs, Server: r.addr(), UID: uid, Explain: func(path string, err error) error {
		l := at
		l.path = clean(l.path + "/" + path)
		return &plainError{l.String(), err, uid}
	}}.Tree()
}

// explainLocal wraps an error with the name of a file of this machine.
func explainLocal(name string, err error) error {
	return &plainError{name: fmt.Sprintf("%q", name), err: err}
}

// copyConfig returns the configuration of a copy.
func (a *app) copyConfig(o *cpOptions) copytree.Config {
	cfg := copytree.Config{
		Recursive: o.recursive, Preserve: o.preserve, Jobs: o.inFlight, Umask: a.umask, Report: a.report, Lost: lost,
	}
	if !o.quiet && cli.IsTerminal(a.stderr) {
		cfg.Terminal = a.stderr
	}
	return cfg
}

// cp copies all sources.
func (a *app) cp(ctx context.Context, o *cpOptions) error {
	to, path, err := a.find(ctx, o.dest)
	if err != nil {
		return err
	}
	isDir, err := destination(ctx, to, path, o)
	if err != nil {
		return err
	}
	c := copytree.New(ctx, a.copyConfig(o))
	for _, src := range o.sources {
		from, srcPath, err := a.find(c.Context(), src)
		if refused := (*nfsclient.MountError)(nil); errors.As(err, &refused) {
			c.Fail(err)
			continue
		} else if err != nil {
			c.Stop(err)
			break
		}
		target := path
		if isDir && src.name() != "" {
			target = join(path, src.name())
		}
		c.Copy(from, srcPath, to, target)
	}
	return c.Wait()
}

// destination reports whether DST is a directory, which several sources need.
func destination(ctx context.Context, to copytree.Tree, path string, o *cpOptions) (bool, error) {
	isDir, err := copytree.IsDir(ctx, to, path)
	switch {
	case isDir:
		return true, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		if lost := lost(ctx, err); lost != nil {
			return false, lost
		}
		return false, to.Explain(path, err)
	case len(o.sources) > 1:
		return false, to.Explain(path, errors.New("no such directory: several sources need one"))
	}
	return false, nil
}

// join appends a name to a path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return strings.TrimSuffix(path, "/") + "/" + name
}
