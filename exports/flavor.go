package exports

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Flavor is a security flavour, by the number that MOUNT lists for it: a
// service of Kerberos has a pseudo-flavour (RFC 2623, Section 4.2).
type Flavor uint32

// The flavours of sec=.
const (
	FlavorNone  = Flavor(rpcmsg.AuthNone)
	FlavorSys   = Flavor(rpcmsg.AuthSys)
	FlavorKrb5  = Flavor(rpcmsg.AuthKrb5)
	FlavorKrb5i = Flavor(rpcmsg.AuthKrb5i)
	FlavorKrb5p = Flavor(rpcmsg.AuthKrb5p)
)

type flavorWord struct {
	word   string
	flavor Flavor
}

// flavorWords are the words of sec=. A flavour with two words is written as the
// first.
var flavorWords = []flavorWord{
	{"sys", FlavorSys},
	{"krb5", FlavorKrb5},
	{"krb5i", FlavorKrb5i},
	{"krb5p", FlavorKrb5p},
	{"none", FlavorNone},
	{"unix", FlavorSys},
	{"null", FlavorNone},
}

// maxFlavors is how many flavours there are.
const maxFlavors = 5

// String returns the word of sec=.
func (f Flavor) String() string {
	for _, w := range flavorWords {
		if w.flavor == f {
			return w.word
		}
	}
	return "flavor " + strconv.FormatUint(uint64(f), 10)
}

// Kerberos reports whether f is a service of Kerberos 5.
func (f Flavor) Kerberos() bool { return f == FlavorKrb5 || f == FlavorKrb5i || f == FlavorKrb5p }

// ParseFlavors parses the value of sec=: flavours with colons between them. A
// flavour that is there twice counts once.
func ParseFlavors(value string) (list []Flavor, err error) {
	for word := range strings.SplitSeq(value, ":") {
		i := slices.IndexFunc(flavorWords, func(w flavorWord) bool { return w.word == word })
		switch {
		case i < 0:
			return nil, fmt.Errorf("security %q is none of sys, krb5, krb5i, krb5p and none; write one of them, or several with colons between", word)
		case !slices.Contains(list, flavorWords[i].flavor):
			list = append(list, flavorWords[i].flavor)
		}
	}
	return list, nil
}

// Rights are the options that may differ between the flavours of one client.
type Rights struct {
	ReadOnly, NoRootSquash, AllSquash bool
	AnonUID, AnonGID                  ID
}

// A Security is the list of a client's flavours, in the order of preference,
// each with rights of its own. The zero value is sys alone, with the rights that
// the Options have.
type Security struct {
	n    uint8
	list [maxFlavors]secured
}

// A secured is a flavour, and the rights of calls of this flavour.
type secured struct {
	flavor Flavor
	rights Rights
}

// Secure returns the Security of flavours with the same rights. At most one of
// each counts.
func Secure(rights Rights, flavors ...Flavor) (s Security) {
	for _, f := range flavors {
		s.add(f, rights)
	}
	return s
}

// add adds a flavour, unless the list has it, and returns its index.
func (s *Security) add(f Flavor, rights Rights) int {
	for i := range s.n {
		if s.list[i].flavor == f {
			return int(i)
		}
	}
	s.list[s.n] = secured{f, rights}
	s.n++
	return int(s.n) - 1
}

// rights returns the rights that o has apart from its Security.
func (o *Options) rights() Rights {
	return Rights{o.ReadOnly, o.NoRootSquash, o.AllSquash, o.AnonUID, o.AnonGID}
}

func (o *Options) setRights(r Rights) {
	o.ReadOnly, o.NoRootSquash, o.AllSquash, o.AnonUID, o.AnonGID = r.ReadOnly, r.NoRootSquash, r.AllSquash, r.AnonUID, r.AnonGID
}

// A flavorGroup is flavours that follow each other and have the same rights.
type flavorGroup struct {
	flavors string // with colons between
	rights  Rights
}

// groups returns the flavours in groups, at least one. The rights of the zero
// value are others.
func (s *Security) groups(others Rights) (list []flavorGroup) {
	if s.n == 0 {
		return []flavorGroup{{FlavorSys.String(), others}}
	}
	for _, one := range s.list[:s.n] {
		if n := len(list); n > 0 && list[n-1].rights == one.rights {
			list[n-1].flavors += ":" + one.flavor.String()
			continue
		}
		list = append(list, flavorGroup{one.flavor.String(), one.rights})
	}
	return list
}

// Flavors returns the flavours of the client, the preferred one first.
func (o *Options) Flavors() (list []Flavor) {
	if o.Sec.n == 0 {
		return []Flavor{FlavorSys}
	}
	for _, s := range o.Sec.list[:o.Sec.n] {
		list = append(list, s.flavor)
	}
	return list
}

// Of returns the options for calls of one of the client's flavours.
func (o *Options) Of(f Flavor) Options {
	one := *o
	for _, s := range o.Sec.list[:o.Sec.n] {
		if s.flavor == f {
			one.setRights(s.rights)
		}
	}
	return one
}

// Kerberos returns the first flavour that needs Kerberos, or false.
func (o *Options) Kerberos() (Flavor, bool) {
	for _, s := range o.Sec.list[:o.Sec.n] {
		if s.flavor.Kerberos() {
			return s.flavor, true
		}
	}
	return 0, false
}

// Lines returns the client in the syntax of exports(5), with one line for each
// flavour.
func (c Client) Lines() (lines []string) {
	for _, f := range c.Options.Flavors() {
		o := c.Options.Of(f)
		o.Sec = Secure(o.rights(), f)
		lines = append(lines, Client{c.Host, o}.String())
	}
	return lines
}
