package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/probe"
)

// version is set by the linker (see Makefile).
var version string

func main() {
	unix.Umask(0) // clients choose the modes of new files
	os.Exit(run(cli.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr))
}

// run executes the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, newRoot(), args, stdout, stderr)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "nfsrdmad",
		Short: "Serve directories over NFS on RDMA, without a kernel module or an RDMA card",
	}
	root.AddCommand(newServeCommand(), newExportsCommand(), newReloadCommand(), newLogCommand(), newStatusCommand(), newClientsCommand(), newLocksCommand(), newTraceCommand(), newDoctorCommand(), newProbeCommand(), newHiddenCommand(guardCommand, probe.RunGuard), newHiddenCommand(workerCommand, probe.RunWorker), newCertCommand(), cli.NewCompletion("nfsrdmad"))
	cli.AddVersion(root, buildinfo.Line("nfsrdmad", version))
	return root
}
