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

// A Case is one small function in the suite.
type Case struct {
	Name string
	Root bool // needs root: the case acts as several users, or makes devices
	run  func(p *probe)
}

// Root values in the case tables.
const (
	anyone = false
	root   = true
)

// Cases returns all functions, by theme, in the order in which Run runs them.
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

// Run runs the named cases, or the whole suite, each in a directory of its
// name that Run makes in dir and removes. It writes each observation as one
// line: the case's name, a tab, and the observation. All users must be
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
		if err := p.runCase(c); err != nil {
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

// A Transcript holds each case's lines.
type Transcript map[string][]string

// Parse reads Run's output.
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

// writeList writes the differences in Markdown, one section for each function.
func writeList(w io.Writer, differences []Difference) error {
	var text strings.Builder
	for i, d := range differences {
		if i == 0 || d.Case != differences[i-1].Case {
			fmt.Fprintf(&text, "### %s\n\n", d.Case)
		}
		fmt.Fprintf(&text, "%s:\n\n```diff\n%s\n```\n\n%s.\n", strings.Join(d.On, "; "), strings.Join(d.Lines, "\n"), sentence(d.Why))
		if i < len(differences)-1 {
			text.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// sentence returns a reason with a capital letter, in lines with at most 100 bytes.
func sentence(reason string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(reason) {
		if line != "" && len(line)+len(" ")+len(word) > 99 {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	text := strings.Join(append(lines, line), "\n")
	return strings.ToUpper(text[:1]) + text[1:]
}
