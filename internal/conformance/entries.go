package conformance

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// notApplicable replaces the tests. The note then gives the reason.
const notApplicable = "n/a"

// An entry in a docs/conformance file names the tests that show a requirement.
type entry struct {
	file  string
	line  int
	id    string
	tests []string // none: not applicable
	note  string
}

func (e entry) position() string { return fmt.Sprintf("%s:%d", e.file, e.line) }

// readEntries reads the entries from all files in docs/conformance, ordered by file
// name, and returns the faults in them. The index must link to each file.
func readEntries(fsys fs.FS) (entries []entry, faults []string, err error) {
	index, err := fs.ReadFile(fsys, indexFile)
	if err != nil {
		return nil, nil, err
	}
	files, err := fs.Glob(fsys, path.Join(entriesDir, "*.md"))
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		if file == indexFile {
			continue
		}
		if base := path.Base(file); !strings.Contains(string(index), "]("+base+")") {
			faults = append(faults, fmt.Sprintf("%s: no link to %s", indexFile, base))
		}
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, nil, err
		}
		more, wrong := parseEntries(file, string(text))
		entries, faults = append(entries, more...), append(faults, wrong...)
	}
	return entries, faults, nil
}

// entryPattern matches an entry's first line: a list item that begins with an id.
// Other list items belong to the prose.
var entryPattern = regexp.MustCompile(`^- ([A-Z][A-Z0-9]+-[^ :]+):(.*)`)

// parseEntries reads a file's entries, in their order, and returns the faults in
// them. Indented lines continue an entry.
func parseEntries(file, text string) (entries []entry, faults []string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		m := entryPattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rest := m[2]
		for _, more := range lines[i+1:] {
			if !strings.HasPrefix(more, "  ") {
				break
			}
			rest += " " + strings.TrimSpace(more)
		}
		e := entry{file: file, line: i + 1, id: m[1]}
		if fault := e.parseTests(strings.TrimSpace(rest)); fault != "" {
			faults = append(faults, fmt.Sprintf("%s: %s %s", e.position(), e.id, fault))
		}
		entries = append(entries, e)
	}
	return entries, faults
}

// testsPattern matches an entry's text: tests in backticks, separated by commas, or
// n/a, optionally followed by a semicolon and a note.
var (
	testsPattern = regexp.MustCompile("^(n/a|`[^`]+`(?:, `[^`]+`)*)(?:; (.+))?$")
	quotation    = regexp.MustCompile("`([^`]+)`")
)

// parseTests sets e's tests and note from its text. It returns the fault in the
// text, or "".
func (e *entry) parseTests(text string) (fault string) {
	m := testsPattern.FindStringSubmatch(text)
	if m == nil {
		return "names no test: write `package/path.TestName`, ... or n/a, and perhaps a semicolon and a note"
	}
	e.note = m[2]
	if m[1] == notApplicable {
		if e.note == "" {
			return "is n/a without a reason: write the reason after a semicolon"
		}
		return ""
	}
	for _, q := range quotation.FindAllStringSubmatch(m[1], -1) {
		e.tests = append(e.tests, q[1])
	}
	return ""
}
