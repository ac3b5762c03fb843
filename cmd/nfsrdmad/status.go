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

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// statusTime is how long status waits for the daemon, which answers at once.
const statusTime = 10 * time.Second

// orderTime is how long an order may take: the daemon may open the directories of new
// exports.
const orderTime = time.Minute

func newStatus() *cobra.Command {
	return shows("status", new(statusDoc), &cobra.Command{
		Use:   "status [--json]",
		Short: "Show the state of a running daemon",
		Long: `Show the clients and exports of a running daemon, and its work so far:
connections with their agreed settings, exports, calls by procedure,
the cache of replies, and memory.

--json prints one object; docs/operations.md describes its fields. With several
daemons on one machine, --control selects one of them.`,
		Example: `  nfsrdmad status
  nfsrdmad status --json | jq '.connections[] | .peer'`,
	})
}

// A document is an answer of the control socket.
type document interface {
	version() int
	print(w io.Writer, now time.Time) error
}

func (d *statusDoc) version() int { return d.Version }

// shows completes a command that asks the daemon for the document of a name,
// and prints it.
func shows(name string, d document, cmd *cobra.Command) *cobra.Command {
	var asJSON bool
	path := defaultControl()
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return show(cmd.Context(), path, name, d, asJSON, cmd.OutOrStdout())
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print it as JSON")
	f.StringVar(&path, "control", path, "`PATH` of the daemon's socket")
	return cmd
}

// show asks the daemon at a socket, and prints the answer.
func show(ctx context.Context, path, name string, d document, asJSON bool, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	body, err := ask(ctx, path, http.MethodGet, name)
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
	if d.version() != statusVersion {
		return fmt.Errorf("the daemon speaks version %d of %s, and this program %d: use the nfsrdmad that runs, or --json", d.version(), name, statusVersion)
	}
	return d.print(w, time.Now())
}

// A refusal is the daemon's reason not to obey an order.
type refusal string

func (r refusal) Error() string { return string(r) }

// noDaemon says that no daemon answers at a socket.
type noDaemon string

func (path noDaemon) Error() string {
	return fmt.Sprintf("no nfsrdmad answers at %s: start one with nfsrdmad serve, or name its socket with --control PATH", string(path))
}

// ask asks the daemon for a document, or with http.MethodPost to do something.
// The caller must close the result.
func ask(ctx context.Context, path, method, document string) (io.ReadCloser, error) {
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
		return nil, noDaemon(path)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("no permission for %s: run this as the user that runs the daemon", path)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("the daemon at %s does not answer: it is stopped, or it hangs; kill -QUIT ends it and shows in its log what it waited for", path)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, cli.Cause(err))
	case resp.StatusCode == http.StatusConflict:
		defer resp.Body.Close()
		why, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, cli.Cause(err))
		}
		return nil, refusal(strings.TrimSpace(string(why)))
	case resp.StatusCode != http.StatusOK:
		resp.Body.Close()
		return nil, fmt.Errorf("the program at %s is not nfsrdmad: %s", path, resp.Status)
	}
	return resp.Body, nil
}
