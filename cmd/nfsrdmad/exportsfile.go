package main

import (
	"errors"
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
	cmd.AddCommand(newExportsListCommand(), newExportsAddCommand(), newExportsRemoveCommand(), newExportsAnyCommand(), &cobra.Command{
		Use:   "check [FILE]",
		Short: "Explain an exports file, or list its errors",
		Long: `Explain an exports file with its drop-ins, the files *.exports in the directory FILE.d:
print one line for each directory, client and security flavor, with all options in full.
If a file has errors, standard error lists them with file, line and column, and the exit
status is 1. No directory is opened. The default FILE is ` + defaultExports + `.`,
		Example: "  nfsrdmad exports check\n  nfsrdmad exports check /etc/exports",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkExports(append(args, defaultExports)[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	return cmd
}

// newExportsAnyCommand returns the command with which nfsrdmad.service checks whether it should
// start.
func newExportsAnyCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "any [FILE]",
		Short:  "Check that an exports file has an export",
		Hidden: true,
		Args:   cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !hasExport(append(args, defaultExports)[0]) {
				return errors.New("no export yet: nfsrdmad exports add /srv/data '192.0.2.0/24(rw)' adds one")
			}
			return nil
		},
	}
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
	for _, w := range directoryWarnings(f, new(sync.Mutex)) {
		fmt.Fprintf(stderr, "%s (warning)\n", w)
	}
	_, err = io.WriteString(stdout, f.Explain())
	return err
}

// laxerWarnings returns a warning for each export that shares its file system with an export
// above it that gives clients more rights: by file handles and NFSv3, clients of the upper one
// can reach into the lower one.
func laxerWarnings(f *exports.File) (list []string) {
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
			l.Lower.File, l.Lower.Line, l.Lower.Path, l.Upper.Path, l.Client.Host, what, l.Lower.Path, l.Upper.Path))
	}
	return list
}

// directoryWarnings returns laxerWarnings and hiddenMountWarnings, or one warning if storage
// does not respond within openTimeout. running is locked until it responds, so that at most one goroutine waits for it.
func directoryWarnings(f *exports.File, running *sync.Mutex) []string {
	late := []string{"whether nested exports are stricter than those above them is unknown, because storage does not respond: check the disks or servers of the exports"}
	if !running.TryLock() {
		return late
	}
	found := make(chan []string, 1)
	go func() {
		defer running.Unlock()
		found <- append(laxerWarnings(f), hiddenMountWarnings(f)...)
	}()
	select {
	case list := <-found:
		return list
	case <-time.After(openTimeout):
		return late
	}
}

// readExports parses an exports file with its drop-ins.
func readExports(name string) (*exports.File, error) {
	sources, err := readSources(name)
	if err != nil {
		return nil, err
	}
	return exports.ParseSources(sources...)
}

// hasExport reports whether the exports file has an export, or an error.
func hasExport(name string) bool {
	f, err := readExports(name)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	return len(f.Exports) > 0
}

// readExportsFile returns the exports in the file o.exportsFile, in its drop-ins, and of exports add
// --until-restart. If there are errors, the exports with errors are broken.
func (o *serveOptions) readExportsFile(log *slog.Logger) ([]exportSpec, error) {
	sources, unread := readSources(o.exportsFile)
	if sources == nil {
		return nil, unread
	}
	o.exportsSum = sumSources(sources)
	f, invalid := exports.ParseSources(append(sources, exports.Source{Name: temporaryName, Text: o.temporary})...)
	if f == nil {
		return nil, invalid
	}
	for _, w := range f.Warnings {
		log.Warn("questionable exports", "at", w.Error())
	}
	for _, w := range directoryWarnings(f, &o.comparing) {
		log.Warn("questionable exports", "at", w)
	}
	if len(f.Exports) == 0 && invalid == nil {
		log.Warn("no export in the exports file; clients cannot mount anything", "file", o.exportsFile)
	}
	var list []exportSpec
	for _, e := range f.Exports {
		position := fmt.Sprintf("%s:%d: ", e.File, e.Line)
		if e.File == temporaryName {
			position = temporaryName + ": "
		}
		list = append(list, exportSpec{
			dir: e.Path, name: e.Path, clients: e.Clients, fsid: e.FSID(),
			position: position, fault: e.Err, broken: e.Err != nil,
		})
	}
	return addUnread(list, unread), errors.Join(append(splitJoined(unread), splitJoined(invalid)...)...)
}

// anyClient reports whether an option is set for any client of e.
func (e *exportSpec) anyClient(option func(*exports.Options) bool) bool {
	return slices.ContainsFunc(e.clients, func(c exports.Client) bool { return option(&c.Options) })
}
