package main

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

// encrypt has all connections to a server protected as --xprtsec says. The process then leaves
// no core, which would have keys in it.
func (a *app) encrypt(srv server, cfg *nfsrdma.ClientConfig) (err error) {
	if !a.encrypted() {
		return nil
	}
	if err := cli.ForbidCores(); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	files := a.tls
	if a.xprtsec.Word == "tls" {
		files.Cert, files.Key = "", "" // not shown
	}
	cfg.TLS, err = rpctls.NewClient(rpctls.ClientConfig{
		Files: files, Host: srv.host, Mutual: a.xprtsec.Word == "mtls", Strict: a.alpn.Word == "strict",
		Kernel: a.kernel.Word == "auto", Log: cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	return nil
}

// encrypted reports whether connections must be.
func (a *app) encrypted() bool { return a.xprtsec.Word == "tls" || a.xprtsec.Word == "mtls" }

// tlsInfo is the protection of a session's connections.
type tlsInfo struct {
	Mode   string `json:"mode"` // none, tls or mtls
	Suite  string `json:"suite,omitempty"`
	Kernel bool   `json:"kernel,omitempty"` // encrypts
	Issuer string `json:"issuer,omitempty"` // of the server's certificate
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

// String describes i in the text of info.
func (i tlsInfo) String() string {
	if i.Suite == "" {
		return i.Mode
	}
	by := ""
	if i.Kernel {
		by = " by the kernel"
	}
	return fmt.Sprintf("%s, %s%s; the server's certificate is %s of %s", i.Mode, i.Suite, by, i.Serial, escape(i.Issuer))
}

// tlsError returns the error of a failed attempt to protect a connection, or nil if err
// is another.
func tlsError(addr string, err error) error {
	e, ok := errors.AsType[*rpctls.Error](err)
	if !ok {
		return nil
	}
	return &stepError{at: addr, step: "TLS", what: e.Text, err: err}
}

// final reports whether an attempt failed in a way that the same attempt later would:
// a certificate, or no TLS. An attacker who pretends that must gain nothing by it.
func final(err error) bool {
	e, ok := errors.AsType[*rpctls.Error](err)
	return ok && e.Reason != rpctls.Broken && e.Reason != rpctls.Stalled
}
