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
	tableFile        = "docs/conformance.md"
)

// A Result counts the checked rows, and lists the faults, each as a sentence
// that names the place.
type Result struct {
	Rows, Tested, NA int
	Faults           []string
}

// Check compares the files below the module's root fsys. If doc is set, "R5041"
// for example, Check examines only the rows of that document. The error reports
// a failure to read.
func Check(fsys fs.FS, doc string) (Result, error) {
	var res Result
	var text [2]string
	for i, name := range []string{requirementsFile, tableFile} {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return res, err
		}
		text[i] = string(b)
	}
	reqs, faults := parseRequirements(text[0])
	rows, more := parseTable(text[1])
	res.Faults = append(faults, more...)
	if doc != "" {
		reqs = slices.DeleteFunc(reqs, func(r requirement) bool { return document(r.id) != doc })
		rows = slices.DeleteFunc(rows, func(r row) bool { return document(r.id) != doc })
		if len(reqs) == 0 {
			res.fault("%s: no requirement of %s", requirementsFile, doc)
		}
	}
	res.compare(reqs, rows)
	c := checker{fsys: fsys, dirs: make(map[string]*testPackage)}
	for _, r := range rows {
		res.count(r)
		for _, test := range r.tests {
			fault, err := c.shows(test, r.id)
			if err != nil {
				return res, err
			}
			if fault != "" {
				res.fault("%s:%d: %s: %s", tableFile, r.line, r.id, fault)
			}
		}
	}
	return res, nil
}

func (res *Result) fault(format string, args ...any) {
	res.Faults = append(res.Faults, fmt.Sprintf(format, args...))
}

func (res *Result) count(r row) {
	res.Rows++
	if len(r.tests) > 0 {
		res.Tested++
	} else {
		res.NA++
	}
}

// compare checks that the rows are those of the requirements, in their order.
func (res *Result) compare(reqs []requirement, rows []row) {
	place := make(map[string]int)
	for i, r := range reqs {
		place[r.id] = i
	}
	met := make(map[string]int) // the line of an id
	last := -1
	for _, r := range rows {
		at, known := place[r.id]
		switch {
		case !known:
			res.fault("%s:%d: %s is not in %s", tableFile, r.line, r.id, requirementsFile)
		case met[r.id] != 0:
			res.fault("%s:%d: %s has a row already, in line %d", tableFile, r.line, r.id, met[r.id])
		case at < last:
			res.fault("%s:%d: %s comes after %s: keep the order of %s", tableFile, r.line, r.id, reqs[last].id, requirementsFile)
		default:
			last = at
		}
		met[r.id] = r.line
	}
	for _, r := range reqs {
		if met[r.id] == 0 {
			res.fault("%s: no row for %s (%s, %s): %s", tableFile, r.id, r.level, r.who, r.text)
		}
	}
}

// A checker keeps the directories that it has read.
type checker struct {
	fsys fs.FS
	dirs map[string]*testPackage
}

// isName splits a test's name: directory, function and, perhaps, subtest.
var isName = regexp.MustCompile(`^([\w./-]*?[\w-])\.((?:Test|Fuzz|Example|Benchmark)\w*)(?:/(.+))?$`)

// shows returns the fault in the claim that the test shows the requirement id,
// or "".
func (c *checker) shows(test, id string) (fault string, err error) {
	m := isName.FindStringSubmatch(test)
	if m == nil {
		return fmt.Sprintf("%q is not the name of a test: write package/path.TestName or package/path.TestName/subtest", test), nil
	}
	dir, function, sub := m[1], m[2], m[3]
	p, err := c.read(dir)
	if err != nil {
		return "", err
	}
	if p.decls[function] == nil {
		return fmt.Sprintf("no %s in the tests of %s", function, dir), nil
	}
	decls := p.used(function)
	var source string
	if sub == "" {
		for _, d := range decls {
			source += d.source() + "\n"
		}
	} else {
		var ok bool
		if source, ok = subtest(decls, sub); !ok {
			return fmt.Sprintf("the source of %s.%s has no subtest named %q", dir, function, sub), nil
		}
	}
	if !contains(source, id) {
		return fmt.Sprintf("the source of %s does not contain the id: write it next to the assertion", test), nil
	}
	return "", nil
}

func (c *checker) read(dir string) (*testPackage, error) {
	if p, ok := c.dirs[dir]; ok {
		return p, nil
	}
	p, err := parseDir(c.fsys, dir)
	if err == nil {
		c.dirs[dir] = p
	}
	return p, err
}

var ids = regexp.MustCompile(`\b[A-Z][A-Z0-9]+(?:-[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*)+`)

// contains reports whether the text contains id as a whole word: R5041-4.1-1 is
// not in R5041-4.1-10.
func contains(text, id string) bool {
	return slices.Contains(ids.FindAllString(text, -1), id)
}
