package serverlist

import (
	"fmt"
	"net"
	"strings"
)

// MaxServers is the maximum number of servers in a list. All of them are asked at once.
const MaxServers = 16

// A Server is one server of a list.
type Server struct {
	Host string // name or address, without brackets
	Port string
}

// Addr returns the server's host and port, for dialers and messages.
func (s Server) Addr() string { return net.JoinHostPort(s.Host, s.Port) }

// Parse parses a list of servers, which are separated by commas, each with parse. A list of
// one server is valid. The errors of longer lists name the faulty entry.
func Parse(list string, parse func(entry string) (Server, error)) ([]Server, error) {
	entries := strings.Split(list, ",")
	if len(entries) > MaxServers {
		return nil, fmt.Errorf("the list has %d servers, and at most %d are possible: remove some", len(entries), MaxServers)
	}
	var servers []Server
	seen := make(map[string]string)
	for i, entry := range entries {
		if entry == "" && len(entries) > 1 {
			return nil, fmt.Errorf("server %d of the list %q is empty: write the servers with one comma between them", i+1, list)
		}
		s, err := parse(entry)
		if err != nil && len(entries) > 1 {
			err = fmt.Errorf("server %q of the list: %w", entry, err)
		}
		if err != nil {
			return nil, err
		}
		key := strings.ToLower(s.Addr())
		if other, found := seen[key]; found {
			return nil, fmt.Errorf("the list has the server %s twice (%q and %q): remove one", s.Addr(), other, entry)
		}
		seen[key] = entry
		servers = append(servers, s)
	}
	return servers, nil
}

// Format returns a list that Parse parses, with all ports.
func Format(servers []Server) string {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return strings.Join(addrs, ",")
}
