package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/gss/krb5"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/rpcsec"
)

// defaultKeytab is the path where hosts have the keys of their services.
const defaultKeytab = "/etc/krb5.keytab"

// A mechanism is the daemon's Kerberos (gss.Acceptor). It is off until an export
// needs it; then it reads the keytab, and stays.
type mechanism struct {
	keytab   string
	acceptor atomic.Pointer[krb5.Acceptor] // nil: off
}

// off reports whether no export has needed Kerberos so far.
func (m *mechanism) off() bool { return m.acceptor.Load() == nil }

// Accept takes an initiator's token (gss.Acceptor). It must not be called while m
// is off.
func (m *mechanism) Accept(ctx context.Context, token, bindings []byte) (gss.Accepted, error) {
	return m.acceptor.Load().Accept(ctx, token, bindings)
}

// open reads the keytab, after which the process leaves no core, which would have keys
// in it. m stays off until the acceptor is stored.
func (m *mechanism) open(ctx context.Context) (*krb5.Acceptor, error) {
	if err := cli.ForbidCores(); err != nil {
		return nil, err
	}
	a, err := krb5.NewAcceptor(ctx, krb5.Config{Keytab: m.keytab, Now: time.Now})
	return a, m.wordsOf(err)
}

// reload reads the keytab again, if it was read. If it cannot be used, the keys
// stay, and the log has the reason.
func (m *mechanism) reload(ctx context.Context, log *slog.Logger) error {
	a := m.acceptor.Load()
	if a == nil {
		return nil
	}
	if err := a.Reload(ctx); err != nil {
		err = m.wordsOf(err)
		log.Error("the keys of Kerberos stay as they were", "err", err)
		return fmt.Errorf("the keys of Kerberos stay as they were: %w", err)
	}
	log.Info("the keytab was read again", "keytab", m.keytab)
	return nil
}

// wordsOf names the keytab in an error about its file. The mechanism's other errors
// name it.
func (m *mechanism) wordsOf(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("the keytab %s cannot be read (%w)", m.keytab, cli.Cause(e))
	}
	return err
}

// A secured is an export that takes Kerberos.
type secured struct {
	*export
	host   exports.Host
	flavor exports.Flavor
}

// kerberos returns the first export that takes Kerberos, or false.
func kerberos(list []export) (s secured, ok bool) {
	for i := range list {
		for _, c := range list[i].clients {
			if f, ok := c.Options.Kerberos(); ok {
				return secured{&list[i], c.Host, f}, true
			}
		}
	}
	return s, false
}

// secure turns Kerberos on if an export needs it. The error says why that cannot be.
func (o *serveOptions) secure(ctx context.Context, list []export) error {
	s, ok := kerberos(list)
	if !ok || !o.kerberos.off() {
		return nil
	}
	a, err := o.kerberos.open(ctx)
	if err != nil {
		return fmt.Errorf("%s%s is exported to %s with sec=%s, but %w: add the key with ktadd (docs/security.md), name another file with --keytab, or write sec=sys",
			s.place, s.name, s.host, s.flavor, err)
	}
	rules, err := o.idmapRulesWith(a) // before Kerberos is on: otherwise all principals would be nobody
	if err != nil {
		return err
	}
	o.owners.SetRules(rules)
	o.kerberos.acceptor.Store(a)
	return nil
}

// userOf returns the user of a principal (rpcsec.ServerConfig.Map).
func (o *serveOptions) userOf(ctx context.Context, client netip.Addr, p gss.Principal) (rpcsec.User, bool, error) {
	a, ok, err := o.owners.Principal(ctx, client, p)
	return rpcsec.User{UID: a.UID, GID: a.GID, GIDs: a.Groups}, ok, err
}

// gssPort is the TCP port of NFS that Linux's rpc.gssd asks for the contexts of a
// mount over RDMA, whatever the mount says.
const gssPort = 2049

// warnOfPort warns if Linux cannot mount exports over RDMA with Kerberos, because
// TCP is not served on the port that it asks.
func (o *serveOptions) warnOfPort(list []export, log *slog.Logger) {
	s, ok := kerberos(list)
	if !ok {
		return
	}
	if a, err := netip.ParseAddrPort(o.ops.address("tcp")); err != nil || a.Port() != gssPort {
		log.Warn(fmt.Sprintf("Linux clients cannot mount %s over RDMA with Kerberos: their rpc.gssd asks TCP port %d; serve that with --tcp :%d",
			s.name, gssPort, gssPort))
	}
}
