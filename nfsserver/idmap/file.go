package idmap

import (
	"errors"
	"fmt"
	"strings"
)

// Local limits.
const (
	maxText   = 1 << 20 // maximum file length in bytes
	maxErrors = 100     // number of reported errors
)

// ParseFile parses an idmapd.conf(5) file: [General] Domain and Local-Realms, [Translation]
// Method and GSS-Methods, and [Static]. Everything else concerns other programs. Without
// Local-Realms the local realm is the domain in capitals. The error joins all errors, each with
// the file's name and the line.
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
		p.parseLine(strings.TrimSpace(line))
	}
	if p.more > 0 {
		p.errs = append(p.errs, fmt.Errorf("%s: %d errors more", name, p.more))
	}
	if len(p.errs) > 0 {
		return Rules{}, errors.Join(p.errs...)
	}
	return p.rules, nil
}

// A fileParser parses a file line by line.
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

func (p *fileParser) addError(format string, args ...any) {
	if len(p.errs) == maxErrors {
		p.more++
		return
	}
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %w", p.name, p.line, fmt.Errorf(format, args...)))
}

// parseLine parses a line without surrounding blanks.
func (p *fileParser) parseLine(line string) {
	switch {
	case line == "" || line[0] == '#' || line[0] == ';':
	case line[0] == '[':
		end := strings.IndexByte(line, ']')
		if end < 0 {
			p.addError("%.40q has no ]; write a section such as [General]", line)
			end = len(line)
		}
		p.section = strings.ToLower(strings.TrimSpace(line[1:end]))
	default:
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			p.addError("%.40q is neither a section nor KEY = VALUE; correct it", line)
			return
		}
		p.setKey(key, unquoteValue(strings.TrimSpace(value)))
	}
}

// unquoteValue returns a value without a comment after it and without surrounding quotes.
func unquoteValue(value string) string {
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

// setKey applies a line in the current section.
func (p *fileParser) setKey(key, value string) {
	word := strings.ToLower(key)
	if word == "include" {
		p.addError("include is not supported; write the lines of %.40q here", value)
		return
	}
	if p.section == "static" {
		p.addStatic(key, value)
		return
	}
	set := map[[2]string]func(string) error{
		{"general", "domain"}:          p.setDomain,
		{"general", "local-realms"}:    p.setRealms,
		{"translation", "method"}:      p.setMethod,
		{"translation", "gss-methods"}: p.setGSSMethods,
	}[[2]string{p.section, word}]
	if set == nil {
		return
	}
	if p.seen[[2]string{p.section, word}] {
		p.addError("%s is there twice; remove one", key)
		return
	}
	p.seen[[2]string{p.section, word}] = true
	if err := set(value); err != nil {
		p.addError("%w", err)
	}
}

func (p *fileParser) setDomain(value string) error {
	p.rules.Domain = value
	return CheckDomain(value)
}

func (p *fileParser) setRealms(value string) error {
	for word := range strings.SplitSeq(value, ",") {
		word = strings.TrimSpace(word)
		if word == "" || len(word) > maxName || strings.ContainsFunc(word, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '/' || c == '@' || c == '\\' }) {
			return fmt.Errorf("%.40q is not a realm, such as EXAMPLE.ORG", word)
		}
		p.rules.Realms = append(p.rules.Realms, word)
	}
	return nil
}

// setMethod applies Method, which counts for principals unless GSS-Methods is set. It ignores
// methods for other programs.
func (p *fileParser) setMethod(value string) error {
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

func (p *fileParser) setGSSMethods(value string) (err error) {
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

// addStatic applies a line in [Static].
func (p *fileParser) addStatic(key, value string) {
	principal, err := parsePrincipal(key)
	if err != nil {
		p.addError("%w", err)
		return
	}
	if !isPlainName([]byte(value)) {
		p.addError("%.40q is not the name of a user of this host; write its name", value)
		return
	}
	text, _ := principalText(principal)
	if p.rules.Static[text] != "" {
		p.addError("%s is there twice; remove one", key)
		return
	}
	p.rules.Static[text] = value
}

// Defaults returns r with its domain's realm, if no realm is local.
func (r Rules) Defaults() Rules {
	if len(r.Realms) == 0 && r.Domain != "" {
		r.Realms = []string{strings.ToUpper(r.Domain)}
	}
	return r
}
