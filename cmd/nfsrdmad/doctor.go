package main

import (
	"errors"
	"net"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

func newDoctorCommand() *cobra.Command {
	h := doctor.NewHost()
	conns := 0 // maximum number on RDMA
	h.FilesFor = func() (int, uint64) { return neededFiles(conns, h.TCP) }
	h.Daemon = daemonProcess
	h.Exports = func() (*exports.File, error) { return readExports(h.ExportsFile) }
	var report doctor.Report
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why a daemon on this host cannot serve, and suggest remedies",
		Long: `Find out why a daemon on this host cannot serve, as the user who runs the command.
The checks cover the exports file and its directories, whether their file systems
have file handles, leases and free space, the ports and which programs use them,
Linux's own server, rpcbind, the MTUs of interfaces, capabilities, the open-files
limit, the clock, and the state directory. Each line is ok, warn or fail; warn and
fail include a remedy. The exit status is 1 if anything fails. The command changes
nothing.

--bundle also writes one file to send with a report of a problem: the findings,
versions, settings of the service, its latest lines in the journal, and the daemon's
status. Keys, tickets, passwords, file data and comments are left out. The command
lists what the file contains.`,
		Example: "  nfsrdmad doctor\n  nfsrdmad doctor --exports /etc/exports --tcp :3049\n  nfsrdmad doctor --bundle doctor.tar.gz",
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(cobra.NoArgs(cmd, args), cli.CheckRange("--max-connections", int64(conns), 1, maxConns))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			report.Out, report.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return report.Run(cmd.Context(), h.Examine, func() []doctor.BundleFile { return bundleFiles(h.ExportsFile) })
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&h.ExportsFile, "exports", defaultExports, "the daemon's exports `FILE`")
	f.StringVar(&h.State, "state", defaultState(), "the daemon's state `DIR`")
	f.StringVar(&h.Listen, "listen", ":20049", "the daemon's `ADDR` for RPC-over-RDMA")
	f.StringVar(&h.TCP, "tcp", ":2049", "the daemon's `ADDR` for NFS over plain TCP; \"\" for none")
	f.IntVar(&conns, "max-connections", rpcrdma.DefaultMaxConns, "the daemon's maximum number of RDMA connections")
	f.BoolVar(&report.JSON, "json", false, "print a JSON list")
	report.AddFlag(f)
	return cmd
}

// daemonProcess reports whether a daemon listens on this user's control socket. pid is 0 if
// the daemon is in another container.
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
