package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// newExports returns the command for exports and for files of exports(5).
func newExports() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exports",
		Short: "List, add and remove exports, and check exports files",
	}
	cmd.AddCommand(newExportsList(), newExportsAdd(), newExportsRemove(), &cobra.Command{
		Use:   "check [FILE]",
		Short: "Explain an exports file, or list its errors",
		Long: `Explain an exports file: one line for each directory, client and security flavor,
with all options in full. If the file has errors, standard error lists them with line
and column, and the exit status is 1. No directory is opened. FILE is ` + defaultExports + `
unless it is named.`,
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
	_, err = io.WriteString(stdout, f.Explain())
	return err
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

// readFile returns the exports of the file o.exportsFile.
func (o *serveOptions) readFile(log *slog.Logger) ([]export, error) {
	text, err := readText(o.exportsFile)
	if err != nil {
		return nil, err
	}
	o.exportsSum = sum(text)
	f, err := exports.Parse(o.exportsFile, text)
	if err != nil {
		return nil, err
	}
	for _, w := range f.Warnings {
		log.Warn("strange exports", "at", w.Error())
	}
	if len(f.Exports) == 0 {
		log.Warn("no export", "file", o.exportsFile)
	}
	var list []export
	for _, e := range f.Exports {
		list = append(list, export{
			dir: e.Path, name: e.Path, clients: e.Clients, fsid: e.FSID(),
			place: fmt.Sprintf("%s:%d: ", o.exportsFile, e.Line),
		})
	}
	return list, nil
}

// any reports whether any client of e has an option.
func (e *export) any(option func(*exports.Options) bool) bool {
	return slices.ContainsFunc(e.clients, func(c exports.Client) bool { return option(&c.Options) })
}
