package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

func newReloadCommand() *cobra.Command {
	path := defaultControl()
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running daemon reload its files",
		Long: `Make a running daemon reload its files, as SIGHUP does: those of --exports, --idmap,
--keytab and --tls-cert. Unchanged exports are not disturbed. If a file is invalid, it is
not applied, the errors are printed, and the exit status is 1.`,
		Example: "  nfsrdmad reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sendOrder(cmd.Context(), path, "reload", cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&path, "control", path, "`PATH` of the daemon's socket")
	return cmd
}

// A reloadOrder is an order to reload files.
type reloadOrder struct {
	exportsOnly bool
	done        chan<- error // has a buffer for the result
}

// handleReload handles nfsrdmad reload.
func (p *runningDaemon) handleReload(r *http.Request) (string, error) {
	return p.requestReload(r, false)
}

// handleExportsReload reloads only the exports file, because errors in other files say nothing
// about the exports. If the order has a checksum that is not that of the file that the daemon
// sees, handleExportsReload returns an error.
func (p *runningDaemon) handleExportsReload(r *http.Request) (string, error) {
	if p.exportsFile == "" {
		return "", errors.New("the daemon has no exports file (--exports)")
	}
	if want := r.FormValue("sum"); want != "" {
		text, err := os.ReadFile(p.exportsFile)
		if err != nil {
			return "", fmt.Errorf("exports file %s: %w", p.exportsFile, cli.Cause(err))
		}
		if textSum(text) != want {
			return "", fmt.Errorf("the daemon sees a different file as %s, as in a container: run this command where nfsrdmad serve runs", p.exportsFile)
		}
	}
	return p.requestReload(r, true)
}

func (p *runningDaemon) requestReload(r *http.Request, exportsOnly bool) (string, error) {
	select {
	case <-p.reloadsReady:
	case <-r.Context().Done():
		return "", r.Context().Err()
	}
	orders := p.orders.Load()
	if orders == nil {
		return "", errors.New("the daemon has no files to reload (--exports, --idmap, --keytab, --tls-cert), or is exiting")
	}
	done := make(chan error, 1)
	select {
	case *orders <- reloadOrder{exportsOnly, done}:
	case <-r.Context().Done():
		return "", r.Context().Err()
	}
	select {
	case err := <-done:
		if err != nil {
			return "", err
		}
		return "the files were reloaded", nil
	case <-r.Context().Done():
		return "", r.Context().Err()
	}
}
