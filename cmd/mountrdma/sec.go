package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
)

const (
	contextHelper = "nfsrdma-gss"
	defaultKeytab = "/etc/krb5.keytab"

	// contextCloseTimeout is the time limit for destroying a session's security contexts on
	// the server.
	contextCloseTimeout = time.Second
)

var errNoContextHelper = errors.New("krb5 needs the program " + contextHelper + ", which is neither in mountrdma's directory nor in PATH: install it")

// findContextHelper returns the path of nfsrdma-gss: in this program's directory, else in
// PATH.
func findContextHelper() (string, error) {
	if self, err := os.Executable(); err == nil {
		sibling := filepath.Join(filepath.Dir(self), contextHelper)
		if _, err := os.Stat(sibling); err == nil {
			return sibling, nil
		}
	}
	found, err := exec.LookPath(contextHelper)
	if err != nil {
		return "", errNoContextHelper
	}
	return filepath.Abs(found)
}

// requestedFlavors returns the flavors in --sec, or nil if it is not set, and the path of
// the helper for Kerberos, or "".
func (a *app) requestedFlavors() (flavors []uint32, helper string, err error) {
	helper, missing := findContextHelper()
	if len(a.sec) == 0 {
		return nil, helper, nil
	}
	list, err := exports.ParseFlavors(a.sec.String())
	if err != nil {
		return nil, "", err
	}
	for _, f := range list {
		if f.Kerberos() && missing != nil {
			return nil, "", missing
		}
		flavors = append(flavors, uint32(f))
	}
	return flavors, helper, nil
}

// setSecurity configures a session to use the security flavors of its exports. A process that
// creates security contexts leaves no core dump, which would contain their keys.
func (a *app) setSecurity(s *session, cfg *nfsrdma.ClientConfig) error {
	flavors, helper, err := a.requestedFlavors()
	if err != nil {
		return err
	}
	cfg.Sec = flavors
	if helper == "" {
		cfg.Kerberos = func(context.Context) error { return errNoContextHelper }
		return nil
	}
	cfg.Kerberos = func(ctx context.Context) error { return s.contexts.Lack(ctx, s.cred) }
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("cannot get this host's name: %w", err)
	}
	a.helperOnce.Do(func() { // all connections share one, because a Helper keeps a file open
		a.helper = tickets.NewHelper(tickets.Config{
			Program: helper, Keytab: a.keytab, Host: host, Env: tickets.Env(),
			Own: !a.forMount, Cache: cacheName(os.Getenv("KRB5CCNAME")),
		})
	})
	next, log, giveUp := cfg.Wrap, cfg.Log, cfg.GiveUp
	cfg.Wrap = func(caller oncrpc.Caller) oncrpc.Caller {
		s.contexts = tickets.NewCallers(caller, tickets.CallersConfig{
			Helper: a.helper,
			Service: func(ctx context.Context) (string, error) {
				if err := cli.ForbidCores(); err != nil {
					return "", err
				}
				return serviceName(ctx, s.serverHost())
			},
			Prog: nfs3.Program, Vers: nfs3.Version, GiveUp: giveUp, Log: log,
		})
		if next == nil {
			return s.contexts
		}
		return next(s.contexts)
	}
	return nil
}

// cacheName returns the name of a credential cache with an absolute path: the helper has
// another working directory.
func cacheName(name string) string {
	kind, path, found := strings.Cut(name, ":")
	if !found {
		kind, path = "FILE", name
	}
	if path == "" || filepath.IsAbs(path) || kind != "FILE" && kind != "DIR" {
		return name
	}
	if abs, err := filepath.Abs(path); err == nil {
		return kind + ":" + abs
	}
	return name
}

// serviceName returns the Kerberos service name of a server. It uses the host name as the
// user typed it; only an address is looked up, because DNS can be forged.
func serviceName(ctx context.Context, host string) (string, error) {
	if _, err := netip.ParseAddr(host); err != nil {
		return "nfs@" + host, nil
	}
	names, err := net.DefaultResolver.LookupAddr(ctx, host)
	if err != nil || len(names) == 0 {
		return "", fmt.Errorf("krb5 needs the server's name, and DNS has none for %s: use the name instead of the address", host)
	}
	return "nfs@" + strings.TrimSuffix(names[0], "."), nil
}

// closeContexts destroys the session's security contexts on the server.
func (s *session) closeContexts() {
	if s.contexts == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), contextCloseTimeout)
	defer cancel()
	s.contexts.Close(ctx)
}
