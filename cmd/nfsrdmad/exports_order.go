package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/stablefile"
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
	path := defaultControl()
	cmd := &cobra.Command{
		Use:   "add DIR CLIENT[(OPTIONS)]...",
		Short: "Export a directory of a running daemon to clients",
		Long: `Export a directory to clients, from now on and after each restart: a line is added to
the exports file of the running daemon (serve --exports), and the daemon reads the file
again. CLIENT and OPTIONS are those of exports(5). If anything is wrong with the line or
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
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return edit(cmd.Context(), path, cmd.OutOrStdout(), func(f *exportsFile) error { return f.add(dir, args[1:]) })
		},
	}
	cmd.Flags().StringVar(&path, "control", path, "`PATH` of the daemon's socket")
	return cmd
}

func newExportsRemove() *cobra.Command {
	path := defaultControl()
	cmd := &cobra.Command{
		Use:   "remove DIR",
		Short: "End an export of a running daemon",
		Long: `End an export for all its clients, now and after each restart: its lines are removed
from the exports file of the running daemon (serve --exports), and the daemon reads the
file again. Clients that have it mounted get NFS3ERR_STALE or NFS4ERR_STALE.`,
		Example: "  nfsrdmad exports remove /srv/data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return edit(cmd.Context(), path, cmd.OutOrStdout(), func(f *exportsFile) error { return f.remove(dir) })
		},
	}
	cmd.Flags().StringVar(&path, "control", path, "`PATH` of the daemon's socket")
	return cmd
}

// An exportsFile is the exports file of a daemon, to be changed.
type exportsFile struct {
	name string
	text []byte
}

// add adds a line. It fails if a client is one of the directory already, for the first
// of two lines would count.
func (f *exportsFile) add(dir string, clients []string) error {
	before, err := exports.Parse(f.name, f.text)
	if err != nil {
		return err
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

// edit changes the exports file of the daemon at a socket, and has the daemon read it. If
// the daemon refuses the new file, the old one is put back.
func edit(ctx context.Context, control string, w io.Writer, change func(*exportsFile) error) error {
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	name, err := servedFile(ctx, control)
	if err != nil {
		return err
	}
	lock, old, err := lockFile(name)
	if err != nil {
		return fmt.Errorf("exports file %s: %w", name, cli.Cause(err))
	}
	defer lock.Close()
	text, err := io.ReadAll(lock)
	if err != nil {
		return fmt.Errorf("exports file %s: %w", name, cli.Cause(err))
	}
	f := &exportsFile{name, text}
	if err := change(f); err != nil {
		return err
	}
	write := func(text []byte) error {
		if err := stablefile.ReplaceAs(name, text, old, (*os.File).Sync); err != nil {
			return fmt.Errorf("exports file %s cannot be written: %w", name, cli.Cause(err))
		}
		return nil
	}
	if err := write(f.text); err != nil {
		return err
	}
	if err := order(ctx, control, "reload", w); err != nil {
		return errors.Join(err, write(text))
	}
	return nil
}

// servedFile returns the exports file of the daemon at a socket.
func servedFile(ctx context.Context, control string) (string, error) {
	body, err := ask(ctx, control, http.MethodGet, "exports")
	if err != nil {
		return "", err
	}
	defer body.Close()
	var d exportsDoc
	if err := json.NewDecoder(body).Decode(&d); err != nil {
		return "", fmt.Errorf("the program at %s is not nfsrdmad: %w", control, err)
	}
	if d.File == "" {
		return "", errors.New("the daemon has its exports from its arguments, and a change would be lost at its end: start it with nfsrdmad serve --exports FILE")
	}
	// The name may be a link, as to a file of another package.
	return filepath.EvalSymlinks(d.File)
}

// lockFile opens and locks a file that is replaced as a whole: the lock is on the file
// that has the name when lockFile returns.
func lockFile(name string) (*os.File, os.FileInfo, error) {
	for {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		for err == unix.EINTR {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		var held, there os.FileInfo
		if err == nil {
			held, err = f.Stat()
		}
		if err == nil {
			there, err = os.Stat(name)
		}
		switch {
		case err != nil:
			f.Close()
			return nil, nil, err
		case os.SameFile(held, there):
			return f, held, nil
		}
		f.Close()
	}
}
