package conformance

import (
	"fmt"
	"strings"
)

// A requirement is a line in docs/requirements.tsv: one normative statement from a
// standard, in our own words.
type requirement struct {
	id    string // document, section, running number: "R5041-4.1-8"
	level string // MUST, SHOULD and so on; "rule" if there is no keyword
	who   string // sender, receiver or both
	text  string
}

// documentOf returns the id's part that names the standard: "R5041".
func documentOf(id string) string {
	doc, _, _ := strings.Cut(id, "-")
	return doc
}

// parseRequirements reads a requirements file's lines, and returns the faults in
// it. Tabs separate fields; the first line names the fields. The text is last and
// extends to the line's end.
func parseRequirements(file string) (reqs []requirement, faults []string) {
	seen := make(map[string]bool)
	n := 0
	for line := range strings.Lines(file) {
		if n++; n == 1 {
			continue
		}
		f := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 4)
		switch {
		case len(f) < 4:
			faults = append(faults, fmt.Sprintf("%s:%d: %d fields: write id, level, subject and text, separated by tabs", requirementsFile, n, len(f)))
			continue
		case seen[f[0]]:
			faults = append(faults, fmt.Sprintf("%s:%d: %s is listed twice: remove one", requirementsFile, n, f[0]))
			continue
		}
		seen[f[0]] = true
		reqs = append(reqs, requirement{f[0], f[1], f[2], f[3]})
	}
	return reqs, faults
}
