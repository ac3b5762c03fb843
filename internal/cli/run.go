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
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// Exit statuses.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2 // the command line is invalid
)

// ErrReported is returned by a command that has already printed its error on
// standard error.
var ErrReported = errors.New("already reported")

// Run runs a program and returns its exit status. If the program fails, Run prints the
// error. Commands below root must not have a PersistentPreRun.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	started := false // earlier errors are usage errors
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SilenceUsage = true // a port in use must not print all flags
	root.SilenceErrors = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if _, ok := errors.AsType[*pflag.NotExistError](err); ok {
			return fmt.Errorf("%w: %s --help lists the flags", err, cmd.CommandPath())
		}
		return err
	})
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
		printError(stderr, root.Name(), err)
	}
	if !started {
		return ExitUsage
	}
	return ExitError
}

// Cause returns err without the operation and the path that package os adds.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err
	}
	return err
}

// UntilSignal returns a context that is cancelled on SIGINT or SIGTERM; its cause names
// the signal. A second signal has its default effect: it kills the process.
func UntilSignal() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2) // the second may arrive before the first is received
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	go func() {
		first := <-signals
		signal.Stop(signals) // before the context's users can react to the first
		end(fmt.Errorf("%v signal received", first))
		select {
		case second := <-signals:
			_ = unix.Kill(unix.Getpid(), second.(syscall.Signal))
		default:
		}
	}()
	return ctx
}
