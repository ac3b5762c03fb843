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
)

const (
	scheme   = "nfs://"
	rdmaPort = "20049" // IANA: nfsrdma
	tcpPort  = "2049"  // IANA: nfs
)

// A server is the address of an NFS server on RDMA or TCP, and the address of its
// MOUNT program if given. It is comparable.
type server struct {
	tcp       bool
	host      string // name or address, without brackets
	port      string
	mountHost string // "": host
	mountPort int    // 0: to search for
}

// defaultPort returns the port of servers that are written without one.
func defaultPort(tcp bool) string {
	if tcp {
		return tcpPort
	}
	return rdmaPort
}

// addr returns the server's address for dialers and messages.
func (s server) addr() string { return net.JoinHostPort(s.host, s.port) }

// A location is the object of a URL. The path is a sequence of bytes, not text.
// It begins with a slash and has no other slash at its end.
type location struct {
	server
	path string
	dir  bool // written with a final slash: must be a directory
}

// isURL reports whether an operand is a URL, not a local path.
func isURL(operand string) bool { return strings.HasPrefix(operand, scheme) }

// parseURL parses nfs://SERVER[:PORT]/EXPORT/PATH[?OPTION,...]. Its errors are
// usage errors.
func parseURL(url string, tcp bool) (location, error) {
	rest, ok := strings.CutPrefix(url, scheme)
	if !ok {
		return location{}, fmt.Errorf("%q is no URL: write nfs://SERVER[:PORT]/EXPORT/PATH", url)
	}
	rest, options, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	loc, err := parseServer(authority, tcp)
	if err == nil {
		err = loc.takeOptions(options)
	}
	var l location
	if err == nil {
		l = location{server: loc, dir: strings.HasSuffix(path, "/")}
		l.path, err = unescape(path)
	}
	if err != nil {
		return location{}, fmt.Errorf("%q: %w", url, err)
	}
	l.path = clean(l.path)
	return l, nil
}

// parseServerOperand parses SERVER[:PORT][?OPTION,...] or a URL.
func parseServerOperand(operand string, tcp bool) (server, error) {
	if isURL(operand) {
		l, err := parseURL(operand, tcp)
		return l.server, err
	}
	authority, options, _ := strings.Cut(operand, "?")
	if strings.Contains(authority, "/") {
		return server{}, fmt.Errorf("%q is no server: write SERVER[:PORT], with no path", operand)
	}
	s, err := parseServer(authority, tcp)
	if err == nil {
		err = s.takeOptions(options)
	}
	if err != nil {
		return server{}, fmt.Errorf("%q: %w", operand, err)
	}
	return s, nil
}

// parseServer parses SERVER[:PORT]. An IPv6 address must be in brackets unless
// there is no port.
func parseServer(authority string, tcp bool) (server, error) {
	s := server{tcp: tcp, host: authority, port: defaultPort(tcp)}
	_, err := netip.ParseAddr(authority)
	if err != nil && strings.HasSuffix(authority, "]") {
		s.host, err = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]"), nil
	} else if err != nil && strings.Contains(authority, ":") {
		if s.host, s.port, err = net.SplitHostPort(authority); err != nil {
			return server{}, errors.New("the server is SERVER, SERVER:PORT or [IPv6]:PORT")
		}
	}
	s.host = strings.Replace(s.host, "%25", "%", 1) // before a zone: RFC 6874
	if s.host == "" || strings.ContainsAny(s.host, "@[] ") {
		return server{}, errors.New("the server is missing: write its name or address")
	}
	if _, err := parsePort(s.port); err != nil {
		return server{}, err
	}
	return s, nil
}

func parsePort(word string) (int, error) {
	n, err := strconv.ParseUint(word, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is no port: write a number from 1 to 65535", word)
	}
	return int(n), nil
}

// takeOptions parses the options after the question mark.
func (s *server) takeOptions(words string) (err error) {
	for _, word := range strings.FieldsFunc(words, func(r rune) bool { return r == ',' || r == '&' }) {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case key == "mountport":
			s.mountPort, err = parsePort(value)
		case key == "mounthost" && value != "":
			s.mountHost = strings.Trim(value, "[]")
		default:
			err = fmt.Errorf("%q is no option: use mountport=N or mounthost=HOST (write a question mark in a name as %%3F)", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unescape replaces each %XX by its byte.
func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errors.New("% needs two hexadecimal digits after it: write % itself as %25")
		}
		n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", errors.New("% needs two hexadecimal digits after it: write % itself as %25")
		}
		b.WriteByte(byte(n))
		i += 2
	}
	if strings.IndexByte(b.String(), 0) >= 0 {
		return "", errors.New("no name can have a zero byte")
	}
	return b.String(), nil
}

// clean writes a path with one slash in front of each name. It keeps "..",
// whose meaning depends on the server's directories.
func clean(path string) string {
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

// base returns the last name in the path, "" for the root.
func (l location) base() string { return l.path[strings.LastIndexByte(l.path, '/')+1:] }

// String writes the URL without its options.
func (l location) String() string {
	host := l.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if l.port != defaultPort(l.tcp) {
		host += ":" + l.port
	}
	return scheme + host + escape(l.path)
}

// escape writes a path for a URL. Readable characters stay as they are.
func escape(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		if plain(r, n) {
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

// plain reports whether a rune of n bytes stays as it is in a URL.
func plain(r rune, n int) bool {
	broken := r == utf8.RuneError && n == 1
	return !broken && unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != '%' && r != '?'
}

// parseSpec parses the source of a mount: either a URL or SERVER:/EXPORT as in
// mount(8) and fstab, with IPv6 addresses in brackets and nothing escaped in
// the path. Its errors are usage errors.
func parseSpec(spec string, tcp bool) (location, error) {
	if isURL(spec) {
		return parseURL(spec, tcp)
	}
	authority, path, ok := strings.Cut(spec, ":/")
	if !ok {
		return location{}, fmt.Errorf("%q is no source of a mount: write SERVER:/EXPORT, or nfs://SERVER[:PORT]/EXPORT", spec)
	}
	s, err := parseServer(authority, tcp)
	if err != nil {
		return location{}, fmt.Errorf("%q: %w", spec, err)
	}
	return location{server: s, path: clean(path)}, nil
}

// isSpec reports whether an operand is the source of a mount, not a command.
func isSpec(operand string) bool { return isURL(operand) || strings.Contains(operand, ":/") }

// serverArg returns the check of the argument SERVER.
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
