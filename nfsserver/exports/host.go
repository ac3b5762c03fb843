package exports

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A Kind is a way to specify hosts.
type Kind uint8

// Kinds of hosts.
const (
	Any      Kind = iota // every host
	Address              // one address
	Network              // all addresses with a prefix
	Name                 // the addresses to which a name resolves
	Wildcard             // hosts whose name matches a pattern
)

// A Host specifies the hosts to which an entry applies. The zero value means all hosts.
type Host struct {
	Kind Kind
	Net  netip.Prefix // for a Network, and for an Address, which has the full prefix length
	Name string       // for a Name or Wildcard, in lower case
}

// String returns h in exports(5) syntax.
func (h Host) String() string {
	switch h.Kind {
	case Address:
		return h.Net.Addr().String()
	case Network:
		return h.Net.String()
	case Name, Wildcard:
		return h.Name
	case Any:
	}
	return "*"
}

// NetworkHost returns the Host for an address or network.
func NetworkHost(p netip.Prefix) Host {
	if p.IsSingleIP() {
		return Host{Kind: Address, Net: p}
	}
	return Host{Kind: Network, Net: p.Masked()}
}

// ParseHost parses the text before the parenthesis: "*" or nothing, an address, a network with
// its prefix length or mask, a name, or a name with the wildcards *, ? and [...]. The error
// contains a remedy.
func ParseHost(w string) (Host, error) {
	switch {
	case w == "" || w == "*":
		return Host{}, nil
	case w[0] == '@':
		return Host{}, fmt.Errorf("netgroup %q: this server has no NIS; list its hosts or their network", w)
	case strings.HasPrefix(w, "gss/"):
		return Host{}, fmt.Errorf("%q names no hosts; write hosts, and their security as an option, such as *(%s)", w, "sec="+w[len("gss/"):])
	case w[0] == '-':
		return Host{}, fmt.Errorf("options %q follow a client; write them before all clients, or in parentheses after each", w)
	}
	if a, err := netip.ParseAddr(strings.Trim(w, "[]")); err == nil {
		return parseAddress(w, a)
	}
	if strings.Contains(w, "/") {
		return parseNetwork(w)
	}
	return parseName(w)
}

func parseAddress(w string, a netip.Addr) (Host, error) {
	switch {
	case w[0] == '[':
		return Host{}, fmt.Errorf("address %q is in brackets, which are for wildcards; write %s", w, a)
	case a.Zone() != "":
		return Host{}, fmt.Errorf("address %q has a zone; write %s", w, a.WithZone(""))
	}
	a = a.Unmap()
	return NetworkHost(netip.PrefixFrom(a, a.BitLen())), nil
}

var errNetwork = errors.New("write one such as 192.0.2.0/24, 192.0.2.0/255.255.255.0 or 2001:db8::/32")

func parseNetwork(w string) (Host, error) {
	addr, length, _ := strings.Cut(w, "/")
	a, err := netip.ParseAddr(addr)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return Host{}, fmt.Errorf("network %q has no address in front of the slash; %w", w, errNetwork)
	}
	bits, ok := maskBits(a, length)
	if !ok {
		return Host{}, fmt.Errorf("network %q has neither a prefix length nor a mask after the slash; %w", w, errNetwork)
	}
	return NetworkHost(netip.PrefixFrom(a, bits)), nil
}

// maskBits returns the prefix length in bits for addresses like a, given as a number or as a
// mask.
func maskBits(a netip.Addr, length string) (bits int, ok bool) {
	if mask, err := netip.ParseAddr(length); err == nil && mask.BitLen() == a.BitLen() {
		return countMaskOnes(mask.AsSlice())
	}
	n, err := strconv.ParseUint(length, 10, 8)
	return int(n), err == nil && int(n) <= a.BitLen() && length[0] != '+'
}

// countMaskOnes returns the number of ones in a mask, or false if a one follows a zero.
func countMaskOnes(mask []byte) (ones int, ok bool) {
	ended := false
	for _, b := range mask {
		for bit := byte(0x80); bit > 0; bit >>= 1 {
			switch {
			case b&bit == 0:
				ended = true
			case ended:
				return 0, false
			default:
				ones++
			}
		}
	}
	return ones, true
}

func parseName(w string) (Host, error) {
	name := strings.ToLower(strings.TrimSuffix(w, "."))
	h := Host{Kind: Name, Name: name}
	if strings.ContainsAny(name, "*?[") {
		h.Kind = Wildcard
		switch {
		case !strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune("0123456789.*?", r) }) && strings.ContainsAny(name, "0123456789"):
			return Host{}, fmt.Errorf("%q: wildcards are for names; write a network such as 192.0.2.0/24", w)
		case !isValidPattern(name):
			return Host{}, fmt.Errorf("wildcard %q has a bracket without its other; write [...] around the characters", w)
		}
	}
	for _, c := range []byte(name) {
		if !isNameByte(c) && (h.Kind == Name || !strings.ContainsRune("*?[]^!", rune(c))) {
			return Host{}, fmt.Errorf("%q is neither a host's name nor an address: a name cannot have %q; write a name, an address, a network or *", w, c)
		}
	}
	switch {
	case name == "" || len(name) > maxName:
		return Host{}, fmt.Errorf("a host's name has 1 to %d characters; write the address or network", maxName)
	case name[0] == '.' || strings.Contains(w, ".."):
		return Host{}, fmt.Errorf("name %q has no label before a dot; write host.example, or *.example for all its hosts", w)
	}
	return h, nil
}

// isNameByte reports whether c may occur in a host name: the DNS characters, and the
// underscore.
func isNameByte(c byte) bool {
	return c == '-' || c == '.' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
}
