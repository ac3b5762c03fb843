package main

import (
	"errors"
	"net/http"

	"github.com/spf13/cobra"
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

// reload obeys nfsrdmad reload.
func (p *operations) reload(r *http.Request) (string, error) {
	orders := p.orders.Load()
	if orders == nil {
		return "", errors.New("the daemon has no files to read again (--exports, --idmap, --keytab, --tls-cert), or it starts or ends")
	}
	done := make(chan error, 1)
	select {
	case *orders <- done:
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
