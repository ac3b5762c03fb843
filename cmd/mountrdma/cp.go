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

	sources []copyOperand
	dest    copyOperand
}

// A copyOperand is a URL or a local path.
type copyOperand struct {
	isRemote bool
	local    string
	location
}

func (a *app) newCp() *cobra.Command {
	o := cpOptions{inFlight: 16}
	cmd := &cobra.Command{
		Use:   "cp [-r] [-p] SRC... DST",
		Short: "Copy files and trees from, to and between servers",
		Long: `Copy files and trees between local paths and URLs, in both directions, and from
URL to URL. If there are several SRC, DST must be a directory; a copy into an
existing directory keeps the name of its source.

With -r, directories are copied with their content, and symbolic links as links;
without -r, links are followed. An existing file is truncated first, holes are
preserved, and modes are the source's less the umask. With -r or -p, hard links
to one file become hard links to one file in the copy, if they are found in the
same SRC or on the same server. Devices, sockets and FIFOs are not copied, and
neither are extended attributes and access control lists. With -p, a warning on
standard error says once if a local file has some, and if a time before 1970 or
after 2106 becomes the nearest one that NFSv3 can represent; the exit status is
still 0.

A file counts as copied when it is on stable storage, by COMMIT on a server and
by fsync here; new local names of files, links and directories are as stable as
the local file system makes them by that fsync. Exit status 0 means that all of
SRC is stable. If copying an object fails, standard error names it, the rest is
still copied, and the exit status is 1; an incomplete file is left as it is.

A large file needs at most ` + formatMiB(copytree.FileMemory) + ` of memory, and all files together ` + formatMiB(copytree.Memory) + `.`,
		Example: `  mountrdma cp -r -p /home/me/project nfs://server/data
  mountrdma cp nfs://server/data/a nfs://server/data/b /tmp
  mountrdma cp -r nfs://old/data nfs://new/data`,
		Args: o.parseArgs(a),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.copyAll(cmd.Context(), &o) },
	}
	f := cmd.Flags()
	f.BoolVarP(&o.recursive, "recursive", "r", false, "copy directories with everything below them, and links as links")
	f.BoolVarP(&o.preserve, "preserve", "p", false, "preserve modes, times and hard links, and owners if run by root")
	f.IntVarP(&o.inFlight, "jobs", "j", o.inFlight, "files copied concurrently")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress bar, even on a terminal")
	return cmd
}

func formatMiB(n int) string { return fmt.Sprintf("%d MiB", n>>20) }

// parseArgs parses the arguments. Its errors are usage errors.
func (o *cpOptions) parseArgs(a *app) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < 2 {
			return errors.New("cp needs a source and a destination: SRC... DST")
		}
		for _, arg := range args {
			op, err := parseCopyOperand(arg, a.overTCP())
			if err != nil {
				return err
			}
			o.sources = append(o.sources, op)
		}
		last := len(args) - 1
		o.sources, o.dest = o.sources[:last], o.sources[last]
		names := make(map[string]copyOperand)
		for _, src := range o.sources {
			if !src.isRemote && !o.dest.isRemote {
				return fmt.Errorf("neither %s nor %s is a URL: use cp(1) for local files", src.local, o.dest.local)
			}
			if other, ok := names[src.baseName()]; ok {
				return fmt.Errorf("%v and %v would become the same file", other, src)
			}
			names[src.baseName()] = src
		}
		return errors.Join(cli.CheckRange("--jobs", int64(o.inFlight), 1, maxJobs), a.checkFlags())
	}
}

func parseCopyOperand(arg string, tcp bool) (copyOperand, error) {
	if isURL(arg) {
		l, err := parseURL(arg, tcp)
		return copyOperand{isRemote: true, location: l}, err
	}
	if arg == "" {
		return copyOperand{}, errors.New("an empty path names no file")
	}
	return copyOperand{local: arg}, nil
}

// baseName returns the name that a source gets in the destination directory, or "" if its
// content goes into that directory itself.
func (o copyOperand) baseName() string {
	if o.isRemote {
		name := o.lastName()
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
func (o copyOperand) String() string {
	if o.isRemote {
		return o.location.String()
	}
	return o.local
}

// findTree returns the tree that contains an operand, and the operand's path in it.
func (a *app) findTree(ctx context.Context, o copyOperand) (copytree.Tree, string, error) {
	if !o.isRemote {
		return copytree.Host(explainLocal), o.local, nil
	}
	r, err := a.openURL(ctx, o.location)
	if err != nil {
		return nil, "", err
	}
	return r.exportTree(), r.rest, nil
}

// exportTree returns the export that contains r.
func (r remote) exportTree() copytree.Tree {
	at := r.location
	at.path = cleanPath(strings.TrimSuffix(r.path, strings.TrimSuffix(r.rest, "/")))
	uid := r.cred.UID
	return copytree.Remote{FS: r.fs, Server: r.addr(), UID: uid, Explain: func(path string, err error) error {
		l := at
		l.path = cleanPath(l.path + "/" + path)
		return &plainError{l.String(), err, uid}
	}}.Tree()
}

// explainLocal wraps an error with the name of a local file.
func explainLocal(name string, err error) error {
	return &plainError{name: fmt.Sprintf("%q", name), err: err}
}

// copyConfig returns the configuration of a copy.
func (a *app) copyConfig(o *cpOptions) copytree.Config {
	cfg := copytree.Config{
		Recursive: o.recursive, Preserve: o.preserve, Jobs: o.inFlight, Umask: a.umask, Report: a.printError, Lost: fatalError,
	}
	if !o.quiet && cli.IsTerminal(a.stderr) {
		cfg.Terminal = a.stderr
	}
	return cfg
}

// copyAll copies all sources.
func (a *app) copyAll(ctx context.Context, o *cpOptions) error {
	to, path, err := a.findTree(ctx, o.dest)
	if err != nil {
		return err
	}
	isDir, err := isDirDestination(ctx, to, path, o)
	if err != nil {
		return err
	}
	c := copytree.New(ctx, a.copyConfig(o))
	for _, src := range o.sources {
		from, srcPath, err := a.findTree(c.Context(), src)
		if refused := (*nfsclient.MountError)(nil); errors.As(err, &refused) {
			c.Fail(err)
			continue
		} else if err != nil {
			c.Stop(err)
			break
		}
		target := path
		if isDir && src.baseName() != "" {
			target = joinPath(path, src.baseName())
		}
		c.Copy(from, srcPath, to, target)
	}
	return c.Wait()
}

// isDirDestination reports whether DST is a directory. Several sources need one.
func isDirDestination(ctx context.Context, to copytree.Tree, path string, o *cpOptions) (bool, error) {
	isDir, err := copytree.IsDir(ctx, to, path)
	switch {
	case isDir:
		return true, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		if lost := fatalError(ctx, err); lost != nil {
			return false, lost
		}
		return false, to.Explain(path, err)
	case len(o.sources) > 1:
		return false, to.Explain(path, errors.New("no such directory: several sources need one"))
	}
	return false, nil
}

// joinPath appends a name to a path.
func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return strings.TrimSuffix(path, "/") + "/" + name
}
