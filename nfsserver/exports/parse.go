package exports

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A File is the content of an exports file.
type File struct {
	Exports  []Export // in the order of their first lines
	Warnings []*Error // entries whose effect may differ from their intent
}

// An Export is a directory and its clients, from all lines with its path.
type Export struct {
	Path    string // absolute and clean, at most 1024 bytes
	Clients []Client
	File    string // where the first line is
	Line    int    // the first line
	Err     error  // an error in its lines: its clients and options are unknown
}

// FSID returns the identity in the clients' options, or none.
func (e *Export) FSID() FSID {
	for _, c := range e.Clients {
		if c.Options.FSID.Set() {
			return c.Options.FSID
		}
	}
	return FSID{}
}

// String returns an equivalent file, with one line for each client, without entries that have
// no effect.
func (f *File) String() string {
	var b strings.Builder
	for _, e := range f.Exports {
		for _, c := range e.Clients {
			b.WriteString(quoteWord(e.Path) + " " + quoteWord(c.String()) + "\n")
		}
	}
	return b.String()
}

// Explain returns the meaning of f, with one line for each client and flavor. If the exports are
// in several files, comments name them.
func (f *File) Explain() string {
	var b strings.Builder
	file := ""
	if n := len(f.Exports); n > 0 && f.Exports[0].File == f.Exports[n-1].File {
		file = f.Exports[0].File
	}
	for _, e := range f.Exports {
		if e.File != file {
			file = e.File
			fmt.Fprintf(&b, "# %s\n", file)
		}
		for _, c := range e.Clients {
			for _, line := range c.Lines() {
				b.WriteString(quoteWord(e.Path) + " " + quoteWord(line) + "\n")
			}
		}
	}
	return b.String()
}

