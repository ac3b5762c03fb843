package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
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
	edit        func(temporary []byte) ([]byte, error) // changes the exports until restart; or nil
	done        chan<- error                           // has a buffer for the result
}

// handleReload handles nfsrdmad reload.
func (p *runningDaemon) handleReload(r *http.Request) (string, error) {
	return p.requestReload(r, reloadOrder{})
}

// handleExportsReload reloads only the exports file, because errors in other files say nothing
// about the exports. If the order has a checksum that is not that of the file that the daemon
// sees, handleExportsReload returns an error.
func (p *runningDaemon) handleExportsReload(r *http.Request) (string, error) {
	if p.exportsFile == "" {
		return "", errors.New("the daemon has no exports file (--exports)")
	}
	if want := r.FormValue("sum"); want != "" {
		sources, err := readSources(p.exportsFile)
		if err != nil {
			return "", err
		}
		if sumSources(sources) != want {
			return "", fmt.Errorf("the daemon sees a different file as %s, as in a container: run this command where nfsrdmad serve runs", p.exportsFile)
		}
	}
	return p.requestReload(r, reloadOrder{exportsOnly: true})
}

// noTemporary is the response to the removal of an export that exports add --until-restart has not
// added.
const noTemporary = "no such export"

// handleTemporary adds an export until restart, or removes one if the order names no client.
func (p *runningDaemon) handleTemporary(r *http.Request) (string, error) {
	if p.exportsFile == "" {
		return "", errors.New("the daemon's exports are in its arguments, and cannot change: start it with nfsrdmad serve --exports FILE")
	}
	dir := r.FormValue("dir")
	clients := r.Form["client"]
	if len(clients) > 0 {
		return p.requestReload(r, reloadOrder{edit: func(text []byte) ([]byte, error) {
			sources, err := readSources(p.exportsFile)
			if err != nil {
				return nil, err
			}
			return addLine(append(sources, exports.Source{Name: temporaryName, Text: text}), len(sources), dir, clients)
		}})
	}
	_, err := p.requestReload(r, reloadOrder{edit: func(text []byte) ([]byte, error) {
		rest, n := exports.Without(text, dir)
		if n == 0 {
			return nil, errNoTemporary
		}
		return rest, nil
	}})
	switch {
	case errors.Is(err, errNoTemporary):
		return noTemporary, nil
	case err != nil:
		return "", err
	}
	return "the export until restart was removed", nil
}

var errNoTemporary = errors.New(noTemporary)

// requestReload passes an order to the goroutine that reloads, and returns the result.
func (p *runningDaemon) requestReload(r *http.Request, order reloadOrder) (string, error) {
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
	order.done = done
	select {
	case *orders <- order:
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
