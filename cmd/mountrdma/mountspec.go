package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// parseSpec parses the source of a mount: either a URL or SERVER:/EXPORT as in
// mount(8) and fstab, with IPv6 addresses in brackets and nothing escaped in
// the path. Its errors are usage errors.
func parseSpec(spec string) (location, error) {
	if isURL(spec) {
		return parseURL(spec)
	}
	authority, path, ok := strings.Cut(spec, ":/")
	if !ok {
		return location{}, fmt.Errorf("%q is nothing to mount: write SERVER:/EXPORT, or nfs://SERVER[:PORT]/EXPORT", spec)
	}
	s, err := parseServer(authority)
	if err != nil {
		return location{}, fmt.Errorf("%q: %w", spec, err)
	}
	return location{server: s, path: clean(path)}, nil
}

// isSpec reports whether an operand is the source of a mount, not a command.
func isSpec(operand string) bool { return isURL(operand) || strings.Contains(operand, ":/") }

// serverArg returns the check of the argument SERVER.
func (a *app) serverArg(into *server) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) (err error) {
		if len(args) != 1 {
			return fmt.Errorf("%s needs one server: SERVER[:PORT]", cmd.Name())
		}
		if *into, err = parseServerOperand(args[0]); err != nil {
			return err
		}
		return a.checkFlags()
	}
}

// printJSON prints v as one object.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
