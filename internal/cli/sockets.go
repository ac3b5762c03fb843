package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// Sockets are the listening sockets that a service manager has passed to the program
// (sd_listen_fds(3)) and that Listen has not returned yet. They come from socket units,
// named after their use, or from the manager's file descriptor store.
//
// NFS's ports are not privileged: while no program listens on them, any user of the
// host can, and receives the clients' connections. Listen therefore puts each socket
// that it opens into the store (FileDescriptorStoreMax= of the unit), from where the
// next start of the service gets it. Clients that connect in between wait.
type Sockets struct {
	units  map[string][]*os.File
	stored map[string]*os.File // keyed by the name in the store

	storesNone bool
}

// maxSockets is the maximum number of sockets that socket units may pass for one use.
const maxSockets = 16

// storedPrefix is the prefix of names in the store. The use and the hexadecimal address
// follow: a socket is reused for the same address only.
const storedPrefix = "stored."

// storedName returns the name in the store for a use and an address.
func storedName(use, addr string) string {
	return storedPrefix + use + "." + hex.EncodeToString([]byte(addr))
}

// TakeSockets returns the sockets passed to this process, for the given uses.
func TakeSockets(uses ...string) (Sockets, error) { return sortSockets(activation.Files(true), uses) }

// sortSockets sorts passed sockets by their names.
func sortSockets(files []*os.File, uses []string) (Sockets, error) {
	s := Sockets{units: make(map[string][]*os.File), stored: make(map[string]*os.File)}
	for _, f := range files {
		var err error
		switch name := f.Name(); {
		case strings.HasPrefix(name, storedPrefix) && s.stored[name] != nil:
			f.Close()
		case strings.HasPrefix(name, storedPrefix):
			s.stored[name] = f
		case !slices.Contains(uses, name):
			err = fmt.Errorf("received a socket named %q: set its FileDescriptorName= to %s", name, strings.Join(uses, " or "))
		case len(s.units[name]) == maxSockets:
			err = fmt.Errorf("received more than %d sockets named %q: remove some; a socket on [::] accepts all addresses", maxSockets, name)
		default:
			s.units[name] = append(s.units[name], f)
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return Sockets{}, err
		}
	}
	return s, nil
}

// DisableStore discards all stored sockets, and keeps Listen from storing others: for a program that
// must not listen before it serves.
func (s *Sockets) DisableStore() {
	s.storesNone = true
	for name, f := range s.stored {
		s.discardStored(name, f)
	}
}

// Has reports whether a socket unit has passed a socket for a use.
func (s *Sockets) Has(use string) bool { return len(s.units[use]) > 0 }

// Listen is ListenAll for a use with one socket.
func (s *Sockets) Listen(use, addr string) (net.Listener, error) {
	if n := len(s.units[use]); n > 1 {
		return nil, fmt.Errorf("received %d sockets named %q, of which one is possible: remove the others; a socket on [::] accepts all addresses", n, use)
	}
	all, err := s.ListenAll(use, addr)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ListenAll returns the socket units' sockets for a use, in the order in which they were
// passed, or else the stored one for the use and a TCP address, or else a new one that
// listens on the address.
func (s *Sockets) ListenAll(use, addr string) ([]net.Listener, error) {
	files := s.units[use]
	delete(s.units, use)
	if len(files) == 0 {
		l, err := s.listenAt(use, addr)
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	var all []net.Listener
	var errs []error
	for _, f := range files {
		l, err := fileListener(use, f)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, l)
	}
	if len(errs) > 0 {
		for _, l := range all {
			l.Close()
		}
		return nil, errors.Join(errs...)
	}
	return all, nil
}

// listenAt returns the stored socket for a use and an address, or a new one.
func (s *Sockets) listenAt(use, addr string) (net.Listener, error) {
	name := storedName(use, addr)
	if f := s.stored[name]; f != nil {
		l, err := fileListener(use, f)
		if err == nil && listensAt(l, addr) {
			delete(s.stored, name)
			return l, nil
		}
		if err == nil {
			l.Close() // the address of the host's name has changed
		}
	}
	for other, f := range s.stored {
		if strings.HasPrefix(other, storedPrefix+use+".") { // its other address may have the same port
			s.discardStored(other, f)
		}
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, unix.EADDRINUSE) && s.discardPort(addr) { // of another use
		l, err = net.Listen("tcp", addr)
	}
	if err == nil && !s.storesNone {
		storeSocket(name, l.(*net.TCPListener))
	}
	return l, err
}

// discardPort discards the stored sockets that listen on the port of addr, and reports whether there
// were any. The clients of other ports keep waiting for this program.
func (s *Sockets) discardPort(addr string) (found bool) {
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return false
	}
	for name, f := range s.stored {
		if listeningPort(f) == want.Port {
			s.discardStored(name, f)
			found = true
		}
	}
	return found
}

// listeningPort returns the TCP port on which a socket listens, or 0.
func listeningPort(f *os.File) int {
	l, err := net.FileListener(f)
	if err != nil {
		return 0
	}
	defer l.Close()
	if at, ok := l.Addr().(*net.TCPAddr); ok {
		return at.Port
	}
	return 0
}

// listensAt reports whether a listener has a TCP address, which is resolved now.
func listensAt(l net.Listener, addr string) bool {
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return true // net.Listen would fail as well
	}
	has := l.Addr().(*net.TCPAddr)
	anywhere := want.IP == nil || want.IP.IsUnspecified()
	return (want.Port == 0 || want.Port == has.Port) && (anywhere && has.IP.IsUnspecified() || has.IP.Equal(want.IP))
}

// fileListener returns a listener for a passed socket.
func fileListener(use string, f *os.File) (net.Listener, error) {
	defer f.Close() // the listener has another descriptor
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the socket passed as %q is not a listening socket: %w", use, err)
	}
	if _, ok := l.Addr().(*net.TCPAddr); !ok {
		l.Close()
		return nil, fmt.Errorf("the socket passed as %q is not a TCP socket: use ListenStream= with a port", use)
	}
	return l, nil
}

// Close closes the sockets that Listen has not returned.
func (s *Sockets) Close() error {
	var errs []error
	for _, files := range s.units {
		for _, f := range files {
			errs = append(errs, f.Close())
		}
	}
	for name, f := range s.stored {
		s.discardStored(name, f)
	}
	return errors.Join(errs...)
}

// discardStored closes a stored socket and removes it from the store.
func (s *Sockets) discardStored(name string, f *os.File) {
	delete(s.stored, name)
	f.Close()
	removeStored(name)
}
