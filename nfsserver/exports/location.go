package exports

import (
	"fmt"
	"net/netip"
	"path"
	"strings"
)

// Locations are a file system's locations on other servers, in the form that refer= and
// replicas= list: PATH@HOST[+HOST...], separated by colons. The zero value has none.
type Locations struct{ text string }

// A Location is a path, and the servers that have the file system there.
type Location struct {
	Path  string   // absolute and clean
	Hosts []string // names and addresses
}

// ParseLocations parses an option's value. IPv6 addresses are in brackets.
func ParseLocations(text string) (Locations, error) {
	words := splitLocations(text)
	if len(words) > maxLocations {
		return Locations{}, fmt.Errorf("%d places are more than the %d that an export may have", len(words), maxLocations)
	}
	for i, word := range words {
		at, hosts, ok := strings.Cut(word, "@")
		if !ok || !path.IsAbs(at) || len(at) > maxPath {
			return Locations{}, fmt.Errorf("%.40q is not PATH@HOST, with a path from / on; write one such as /srv@host.example", word)
		}
		list := strings.Split(hosts, "+")
		for j, host := range list {
			name, err := parseServer(host)
			if err != nil {
				return Locations{}, err
			}
			list[j] = name
		}
		words[i] = path.Clean(at) + "@" + strings.Join(list, "+")
	}
	return Locations{strings.Join(words, ":")}, nil
}

// splitLocations splits an option's value at its colons, except those in brackets.
func splitLocations(text string) (words []string) {
	from, inside := 0, false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '[' || c == ']':
			inside = c == '['
		case c == ':' && !inside:
			words, from = append(words, text[from:i]), i+1
		}
	}
	return append(words, text[from:])
}

// parseServer returns a location's server in the form that the option uses.
func parseServer(word string) (string, error) {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(word, "["), "]"))
	bare := len(word) > 0 && word[0] != '['
	switch {
	case err == nil && a.Zone() == "" && a.Is4() == bare:
		if a.Is6() {
			return "[" + a.String() + "]", nil
		}
		return a.String(), nil
	case err == nil:
		return "", fmt.Errorf("address %q: write an address of IPv6 in brackets, without a zone, and one of IPv4 without brackets", word)
	}
	h, err := parseName(word)
	if err != nil || h.Kind != Name {
		return "", fmt.Errorf("%.40q is neither a server's name nor its address; write one such as host.example", word)
	}
	return h.Name, nil
}

// Set reports whether l is not the zero value.
func (l Locations) Set() bool { return l.text != "" }

// String returns l in exports(5) syntax; empty for none.
func (l Locations) String() string { return l.text }

// List returns the locations in their order.
func (l Locations) List() (list []Location) {
	if !l.Set() {
		return nil
	}
	for _, word := range splitLocations(l.text) {
		at, hosts, _ := strings.Cut(word, "@")
		place := Location{Path: at}
		for host := range strings.SplitSeq(hosts, "+") {
			place.Hosts = append(place.Hosts, strings.Trim(host, "[]"))
		}
		list = append(list, place)
	}
	return list
}
