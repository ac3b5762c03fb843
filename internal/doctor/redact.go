package doctor

import (
	"regexp"
	"slices"
	"strings"
)

// A TextKind is the kind of a text in a bundle. It says which parts of a text may contain secrets.
type TextKind int

// The kinds of text in a bundle.
const (
	PlainText    TextKind = iota // a program's output
	JSONText                     // a document without members for secrets
	SettingsText                 // lines of settings, with comments
	EnvText                      // assignments of variables, with comments
)

const removed = "[removed]"

// secretNames match names whose values are secret.
const secretNames = `pass(?:word|wd|phrase)?|secret|token|authorization|cookie|credential|api[-_]?key|private[-_]?key|session[-_]?key`

var (
	pemBlocks  = regexp.MustCompile(`(?s)-----BEGIN .*?(?:-----END [^\n]*|\z)`)
	userinfo   = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s"']*@`)
	longDigits = regexp.MustCompile(`(?:commit )?\b(?:[0-9A-Fa-f]{32,}|[A-Za-z0-9+_]{40,}={0,2})\b`)
	secrets    = regexp.MustCompile(`(?im)((?:` + secretNames + `)[\w-]*["']?[ \t]*[=:][ \t]*|--[\w-]*(?:` + secretNames + `)[\w-]*[ \t]+|\bbearer[ \t]+)\S.*$`)
	comments   = regexp.MustCompile(`(?m)(^|[ \t])[#;].*$`)
	blankLines = regexp.MustCompile(`(?m)^[ \t]*\n`)
	joined     = regexp.MustCompile(`\\\n(?:[ \t]*[#;].*\n)*[ \t]*`) // a unit may have comments between
	lines      = regexp.MustCompile(`[^\n]+`)
	assigned   = regexp.MustCompile(`^([ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=).*$`)
	unitEnv    = regexp.MustCompile(`(?m)^([ \t]*Environment[ \t]*=)(.*)$`)
	unitNames  = regexp.MustCompile(`(?:^|[ \t"'])([A-Za-z_]\w*)=`)
)

// allowedVariables are the environment variables whose values a bundle may have.
var allowedVariables = []string{
	"PATH", "LANG", "LC_ALL", "TZ", "HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "KRB5_CONFIG", "KRB5_KTNAME", "KRB5CCNAME",
	"GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "JOURNAL_STREAM", "INVOCATION_ID",
}

func isAllowedVariable(name string) bool {
	return strings.HasPrefix(name, "NFSRDMAD_") || slices.Contains(allowedVariables, name)
}

// redact removes from a text what could be secret. It removes too much rather than too little.
func redact(kind TextKind, text []byte) []byte {
	s := pemBlocks.ReplaceAllString(string(text), removed)
	s = userinfo.ReplaceAllString(s, "${1}"+removed+"@")
	s = longDigits.ReplaceAllStringFunc(s, func(digits string) string {
		if strings.HasPrefix(digits, "commit ") {
			return digits // the program's version
		}
		return removed
	})
	if kind == JSONText {
		return []byte(s)
	}
	if kind == SettingsText || kind == EnvText {
		s = joined.ReplaceAllString(s, " ")
		s = comments.ReplaceAllString(s, "")
		s = blankLines.ReplaceAllString(s, "")
		s = unitEnv.ReplaceAllStringFunc(s, redactUnitEnv)
	}
	if kind == EnvText {
		s = lines.ReplaceAllStringFunc(s, redactAssignment)
	}
	return []byte(secrets.ReplaceAllString(s, "${1}"+removed))
}

// redactAssignment keeps a line only if it assigns an allowed variable: another one may be part of a
// quoted value.
func redactAssignment(line string) string {
	m := assigned.FindStringSubmatch(line)
	switch {
	case m == nil:
		return removed
	case isAllowedVariable(m[2]):
		return line
	}
	return m[1] + removed
}

// redactUnitEnv keeps a line Environment= of a unit only if all its variables are allowed.
func redactUnitEnv(line string) string {
	m := unitEnv.FindStringSubmatch(line)
	names := unitNames.FindAllStringSubmatch(m[2], -1)
	out, allowed := m[1], true
	for _, n := range names {
		allowed = allowed && isAllowedVariable(n[1])
		out += " " + n[1] + "=" + removed
	}
	if allowed {
		return line
	}
	return out
}
