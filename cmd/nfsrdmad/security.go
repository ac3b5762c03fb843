package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
)

// defaultKeytab is the path at which hosts have the keys of their services.
const defaultKeytab = "/etc/krb5.keytab"

// A kerberosAcceptor is the daemon's gss.Acceptor for Kerberos. It is off until an export
// needs it; then it reads the keytab, and remains on.
type kerberosAcceptor struct {
	keytab   string
	acceptor atomic.Pointer[krb5.Acceptor] // nil: off
}

// isOff reports whether no export has needed Kerberos so far.
func (m *kerberosAcceptor) isOff() bool { return m.acceptor.Load() == nil }

// Accept accepts an initiator's token (gss.Acceptor). It must not be called while m is off.
func (m *kerberosAcceptor) Accept(ctx context.Context, token, bindings []byte) (gss.Accepted, error) {
	return m.acceptor.Load().Accept(ctx, token, bindings)
}

// readKeytab reads the keytab. The process then leaves no core dump, which would contain keys.
// m is off until the caller stores the result.
func (m *kerberosAcceptor) readKeytab(ctx context.Context) (*krb5.Acceptor, error) {
	if err := cli.ForbidCores(); err != nil {
		return nil, err
	}
	a, err := krb5.NewAcceptor(ctx, krb5.Config{Keytab: m.keytab, Now: time.Now})
	return a, m.explainKeytab(err)
}

// rereadKeytab reloads the keytab if it was read before. If the file is unusable, the keys do
// not change, and the reason is logged.
func (m *kerberosAcceptor) rereadKeytab(ctx context.Context, log *slog.Logger) error {
	a := m.acceptor.Load()
	if a == nil {
		return nil
	}
	if err := a.Reload(ctx); err != nil {
		err = m.explainKeytab(err)
		log.Error("cannot reload the keytab: the Kerberos keys are unchanged", "err", err)
		return fmt.Errorf("the Kerberos keys are unchanged: %w", err)
	}
	log.Info("the keytab was reloaded", "keytab", m.keytab)
	return nil
}

// explainKeytab adds the keytab's name to an error about its file. Package krb5's other errors
// contain it.
func (m *kerberosAcceptor) explainKeytab(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("the keytab %s cannot be read (%w)", m.keytab, cli.Cause(e))
	}
	return err
}

// A kerberosExport is an export that accepts Kerberos.
type kerberosExport struct {
	*exportSpec
	host   exports.Host
	flavor exports.Flavor
}

// findKerberosExport returns the first export that accepts Kerberos, or false.
func findKerberosExport(list []exportSpec) (s kerberosExport, ok bool) {
	for i := range list {
		for _, c := range list[i].clients {
			if f, ok := c.Options.Kerberos(); ok {
				return kerberosExport{&list[i], c.Host, f}, true
			}
		}
	}
	return s, false
}

// findFaults sets the fault of each export that needs a protection, or Kerberos, that the daemon
// cannot provide.
func (o *serveOptions) findFaults(ctx context.Context, list []exportSpec) {
	kerberos := o.enableKerberos(ctx, list)
	for i := range list {
		e := &list[i]
		if e.fault == nil {
			e.fault = o.checkProtection(e)
		}
		if _, ok := findKerberosExport(list[i : i+1]); ok && e.fault == nil {
			e.fault = kerberos
		}
	}
}

// enableKerberos turns Kerberos on if an export needs it. The error says why that is not
// possible.
func (o *serveOptions) enableKerberos(ctx context.Context, list []exportSpec) error {
	s, ok := findKerberosExport(list)
	if !ok || !o.kerberos.isOff() {
		return nil
	}
	a, err := o.kerberos.readKeytab(ctx)
	if err != nil {
		return fmt.Errorf("%s is exported to %s with sec=%s, but %w: add the key with ktadd (/usr/share/doc/nfsrdma/security.md), name another file with --keytab, or write sec=sys",
			s.name, s.host, s.flavor, err)
	}
	rules, err := o.idmapRulesWith(a) // before Kerberos is on; otherwise all principals would be mapped to nobody
	if err != nil {
		return err
	}
	o.owners.SetRules(rules)
	o.kerberos.acceptor.Store(a)
	return nil
}

// mapPrincipal returns the user that a principal maps to (rpcsec.ServerConfig.Map).
func (o *serveOptions) mapPrincipal(ctx context.Context, client netip.Addr, p gss.Principal) (rpcsec.User, bool, error) {
	a, ok, err := o.owners.Principal(ctx, client, p)
	return rpcsec.User{UID: a.UID, GID: a.GID, GIDs: a.Groups}, ok, err
}

// gssPort is the TCP port at which Linux's rpc.gssd creates the contexts for a mount over
// RDMA, whatever options the mount has.
const gssPort = 2049

// warnAboutGSSPort warns if Linux cannot mount exports over RDMA with Kerberos, because TCP is
// not served on gssPort.
func (o *serveOptions) warnAboutGSSPort(list []exportSpec, log *slog.Logger) {
	s, ok := findKerberosExport(list)
	if !ok {
		return
	}
	servesPort := func(addr string) bool {
		a, err := netip.ParseAddrPort(addr)
		return err == nil && a.Port() == gssPort
	}
	if !slices.ContainsFunc(o.daemon.transportAddrs("tcp"), servesPort) {
		log.Warn(fmt.Sprintf("Linux clients cannot mount %s over RDMA with Kerberos: their rpc.gssd connects to TCP port %d; serve it with --tcp :%d",
			s.name, gssPort, gssPort))
	}
}
