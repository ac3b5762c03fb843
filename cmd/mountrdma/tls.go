package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/serverlist"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
)

// setTLS configures the protection that --xprtsec requests for all connections to a server.
// The process then leaves no core dump, which would contain keys.
func (a *app) setTLS(srv server, cfg *nfsrdma.ClientConfig) (err error) {
	if !a.usesTLS() {
		return nil
	}
	if err := cli.ForbidCores(); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	files := a.tls
	if a.xprtsec.Word == "tls" {
		files.Cert, files.Key = "", "" // present no certificate
	}
	cfg.TLS, err = rpctls.NewClient(rpctls.ClientConfig{
		Files: files, Host: srv.host, Mutual: a.xprtsec.Word == "mtls", Strict: a.alpn.Word == "strict",
		Kernel: a.kernelTLS.Word == "auto", Log: cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	return nil
}

// usesTLS reports whether connections must use TLS.
func (a *app) usesTLS() bool { return a.xprtsec.Word == "tls" || a.xprtsec.Word == "mtls" }

// tlsInfo describes the protection of a session's connections.
type tlsInfo struct {
	Mode   string `json:"mode"` // none, tls or mtls
	Suite  string `json:"suite,omitempty"`
	Kernel bool   `json:"kernel,omitempty"` // the kernel encrypts
	Issuer string `json:"issuer,omitempty"` // issuer of the server's certificate
	Serial string `json:"serial,omitempty"`
}

func (s *session) tlsInfo() tlsInfo {
	var security *oncrpc.Security
	if secure, ok := s.netConn().(oncrpc.SecureConn); ok {
		security = secure.Security()
	}
	i := tlsInfo{Mode: security.String()}
	if security != nil {
		i.Suite, i.Kernel, i.Issuer, i.Serial = security.Suite, security.Kernel, security.Issuer, security.Serial
	}
	return i
}

// String describes i in the output of info.
func (i tlsInfo) String() string {
	if i.Suite == "" {
		return i.Mode
	}
	by := ""
	if i.Kernel {
		by = " by the kernel"
	}
	return fmt.Sprintf("%s, %s%s; server certificate serial %s, issuer %s", i.Mode, i.Suite, by, i.Serial, escapePath(i.Issuer))
}

// tlsError returns the error for a failed attempt to set up TLS, or nil if err is another
// error.
func tlsError(addr string, err error) error {
	e, ok := errors.AsType[*rpctls.Error](err)
	if !ok {
		return nil
	}
	return &stepError{at: addr, step: "TLS", what: e.Text, err: err}
}

// isPermanent reports whether the same attempt would fail again later: because of a
// certificate, or because the server has no TLS. An attacker who fakes that must gain nothing.
func isPermanent(err error) bool {
	if all, ok := errors.AsType[*serverlist.Error](err); ok {
		return !slices.ContainsFunc(all.Errs, func(err error) bool { return !isPermanent(err) })
	}
	e, ok := errors.AsType[*rpctls.Error](err)
	return ok && e.Reason != rpctls.Broken && e.Reason != rpctls.Stalled
}
