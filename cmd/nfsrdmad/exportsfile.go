package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// newExportsCommand returns the command for exports and for exports(5) files.
func newExportsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exports",
		Short: "List, add and remove exports, and check exports files",
	}
	cmd.AddCommand(newExportsListCommand(), newExportsAddCommand(), newExportsRemoveCommand(), &cobra.Command{
		Use:   "check [FILE]",
		Short: "Explain an exports file, or list its errors",
		Long: `Explain an exports file: print one line for each directory, client and security flavor,
with all options in full. If the file has errors, standard error lists them with line
and column, and the exit status is 1. No directory is opened. The default FILE is
` + defaultExports + `.`,
		Example: "  nfsrdmad exports check\n  nfsrdmad exports check /etc/exports",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkExports(append(args, defaultExports)[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	return cmd
}

func checkExports(name string, stdout, stderr io.Writer) error {
	f, err := readExports(name)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return cli.ErrReported
	}
	for _, w := range f.Warnings {
		fmt.Fprintf(stderr, "%v (warning)\n", w)
	}
	for _, w := range directoryWarnings(name, f, new(sync.Mutex)) {
		fmt.Fprintf(stderr, "%s (warning)\n", w)
	}
	_, err = io.WriteString(stdout, f.Explain())
	return err
}

// laxerWarnings returns a warning for each export that shares its file system with an export
// above it that gives clients more rights: by file handles and NFSv3, clients of the upper one
// can reach into the lower one.
func laxerWarnings(name string, f *exports.File) (list []string) {
	for _, l := range f.FindBroaderAccess() {
		var upper, lower unix.Stat_t
		if unix.Stat(l.Upper.Path, &upper) != nil || unix.Stat(l.Lower.Path, &lower) != nil || upper.Dev != lower.Dev {
			continue
		}
		what := "access"
		if l.Option != "" {
			what = l.Option
		}
		list = append(list, fmt.Sprintf("%s:%d: %s is stricter than %s above it: %s has %s there, and reaches %s over NFSv3 or with an old filehandle with the rights of %s; give both the same clients and options, or put one on its own file system",
			name, l.Lower.Line, l.Lower.Path, l.Upper.Path, l.Client.Host, what, l.Lower.Path, l.Upper.Path))
	}
	return list
}

// directoryWarnings returns laxerWarnings and hiddenMountWarnings, or one warning if storage does not respond within
// openTimeout. running is locked until it responds, so that at most one goroutine waits for it.
func directoryWarnings(name string, f *exports.File, running *sync.Mutex) []string {
	late := []string{name + ": whether nested exports are stricter than those above them is unknown, because storage does not respond: check the disks or servers of the exports"}
	if !running.TryLock() {
		return late
	}
	found := make(chan []string, 1)
	go func() {
		defer running.Unlock()
		found <- append(laxerWarnings(name, f), hiddenMountWarnings(name, f)...)
	}()
	select {
	case list := <-found:
		return list
	case <-time.After(openTimeout):
		return late
	}
}

func readExports(name string) (*exports.File, error) {
	text, err := readText(name)
	if err != nil {
		return nil, err
	}
	return exports.Parse(name, text)
}

func readText(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("exports file %s cannot be read (%w): correct its name or its permissions", name, cli.Cause(err))
	}
	return text, nil
}

// readExportsFile returns the exports in the file o.exportsFile. If the file has errors, the
// exports with errors are broken.
func (o *serveOptions) readExportsFile(log *slog.Logger) ([]exportSpec, error) {
	text, err := readText(o.exportsFile)
	if err != nil {
		return nil, err
	}
	o.exportsSum = textSum(text)
	f, invalid := exports.Parse(o.exportsFile, text)
	if f == nil {
		return nil, invalid
	}
	for _, w := range f.Warnings {
		log.Warn("questionable exports", "at", w.Error())
	}
	for _, w := range directoryWarnings(o.exportsFile, f, &o.comparing) {
		log.Warn("questionable exports", "at", w)
	}
	if len(f.Exports) == 0 && invalid == nil {
		log.Warn("no export in the exports file; clients cannot mount anything", "file", o.exportsFile)
	}
	var list []exportSpec
	for _, e := range f.Exports {
		list = append(list, exportSpec{
			dir: e.Path, name: e.Path, clients: e.Clients, fsid: e.FSID(),
			position: fmt.Sprintf("%s:%d: ", o.exportsFile, e.Line), fault: e.Err, broken: e.Err != nil,
		})
	}
	return list, invalid
}

// anyClient reports whether an option is set for any client of e.
func (e *exportSpec) anyClient(option func(*exports.Options) bool) bool {
	return slices.ContainsFunc(e.clients, func(c exports.Client) bool { return option(&c.Options) })
}
