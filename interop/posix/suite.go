package posix

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A Case is one small function of the suite.
type Case struct {
	Name string
	Root bool // needs root: the case acts as several users, or makes devices
	run  func(p *probe)
}

// Values of Root in the tables of cases.
const (
	anyone = false
	root   = true
)

// Cases returns all functions, by theme, in the order of Run.
func Cases() []Case {
	return slices.Concat(
		modeCases, ownerCases, accessCases, timeCases, changeCases, changedNameCases, linkCases, symlinkCases, symlinkPathCases,
		renameCases, renameWrongCases, renameFlagCases, unlinkCases, removedOpenCases, rmdirCases,
		openCases, openFlagCases, descriptorCases, appendCases, execCases, dirCases, listCases, listChangeCases, nameCases,
		dataCases, transferCases, truncateCases, holeCases, spaceCases,
		mapCases, specialCases, flockCases, lockCases, attrCases,
	)
}

// ACLCases returns the cases about access control lists, which Run runs only by
// name.
func ACLCases() []Case { return slices.Clone(aclCases) }

// XattrCases returns the cases about extended attributes, which Run runs only by
// name.
func XattrCases() []Case { return slices.Clone(xattrCases) }

// Run runs the named cases, or those of the suite, each in a directory of its
// name that Run makes in dir and removes. It writes each observation as one
// line: the name of the case, a tab, and the observation. All users must be
// able to reach dir.
func Run(dir string, out io.Writer, names ...string) error {
	cases, err := choose(names)
	if err != nil {
		return err
	}
	defer unix.Umask(unix.Umask(0o022))
	for _, c := range cases {
		if c.Root && os.Getuid() != 0 {
			return fmt.Errorf("case %s needs root", c.Name)
		}
		p := &probe{dir: filepath.Join(dir, c.Name), clock: filepath.Join(dir, ".clock")}
		if err := p.take(c); err != nil {
			return err
		}
		for _, line := range p.lines {
			if _, err := fmt.Fprintf(out, "%s\t%s\n", c.Name, line); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(filepath.Join(dir, ".clock"))
}

// choose returns the cases with the given names.
func choose(names []string) ([]Case, error) {
	if len(names) == 0 {
		return Cases(), nil
	}
	all := slices.Concat(Cases(), aclCases, xattrCases)
	var chosen []Case
	for _, name := range names {
		i := slices.IndexFunc(all, func(c Case) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no case %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// A Transcript holds the lines of each case.
type Transcript map[string][]string

// Parse reads the output of Run.
func Parse(r io.Reader) (Transcript, error) {
	t := make(Transcript)
	s := bufio.NewScanner(r)
	for s.Scan() {
		name, line, ok := strings.Cut(s.Text(), "\t")
		if !ok {
			return nil, fmt.Errorf("no line of a transcript: %q", s.Text())
		}
		t[name] = append(t[name], line)
	}
	return t, s.Err()
}

// WriteTable writes the differences as a table of Markdown.
func WriteTable(w io.Writer, differences []Difference) error {
	text := "| function | mount | difference (`-` tmpfs, `+` the mount) | reason |\n| --- | --- | --- | --- |\n"
	for _, d := range differences {
		lines := make([]string, len(d.Lines))
		for i, line := range d.Lines {
			lines[i] = "`" + strings.ReplaceAll(line, "|", `\|`) + "`"
		}
		text += fmt.Sprintf("| %s | %s | %s | %s |\n", d.Case, strings.Join(d.On, "; "), strings.Join(lines, "<br>"), d.Why)
	}
	_, err := io.WriteString(w, text)
	return err
}
