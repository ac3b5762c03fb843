package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

func newLocksCommand() *cobra.Command {
	var after string
	cmd := newShowCommand("locks", new(report.HeldList), &cobra.Command{
		Use:   "locks [FILE | --after KEY] [--json]",
		Short: "List the files that a running daemon's clients hold open, locked or delegated",
		Long: fmt.Sprintf(`List the files that clients of a running daemon hold: each open with its access and
deny modes, delegations, locked bytes with the lock-owner, and who waits for a
lock, for how long. NFSv4 clients and NFSv3 clients with locks are listed; the
opens of NFSv3 are unknown to a server. The list ends after %d files, and says
with which --after it continues.

With FILE, the path of a file on this host, list who holds that file, under
whatever name. If nobody holds it, the command says so, and its exit status is 0.
If FILE is in no export either, the exit status is 1.

A file without a known path is listed by its fileid and export. A name that is
not plain text is quoted.

--json prints one object; /usr/share/doc/nfsrdma/operations.md describes its
fields.`, report.MaxHeld),
		Example: `  nfsrdmad locks
  nfsrdmad locks /srv/data/mail.db
  nfsrdmad locks --json | jq '.files[] | select(.waiters != []) | .path'`,
	})
	cmd.Flags().StringVar(&after, "after", "", "continue the list after the file with `KEY`")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && after != "" {
			return errors.New("FILE and --after cannot be combined")
		}
		return cobra.MaximumNArgs(1)(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query := url.Values{"after": {after}}
		if len(args) > 0 {
			var err error
			if query, err = fileQuery(args[0]); err != nil {
				return err
			}
		}
		return showHeld(cmd, "locks", query)
	}
	return cmd
}

// showHeld requests a list of held files, and prints it.
func showHeld(cmd *cobra.Command, name string, query url.Values) error {
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	return showDocument(cmd.Context(), cmd.Flag("control").Value.String(), name+"?"+query.Encode(), new(report.HeldList), asJSON, cmd.OutOrStdout())
}

// fileQuery identifies a file on this host.
func fileQuery(arg string) (url.Values, error) {
	path, err := filepath.Abs(arg)
	if err == nil && arg != "" {
		path, err = filepath.EvalSymlinks(path)
	}
	var st unix.Stat_t
	switch {
	case arg == "":
		return nil, errors.New("the file is empty: name it, as in /srv/data/mail.db")
	case err == nil:
		if err = unix.Stat(path, &st); err == nil {
			return url.Values{"path": {path}, "dev": {strconv.FormatUint(st.Dev, 10)}, "ino": {strconv.FormatUint(st.Ino, 10)}}, nil
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%q: no such file on this host: name it by its path on the server; nfsrdmad locks also lists removed files that are open", arg)
	}
	return nil, fmt.Errorf("%q: %w", arg, cli.Cause(err))
}

// serveHeld serves a list of held files.
func (p *runningDaemon) serveHeld(w http.ResponseWriter, r *http.Request) {
	q, err := parseHeldQuery(r)
	var d *report.HeldList
	if err == nil {
		d, err = p.reportSource().CollectHeld(r.Context(), q)
	}
	switch {
	case errors.Is(err, report.ErrNoClient):
		err = fmt.Errorf("there is no client %s: nfsrdmad clients lists them", r.FormValue("id"))
	case errors.Is(err, report.ErrNotExported):
		err = fmt.Errorf("%q is in no export, and no client holds it: nfsrdmad exports list shows the exports", q.File)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d) // fails if the client has disconnected
}

func parseHeldQuery(r *http.Request) (*report.HeldQuery, error) {
	q := &report.HeldQuery{After: r.FormValue("after"), File: r.FormValue("path")}
	if s := r.FormValue("id"); s != "" {
		var id clientID
		if err := id.Set(s); err != nil {
			return nil, err
		}
		q.Client = uint64(id)
	}
	if q.File == "" {
		return q, nil
	}
	dev, err := strconv.ParseUint(r.FormValue("dev"), 10, 64)
	if err != nil {
		return nil, errors.New("invalid device number")
	}
	ino, err := strconv.ParseUint(r.FormValue("ino"), 10, 64)
	if err != nil {
		return nil, errors.New("invalid inode number")
	}
	q.Object = report.HeldObject(posix.AppendInodeKey(nil, dev, ino))
	return q, nil
}
