package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/copytree"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// cpOptions are the flags and arguments of cp.
type cpOptions struct {
	recursive, preserve, quiet, verbose bool
	resume, update, checksum, dryRun    bool
	exclude                             []string
	inFlight                            int

	sources []copyOperand
	dest    copyOperand
}

// A copyOperand is a URL, a local path, or "-" for standard input or output.
type copyOperand struct {
	isRemote bool
	isStream bool
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
existing directory keeps the name of its source. The SRC - is standard input, and
the DST - standard output.

With -r, directories are copied with their content, and symbolic links as links;
without -r, links are followed. Holes are preserved, and modes are the source's
less the umask. With -r or -p, hard links to one file become hard links to one
file in the copy, if they are found in the same SRC or on the same server.
Devices, sockets and FIFOs are not copied, and neither are extended attributes and
access control lists. With -p, a warning on standard error says once if a local
file has some, and if a time before 1970 or after 2106 becomes the nearest one
that NFSv3 can represent; the exit status is still 0.

The copy of a file grows under the name NAME.part, and replaces NAME when it is
complete: other programs see the old file or the new one. Without -p, the new one has
the old one's mode, and for root its owner; its access control list, extended
attributes and other hard links are not kept. (A NAME of more than
` + fmt.Sprint(copytree.MaxNameLength) + ` bytes is shortened first. If NAME is a symbolic link, a device or a FIFO, data
are written through it, without NAME.part.) If a copy is interrupted, NAME.part
stays, except that of a small file, and standard error names it. With --resume,
the same command continues it. It is continued only if it belongs to the same
version of the source, by size, times and identity; its end, which a crash may have
damaged, is compared with the source. With --checksum too, all of it is compared
with the source as it is now, and continued after what is equal. A NAME.part that
is there without --resume, or that is something else, is an error and stays
unchanged. Two commands must not write the same DST at a time.

Without --update and --checksum, every SRC is copied again. --update skips files
whose copies are not older than they are, and --checksum those whose copies have the
same content, which it reads from both sides; a file that is skipped keeps its
attributes. --dry-run prints what would be copied, and changes nothing. --exclude
leaves out objects below SRC: a PATTERN with a slash is compared with the path
relative to SRC, another one with the last name; *, ? and [] have their meaning in
a shell.

A file counts as copied when it is on stable storage, by COMMIT on a server, and
by fsync of the file and its directory here. Exit status 0 means that all of SRC is
stable, except what is written to standard output. If copying an object fails,
standard error names it, the rest is still copied, and the exit status is 1. On a
terminal, and with -v, a line at the end says how much was copied.

A large file needs at most ` + formatMiB(copytree.FileMemory) + ` of memory, and all files together ` + formatMiB(copytree.Memory) + `.`,
		Example: `  mountrdma cp -r -p /home/me/project nfs://server/data
  mountrdma cp nfs://server/data/a nfs://server/data/b /tmp
  mountrdma cp -r nfs://old/data nfs://new/data
  mountrdma cp -r -p --resume --update /srv/photos nfs://server/data
  tar -c . | mountrdma cp - nfs://server/data/backup.tar`,
		Args: o.parseArgs(a),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.copyAll(cmd.Context(), &o) },
	}
	f := cmd.Flags()
	f.BoolVarP(&o.recursive, "recursive", "r", false, "copy directories with everything below them, and links as links")
	f.BoolVarP(&o.preserve, "preserve", "p", false, "preserve modes, times and hard links, and owners if run by root")
	f.IntVarP(&o.inFlight, "jobs", "j", o.inFlight, "files copied concurrently")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no progress bar and summary, even on a terminal")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print a summary, even without a terminal")
	f.BoolVar(&o.resume, "resume", false, "continue interrupted copies")
	f.BoolVarP(&o.update, "update", "u", false, "skip files whose copies are not older")
	f.BoolVar(&o.checksum, "checksum", false, "skip files whose copies have the same content")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "print what would be copied, and copy nothing")
	f.StringArrayVar(&o.exclude, "exclude", nil, "leave out objects below SRC that match `PATTERN`; may be repeated")
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
		return errors.Join(o.checkStreams(), o.checkPatterns(), cli.CheckRange("--jobs", int64(o.inFlight), 1, maxJobs), a.checkFlags())
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
	return copyOperand{local: arg, isStream: arg == "-"}, nil
}

