package main

import (
	"errors"
	"net"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

func newDoctor() *cobra.Command {
	h := doctor.NewHost()
	conns := 0 // on RDMA
	h.FilesFor = func() (int, uint64) { return filesFor(conns, h.TCP) }
	h.Running = daemonAnswers
	h.Exports = func() (*exports.File, error) { return readExports(h.ExportsFile) }
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps a daemon on this host from serving, and say how to mend it",
		Long: `Look for what keeps a daemon on this host from serving, as the user who runs the
command: the exports file and its directories, whether their file systems have file
handles and leases, the ports and who has them, rpcbind, capabilities, the limit of
open files, and the clock. Each line is ok, warn or fail; warn and fail come with
the remedy. The exit status is 1 if anything fails. Nothing is changed.`,
		Example: "  nfsrdmad doctor\n  nfsrdmad doctor --exports /etc/exports --tcp :3049",
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(cobra.NoArgs(cmd, args), cli.Within("--max-connections", int64(conns), 1, maxConns))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return doctor.Print(cmd.OutOrStdout(), h.Examine(cmd.Context()), asJSON)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&h.ExportsFile, "exports", defaultExports, "the daemon's `FILE` of exports")
	f.StringVar(&h.Listen, "listen", ":20049", "its `ADDR` for RPC-over-RDMA")
	f.StringVar(&h.TCP, "tcp", ":2049", "its `ADDR` for NFS over plain TCP; \"\" for none")
	f.IntVar(&conns, "max-connections", rpcrdma.DefaultMaxConns, "how many RDMA connections it may have")
	f.BoolVar(&asJSON, "json", false, "as a JSON list")
	return cmd
}

// daemonAnswers reports whether a daemon has the control socket of this user.
func daemonAnswers() bool {
	c, err := net.Dial("unix", defaultControl())
	if err != nil {
		return false
	}
	c.Close()
	return true
}
