package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

func newExportsListCommand() *cobra.Command {
	var d report.ExportList
	cmd := newShowCommand("exports", &d, &cobra.Command{
		Use:   "list [--json | -v]",
		Short: "List a running daemon's exports with their clients and options",
		Long: `List a running daemon's exports with their clients, and with the options that are not
the default. -v shows all options.`,
	})
	addVerboseFlag(cmd, &d.Verbose)
	return cmd
}

func newExportsAddCommand() *cobra.Command {
	var e exportsEdit
	var temporary bool
	cmd := &cobra.Command{
		Use:   "add DIR CLIENT[(OPTIONS)]...",
		Short: "Export a directory to clients",
		Long: `Export a directory to clients, immediately and after each restart: the command adds a
line to the running daemon's exports file (serve --exports), and the daemon reloads the
file. If no daemon runs, the line is added to the FILE of --exports, and takes effect when
a daemon starts. CLIENT and OPTIONS are those of exports(5). If the line or the directory
is invalid, the file does not change. For a daemon with --standby, an fsid= is added.

With --until-restart, no file changes: the running daemon keeps the export until it exits,
also when it reloads its files.`,
		Example: `  nfsrdmad exports add /srv/data '192.0.2.0/24(rw)'
  nfsrdmad exports add /srv/public '*(ro)' 'admin.example(rw,no_root_squash)'
  nfsrdmad exports add --until-restart /srv/data 192.0.2.9`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("name a directory and its clients: nfsrdmad exports add DIR '192.0.2.0/24(rw)'; '*(ro)' means every host")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := absDirectory(args[0])
			if err != nil {
				return err
			}
			if temporary {
				return sendOrder(cmd.Context(), e.control, "exports/temporary?"+url.Values{"dir": {dir}, "client": args[1:]}.Encode(), cmd.OutOrStdout())
			}
			var changed *exportsFile
			err = e.editFile(cmd.Context(), cmd.OutOrStdout(), func(f *exportsFile) error {
				changed = f
				return f.addExport(dir, args[1:])
			})
			if err == nil {
				changed.warnAboutMounts(dir, cmd.ErrOrStderr())
			}
			return err
		},
	}
	e.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&temporary, "until-restart", false, "export until the daemon exits, and change no file")
	cmd.MarkFlagsMutuallyExclusive("until-restart", "exports")
	return cmd
}

func newExportsRemoveCommand() *cobra.Command {
	var e exportsEdit
	cmd := &cobra.Command{
		Use:   "remove DIR",
		Short: "Remove an export",
		Long: `Remove an export for all its clients, immediately and after each restart: the command
removes its lines from the running daemon's exports file (serve --exports), or from the
drop-in that has them, and the daemon reloads the files. Clients that have it mounted get
NFS3ERR_STALE or NFS4ERR_STALE. If no daemon runs, the lines are removed from the FILE of --exports.`,
		Example:           "  nfsrdmad exports remove /srv/data",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeExport,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := absDirectory(args[0])
			if err != nil {
				return err
			}
			ctx, w := cmd.Context(), cmd.OutOrStdout()
			err = e.editFile(ctx, w, func(f *exportsFile) error { return f.removeExport(dir) })
			if _, ok := errors.AsType[noLineError](err); err != nil && !ok {
				return err
			}
			return e.removeTemporary(ctx, w, dir, err)
		},
	}
	e.addFlags(cmd.Flags())
	return cmd
}

// An exportsEdit has the flags of a command that changes the exports.
type exportsEdit struct {
	control string // the daemon's socket
	file    string // exports file if no daemon runs
}

func (e *exportsEdit) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&e.control, "control", defaultControl(), "`PATH` of the daemon's socket")
	f.StringVar(&e.file, "exports", defaultExports, "the exports `FILE`, if no daemon runs")
}

// startCommand returns the shell command that starts a daemon with the file.
func (e *exportsEdit) startCommand() string {
	if e.file == defaultExports {
		return "systemctl enable --now nfsrdmad"
	}
	return "nfsrdmad serve --exports " + e.file
}

// defaultExports is the exports file that nfsrdmad.service uses.
const defaultExports = "/etc/nfsrdma/exports"