// quoteWord escapes text so that it is one word: a referral's path may contain blanks.
func quoteWord(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c <= ' ' || c == '#' || c == '"' || c == '\\' || c >= 0x7f {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// A Source is the name and the text of an exports(5) file.
type Source struct {
	Name string // for errors
	Text []byte
}

// Parse parses an exports(5) file. Errors use name for the file. The error joins all Errors;
// the File then has Exports with errors (Export.Err), and lacks lines without a valid path.
func Parse(name string, text []byte) (*File, error) { return ParseSources(Source{name, text}) }

// ParseSources parses several exports(5) files as Parse parses one, as if each followed the one
// before it.
func ParseSources(sources ...Source) (*File, error) {
	p := parser{exportIndex: make(map[string]int), knownClients: make(map[entry]bool), fsids: make(map[FSID]string)}
	total := 0
	for _, src := range sources {
		if total += len(src.Text); total > maxText {
			return nil, fmt.Errorf("%s: %d bytes are more than the %d that an exports file may have, with all that are read before it", src.Name, total, maxText)
		}
	}
	for _, src := range sources {
		p.startFile(src.Name)
		p.parseText(src.Text)
	}
	p.file.Warnings = p.warnings
	return &p.file, p.joinedError()
}

// parseText parses one file.
func (p *parser) parseText(text []byte) {
	s := newScanner(&p.report, text)
	before := p.count
	for words := s.readLine(); len(words) > 0; words = s.readLine() {
		if e := p.parseLine(words); e != nil && e.Err == nil && p.count > before {
			e.Err = p.last
		}
		before = p.count
	}
}

type parser struct {
	report
	file         File
	exportIndex  map[string]int // index in file for each path
	knownClients map[entry]bool
	fsids        map[FSID]string // path for each FSID
}

// An entry is a host to which a path is exported.
type entry struct {
	path string
	host Host
}

// parseLine parses the words on a line: a path, possibly options for all clients, and clients.
// It returns the line's export, or nil without a valid path.
func (p *parser) parseLine(words []word) *Export {
	at := words[0].from
	name, err := exportPath(words[0].text)
	if err != nil {
		p.addError(at, "%v", err)
		return nil // otherwise every client would cause an error
	}
	i, ok := p.exportIndex[name]
	if !ok {
		i = len(p.file.Exports)
		p.exportIndex[name] = i
		p.file.Exports = append(p.file.Exports, Export{Path: name, File: p.report.file, Line: int(at.line)})
	}
	e := &p.file.Exports[i]
	defaults, words := Options{ReadOnly: true}, words[1:]
	if len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
		p.parseOptions(words[0].dropFirst(1), &defaults)
		words = words[1:]
	}
	if len(words) == 0 {
		p.addWarning(at, `no client is named, and so every host may mount it; write %s *(%s), or name its clients`, quoteWord(name), defaults)
		p.addClient(e, Client{Options: defaults}, at)
	}
	for _, w := range words {
		p.parseClient(e, w, defaults)
	}
	return e
}

func exportPath(w string) (string, error) {
	switch {
	case !path.IsAbs(w):
		return "", fmt.Errorf("%.40q is not an absolute path; a line begins with a directory, written from / on", w)
	case slices.ContainsFunc(strings.Split(w, "/"), func(n string) bool { return n == "." || n == ".." }):
		return "", fmt.Errorf("path %.40q has . or .. in it; write it without", w)
	case len(w) > maxPath:
		return "", fmt.Errorf("path %.40q… has %d bytes, and clients can ask for %d; export a directory above it", w, len(w), maxPath)
	}
	return path.Clean(w), nil
}

// parseClient parses HOST or HOST(OPTIONS).
func (p *parser) parseClient(e *Export, w word, o Options) {
	c := Client{Options: o}
	host, open := w, strings.IndexByte(w.text, '(')
	if open >= 0 {
		host = w.keepFirst(open)
		list := w.dropFirst(open + 1)
		switch end := strings.IndexByte(list.text, ')'); {
		case end < 0:
			p.addError(w.at[open], `the options have no ")" in the same word; write them without blanks, as in %s(rw,sync)`, host.text)
			return
		case end < len(list.text)-1:
			p.addError(list.at[end+1], `%.40q follows the options; write a blank before the next client`, list.text[end+1:])
			return
		default:
			p.parseOptions(list.keepFirst(end), &c.Options)
		}
	}
	var err error
	if c.Host, err = ParseHost(host.text); err != nil {
		p.addError(host.from, "%v", err)
		return
	}
	if open == 0 {
		p.addWarning(w.from, `%.40q has no client before it, and so applies to every host; write client%.40[1]s without a blank, or *%.40[1]s`, w.text)
	}
	p.addClient(e, c, w.from)
}

// parseOptions parses a list of options, which may end with a comma.
func (p *parser) parseOptions(w word, o *Options) {
	l := optionList{o: o}
	for w.text != "" {
		n := strings.IndexByte(w.text, ',')
		if n < 0 {
			n = len(w.text)
		}
		if err := l.applyOption(w.text[:n]); err != nil {
			p.addError(w.from, "%v", err)
		}
		w = w.dropFirst(min(n+1, len(w.text)))
	}
}

// addClient adds a client to e.
func (p *parser) addClient(e *Export, c Client, at position) {
	if p.knownClients[entry{e.Path, c.Host}] {
		p.addWarning(at, "%s is exported to %s twice, and the first is used; remove one", e.Path, c.Host)
		return
	}
	p.knownClients[entry{e.Path, c.Host}] = true
	if !p.checkFSID(e, c.Options.FSID, at) {
		c.Options.FSID = FSID{}
	}
	e.Clients = append(e.Clients, c)
}

// checkFSID reports whether an export has only one identity, and shares it with no other. The other
// one is wrong, too: whose handles have the identity is unknown.
func (p *parser) checkFSID(e *Export, f FSID, at position) bool {
	if !f.Set() {
		return true
	}
	if other := e.FSID(); other.Set() && other != f {
		p.addError(at, "%s has fsid=%s for one client and fsid=%s for another; give it a single one", e.Path, other, f)
		return false
	}
	if other, ok := p.fsids[f]; ok && other != e.Path {
		p.addError(at, "%s and %s both have fsid=%s; give each its own", other, e.Path, f)
		p.file.Exports[p.exportIndex[other]].Err = p.last
		return false
	}
	p.fsids[f] = e.Path
	return true
}
