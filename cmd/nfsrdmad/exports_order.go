package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	cmd := &cobra.Command{
		Use:   "add DIR CLIENT[(OPTIONS)]...",
		Short: "Export a directory to clients",
		Long: `Export a directory to clients, immediately and after each restart: the command adds a
line to the running daemon's exports file (serve --exports), and the daemon reloads the
file. If no daemon runs, the line is added to the FILE of --exports, and takes effect when
a daemon starts. CLIENT and OPTIONS are those of exports(5). If the line or the directory
is invalid, the file does not change.`,
		Example: `  nfsrdmad exports add /srv/data '192.0.2.0/24(rw)'
  nfsrdmad exports add /srv/public '*(ro)' 'admin.example(rw,no_root_squash)'`,
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
	return cmd
}

func newExportsRemoveCommand() *cobra.Command {
	var e exportsEdit
	cmd := &cobra.Command{
		Use:   "remove DIR",
		Short: "Remove an export",
		Long: `Remove an export for all its clients, immediately and after each restart: the command
removes its lines from the running daemon's exports file (serve --exports), and the daemon
reloads the file. Clients that have it mounted get NFS3ERR_STALE or NFS4ERR_STALE. If no
daemon runs, the lines are removed from the FILE of --exports.`,
		Example:           "  nfsrdmad exports remove /srv/data",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeExport,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := absDirectory(args[0])
			if err != nil {
				return err
			}
			return e.editFile(cmd.Context(), cmd.OutOrStdout(), func(f *exportsFile) error { return f.removeExport(dir) })
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
	name    string
	text    []byte
	offline bool // no daemon runs
}

// addExport adds a line. It fails if the directory is already exported to one of the clients,
// because only the first of two lines would take effect.
func (f *exportsFile) addExport(dir string, clients []string) error {
	before, err := exports.Parse(f.name, f.text)
	if err != nil {
		return err
	}
	if f.offline { // otherwise the daemon tries to open it
		if err := checkDir(dir); err != nil {
			return err
		}
	}
	text := exports.With(f.text, dir, clients...)
	after, err := exports.Parse(f.name, text)
	if err != nil {
		return err
	}
	if len(after.Warnings) > len(before.Warnings) {
		return after.Warnings[len(after.Warnings)-1]
	}
	f.text = text
	return nil
}

// warnAboutMounts warns of the mounts below a directory that its clients do not see.
func (f *exportsFile) warnAboutMounts(dir string, w io.Writer) {
	file, err := exports.Parse(f.name, f.text)
	if err != nil {
		return
	}
	for _, warning := range hiddenMountWarnings(f.name, file, dir) {
		fmt.Fprintf(w, "%s (warning)\n", warning)
	}
}

func (f *exportsFile) removeExport(dir string) error {
	text, n := exports.Without(f.text, dir)
	if n == 0 {
		return fmt.Errorf("%s has no line for %s: nfsrdmad exports list shows the exports", f.name, dir)
	}
	if _, err := exports.Parse(f.name, text); err != nil {
		return err
	}
	f.text = text
	return nil
}
