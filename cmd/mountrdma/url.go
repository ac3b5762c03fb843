package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/serverlist"
)

const (
	scheme   = "nfs://"
	rdmaPort = "20049" // IANA: nfsrdma
	tcpPort  = "2049"  // IANA: nfs
)

// A server is the address of an NFS server on RDMA or TCP, and the address of its MOUNT
// program if given. It is comparable. If it is a list of servers of which one serves at a
// time, host and port are those of the first.
type server struct {
	tcp       bool
	list      string // all servers with their ports; "": one server
	host      string // name or address, without brackets
	port      string
	mountHost string // "": host
	mountPort int    // 0: unknown
}

// defaultPort returns the port to use if an operand names none.
func defaultPort(tcp bool) string {
	if tcp {
		return tcpPort
	}
	return rdmaPort
}

// addr returns the server's address, or the list, for dialers and messages.
func (s server) addr() string {
	if s.list != "" {
		return s.list
	}
	return net.JoinHostPort(s.host, s.port)
}

// A location is the object that a URL names. The path is a sequence of bytes, not text. It
// begins with a slash, and ends with one only if it is "/".
type location struct {
	server
	path string
	dir  bool // the URL had a final slash: must be a directory
}

// isURL reports whether an operand names an object on a server, by a URL or as
// SERVER:/PATH, and not a local path or a command.
func isURL(operand string) bool {
	server, path, found := strings.Cut(operand, ":/")
	isSpec := found && !strings.Contains(server, "/") && !strings.HasPrefix(path, "/") // http://
	return isSpec || strings.HasPrefix(operand, scheme)
}

// parseURL parses nfs://SERVER[:PORT]/EXPORT/PATH[?OPTION,...], or SERVER[:PORT]:/EXPORT/PATH
// as in mount(8) and fstab, with IPv6 addresses in brackets and without escapes in the path.
// Its errors are usage errors.
func parseURL(url string, tcp bool) (location, error) {
	if !isURL(url) {
		return location{}, fmt.Errorf("%q is not a URL: write nfs://SERVER[:PORT]/EXPORT/PATH, or SERVER:/EXPORT/PATH", url)
	}
	rest, isURL := strings.CutPrefix(url, scheme)
	separator, options, unescape := ":/", "", func(path string) (string, error) { return path, nil }
	if isURL {
		rest, options, _ = strings.Cut(rest, "?")
		separator, unescape = "/", unescapePath
	}
	authority, path, _ := strings.Cut(rest, separator)
	loc, err := parseServers(authority, tcp)
	if err == nil {
		err = loc.takeOptions(options)
	}
	var l location
	if err == nil {
		l = location{server: loc, dir: strings.HasSuffix(path, "/")}
		l.path, err = unescape(path)
	}
	if err == nil && strings.IndexByte(l.path, 0) >= 0 {
		err = errors.New("a name cannot contain a zero byte")
	}
	if err != nil {
		return location{}, fmt.Errorf("%q: %w", url, err)
	}
	l.path = cleanPath(l.path)
	return l, nil
}

// parseServerOperand parses SERVER[:PORT][?OPTION,...] or a URL.
func parseServerOperand(operand string, tcp bool) (server, error) {
	if strings.HasPrefix(operand, scheme) {
		l, err := parseURL(operand, tcp)
		return l.server, err
	}
	authority, options, _ := strings.Cut(operand, "?")
	if strings.Contains(authority, "/") {
		return server{}, fmt.Errorf("%q is not a server: write SERVER[:PORT], without a path", operand)
	}
	s, err := parseServers(authority, tcp)
	if err == nil {
		err = s.takeOptions(options)
	}
	if err != nil {
		return server{}, fmt.Errorf("%q: %w", operand, err)
	}
	return s, nil
}

// parseServer parses SERVER[:PORT]. An IPv6 address must be in brackets if a port follows.
func parseServer(authority string, tcp bool) (serverlist.Server, error) {
	s := serverlist.Server{Host: authority, Port: defaultPort(tcp)}
	_, err := netip.ParseAddr(authority)
	if err != nil && strings.HasSuffix(authority, "]") {
		s.Host, err = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]"), nil
	} else if err != nil && strings.Contains(authority, ":") {
		if s.Host, s.Port, err = net.SplitHostPort(authority); err != nil {
			return serverlist.Server{}, errors.New("write the server as SERVER, SERVER:PORT or [IPv6]:PORT")
		}
	}
	s.Host = strings.Replace(s.Host, "%25", "%", 1) // before a zone: RFC 6874
	if s.Host == "" || strings.ContainsAny(s.Host, "@[] ?") {
		return serverlist.Server{}, errors.New("the server is missing: write its name or address")
	}
	if _, err := parsePort(s.Port); err != nil {
		return serverlist.Server{}, err
	}
	return s, nil
}

func parsePort(word string) (int, error) {
	n, err := strconv.ParseUint(word, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a port: write a number from 1 to 65535", word)
	}
	return int(n), nil
}

// takeOptions sets the options after the question mark.
func (s *server) takeOptions(words string) (err error) {
	for _, word := range strings.FieldsFunc(words, func(r rune) bool { return r == ',' || r == '&' }) {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case key == "mountport":
			s.mountPort, err = parsePort(value)
		case key == "mounthost" && value != "":
			s.mountHost = strings.Trim(value, "[]")
		default:
			err = fmt.Errorf("%q is not an option: use mountport=N or mounthost=HOST (write a question mark in a name as %%3F)", word)
		}
		if err != nil {
			return err
		}
	}
	return s.checkList()
}

// unescapePath replaces each %XX by the byte that it encodes.
func unescapePath(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errors.New("% must be followed by two hexadecimal digits: write % itself as %25")
		}
		n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", errors.New("% must be followed by two hexadecimal digits: write % itself as %25")
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return b.String(), nil
}

// cleanPath normalizes a path to one slash before each name. It keeps "..", whose meaning
// depends on the server's directories.
func cleanPath(path string) string {
	var b strings.Builder
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			b.WriteString("/" + name)
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// lastName returns the last name in the path, or "" for the root.
func (l location) lastName() string { return l.path[strings.LastIndexByte(l.path, '/')+1:] }

// String returns the URL without its options.
func (l location) String() string {
	var authority []string
	for _, s := range l.servers() {
		host := s.Host
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if s.Port != defaultPort(l.tcp) {
			host += ":" + s.Port
		}
		authority = append(authority, host)
	}
	return scheme + strings.Join(authority, ",") + escapePath(l.path)
}

// escapePath escapes a path for a URL. Readable characters remain unescaped.
func escapePath(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		if isPlainRune(r, n) {
			b.WriteString(path[i : i+n])
		} else {
			for _, c := range []byte(path[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		i += n
	}
	return b.String()
}

// isPlainRune reports whether a rune that was decoded from n bytes needs no escape in a URL.
func isPlainRune(r rune, n int) bool {
	broken := r == utf8.RuneError && n == 1
	return !broken && unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != '%' && r != '?'
}

// serverArg returns a function that parses the argument SERVER.
func (a *app) serverArg(into *server) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) (err error) {
		if len(args) != 1 {
			return fmt.Errorf("%s needs one server: SERVER[:PORT]", cmd.Name())
		}
		if *into, err = parseServerOperand(args[0], a.overTCP()); err != nil {
			return err
		}
		return a.checkFlags()
	}
}
