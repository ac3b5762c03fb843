package idmap

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of our own.
const (
	maxText   = 1 << 20 // bytes of the longest file
	maxErrors = 100     // of a file that are reported
)

// ParseFile parses a file of idmapd.conf(5): [General] Domain and Local-Realms,
// [Translation] Method and GSS-Methods, and [Static]. Everything else concerns
// other programs. Without Local-Realms the local realm is the domain in capitals.
// The error joins all errors, each with the name of the file and the line.
func ParseFile(name string, text []byte) (Rules, error) {
	if len(text) > maxText {
		return Rules{}, fmt.Errorf("%s: %d bytes are more than the %d that the file may have", name, len(text), maxText)
	}
	p := fileParser{name: name, seen: make(map[[2]string]bool)}
	p.rules.Static = make(map[string]string)
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		p.line = i + 1
		line := strings.TrimSuffix(lines[i], "\r")
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimSuffix(lines[i], "\r")
		}
		p.parse(strings.TrimSpace(line))
	}
	if p.more > 0 {
		p.errs = append(p.errs, fmt.Errorf("%s: %d errors more", name, p.more))
	}
	if len(p.errs) > 0 {
		return Rules{}, errors.Join(p.errs...)
	}
	return p.rules, nil
}

// A fileParser is a file up to a line.
type fileParser struct {
	name    string
	line    int
	section string // in lower case
	rules   Rules
	gss     bool // GSS-Methods has set the methods
	seen    map[[2]string]bool
	errs    []error
	more    int
}

func (p *fileParser) fail(format string, args ...any) {
	if len(p.errs) == maxErrors {
		p.more++
		return
	}
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %w", p.name, p.line, fmt.Errorf(format, args...)))
}

// parse parses a line without blanks around it.
func (p *fileParser) parse(line string) {
	switch {
	case line == "" || line[0] == '#' || line[0] == ';':
	case line[0] == '[':
		end := strings.IndexByte(line, ']')
		if end < 0 {
			p.fail("%.40q has no ]; write a section such as [General]", line)
			end = len(line)
		}
		p.section = strings.ToLower(strings.TrimSpace(line[1:end]))
	default:
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			p.fail("%.40q is neither a section nor KEY = VALUE; correct it", line)
			return
		}
		p.set(key, unquote(strings.TrimSpace(value)))
	}
}

// unquote returns a value without a comment behind it and without quotes around
// it.
func unquote(value string) string {
	if len(value) > 1 && (value[0] == '"' || value[0] == '\'') {
		if end := strings.IndexByte(value[1:], value[0]); end >= 0 {
			return value[1 : 1+end]
		}
	}
	for i := 1; i < len(value); i++ {
		if (value[i] == '#' || value[i] == ';') && (value[i-1] == ' ' || value[i-1] == '\t') {
			return strings.TrimSpace(value[:i])
		}
	}
	return value
}

// set applies a line of the present section.
func (p *fileParser) set(key, value string) {
	word := strings.ToLower(key)
	if word == "include" {
		p.fail("include is not supported; write the lines of %.40q here", value)
		return
	}
	if p.section == "static" {
		p.static(key, value)
		return
	}
	set := map[[2]string]func(string) error{
		{"general", "domain"}:          p.domain,
		{"general", "local-realms"}:    p.realms,
		{"translation", "method"}:      p.method,
		{"translation", "gss-methods"}: p.gssMethods,
	}[[2]string{p.section, word}]
	if set == nil {
		return
	}
	if p.seen[[2]string{p.section, word}] {
		p.fail("%s is there twice; remove one", key)
		return
	}
	p.seen[[2]string{p.section, word}] = true
	if err := set(value); err != nil {
		p.fail("%w", err)
	}
}

func (p *fileParser) domain(value string) error {
	p.rules.Domain = value
	return CheckDomain(value)
}

func (p *fileParser) realms(value string) error {
	for word := range strings.SplitSeq(value, ",") {
		word = strings.TrimSpace(word)
		if word == "" || len(word) > maxName || strings.ContainsFunc(word, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '/' || c == '@' || c == '\\' }) {
			return fmt.Errorf("%.40q is not a realm, such as EXAMPLE.ORG", word)
		}
		p.rules.Realms = append(p.rules.Realms, word)
	}
	return nil
}

// method is Method, which counts for principals unless GSS-Methods is there. Its
// other methods are those of other programs.
func (p *fileParser) method(value string) error {
	if p.gss {
		return nil
	}
	for word := range strings.SplitSeq(value, ",") {
		if list, err := parseMethods(word); err == nil {
			p.rules.Methods = append(p.rules.Methods, list...)
		}
	}
	return nil
}

func (p *fileParser) gssMethods(value string) (err error) {
	p.gss = true
	p.rules.Methods, err = parseMethods(value)
	return err
}

func parseMethods(value string) (list []Method, err error) {
	for word := range strings.SplitSeq(value, ",") {
		switch word = strings.ToLower(strings.TrimSpace(word)); word {
		case "nsswitch":
			list = append(list, NSSwitch)
		case "static":
			list = append(list, Static)
		default:
			return nil, fmt.Errorf("method %.40q is neither nsswitch nor static; remove it", word)
		}
	}
	return list, nil
}

// static is a line of [Static].
func (p *fileParser) static(key, value string) {
	principal, err := parsePrincipal(key)
	if err != nil {
		p.fail("%w", err)
		return
	}
	if !plain([]byte(value)) {
		p.fail("%.40q is not the name of a user of this host; write its name", value)
		return
	}
	text, _ := Text(principal)
	if p.rules.Static[text] != "" {
		p.fail("%s is there twice; remove one", key)
		return
	}
	p.rules.Static[text] = value
}

// Defaults returns r with the realm of its domain, if no realm is local.
func (r Rules) Defaults() Rules {
	if len(r.Realms) == 0 && r.Domain != "" {
		r.Realms = []string{strings.ToUpper(r.Domain)}
	}
	return r
}
