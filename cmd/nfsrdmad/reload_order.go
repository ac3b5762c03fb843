package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

func newReload() *cobra.Command {
	path := defaultControl()
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have a running daemon read its files again",
		Long: `Have a running daemon read its files again, as SIGHUP does: those of --exports, --idmap,
--keytab and --tls-cert. Exports that stay are not disturbed. If a file is wrong, what it
says is not applied, the errors are printed, and the exit status is 1.`,
		Example: "  nfsrdmad reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return order(cmd.Context(), path, "reload", cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&path, "control", path, "`PATH` of the daemon's socket")
	return cmd
}

// A reloadOrder is an order to read files again.
type reloadOrder struct {
	exportsOnly bool
	done        chan<- error // has room for the result
}

// reload obeys nfsrdmad reload.
func (p *operations) reload(r *http.Request) (string, error) {
	return p.orderReload(r, false)
}

// reloadExports reads the exports file again, and no other, whose errors would say
// nothing about the exports. If the order has the sum of the file, and the daemon sees
// another file, reloadExports refuses.
func (p *operations) reloadExports(r *http.Request) (string, error) {
	if p.file == "" {
		return "", errors.New("the daemon has no exports file (--exports)")
	}
	if want := r.FormValue("sum"); want != "" {
		text, err := os.ReadFile(p.file)
		if err != nil {
			return "", fmt.Errorf("exports file %s: %w", p.file, cli.Cause(err))
		}
		if sum(text) != want {
			return "", fmt.Errorf("the daemon sees another file as %s, as in a container: give the order there, where nfsrdmad serve runs", p.file)
		}
	}
	return p.orderReload(r, true)
}

func (p *operations) orderReload(r *http.Request, exportsOnly bool) (string, error) {
	select {
	case <-p.settled:
	case <-r.Context().Done():
		return "", r.Context().Err()
	}
	orders := p.orders.Load()
	if orders == nil {
		return "", errors.New("the daemon has no files to read again (--exports, --idmap, --keytab, --tls-cert), or it ends")
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
		return "the files are read again", nil
	case <-r.Context().Done():
		return "", r.Context().Err()
	}
}
