package cli

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// CheckAddress checks the form of a flag's address for listening. "" is none.
func CheckAddress(flag, addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%s %s is not an address with a port: write one such as :2049, 192.0.2.1:2049 or [2001:db8::1]:2049", flag, addr)
	}
	return nil
}

// CanListenLater reports whether listening may succeed later without another configuration: the
// port is in use, or the address is of a network interface that is not up.
func CanListenLater(err error) bool {
	return errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// A listenError says how to remedy its cause, which it does not print.
type listenError struct {
	text  string
	cause error
}

func (e *listenError) Error() string { return e.text }
func (e *listenError) Unwrap() error { return e.cause }

// ListenError returns why listening on an address failed, with a remedy that names
// flag. off is a further remedy, or "". It wraps err.
func ListenError(flag, addr string, err error, off string) error {
	say := func(what, remedy string) error {
		return &listenError{fmt.Sprintf("cannot listen on %s: %s; %s%s", addr, what, remedy, off), err}
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return say("the port is in use", "choose another with "+flag)
	case errors.Is(err, unix.EACCES):
		return say("no permission for this port", "run as root, or choose one above 1023 with "+flag)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return say("this host has no such address", "correct "+flag)
	case addr == "":
		return fmt.Errorf("%s: %w", flag, err)
	default:
		return fmt.Errorf("cannot listen on %s (%s): %w", addr, flag, err)
	}
}

// NonLoopback returns the addresses of the endpoints that other hosts can reach.
func NonLoopback(endpoints []Endpoint) (addrs []string) {
	for _, w := range endpoints {
		if a, ok := w.Addr.(*net.TCPAddr); ok && !a.IP.IsLoopback() {
			addrs = append(addrs, a.String())
		}
	}
	return addrs
}
