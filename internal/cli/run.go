package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Exit statuses.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2 // the command line was not understood
)

// ErrReported is the error of a command that has already reported its failure
// on standard error.
var ErrReported = errors.New("reported already")

// Run runs a program and returns its exit status. Run prints the error, if any,
// once. Commands below root must not have a PersistentPreRun.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	started := false // earlier errors are usage errors
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SilenceUsage = true // a port in use is no reason to print the flags
	root.SilenceErrors = true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		completeChoices(root)
	}
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if !errors.Is(err, ErrReported) {
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	}
	if !started {
		return ExitUsage
	}
	return ExitError
}

// Cause returns err without the operation and path that package os adds.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err
	}
	return err
}

// UntilSignal returns a context that SIGINT or SIGTERM ends; its cause names
// the signal. A second signal then has its usual effect: it ends the process at
// once.
func UntilSignal() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2) // the second may come before the first is taken
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	go func() {
		first := <-signals
		signal.Stop(signals) // before anyone learns of the first
		end(fmt.Errorf("%v signal received", first))
		select {
		case second := <-signals:
			_ = unix.Kill(unix.Getpid(), second.(syscall.Signal))
		default:
		}
	}()
	return ctx
}
