package posix

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Difference is a legitimate deviation from the reference.
type Difference struct {
	Case  string
	On    []string // the file systems
	Lines []string // as Diff returns them
	Why   string
}

// Compare returns a file system's deviations from the reference, as Diff lines with case
// names, without the listed differences. It also returns listed differences that do not
// occur.
func Compare(reference, seen Transcript, system string, listed []Difference) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(reference)) {
		lines := diffTranscripts(reference[name], seen[name])
		want, why := expectedLines(listed, name, system)
		if slices.Equal(lines, want) {
			continue
		}
		if why != "" && len(lines) == 0 {
			wrong = append(wrong, fmt.Sprintf("%s: a listed difference no longer occurs: %s", name, why))
			continue
		}
		wrong = append(wrong, name+":\n\t"+strings.Join(lines, "\n\t"))
	}
	return wrong
}

// expectedLines returns the lines in a case's listed difference.
func expectedLines(listed []Difference, name, system string) (lines []string, why string) {
	for _, d := range listed {
		if d.Case == name && slices.Contains(d.On, system) {
			return d.Lines, d.Why
		}
	}
	return nil, ""
}

// diffTranscripts returns the difference between two lists of lines, with the fewest
// lines: "- " before lines only in a, "+ " before lines only in b.
func diffTranscripts(a, b []string) []string {
	// longest[i][j] is the length that a[i:] and b[j:] have in common.
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var lines []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			lines = append(lines, "- "+a[i])
			i++
		default:
			lines = append(lines, "+ "+b[j])
			j++
		}
	}
	return lines
}
