package conformance

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
)

// The compared files, relative to the module's root.
const (
	requirementsFile = "docs/requirements.tsv"
	entriesDir       = "docs/conformance"
	indexFile        = entriesDir + "/README.md"
)

// A Result counts the checked entries, and lists the faults, each as a sentence
// with its position.
type Result struct {
	Entries, Tested, NA int
	Faults              []string
}

// Check compares the files below the module's root fsys. If doc is set, "R5041" for
// example, Check examines only that document's entries. The error reports a failure
// to read.
func Check(fsys fs.FS, doc string) (Result, error) {
	var res Result
	text, err := fs.ReadFile(fsys, requirementsFile)
	if err != nil {
		return res, err
	}
	reqs, faults := parseRequirements(string(text))
	entries, more, err := readEntries(fsys)
	if err != nil {
		return res, err
	}
	res.Faults = append(faults, more...)
	if doc != "" {
		reqs = slices.DeleteFunc(reqs, func(r requirement) bool { return documentOf(r.id) != doc })
		entries = slices.DeleteFunc(entries, func(e entry) bool { return documentOf(e.id) != doc })
		if len(reqs) == 0 {
			res.addFault("%s: no requirement of %s", requirementsFile, doc)
		}
	}
	res.compareEntries(reqs, entries)
	c := checker{fsys: fsys, dirs: make(map[string]*testPackage)}
	for _, e := range entries {
		res.countEntry(e)
		for _, test := range e.tests {
			fault, err := c.checkClaim(test, e.id)
			if err != nil {
				return res, err
			}
			if fault != "" {
				res.addFault("%s: %s: %s", e.position(), e.id, fault)
			}
		}
	}
	return res, nil
}

func (res *Result) addFault(format string, args ...any) {
	res.Faults = append(res.Faults, fmt.Sprintf(format, args...))
}

func (res *Result) countEntry(e entry) {
	res.Entries++
	if len(e.tests) > 0 {
		res.Tested++
	} else {
		res.NA++
	}
}

// compareEntries checks that each requirement has one entry, and that a file's
// entries are in the requirements' order.
func (res *Result) compareEntries(reqs []requirement, entries []entry) {
	order := make(map[string]int)
	for i, r := range reqs {
		order[r.id] = i
	}
	met := make(map[string]string) // entry position by id
	last := make(map[string]int)   // last requirement's index, by file
	for _, e := range entries {
		at, known := order[e.id]
		switch {
		case !known:
			res.addFault("%s: %s is not in %s", e.position(), e.id, requirementsFile)
		case met[e.id] != "":
			res.addFault("%s: %s has an entry already, at %s", e.position(), e.id, met[e.id])
		case at < last[e.file]:
			res.addFault("%s: %s comes after %s: keep the order of %s", e.position(), e.id, reqs[last[e.file]].id, requirementsFile)
		default:
			last[e.file] = at
		}
		met[e.id] = e.position()
	}
	for _, r := range reqs {
		if met[r.id] == "" {
			res.addFault("%s: no entry for %s (%s, %s): %s", entriesDir, r.id, r.level, r.who, r.text)
		}
	}
}

// A checker caches the directories that it has read.
type checker struct {
	fsys fs.FS
	dirs map[string]*testPackage
}

// testNamePattern splits a test's name: directory, function and optional subtest.
var testNamePattern = regexp.MustCompile(`^([\w./-]*?[\w-])\.((?:Test|Fuzz|Example|Benchmark)\w*)(?:/(.+))?$`)

// checkClaim returns the fault in the claim that the test shows the requirement id,
// or "".
func (c *checker) checkClaim(test, id string) (fault string, err error) {
	m := testNamePattern.FindStringSubmatch(test)
	if m == nil {
		return fmt.Sprintf("%q is not the name of a test: write package/path.TestName or package/path.TestName/subtest", test), nil
	}
	dir, function, sub := m[1], m[2], m[3]
	p, err := c.readPackage(dir)
	if err != nil {
		return "", err
	}
	if p.decls[function] == nil {
		return fmt.Sprintf("no %s in the tests of %s", function, dir), nil
	}
	decls := p.usedDecls(function)
	var source string
	if sub == "" {
		for _, d := range decls {
			source += d.sourceText() + "\n"
		}
	} else {
		var ok bool
		if source, ok = subtestSource(decls, sub); !ok {
			return fmt.Sprintf("the source of %s.%s has no subtest named %q", dir, function, sub), nil
		}
	}
	if !containsID(source, id) {
		return fmt.Sprintf("the source of %s does not contain the id: write it next to the assertion", test), nil
	}
	return "", nil
}

func (c *checker) readPackage(dir string) (*testPackage, error) {
	if p, ok := c.dirs[dir]; ok {
		return p, nil
	}
	p, err := parseDir(c.fsys, dir)
	if err == nil {
		c.dirs[dir] = p
	}
	return p, err
}

var idPattern = regexp.MustCompile(`\b[A-Z][A-Z0-9]+(?:-[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*)+`)

// containsID reports whether the text contains id as a whole word: R5041-4.1-1 is
// not in R5041-4.1-10.
func containsID(text, id string) bool {
	return slices.Contains(idPattern.FindAllString(text, -1), id)
}
