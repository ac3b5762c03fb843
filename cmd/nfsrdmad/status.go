package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// statusTimeout is how long status waits for the daemon, which normally responds at once.
const statusTimeout = 10 * time.Second

// orderTimeout is the time limit for an order: the daemon may have to open the directories of
// new exports.
const orderTimeout = time.Minute

func newStatusCommand() *cobra.Command {
	var d report.Status
	cmd := newShowCommand("status", &d, &cobra.Command{
		Use:   "status [--json | -v]",
		Short: "Show the state of a running daemon",
		Long: `Show a running daemon's connections with their negotiated settings, exports,
calls by procedure, reply cache and memory. Of the options of exports, it shows those
that are not the default; -v shows all.

--json prints one object; /usr/share/doc/nfsrdma/operations.md describes its
fields. With several daemons on one machine, --control selects one of them.`,
		Example: `  nfsrdmad status
  nfsrdmad status --json | jq '.connections[] | .peer'`,
	})
	addVerboseFlag(cmd, &d.Verbose)
	return cmd
}

// addVerboseFlag adds the flag that shows all options of exports.
func addVerboseFlag(cmd *cobra.Command, verbose *bool) {
	cmd.Flags().BoolVarP(verbose, "verbose", "v", false, "show all options of exports, also the defaults")
}

// A document is a response from the control socket.
type document interface {
	SchemaVersion() int
	PrintText(w io.Writer, now time.Time) error
}

// newShowCommand completes a command that requests a document from the daemon and prints it.
func newShowCommand(name string, d document, cmd *cobra.Command) *cobra.Command {
	var asJSON bool
	path := defaultControl()
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return showDocument(cmd.Context(), path, name, d, asJSON, cmd.OutOrStdout())
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print a JSON object")
	f.StringVar(&path, "control", path, "`PATH` of the daemon's socket")
	return cmd
}

// showDocument requests a document from the daemon at a socket, and prints it.
func showDocument(ctx context.Context, path, name string, d document, asJSON bool, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	body, err := requestDaemon(ctx, path, http.MethodGet, name)
	if err != nil {
		return err
	}
	defer body.Close()
	if asJSON {
		_, err := io.Copy(w, body)
		return err
	}
	if err := json.NewDecoder(body).Decode(d); err != nil {
		return fmt.Errorf("the program at %s is not nfsrdmad: %w", path, err)
	}
	if d.SchemaVersion() != report.SchemaVersion {
		return fmt.Errorf("the daemon has version %d of %s, and this program version %d: use the program that runs as the daemon, or --json", d.SchemaVersion(), name, report.SchemaVersion)
	}
	return d.PrintText(w, time.Now())
}

// A refusedError is the daemon's reason for rejecting an order.
type refusedError string

func (r refusedError) Error() string { return string(r) }

// noDaemonError reports that no daemon listens on a socket.
type noDaemonError string

func (path noDaemonError) Error() string {
	return fmt.Sprintf("no nfsrdmad responds at %s: start one with nfsrdmad serve, or name its socket with --control PATH", string(path))
}

// requestDaemon requests a document from the daemon, or sends an order with http.MethodPost.
// The caller must close the result.
func requestDaemon(ctx context.Context, path, method, document string) (io.ReadCloser, error) {
	if path == "" {
		return nil, errors.New("XDG_RUNTIME_DIR has no socket of the daemon: name the socket of nfsrdmad serve with --control PATH")
	}
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://nfsrdmad/"+document, nil)
	if err != nil {
		return nil, err
	}
	resp, err := t.RoundTrip(req)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return nil, noDaemonError(path)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("no permission for %s: run this command as the daemon's user", path)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("the daemon at %s does not respond: it is stopped, or it hangs; kill -QUIT terminates it and logs what it waited for", path)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, cli.Cause(err))
	case resp.StatusCode == http.StatusConflict:
		defer resp.Body.Close()
		why, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, cli.Cause(err))
		}
		return nil, refusedError(strings.TrimSpace(string(why)))
	case resp.StatusCode != http.StatusOK:
		resp.Body.Close()
		return nil, fmt.Errorf("the program at %s is not nfsrdmad: %s", path, resp.Status)
	}
	return resp.Body, nil
}
