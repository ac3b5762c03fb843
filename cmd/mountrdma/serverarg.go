package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// serverArg is the check of the argument SERVER.
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
