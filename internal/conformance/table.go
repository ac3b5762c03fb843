package conformance

import (
	"fmt"
	"regexp"
	"strings"
)

// notApplicable takes the place of a test. The note then gives the reason.
const notApplicable = "n/a"

// A row of docs/conformance.md names the tests that show a requirement.
type row struct {
	line  int
	id    string
	tests []string // none: not applicable
	note  string
}

// isRow finds the rows of requirements among the lines of the document: the
// first cell is an id. Heads of tables and prose have none.
var isRow = regexp.MustCompile(`^\| *[A-Z][A-Z0-9]+-[^ |]+ *\|`)

// parseTable reads the rows, in their order, and returns the faults in them.
// Commas separate tests in a cell; backticks around a test are optional. A \|
// is a vertical bar in a cell.
func parseTable(file string) (rows []row, faults []string) {
	n := 0
	for line := range strings.Lines(file) {
		n++
		if !isRow.MatchString(line) {
			continue
		}
		cells := splitCells(line)
		if len(cells) != 3 {
			faults = append(faults, fmt.Sprintf("%s:%d: %s has %d cells: write | id | test or n/a | note |", tableFile, n, cells[0], len(cells)))
			continue
		}
		r := row{line: n, id: cells[0], note: cells[2]}
		if cells[1] != notApplicable {
			r.tests = splitTests(cells[1])
			if len(r.tests) == 0 {
				faults = append(faults, fmt.Sprintf("%s:%d: %s names no test: name one, or write n/a and the reason", tableFile, n, r.id))
			}
		} else if r.note == "" {
			faults = append(faults, fmt.Sprintf("%s:%d: %s is n/a without a reason: write the reason in the note", tableFile, n, r.id))
		}
		rows = append(rows, r)
	}
	return rows, faults
}

// splitCells returns the trimmed cells of a table's line.
func splitCells(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar)
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	cells := strings.Split(line, "|")
	for i, c := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(c, bar, "|"))
	}
	return cells
}

// isTestName finds the tests of a cell: text in backticks, which may contain
// commas, or text between commas.
var isTestName = regexp.MustCompile("`([^`]+)`|([^`, ]+)")

func splitTests(cell string) (tests []string) {
	for _, m := range isTestName.FindAllStringSubmatch(cell, -1) {
		tests = append(tests, m[1]+m[2])
	}
	return tests
}
