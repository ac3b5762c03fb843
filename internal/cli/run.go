package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2 // the command line was not understood
)

// ErrReported is the error of a command that has said on standard error what
// went wrong: there is nothing to add.
var ErrReported = errors.New("reported already")

// Run runs a program and returns its exit status. It prints the error, if there
// is one, once. Commands below root must not have a PersistentPreRun.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	started := false // errors before that are usage errors
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SilenceUsage = true // a port in use is no reason to print the flags
	root.SilenceErrors = true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
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
