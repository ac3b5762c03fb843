package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/spf13/pflag"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
)

// tlsOptions are serve's flags for TLS.
type tlsOptions struct {
	files         rpctls.Files
	strictALPN    bool
	onlyEncrypted bool   // all calls must be encrypted
	xprtsec       string // for DIR
	rdmaTLS       cli.Choice
	kernelTLS     cli.Choice

	transports exports.Transports // parsed from xprtsec
}

func (o *tlsOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.xprtsec, "xprtsec", "", "`TRANSPORTS` for DIR, as for xprtsec= in exports(5) (default all)")
	f.StringVar(&o.files.Cert, "tls-cert", "", "`FILE` with this server's certificate (PEM), which enables TLS;\nthe TLS files are reloaded when they change")
	f.StringVar(&o.files.Key, "tls-key", "", "`FILE` with the key of --tls-cert")
	f.StringVar(&o.files.CA, "tls-ca", "", "`FILE` with the authorities that may sign clients' certificates")
	f.StringVar(&o.files.CRL, "tls-crl", "", "`FILE` with the authorities' revocation lists")
	o.rdmaTLS = cli.NewChoice("off", "off", "allow", "require")
	f.Var(&o.rdmaTLS, "rdma-tls", "TLS on RDMA connections, which only mountrdma supports;\nrequire rejects other connections")
	f.BoolVar(&o.onlyEncrypted, "require-encryption", false, "accept only calls over TLS or with krb5p, regardless of the exports' options")
	o.kernelTLS = cli.NewChoice("off", "off", "auto")
	f.Var(&o.kernelTLS, "tls-kernel", "auto lets the kernel encrypt, if it has the tls module")
	f.BoolVar(&o.strictALPN, "tls-strict", false, "reject clients without ALPN \"sunrpc\" (Linux's tlshd 1.0.0 sends none)")
}

// checkFlags checks and parses the flags.
func (o *tlsOptions) checkFlags() (err error) {
	f := &o.files
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("--tls-cert and --tls-key belong together: give both")
	case f.Cert == "" && (f.CA != "" || f.CRL != "" || o.strictALPN || o.rdmaTLS.Word != "off" || o.kernelTLS.Word != "off"):
		return errors.New("--tls-ca, --tls-crl, --tls-strict, --tls-kernel and --rdma-tls need a certificate of this server: give --tls-cert and --tls-key")
	case f.CRL != "" && f.CA == "":
		return errors.New("--tls-crl needs the authorities that signed the lists: give --tls-ca")
	}
	if o.xprtsec == "" {
		return nil
	}
	if o.transports, err = exports.ParseTransports(o.xprtsec); err != nil {
		return fmt.Errorf("--xprtsec: %w", err)
	}
	return nil
}

// openTLS returns the TLS server, or nil if no flag enables TLS. If tolerant is set, files that
// cannot be used are no error: handshakes fail until they can. The process leaves no core dump,
// which would contain the key.
func (o *tlsOptions) openTLS(tolerant bool, log *slog.Logger) (*rpctls.Server, error) {
	if o.files.Cert == "" {
		return nil, nil
	}
	if err := cli.ForbidCores(); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	s, err := rpctls.NewServer(rpctls.ServerConfig{Files: o.files, Tolerant: tolerant, Strict: o.strictALPN, Kernel: o.kernelTLS.Word == "auto", Log: log})
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return s, nil
}

// watchTLS reloads the TLS files when they change, until ctx is canceled or end is called.
func (o *serveOptions) watchTLS(ctx context.Context) (end func()) {
	if o.tls == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { o.tls.Watch(ctx) })
	return func() {
		stop()
		wg.Wait()
	}
}

// checkProtection returns an error if e requires more protection of connections than the daemon
// can provide.
func (o *tlsOptions) checkProtection(e *exportSpec) error {
	for _, c := range e.clients {
		lack := ""
		switch least := c.Options.Xprtsec.Least(); {
		case o.onlyEncrypted && o.files.Cert == "" && !slices.Contains(c.Options.Flavors(), exports.FlavorKrb5p):
			return fmt.Errorf("%s is exported to %s without krb5p, and --require-encryption rejects unencrypted calls: write sec=krb5p, or give the daemon a certificate for TLS with --tls-cert and --tls-key",
				e.name, c.Host)
		case least > exports.TransportNone && o.files.Cert == "":
			lack = "TLS is not enabled: give the daemon a certificate with --tls-cert and --tls-key, or write xprtsec=none"
		case least > exports.TransportTLS && o.files.CA == "":
			lack = "clients' certificates cannot be verified: name their authority with --tls-ca, or write xprtsec=tls"
		default:
			continue
		}
		return fmt.Errorf("%s is exported to %s with xprtsec=%s, but %s", e.name, c.Host, c.Options.Xprtsec, lack)
	}
	return nil
}
