package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

// tlsOptions are the flags of serve for TLS.
type tlsOptions struct {
	files   rpctls.Files
	strict  bool
	only    bool   // all calls must be encrypted
	xprtsec string // of DIR
	rdma    cli.Choice
	kernel  cli.Choice

	transports exports.Transports // parsed from xprtsec
}

func (o *tlsOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.xprtsec, "xprtsec", "", "`TRANSPORTS` of DIR, as xprtsec= in exports(5) has them; all without it")
	f.StringVar(&o.files.Cert, "tls-cert", "", "`FILE` with this server's certificate (PEM): clients may use TLS;\nthe files of TLS are read again when they change")
	f.StringVar(&o.files.Key, "tls-key", "", "`FILE` with the key of --tls-cert")
	f.StringVar(&o.files.CA, "tls-ca", "", "`FILE` with the authorities of clients' certificates")
	f.StringVar(&o.files.CRL, "tls-crl", "", "`FILE` with their revocation lists")
	o.rdma = cli.NewChoice("off", "off", "allow", "require")
	f.Var(&o.rdma, "rdma-tls", "TLS on RDMA connections, for mountrdma alone;\nrequire rejects all others")
	f.BoolVar(&o.only, "require-encryption", false, "take calls by TLS or with krb5p alone, whatever exports say")
	o.kernel = cli.NewChoice("off", "off", "auto")
	f.Var(&o.kernel, "tls-kernel", "auto has the kernel encrypt, if it has the module tls")
	f.BoolVar(&o.strict, "tls-strict", false, "refuse clients that do not say what TLS is for (ALPN), as Linux's")
}

// understand parses the words of the flags.
func (o *tlsOptions) understand() (err error) {
	f := &o.files
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("--tls-cert and --tls-key belong together: give both")
	case f.Cert == "" && (f.CA != "" || f.CRL != "" || o.strict || o.rdma.Word != "off" || o.kernel.Word != "off"):
		return errors.New("--tls-ca, --tls-crl, --tls-strict, --tls-kernel and --rdma-tls need a certificate of this server: give --tls-cert and --tls-key")
	case f.CRL != "" && f.CA == "":
		return errors.New("--tls-crl needs the authorities that have signed the lists: give --tls-ca")
	}
	if o.xprtsec == "" {
		return nil
	}
	if o.transports, err = exports.ParseTransports(o.xprtsec); err != nil {
		return fmt.Errorf("--xprtsec: %w", err)
	}
	return nil
}

// open opens TLS, or returns nil if no flag asks for that. The process then leaves no
// core, which would have the key in it.
func (o *tlsOptions) open(log *slog.Logger) (*rpctls.Server, error) {
	if o.files.Cert == "" {
		return nil, nil
	}
	if err := cli.ForbidCores(); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	s, err := rpctls.NewServer(rpctls.ServerConfig{Files: o.files, Strict: o.strict, Kernel: o.kernel.Word == "auto", Log: log})
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return s, nil
}

// watchTLS has the files of TLS read again when they change, until ctx ends or end is
// called.
func (o *serveOptions) watchTLS(ctx context.Context) (end func()) {
	if o.tls == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { o.tls.Watch(ctx) })
	return func() {
		stop()
		watching.Wait()
	}
}

// protect returns an error if an export demands more of connections than the daemon
// has.
func (o *tlsOptions) protect(list []export) error {
	for i := range list {
		e := &list[i]
		for _, c := range e.clients {
			lack := ""
			switch least := c.Options.Xprtsec.Least(); {
			case o.only && o.files.Cert == "" && !slices.Contains(c.Options.Flavors(), exports.FlavorKrb5p):
				return fmt.Errorf("%s%s is exported to %s without krb5p, and --require-encryption refuses other calls in clear: write sec=krb5p, or give the daemon a certificate for TLS with --tls-cert and --tls-key",
					e.place, e.name, c.Host)
			case least > exports.TransportNone && o.files.Cert == "":
				lack = "there is no TLS: give the daemon a certificate with --tls-cert and --tls-key, or write xprtsec=none"
			case least > exports.TransportTLS && o.files.CA == "":
				lack = "certificates of clients cannot be judged: name their authority with --tls-ca, or write xprtsec=tls"
			default:
				continue
			}
			return fmt.Errorf("%s%s is exported to %s with xprtsec=%s, but %s", e.place, e.name, c.Host, c.Options.Xprtsec, lack)
		}
	}
	return nil
}

// A tlsDoc is the state of TLS in status. Counts are of the daemon's life.
type tlsDoc struct {
	Certificate string       `json:"certificate"` // path
	Ends        time.Time    `json:"ends"`        // of the certificate
	Strict      bool         `json:"strict"`
	Kernel      string       `json:"kernel"`      // on, off, or not available
	Connections int          `json:"connections"` // now
	Mutual      int          `json:"mutual"`      // of these, whose clients have shown certificates
	Handshakes  int          `json:"handshakes"`  // under way
	Made        uint64       `json:"made"`
	Clear       uint64       `json:"clear"`  // connections without TLS
	Cut         uint64       `json:"cut"`    // trusted no longer
	Failed      []refusalDoc `json:"failed"` // handshakes, by reason
}

