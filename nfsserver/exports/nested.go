package exports

import (
	"slices"
	"strings"
)

// A BroaderAccess is a client of an export that has more rights there than in an export below
// it.
type BroaderAccess struct {
	Upper, Lower Export
	Client       Client // in Upper
	Option       string // the option that the client lacks in Lower, or "" for all access
}

// FindBroaderAccess returns, for each export below another, the first client of the other
// export that has more rights there.
func (f *File) FindBroaderAccess() (list []BroaderAccess) {
	for _, lower := range f.Exports {
		for _, upper := range f.Exports {
			if rest, ok := strings.CutPrefix(lower.Path, strings.TrimSuffix(upper.Path, "/")+"/"); !ok || rest == "" {
				continue
			}
			for _, c := range upper.Clients {
				if option, lacks := missingOption(lower.Clients, &c); lacks {
					list = append(list, BroaderAccess{upper, lower, c, option})
					break
				}
			}
		}
	}
	return list
}

// missingOption returns an option that the client c has but the same client among others lacks.
// Hosts count as the same if they are spelled alike.
func missingOption(others []Client, c *Client) (option string, lacks bool) {
	i := slices.IndexFunc(others, func(o Client) bool { return o.Host == c.Host })
	if i < 0 {
		i = slices.IndexFunc(others, func(o Client) bool { return o.Host.Kind == Any })
	}
	if i < 0 {
		return "", true
	}
	o := &others[i].Options
	for _, f := range c.Options.Flavors() {
		if !slices.Contains(o.Flavors(), f) {
			return "sec=" + f.String(), true
		}
		mine, theirs := c.Options.Of(f), o.Of(f)
		switch {
		case theirs.ReadOnly && !mine.ReadOnly:
			return "rw", true
		case mine.NoRootSquash && !theirs.NoRootSquash:
			return "no_root_squash", true
		case theirs.AllSquash && !mine.AllSquash:
			return "no_all_squash", true
		}
	}
	switch {
	case o.Xprtsec.Least() > c.Options.Xprtsec.Least():
		return "xprtsec=" + c.Options.Xprtsec.Least().String(), true
	case c.Options.Insecure && !o.Insecure:
		return "insecure", true
	}
	return "", false
}
