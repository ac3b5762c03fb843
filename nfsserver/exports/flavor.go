package exports

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Flavor is a security flavor, identified by the number that MOUNT lists for it: each
// Kerberos service has a pseudo-flavor (RFC 2623, Section 4.2).
type Flavor uint32

// Flavors for sec=.
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

// flavorWords are the words for sec=. A flavor with two words is written as the first.
var flavorWords = []flavorWord{
	{"sys", FlavorSys},
	{"krb5", FlavorKrb5},
	{"krb5i", FlavorKrb5i},
	{"krb5p", FlavorKrb5p},
	{"none", FlavorNone},
	{"unix", FlavorSys},
	{"null", FlavorNone},
}

// maxFlavors is the number of flavors.
const maxFlavors = 5

// String returns the word for sec=.
func (f Flavor) String() string {
	for _, w := range flavorWords {
		if w.flavor == f {
			return w.word
		}
	}
	return "flavor " + strconv.FormatUint(uint64(f), 10)
}

// Kerberos reports whether f is a Kerberos 5 service.
func (f Flavor) Kerberos() bool { return f == FlavorKrb5 || f == FlavorKrb5i || f == FlavorKrb5p }

// ParseFlavors parses the value of sec=: flavors separated by colons. It ignores repeated
// flavors.
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

// Rights are the options that may differ between one client's flavors.
type Rights struct {
	ReadOnly, NoRootSquash, AllSquash bool
	AnonUID, AnonGID                  ID
}

// A Security is the list of a client's flavors, in order of preference, each with its own
// rights. The zero value contains only sys, with the rights in the Options.
type Security struct {
	n    uint8
	list [maxFlavors]flavorRights
}

// A flavorRights is a flavor, and the rights for calls with this flavor.
type flavorRights struct {
	flavor Flavor
	rights Rights
}

// Secure returns a Security with flavors that have the same rights. It ignores repeated
// flavors.
func Secure(rights Rights, flavors ...Flavor) (s Security) {
	for _, f := range flavors {
		s.addFlavor(f, rights)
	}
	return s
}

// addFlavor adds a flavor, unless the list has it, and returns its index.
func (s *Security) addFlavor(f Flavor, rights Rights) int {
	for i := range s.n {
		if s.list[i].flavor == f {
			return int(i)
		}
	}
	s.list[s.n] = flavorRights{f, rights}
	s.n++
	return int(s.n) - 1
}

// ownRights returns o's rights apart from its Security.
func (o *Options) ownRights() Rights {
	return Rights{o.ReadOnly, o.NoRootSquash, o.AllSquash, o.AnonUID, o.AnonGID}
}

func (o *Options) setRights(r Rights) {
	o.ReadOnly, o.NoRootSquash, o.AllSquash, o.AnonUID, o.AnonGID = r.ReadOnly, r.NoRootSquash, r.AllSquash, r.AnonUID, r.AnonGID
}

// A flavorGroup is a sequence of flavors with the same rights.
type flavorGroup struct {
	flavors string // separated by colons
	rights  Rights
}

// groupByRights returns the flavors in groups, at least one. The rights for the zero value are
// others.
func (s *Security) groupByRights(others Rights) (list []flavorGroup) {
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

// Flavors returns the client's flavors, the preferred one first.
func (o *Options) Flavors() (list []Flavor) {
	if o.Sec.n == 0 {
		return []Flavor{FlavorSys}
	}
	for _, s := range o.Sec.list[:o.Sec.n] {
		list = append(list, s.flavor)
	}
	return list
}

// Of returns the options for calls with one of the client's flavors.
func (o *Options) Of(f Flavor) Options {
	one := *o
	for _, s := range o.Sec.list[:o.Sec.n] {
		if s.flavor == f {
			one.setRights(s.rights)
		}
	}
	return one
}

// Kerberos returns the first flavor that requires Kerberos, or false.
func (o *Options) Kerberos() (Flavor, bool) {
	for _, s := range o.Sec.list[:o.Sec.n] {
		if s.flavor.Kerberos() {
			return s.flavor, true
		}
	}
	return 0, false
}

// Lines returns the client in exports(5) syntax, with one line for each flavor.
func (c Client) Lines() (lines []string) {
	for _, f := range c.Options.Flavors() {
		o := c.Options.Of(f)
		o.Sec = Secure(o.ownRights(), f)
		lines = append(lines, Client{c.Host, o}.String())
	}
	return lines
}
