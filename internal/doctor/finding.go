package doctor

import (
	"fmt"
	"io"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A Grade says how bad a Finding is.
type Grade string

// The grades. Only Fail keeps something from working.
const (
	OK   Grade = "ok"
	Warn Grade = "warn"
	Fail Grade = "fail"
)

// A Finding is what a check found about one thing.
type Finding struct {
	Check  string // the name of the check
	Grade  Grade
	Found  string
	Remedy string // a command or a change; "" if Grade is OK
}

// Print prints findings, a line each. It returns cli.ErrReported if one of them is Fail.
func Print(w io.Writer, list []Finding) error {
	failed := false
	for _, f := range list {
		failed = failed || f.Grade == Fail
		line := fmt.Sprintf("%-4s  %s", f.Grade, f.Found)
		if f.Remedy != "" {
			line += ": " + f.Remedy
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if failed {
		return cli.ErrReported
	}
	return nil
}
