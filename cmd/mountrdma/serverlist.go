package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/serverlist"
)

// parseServers parses SERVER[:PORT],..., one server or a list.
func parseServers(authority string, tcp bool) (server, error) {
	list, err := serverlist.Parse(authority, func(entry string) (serverlist.Server, error) { return parseServer(entry, tcp) })
	if err != nil {
		return server{}, err
	}
	s := server{tcp: tcp}
	s.setServers(list)
	return s, nil
}

func (s *server) setServers(list []serverlist.Server) {
	s.host, s.port, s.list = list[0].Host, list[0].Port, ""
	if len(list) > 1 {
		s.list = serverlist.Format(list)
	}
}

// servers returns the servers of the list, or the only one.
func (s server) servers() (all []serverlist.Server) {
	for addr := range strings.SplitSeq(s.addr(), ",") {
		host, port, _ := net.SplitHostPort(addr) // Format wrote it
		all = append(all, serverlist.Server{Host: host, Port: port})
	}
	return all
}

// hosts returns the hosts of the list, or the only one.
func (s server) hosts() (all []string) {
	for _, one := range s.servers() {
		all = append(all, one.Host)
	}
	return all
}

// setPort sets the port of all servers.
func (s *server) setPort(port string) error {
	var addrs []string
	for _, host := range s.hosts() {
		addrs = append(addrs, net.JoinHostPort(host, port))
	}
	list, err := serverlist.Parse(strings.Join(addrs, ","), func(addr string) (serverlist.Server, error) {
		host, port, err := net.SplitHostPort(addr)
		return serverlist.Server{Host: host, Port: port}, err
	})
	if err == nil {
		s.setServers(list)
	}
	return err
}

// only returns the server of the list at addr.
func (s server) only(addr string) server {
	for _, one := range s.servers() {
		if one.Addr() == addr {
			s.setServers([]serverlist.Server{one})
		}
	}
	return s
}

// checkList checks the options of a list.
func (s server) checkList() error {
	if s.list != "" && s.mountHost != "" {
		return errors.New("mounthost names one host, and the servers are several: omit mounthost, or name one server")
	}
	return nil
}

// requireOne returns an error with a remedy if the server is a list.
func (s server) requireOne(command, remedy string) error {
	if s.list == "" {
		return nil
	}
	return fmt.Errorf("%s takes one server, and %s are %d: %s", command, s.list, len(s.servers()), remedy)
}

// A listError says why no server of a list serves.
type listError struct{ servers *serverlist.Error }

// newListError explains the failed step of each server.
func newListError(ctx context.Context, all *serverlist.Error) error {
	if isCanceled(ctx) {
		return context.Cause(ctx)
	}
	explained := &serverlist.Error{Servers: all.Servers}
	for i, err := range all.Errs {
		explained.Errs = append(explained.Errs, explainServerError(ctx, all.Servers[i], err))
	}
	return listError{explained}
}

func explainServerError(ctx context.Context, addr string, err error) error {
	if step, ok := errors.AsType[*stepError](err); ok {
		return step
	}
	if refused, ok := errors.AsType[*serverlist.RefusedError](err); ok {
		return &stepError{at: addr, step: "MOUNT", what: refused.Error(), err: err}
	}
	return firstCallError(ctx, addr, err)
}

// Error returns one sentence.
func (e listError) Error() string {
	var all []string
	for _, err := range e.servers.Errs {
		all = append(all, err.Error())
	}
	return "none of the servers serves: " + strings.Join(all, "; and ")
}

// Unwrap returns the list's error.
func (e listError) Unwrap() error { return e.servers }
