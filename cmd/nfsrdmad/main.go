package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func main() {
	unix.Umask(0) // modes of new files are the clients' to choose
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal does not wait for the drain
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit statuses.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// app is one run of the program.
type app struct {
	// started is set once the command line has been understood: errors
	// before that are usage errors.
	started bool
}

// run is main for tests. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var a app
	root := a.newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "nfsrdmad:", err)
	if !a.started {
		return exitUsage
	}
	return exitError
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:              "nfsrdmad",
		Short:            "Serve directories over NFS on RDMA, with no kernel module and no RDMA card",
		SilenceUsage:     true, // a port in use is no reason to print the flags
		SilenceErrors:    true, // run prints the error, once
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newServe(), newVersion())
	return root
}
