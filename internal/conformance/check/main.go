// Command check compares docs/conformance with docs/requirements.tsv and with the
// sources for the tests that its files name. It prints every fault and a summary.
// The exit status is 1 if there are faults, and 2 if the check itself failed.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/nfsrdma/nfsrdma/internal/conformance"
)

func main() { os.Exit(runCheck(os.Args[1:], os.Stdout, os.Stderr)) }

// runCheck does main's work, for tests.
func runCheck(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "the module's root `directory`")
	doc := flags.String("doc", "", "check only the entries of this `document`, R5041 for example")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "check: unexpected argument %q: only flags are allowed\n", flags.Arg(0))
		return 2
	}
	res, err := conformance.Check(os.DirFS(*root), *doc)
	if err != nil {
		fmt.Fprintf(stderr, "check: %v\n", err)
		return 2
	}
	for _, fault := range res.Faults {
		fmt.Fprintln(stderr, fault)
	}
	fmt.Fprintf(stdout, "conformance: %d entries, %d tested, %d n/a\n", res.Entries, res.Tested, res.NA)
	if len(res.Faults) > 0 {
		fmt.Fprintf(stderr, "conformance: %d faults\n", len(res.Faults))
		return 1
	}
	return 0
}