// checkStreams checks the uses of standard input and output.
func (o *cpOptions) checkStreams() error {
	hasInput := slices.ContainsFunc(o.sources, func(src copyOperand) bool { return src.isStream })
	switch {
	case hasInput && o.resume:
		return errors.New("--resume cannot continue standard input, which begins where its writer begins")
	case (hasInput || o.dest.isStream) && (o.update || o.checksum || o.dryRun || o.recursive):
		return errors.New("-r, --update, --checksum and --dry-run are for files, not for standard input or output (the file - is ./-)")
	case hasInput && o.dest.isRemote && (o.dest.dir || o.dest.lastName() == ""):
		return fmt.Errorf("standard input has no name: write the file's name after %v", o.dest)
	case o.dest.isStream && len(o.sources) > 1:
		return errors.New("standard output takes one SRC: \"mountrdma cat\" writes several files")
	}
	return nil
}

func (o *cpOptions) checkPatterns() error {
	for _, pattern := range o.exclude {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--exclude %q is not a pattern: write a [ that stands for itself as \\[", pattern)
		}
	}
	return nil
}

// isExcluded reports whether --exclude leaves out the object at a path relative to its
// source.
func (o *cpOptions) isExcluded(name string) bool {
	return slices.ContainsFunc(o.exclude, func(pattern string) bool {
		subject := name
		if !strings.Contains(pattern, "/") {
			subject = path.Base(name)
		}
		matched, _ := path.Match(strings.Trim(pattern, "/"), subject) // checkPatterns has checked it
		return matched
	})
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
	switch {
	case o.isStream:
		return copytree.Stream("-", a.stdin, a.stdout), o.local, nil
	case !o.isRemote:
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
	name := func(path string) string {
		l := at
		l.path = cleanPath(l.path + "/" + path)
		return l.String()
	}
	explain := func(path string, err error) error { return &plainError{name(path), err, uid} }
	return copytree.Remote{FS: r.fs, Server: r.addr(), UID: uid, Explain: explain, Name: name}.Tree()
}

// explainLocal wraps an error with the name of a local file.
func explainLocal(name string, err error) error {
	return &plainError{name: fmt.Sprintf("%q", name), err: err}
}

// copyConfig returns the configuration of a copy.
func (a *app) copyConfig(o *cpOptions) copytree.Config {
	cfg := copytree.Config{
		Recursive: o.recursive, Preserve: o.preserve, Jobs: o.inFlight, Umask: a.umask, Report: a.printError, Lost: fatalError,
		Resume: o.resume, Update: o.update, Checksum: o.checksum, Exclude: o.isExcluded,
	}
	if o.dryRun {
		cfg.DryRun = func(from, to string) {
			fmt.Fprintf(a.stdout, "%s -> %s\n", replaceUnprintable(from), replaceUnprintable(to))
		}
		return cfg
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
	start := time.Now()
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
	err = c.Wait()
	if o.verbose || !o.quiet && cli.IsTerminal(a.stderr) {
		fmt.Fprintln(a.stderr, formatSummary(c.Summary(), time.Since(start), o.dryRun))
	}
	return err
}

// formatSummary returns the line at the end of a copy.
func formatSummary(s copytree.Summary, took time.Duration, dryRun bool) string {
	files := "1 file"
	if s.Files != 1 {
		files = fmt.Sprintf("%d files", s.Files)
	}
	if s.Unchanged > 0 {
		files += fmt.Sprintf(" (%d more unchanged)", s.Unchanged)
	}
	if dryRun {
		return fmt.Sprintf("%s, %s would be copied", files, formatSize(s.Bytes))
	}
	rate := int64(float64(s.Bytes) / max(took.Seconds(), 1e-9))
	return fmt.Sprintf("%s, %s in %s, %s/s", files, formatSize(s.Bytes), formatMicros(float64(took.Microseconds())), formatSize(rate))
}

// isDirDestination reports whether DST is a directory. Several sources need one.
func isDirDestination(ctx context.Context, to copytree.Tree, path string, o *cpOptions) (bool, error) {
	isDir, err := copytree.IsDir(ctx, to, path)
	switch {
	case isDir && o.sources[0].isStream:
		return true, to.Explain(path, errors.New("is a directory: write the name for standard input after it"))
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
