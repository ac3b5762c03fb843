package main

import (
	"errors"
	"net"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

func newDoctor() *cobra.Command {
	h := doctor.NewHost()
	conns := 0 // on RDMA
	h.FilesFor = func() (int, uint64) { return filesFor(conns, h.TCP) }
	h.Daemon = daemonProcess
	h.Exports = func() (*exports.File, error) { return readExports(h.ExportsFile) }
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps a daemon on this host from serving, and say how to mend it",
		Long: `Look for what keeps a daemon on this host from serving, as the user who runs the
command: the exports file and its directories, whether their file systems have file
handles, leases and room, the ports and who has them, Linux's own server, rpcbind,
the MTUs of interfaces, capabilities, the limit of open files, the clock, and the
state directory. Each line is ok, warn or fail; warn and fail come with the remedy.
The exit status is 1 if anything fails. Nothing is changed.`,
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
	f.StringVar(&h.State, "state", defaultState(), "its state `DIR`")
	f.StringVar(&h.Listen, "listen", ":20049", "its `ADDR` for RPC-over-RDMA")
	f.StringVar(&h.TCP, "tcp", ":2049", "its `ADDR` for NFS over plain TCP; \"\" for none")
	f.IntVar(&conns, "max-connections", rpcrdma.DefaultMaxConns, "how many RDMA connections it may have")
	f.BoolVar(&asJSON, "json", false, "as a JSON list")
	return cmd
}

// daemonProcess reports whether a daemon has the control socket of this user, and the
// process, or 0 if it is in another container.
func daemonProcess() (pid int, running bool) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: defaultControl(), Net: "unix"})
	if err != nil {
		return 0, false
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, true
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid, true
}
