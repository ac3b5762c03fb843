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
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// statusTime is how long status waits for the daemon, which answers at once.
const statusTime = 10 * time.Second

func newStatus() *cobra.Command {
	var asJSON bool
	path := defaultControl()
	cmd := &cobra.Command{
		Use:   "status [--json]",
		Short: "Show the state of a running daemon",
		Long: `Show the clients and exports of a running daemon, and its work so far:
connections with their agreed settings, exports, calls by procedure,
the cache of replies, and memory.

--json prints one object; docs/operations.md describes its fields. With several
daemons on one machine, --control selects one of them.`,
		Example: `  nfsrdmad status
  nfsrdmad status --json | jq '.connections[] | .peer'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showStatus(cmd.Context(), path, asJSON, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print it as JSON")
	f.StringVar(&path, "control", path, "`PATH` of the daemon's socket")
	return cmd
}

// showStatus asks the daemon at a socket and prints the answer.
func showStatus(ctx context.Context, path string, asJSON bool, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	body, err := askStatus(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if asJSON {
		_, err := io.Copy(w, body)
		return err
	}
	var d statusDoc
	if err := json.NewDecoder(body).Decode(&d); err != nil {
		return fmt.Errorf("the program at %s is not nfsrdmad: %w", path, err)
	}
	if d.Version != statusVersion {
		return fmt.Errorf("the daemon speaks version %d of status, and this program %d: use the nfsrdmad that runs, or --json", d.Version, statusVersion)
	}
	return d.print(w, time.Now())
}

// askStatus asks the daemon. The caller must close the result.
func askStatus(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == "" {
		return nil, errors.New("XDG_RUNTIME_DIR has no socket of the daemon: name the socket of nfsrdmad serve with --control PATH")
	}
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://nfsrdmad/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := t.RoundTrip(req)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("no nfsrdmad answers at %s: start one with nfsrdmad serve, or name its socket with --control PATH", path)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("no permission for %s: run this as the user that runs the daemon", path)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, cli.Cause(err))
	case resp.StatusCode != http.StatusOK:
		resp.Body.Close()
		return nil, fmt.Errorf("the program at %s is not nfsrdmad: %s", path, resp.Status)
	}
	return resp.Body, nil
}
