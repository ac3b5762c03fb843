package idmap

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// A Method is a way to find a principal's user.
type Method uint8

// Methods, named as in idmapd.conf.
const (
	NSSwitch Method = iota // a principal in a local realm is the user with the same name
	Static                 // the user that a list names
)

// Rules determine which names belong to this host.
type Rules struct {
	// Domain is the part of owner strings after the @; empty means that owners are numbers.
	Domain string

	// Realms are the Kerberos realms whose principals may be users on this host.
	Realms []string

	// Methods are tried in order, until one finds a user; none means NSSwitch.
	Methods []Method

	// Static maps a principal's text, as Text returns it, to a user.
	Static map[string]string
}

// activeMethods returns the methods to use.
func (r *Rules) activeMethods() []Method {
	if len(r.Methods) == 0 {
		return []Method{NSSwitch}
	}
	return r.Methods
}

// maxPrincipal is the maximum length in bytes of the text of a principal that has a user.
const maxPrincipal = 1024

// userFor returns the name of the user that a method finds for a principal, or "".
func (r *Rules) userFor(method Method, p *gss.Principal) string {
	if method == Static {
		var memory [128]byte
		text, err := appendText(memory[:0], p)
		if err != nil {
			return ""
		}
		return r.Static[string(text)]
	}
	if len(p.Name) != 1 || strings.HasSuffix(p.Name[0], "$") || strings.Contains(p.Name[0], `\`) || !isPlainName([]byte(p.Name[0])) {
		return "" // machines, users in another role, and names that winbind assigns to another domain
	}
	for _, realm := range r.Realms {
		if realm == p.Realm {
			return p.Name[0]
		}
	}
	return ""
}

var errPrincipal = errors.New("a principal has a name, a realm, and 1024 bytes at most")

// principalText returns a principal's text: the name's components separated by slashes, an @, and the
// realm. A backslash precedes each slash, @ or backslash in a name, so that no two principals
// have the same text.
func principalText(p gss.Principal) (string, error) {
	b, err := appendText(nil, &p)
	return string(b), err
}

func appendText(b []byte, p *gss.Principal) ([]byte, error) {
	size := 1 + len(p.Realm)
	for _, name := range p.Name {
		size += 1 + len(name)
	}
	if len(p.Name) == 0 || p.Realm == "" || size > maxPrincipal {
		return nil, errPrincipal
	}
	for i, name := range p.Name {
		if i > 0 {
			b = append(b, '/')
		}
		b = appendEscaped(b, name)
	}
	return appendEscaped(append(b, '@'), p.Realm), nil
}

func appendEscaped(b []byte, name string) []byte {
	for i := range len(name) {
		if c := name[i]; c == '/' || c == '@' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, name[i])
	}
	return b
}

// parsePrincipal parses a principal's text.
func parsePrincipal(text string) (p gss.Principal, err error) {
	var word []byte
	inRealm := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			word = append(word, text[i])
		case c == '\\', c <= ' ', c == 0x7f, inRealm && (c == '/' || c == '@'):
			return p, fmt.Errorf("%.40q is not a principal, such as alice@EXAMPLE.ORG", text)
		case c == '/' || c == '@':
			p.Name, word = append(p.Name, string(word)), nil
			inRealm = c == '@'
		default:
			word = append(word, c)
		}
	}
	p.Realm = string(word)
	if !inRealm || p.Realm == "" || p.Name[0] == "" {
		return p, fmt.Errorf("%.40q is not a principal, such as alice@EXAMPLE.ORG", text)
	}
	_, err = principalText(p)
	return p, err
}

// isPlainName reports whether a user database may be queried for a name. Databases take digits
// for a number, and so would reply to 0 with the superuser; their clients take a name that
// begins with a hyphen for an option; and a database is a file with lines that contain colons,
// or a server to which other characters may have a meaning.
func isPlainName(name []byte) bool {
	if len(name) == 0 || len(name) > maxName || name[0] == '-' || name[0] == '+' {
		return false
	}
	number := true
	for _, c := range name {
		if c <= ' ' || c == 0x7f || c == ':' || c == '/' || c == ',' || c == '@' {
			return false
		}
		number = number && '0' <= c && c <= '9'
	}
	return !number
}

// isSameName reports whether a database has replied with the name that was looked up. Databases
// may ignore case.
func isSameName(asked, answer string) bool {
	if len(asked) != len(answer) {
		return false
	}
	for i := range len(asked) {
		if toLower(asked[i]) != toLower(answer[i]) {
			return false
		}
	}
	return true
}

func toLower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// isValidID reports whether a number is a user or group: the largest means "unchanged" to
// hosts.
func isValidID(n uint64) bool { return n < math.MaxUint32 }
