package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An exportsDoc is the answer of the control socket at /exports and the output of
// exports list --json. docs/operations.md describes it.
type exportsDoc struct {
	Version int         `json:"version"`
	File    string      `json:"file"` // "" if the arguments of serve name the exports
	Exports []exportDoc `json:"exports"`
}

func (d *exportsDoc) version() int { return d.Version }

// print prints the list as a table.
func (d *exportsDoc) print(w io.Writer, _ time.Time) error {
	p := &page{}
	p.tab = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	for _, e := range d.Exports {
		p.row(printable(e.Path), strings.Join(e.Clients, " "))
	}
	p.tab.Flush() // into memory
	if len(d.Exports) == 0 {
		p.text.WriteString("no exports\n")
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

func (p *operations) exportsDoc() *exportsDoc {
	return &exportsDoc{Version: statusVersion, File: p.file, Exports: p.exported()}
}

func newExportsList() *cobra.Command {
	return shows("exports", new(exportsDoc), &cobra.Command{
		Use:   "list [--json]",
		Short: "List the exports of a running daemon with their clients and options",
	})
}

func newExportsAdd() *cobra.Command {
	var e exportsEdit
	cmd := &cobra.Command{
		Use:   "add DIR CLIENT[(OPTIONS)]...",
		Short: "Export a directory to clients",
		Long: `Export a directory to clients, from now on and after each restart: a line is added to
the exports file of the running daemon (serve --exports), and the daemon reads the file
again. If no daemon runs, the line is added to the FILE of --exports, and counts when one
starts. CLIENT and OPTIONS are those of exports(5). If anything is wrong with the line or
the directory, the file stays as it was.`,
		Example: `  nfsrdmad exports add /srv/data '192.0.2.0/24(rw)'
  nfsrdmad exports add /srv/public '*(ro)' 'admin.example(rw,no_root_squash)'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("name a directory and its clients: nfsrdmad exports add DIR '192.0.2.0/24(rw)'; '*(ro)' is every host")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := directoryOf(args[0])
			if err != nil {
				return err
			}
			return e.edit(cmd.Context(), cmd.OutOrStdout(), func(f *exportsFile) error { return f.add(dir, args[1:]) })
		},
	}
	e.flags(cmd.Flags())
	return cmd
}

func newExportsRemove() *cobra.Command {
	var e exportsEdit
	cmd := &cobra.Command{
		Use:   "remove DIR",
		Short: "End an export",
		Long: `End an export for all its clients, now and after each restart: its lines are removed
from the exports file of the running daemon (serve --exports), and the daemon reads the
file again. Clients that have it mounted get NFS3ERR_STALE or NFS4ERR_STALE. If no daemon
runs, the lines are removed from the FILE of --exports.`,
		Example: "  nfsrdmad exports remove /srv/data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := directoryOf(args[0])
			if err != nil {
				return err
			}
			return e.edit(cmd.Context(), cmd.OutOrStdout(), func(f *exportsFile) error { return f.remove(dir) })
		},
	}
	e.flags(cmd.Flags())
	return cmd
}

// An exportsEdit has the flags of a change of exports.
type exportsEdit struct {
	control string // socket of the daemon
	file    string // without a daemon
}

func (e *exportsEdit) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&e.control, "control", defaultControl(), "`PATH` of the daemon's socket")
	f.StringVar(&e.file, "exports", defaultExports, "the exports `FILE`, if no daemon runs")
}

// start returns the command that starts a daemon with the file.
func (e *exportsEdit) start() string {
	if e.file == defaultExports {
		return "systemctl enable --now nfsrdmad"
	}
	return "nfsrdmad serve --exports " + e.file
}

// defaultExports is the exports file of nfsrdmad.service.
const defaultExports = "/etc/nfsrdma/exports"

// directoryOf returns the directory of an argument as an absolute path.
func directoryOf(arg string) (string, error) {
	if arg == "" { // filepath.Abs takes the working directory
		return "", errors.New("the directory is empty: name it, as in /srv/data")
	}
	return filepath.Abs(arg)
}

// An exportsFile is an exports file, to be changed.
type exportsFile struct {
	name  string
	text  []byte
	alone bool // no daemon has it
}

// add adds a line. It fails if a client is one of the directory already, for the first
// of two lines would count.
func (f *exportsFile) add(dir string, clients []string) error {
	before, err := exports.Parse(f.name, f.text)
	if err != nil {
		return err
	}
	if f.alone { // else the daemon tries to open it
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

func (f *exportsFile) remove(dir string) error {
	text, n := exports.Without(f.text, dir)
	if n == 0 {
		return fmt.Errorf("%s has no line for %s: nfsrdmad exports list names the exports", f.name, dir)
	}
	if _, err := exports.Parse(f.name, text); err != nil {
		return err
	}
	f.text = text
	return nil
}