// absDirectory returns a directory argument as an absolute path.
func absDirectory(arg string) (string, error) {
	if arg == "" { // filepath.Abs would return the working directory
		return "", errors.New("the directory is empty: name it, as in /srv/data")
	}
	return filepath.Abs(arg)
}

// An exportsFile is an exports file that a command changes.
type exportsFile struct {
	offline bool             // no daemon runs
	standby bool             // the daemon is one of several hosts: exports need an fsid=
	sources []exports.Source // all exports files; exports are added to the first
	edited  int              // index of the one that changes
	name    string           // its name without symbolic links
	text    []byte           // its new text
}

// addExport adds a line (addLine).
func (f *exportsFile) addExport(dir string, clients []string) (err error) {
	if f.offline { // otherwise the daemon tries to open it
		if err := checkDir(dir); err != nil {
			return err
		}
	}
	if f.standby {
		clients = withFSID(f.sources, dir, clients)
	}
	f.text, err = addLine(f.sources, 0, dir, clients)
	return err
}

// withFSID adds an fsid= to clients, unless one of them has one: that of the same directory's other
// clients, or a new one.
func withFSID(sources []exports.Source, dir string, clients []string) []string {
	fsid := newUUID()
	if f, err := exports.ParseSources(sources...); err == nil {
		for _, e := range f.Exports {
			if e.Path == dir && e.FSID().Set() {
				fsid = e.FSID().String()
			}
		}
	}
	list := make([]string, len(clients))
	for i, c := range clients {
		host, options, has := strings.Cut(strings.TrimSuffix(c, ")"), "(")
		switch {
		case strings.Contains(c, "fsid="):
			return clients
		case strings.HasPrefix(c, "-"): // options of the clients that follow
			list[i] = c
		case has && options != "":
			list[i] = fmt.Sprintf("%s(%s,fsid=%s)", host, options, fsid)
		default:
			list[i] = fmt.Sprintf("%s(fsid=%s)", host, fsid)
		}
	}
	return list
}

// warnAboutMounts warns of the mounts below a directory that its clients do not see.
func (f *exportsFile) warnAboutMounts(dir string, w io.Writer) {
	file, err := exports.ParseSources(f.sources...)
	if err != nil {
		return
	}
	for _, warning := range hiddenMountWarnings(file, dir) {
		fmt.Fprintf(w, "%s (warning)\n", warning)
	}
}

// A noLineError reports that no exports file has a line for a directory.
type noLineError struct{ files, dir string }

func (e noLineError) Error() string {
	return fmt.Sprintf("%s has no line for %s: nfsrdmad exports list shows the exports", e.files, e.dir)
}

// removeExport removes the lines for a directory from the file that has them.
func (f *exportsFile) removeExport(dir string) error {
	var names, holders []string
	for i, s := range f.sources {
		names = append(names, s.Name)
		text, n := exports.Without(s.Text, dir)
		if n > 0 {
			holders = append(holders, s.Name)
			f.edited, f.text = i, text
		}
	}
	switch len(holders) {
	case 0:
		return noLineError{strings.Join(names, ", "), dir}
	case 1:
	default:
		return fmt.Errorf("%s is exported in %s: remove its lines from all but one of them, then try again", dir, strings.Join(holders, " and in "))
	}
	rest := slices.Clone(f.sources)
	rest[f.edited].Text = f.text
	_, err := exports.ParseSources(rest...)
	return err
}

// removeTemporary removes the lines of exports add --until-restart for a directory from a running
// daemon. Without such lines it returns missing.
func (e *exportsEdit) removeTemporary(ctx context.Context, w io.Writer, dir string, missing error) error {
	var said bytes.Buffer
	err := sendOrder(ctx, e.control, "exports/temporary?"+url.Values{"dir": {dir}}.Encode(), &said)
	if _, gone := errors.AsType[noDaemonError](err); gone {
		return missing
	}
	if err != nil {
		return errors.Join(missing, err)
	}
	if said.String() == noTemporary+"\n" {
		return missing
	}
	_, err = w.Write(said.Bytes())
	return err
}
