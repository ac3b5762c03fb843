package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// The levels of a Finding.
const (
	levelOK   = "ok"
	levelNote = "note"
	levelFail = "fail" // the file system is not usable for a standby
)

// A Finding is the result of one check, and what follows from it.
type Finding struct {
	Check string `json:"check"`
	Level string `json:"level"` // ok, note or fail
	Found string `json:"found"`
	Then  string `json:"then,omitempty"`
}

// A Report is what both hosts print.
type Report struct {
	Directory  string    `json:"directory"`
	FileSystem string    `json:"filesystem"` // its type
	Hosts      [2]string `json:"hosts"`
	Findings   []Finding `json:"findings"`
	Usable     bool      `json:"usable"` // no finding has level fail
}

func (r *Report) add(f Finding) { r.Findings = append(r.Findings, f) }

func (r *Report) complete() {
	r.Usable = true
	for _, f := range r.Findings {
		r.Usable = r.Usable && f.Level != levelFail
	}
}

func (r *Report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Fprintf(w, "%s (%s) between %s and %s:\n", r.Directory, r.FileSystem, r.Hosts[0], r.Hosts[1])
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, f := range r.Findings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Level, f.Check, strings.TrimSuffix(f.Found+": "+f.Then, ": "))
	}
	return t.Flush()
}