// lookAtTLS returns the state of TLS, or nil without it.
func (p *operations) lookAtTLS() *tlsDoc {
	if p.tls == nil {
		return nil
	}
	s := p.tls.Stats()
	d := &tlsDoc{
		Certificate: s.Certificate, Ends: s.Ends, Strict: s.Strict, Kernel: s.Kernel, Connections: s.Open, Mutual: s.Mutual,
		Handshakes: s.Handshakes, Made: s.Made, Clear: s.Clear, Cut: s.Cut, Failed: []refusalDoc{},
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Failed)) {
		d.Failed = append(d.Failed, refusalDoc{reason, s.Failed[reason]})
	}
	return d
}

// A securityDoc is the protection of a connection. issuer and serial name the
// certificate of the client's host.
type securityDoc struct {
	Mode   string `json:"mode"` // none, tls or mtls
	Suite  string `json:"suite,omitempty"`
	ALPN   string `json:"alpn,omitempty"`
	Kernel bool   `json:"kernel,omitempty"` // encrypts
	Issuer string `json:"issuer,omitempty"`
	Serial string `json:"serial,omitempty"`
}

func newSecurityDoc(s *oncrpc.Security) securityDoc {
	if s == nil {
		return securityDoc{Mode: s.String()}
	}
	return securityDoc{Mode: s.String(), Suite: s.Suite, ALPN: s.Protocol, Kernel: s.Kernel, Issuer: printable(s.Issuer), Serial: s.Serial}
}

// words describes an encrypted connection in the list of connections.
func (d *securityDoc) words() string {
	if d.Suite == "" {
		return ""
	}
	if d.Kernel {
		return d.Mode + " " + d.Suite + " by the kernel"
	}
	return d.Mode + " " + d.Suite
}

// tls prints the counters.
func (p *page) tls(d *tlsDoc) {
	p.row("tls", fmt.Sprintf("%d connections, %d of them mutual, of %d so far, and %d in clear; %d handshakes under way; the certificate ends in %s",
		d.Connections, d.Mutual, d.Made, d.Clear, d.Handshakes, span(d.Ends.Sub(p.now))))
	if d.Kernel != "off" {
		p.row("", "kernel TLS: "+d.Kernel)
	}
	failed := slices.DeleteFunc(slices.Clone(d.Failed), func(r refusalDoc) bool { return r.Count == 0 })
	slices.SortStableFunc(failed, func(a, b refusalDoc) int { return cmp.Compare(b.Count, a.Count) })
	var words []string
	for _, r := range failed {
		words = append(words, fmt.Sprintf("%s %d", r.Reason, r.Count))
	}
	if d.Cut > 0 {
		words = append(words, fmt.Sprintf("trusted no longer %d", d.Cut))
	}
	if len(words) > 0 {
		p.row("", "no TLS, by reason: "+strings.Join(words, ", "))
	}
}

// perTLS is a metric that has no value without TLS.
func perTLS(kind func(string, string, []string, func(*sight, emitter)) metric, name, help string, labels []string, each func(*tlsDoc, emitter)) metric {
	return kind(name, help, labels, func(s *sight, emit emitter) {
		if s.TLS != nil {
			each(s.TLS, emit)
		}
	})
}

var tlsMetrics = []metric{
	perTLS(gauge, "tls_connections", "Connections inside of TLS, by whether their clients have shown certificates (mtls).", []string{"mode"}, func(d *tlsDoc, emit emitter) {
		emit(float64(d.Connections-d.Mutual), "tls")
		emit(float64(d.Mutual), "mtls")
	}),
	perTLS(gauge, "tls_handshakes", "Handshakes of TLS under way.", none, func(d *tlsDoc, emit emitter) { emit(float64(d.Handshakes)) }),
	perTLS(counter, "tls_connections_total", "Connections inside of TLS so far: made, and of these cut because their certificates are trusted no longer.", []string{"event"}, func(d *tlsDoc, emit emitter) {
		emit(float64(d.Made), "made")
		emit(float64(d.Cut), "cut")
	}),
	perTLS(counter, "tls_clear_connections_total", "Connections without TLS.", none, func(d *tlsDoc, emit emitter) { emit(float64(d.Clear)) }),
	perTLS(counter, "tls_failures_total", "Handshakes of TLS that failed, and clients that were refused before.", []string{"reason"}, func(d *tlsDoc, emit emitter) {
		for _, r := range d.Failed {
			emit(float64(r.Count), r.Reason)
		}
	}),
	perTLS(gauge, "tls_certificate_end_seconds", "The end of this server's certificate, in seconds since 1970.", none, func(d *tlsDoc, emit emitter) { emit(float64(d.Ends.Unix())) }),
}
