package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/ini.v1"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// defaultConf is the file of flags that nfsrdmad.service uses.
const defaultConf = "/etc/nfsrdma/nfsrdmad.conf"

// A confSection is a section of the file of --config, with its keys: the names of flags of serve.
type confSection struct {
	name string
	keys []string
}

// confSections are all sections. The flags that are missing choose what is served: they are only on
// the command line.
var confSections = []confSection{
	{"ports", []string{"listen", "tcp", "portmap", "register", "metrics", "discover", "monitors", "control"}},
	{"nfs", []string{"vers", "delegations", "lease", "nfs4-lease", "no-extensions", "state"}},
	{"standby", []string{"standby", "tenure-time", "fence", "fence-timeout"}},
	{"rdma", []string{"inline", "credits", "max-payload", "max-connections", "crc", "markers"}},
	{"users", []string{"manage-gids", "idmap", "idmap-domain", "keytab"}},
	{"tls", []string{"tls-cert", "tls-key", "tls-ca", "tls-crl", "rdma-tls", "tls-kernel", "tls-strict", "require-encryption"}},
	{"log", []string{"log-level", "log-format", "record", "record-size", "trace"}},
}

// listConfKeys lists the sections with their keys for the help.
func listConfKeys() string {
	var b strings.Builder
	for _, s := range confSections {
		line := fmt.Sprintf("    %-8s", "["+s.name+"]")
		for _, k := range s.keys {
			if len(line)+len(k) > 84 {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", 12)
			}
			line += " " + k
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// maxConf is the maximum length in bytes of the file of --config.
const maxConf = 1 << 20

// A conf is a file of --config.
type conf struct {
	name string
	text []byte
	keys []confKey // that set a flag
}

// A confKey is a key in a section of a conf.
type confKey struct{ section, key string }

// readConf sets the flags that a file names and the command line does not. The file has the form of
// nfs.conf(5).
func readConf(name string, flags *pflag.FlagSet) (*conf, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--config %s cannot be read (%w): create it, which may be empty, or correct its name or its permissions", name, cli.Cause(err))
	}
	if len(text) > maxConf {
		return nil, fmt.Errorf("--config %s: %d bytes are more than the %d that it may have", name, len(text), maxConf)
	}
	c := &conf{name: name, text: text}
	f, err := ini.LoadSources(ini.LoadOptions{
		AllowShadows: true, AllowDuplicateShadowValues: true, SpaceBeforeInlineComment: true, KeyValueDelimiters: "=", IgnoreContinuation: true,
	}, text)
	if err != nil {
		return nil, c.explainSyntax(err)
	}
	var errs []error
	for _, s := range f.Sections() {
		for _, k := range s.Keys() {
			if err := c.applyKey(s.Name(), k, flags); err != nil {
				errs = append(errs, err)
			}
		}
		if s.Name() != ini.DefaultSection && findConfSection(s.Name()) == nil {
			errs = append(errs, c.errorf(s.Name(), "", "unknown section [%s]: the sections are %s", s.Name(), joinSectionNames()))
		}
	}
	return c, errors.Join(errs...)
}

func findConfSection(name string) *confSection {
	i := slices.IndexFunc(confSections, func(s confSection) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return &confSections[i]
}

func joinSectionNames() string {
	var names []string
	for _, s := range confSections {
		names = append(names, "["+s.name+"]")
	}
	return strings.Join(names, ", ")
}

// applyKey sets the flag of one key.
func (c *conf) applyKey(section string, k *ini.Key, flags *pflag.FlagSet) error {
	s, key := findConfSection(section), k.Name()
	switch {
	case section == ini.DefaultSection:
		return c.errorf("", key, "%s is in no section: write it below [SECTION]; %s", key, describeKey(key))
	case s == nil:
		return nil // reported once
	case !slices.Contains(s.keys, key):
		return c.errorf(section, key, "unknown key %s in [%s]: %s", key, section, describeKey(key))
	case len(k.ValueWithShadows()) > 1:
		return c.errorf(section, key, "%s has several values: remove all but one", key)
	}
	flag := flags.Lookup(key)
	value := k.Value()
	switch flag.Value.Type() {
	case "bool":
		word, ok := truthWords[strings.ToLower(value)]
		if !ok {
			return c.errorf(section, key, "%s = %s: write yes or no", key, value)
		}
		value = word
	case "stringSlice":
		value = strings.ReplaceAll(value, ", ", ",")
	}
	if flag.Changed { // on the command line
		return nil
	}
	if err := flags.Set(key, value); err != nil {
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = bad.Unwrap()
		}
		return c.errorf(section, key, "%s = %s: %w", key, value, err)
	}
	c.keys = append(c.keys, confKey{section, key})
	return nil
}

// truthWords are the values of flags without a value, as in nfs.conf(5).
var truthWords = map[string]string{
	"1": "true", "t": "true", "true": "true", "y": "true", "yes": "true", "on": "true",
	"0": "false", "f": "false", "false": "false", "n": "false", "no": "false", "off": "false",
}

// describeKey says where a key belongs.
func describeKey(key string) string {
	for _, s := range confSections {
		if slices.Contains(s.keys, key) {
			return fmt.Sprintf("%s belongs to [%s]", key, s.name)
		}
	}
	return "nfsrdmad serve --help lists the keys"
}

// errorf returns an error at a key, or at a section if key is "".
func (c *conf) errorf(section, key, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", c.name, c.findLine(section, key), fmt.Errorf(format, args...))
}

// findLine returns the line of a key's last value, or of a section. The parser does not tell.
func (c *conf) findLine(section, key string) (found int) {
	current, n := "", 0
	for line := range bytes.Lines(c.text) {
		n++
		text := strings.TrimSpace(string(line))
		if inner, ok := strings.CutPrefix(text, "["); ok {
			current, _, _ = strings.Cut(inner, "]")
			if current = strings.TrimSpace(current); current == section && key == "" {
				found = n
			}
			continue
		}
		if name, _, ok := strings.Cut(text, "="); ok && key != "" && current == section && strings.Trim(name, " \t\"`") == key {
			found = n
		}
	}
	return found
}

// explainSyntax adds the position to an error of the parser, which quotes the line.
func (c *conf) explainSyntax(err error) error {
	n := 0
	for line := range bytes.Lines(c.text) {
		n++
		if text := strings.TrimSpace(string(line)); text != "" && strings.HasSuffix(strings.TrimSpace(err.Error()), text) {
			return fmt.Errorf("%s:%d: %q is neither a section nor a key: write [SECTION] or KEY = VALUE", c.name, n, text)
		}
	}
	return fmt.Errorf("--config %s: %w: write [SECTION] or KEY = VALUE", c.name, err)
}

// locate adds the position to an error about a flag that the file has set. It returns err if c is
// nil, or err is about others.
func (c *conf) locate(err error) error {
	if c == nil || err == nil {
		return err
	}
	for _, k := range c.keys {
		if regexp.MustCompile(`--` + k.key + `\b(?:[^-]|$)`).MatchString(err.Error()) {
			return c.errorf(k.section, k.key, "%w", err)
		}
	}
	return err
}

// formerFlagFiles had the flags of nfsrdmad.service before defaultConf. rpm renames the file of an
// earlier package.
var formerFlagFiles = []string{"/etc/default/nfsrdmad", "/etc/sysconfig/nfsrdmad", "/etc/sysconfig/nfsrdmad.rpmsave"}

// formerFlags matches a variable of formerFlagFiles with a value.
var formerFlags = regexp.MustCompile(`^[ \t]*(NFSRDMAD_(?:PORTS|PORTMAP|VERSIONS|USERS|KERBEROS|TLS|METRICS|LOG|FLAGS))[ \t]*=[ \t"']*[^ \t\n"']`)

// checkFormerFlags returns an error if files, or the environment of a unit with defaultConf, have
// flags without effect: without them, the service could serve unencrypted, or on other ports. A
// unit of the administrator's own may still pass the variables on.
func checkFormerFlags(config string, files []string) error {
	const remedy = "has no effect any more: write its flags into " + defaultConf + ", as nfsrdmad(8) describes, and remove "
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s, which had the service's flags, cannot be read (%w): remove it, or correct its permissions", name, cli.Cause(err))
		}
		n := 0
		for line := range bytes.Lines(text) {
			n++
			if m := formerFlags.FindSubmatch(line); m != nil && (config == defaultConf || os.Getenv(string(m[1])) == "") {
				return fmt.Errorf("%s:%d: %s %s%s", name, n, m[1], remedy, name)
			}
		}
	}
	if config != defaultConf {
		return nil
	}
	for _, v := range os.Environ() {
		if m := formerFlags.FindStringSubmatch(v); m != nil {
			return fmt.Errorf("the variable %s of the service's environment %sit: systemctl cat nfsrdmad shows where it is set", m[1], remedy)
		}
	}
	return nil
}
