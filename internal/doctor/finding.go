package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A Grade is the severity of a Finding.
type Grade string

// The grades. Fail means that something does not work.
const (
	OK   Grade = "ok"
	Warn Grade = "warn"
	Fail Grade = "fail"
)

// A Finding is the result of a check. Scripts depend on its JSON.
type Finding struct {
	Check  string `json:"check"` // name of the check
	Grade  Grade  `json:"grade"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // a command or a change; "" if Grade is OK
}

// Print prints findings, one per line or as a JSON list. It returns cli.ErrReported if one
// is Fail.
func Print(w io.Writer, list []Finding, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		if err := e.Encode(list); err != nil {
			return err
		}
	} else if err := printText(w, list); err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(f Finding) bool { return f.Grade == Fail }) {
		return cli.ErrReported
	}
	return nil
}

// printText prints findings, one per line.
func printText(w io.Writer, list []Finding) error {
	for _, f := range list {
		line := fmt.Sprintf("%-4s  %s", f.Grade, f.Found)
		if f.Remedy != "" {
			line += ": " + f.Remedy
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
