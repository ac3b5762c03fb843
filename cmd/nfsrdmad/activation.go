package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
)

// passable are the sockets that a service manager may pass (sd_listen_fds(3)),
// by FileDescriptorName.
var passable = []string{"rdma", "tcp", "metrics"}

// passed holds the sockets that the daemon was started with, by name. listen
// removes them.
type passed map[string]*os.File

// takePassed takes over the sockets of this process.
func takePassed() (passed, error) { return sortPassed(activation.Files(true)) }

func sortPassed(files []*os.File) (passed, error) {
	p := make(passed)
	for _, f := range files {
		var err error
		switch {
		case !slices.Contains(passable, f.Name()):
			err = fmt.Errorf("received a socket named %q: set its FileDescriptorName= to %s", f.Name(), strings.Join(passable, " or "))
		case p[f.Name()] != nil:
			err = fmt.Errorf("received two sockets named %q: remove one; a socket on [::] accepts IPv4 too", f.Name())
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, err
		}
		p[f.Name()] = f
	}
	return p, nil
}

// listen returns the passed socket of the given name. If there is none, it
// listens on a TCP address.
func (p passed) listen(name, addr string) (net.Listener, error) {
	f := p[name]
	if f == nil {
		return net.Listen("tcp", addr)
	}
	delete(p, name)
	defer f.Close() // the listener has another descriptor
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the socket passed as %q does not listen: %w", name, err)
	}
	if _, ok := l.Addr().(*net.TCPAddr); !ok {
		l.Close()
		return nil, fmt.Errorf("the socket passed as %q is not of TCP: use ListenStream= with a port", name)
	}
	return l, nil
}

// close closes the sockets that listen has not taken.
func (p passed) close() error {
	var errs []error
	for _, f := range p {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
