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
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/tickets"
)

const (
	contextHelper = "nfsrdma-gss"
	defaultKeytab = "/etc/krb5.keytab"

	// farewell is how long a server may take to forget the security contexts of a
	// session.
	farewell = time.Second
)

var errNoContextHelper = errors.New("krb5 needs the program " + contextHelper + ", which is neither beside mountrdma nor in PATH: install it")

// findContextHelper returns the path of nfsrdma-gss: beside this program, else in
// PATH.
func findContextHelper() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), contextHelper)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath(contextHelper)
	if err != nil {
		return "", errNoContextHelper
	}
	return filepath.Abs(found)
}

// accepted returns the flavours of --sec, or nil if it is not given, and the helper
// for those of Kerberos, or "".
func (a *app) accepted() (flavors []uint32, helper string, err error) {
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

// secure has a session's calls made with the flavours that its exports have. A process
// that makes contexts leaves no core, which would have their keys in it.
func (a *app) secure(s *session, cfg *nfsrdma.ClientConfig) error {
	flavors, helper, err := a.accepted()
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
		return fmt.Errorf("the name of this host: %w", err)
	}
	a.helperOnce.Do(func() { // one for all connections: a Helper keeps a file open
		a.helper = tickets.NewHelper(tickets.Config{Program: helper, Keytab: a.keytab, Host: host, Env: tickets.Env()})
	})
	next, log, giveUp := cfg.Wrap, cfg.Log, cfg.GiveUp
	cfg.Wrap = func(caller oncrpc.Caller) oncrpc.Caller {
		s.contexts = tickets.NewCallers(caller, tickets.CallersConfig{
			Helper: a.helper,
			Service: func(ctx context.Context) (string, error) {
				if err := cli.ForbidCores(); err != nil {
					return "", err
				}
				return serviceOf(ctx, s.at.host)
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

// serviceOf returns the name of a server's service: by the server's name as it was
// typed. Only an address is looked up, because DNS can be forged.
func serviceOf(ctx context.Context, host string) (string, error) {
	if _, err := netip.ParseAddr(host); err != nil {
		return "nfs@" + host, nil
	}
	names, err := net.DefaultResolver.LookupAddr(ctx, host)
	if err != nil || len(names) == 0 {
		return "", fmt.Errorf("krb5 needs the server's name, and DNS has none for %s: write the name in place of the address", host)
	}
	return "nfs@" + strings.TrimSuffix(names[0], "."), nil
}

// closeContexts has the server forget the session's security contexts.
func (s *session) closeContexts() {
	if s.contexts == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	s.contexts.Close(ctx)
}
