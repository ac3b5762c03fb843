package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A tlsDoc is status's TLS part. Counts are since the daemon started.
type tlsDoc struct {
	Certificate string           `json:"certificate"`     // path
	Ends        time.Time        `json:"ends"`            // when the certificate expires; zero if there is a fault
	Fault       string           `json:"fault,omitempty"` // the reason why all handshakes fail
	Strict      bool             `json:"strict"`
	Kernel      string           `json:"kernel"`      // on, off, or not available
	Connections int              `json:"connections"` // now
	Mutual      int              `json:"mutual"`      // those whose clients have presented certificates
	Handshakes  int              `json:"handshakes"`  // in progress
	Made        uint64           `json:"made"`
	Clear       uint64           `json:"clear"`  // connections without TLS
	Cut         uint64           `json:"cut"`    // closed because the certificate is no longer trusted
	Failed      []reasonCountDoc `json:"failed"` // failed handshakes, by reason
}

// collectTLS describes TLS, or returns nil without it.
func (src *Source) collectTLS() *tlsDoc {
	if src.TLS == nil {
		return nil
	}
	s := src.TLS.Stats()
	d := &tlsDoc{
		Certificate: s.Certificate, Ends: s.Ends, Fault: s.Fault, Strict: s.Strict, Kernel: s.Kernel, Connections: s.Open, Mutual: s.Mutual,
		Handshakes: s.Handshakes, Made: s.Made, Clear: s.Clear, Cut: s.Cut, Failed: []reasonCountDoc{},
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Failed)) {
		d.Failed = append(d.Failed, reasonCountDoc{reason, s.Failed[reason]})
	}
	return d
}

// A securityDoc describes a connection's protection. issuer and serial identify the client
// host's certificate.
type securityDoc struct {
	Mode   string `json:"mode"` // none, tls or mtls
	Suite  string `json:"suite,omitempty"`
	ALPN   string `json:"alpn,omitempty"`
	Kernel bool   `json:"kernel,omitempty"` // the kernel encrypts
	Issuer string `json:"issuer,omitempty"`
	Serial string `json:"serial,omitempty"`
}

func newSecurityDoc(s *oncrpc.Security) securityDoc {
	if s == nil {
		return securityDoc{Mode: s.String()}
	}
	return securityDoc{Mode: s.String(), Suite: s.Suite, ALPN: s.Protocol, Kernel: s.Kernel, Issuer: quoteUnprintable(s.Issuer), Serial: s.Serial}
}

// describe describes an encrypted connection in the connection list.
func (d *securityDoc) describe() string {
	if d.Suite == "" {
		return ""
	}
	if d.Kernel {
		return d.Mode + " " + d.Suite + " by the kernel"
	}
	return d.Mode + " " + d.Suite
}

// describeEnd says when the certificate expires.
func (d *tlsDoc) describeEnd(now time.Time) string {
	if d.Fault != "" {
		return ""
	}
	return "; the certificate expires in " + formatSpan(d.Ends.Sub(now))
}

// addTLS adds the counters.
func (p *textPage) addTLS(d *tlsDoc) {
	p.addRow("tls", fmt.Sprintf("%d connections now (%d mutual), %d in total, %d unencrypted; %d handshakes in progress%s",
		d.Connections, d.Mutual, d.Made, d.Clear, d.Handshakes, d.describeEnd(p.now)))
	if d.Fault != "" {
		p.addRow("", "ALL HANDSHAKES FAIL: "+quoteUnprintable(d.Fault))
	}
	if d.Kernel != "off" {
		p.addRow("", "kernel TLS: "+d.Kernel)
	}
	failed := slices.DeleteFunc(slices.Clone(d.Failed), func(r reasonCountDoc) bool { return r.Count == 0 })
	slices.SortStableFunc(failed, func(a, b reasonCountDoc) int { return cmp.Compare(b.Count, a.Count) })
	var words []string
	for _, r := range failed {
		words = append(words, fmt.Sprintf("%s %d", r.Reason, r.Count))
	}
	if d.Cut > 0 {
		words = append(words, fmt.Sprintf("no longer trusted %d", d.Cut))
	}
	if len(words) > 0 {
		p.addRow("", "TLS failures, by reason: "+strings.Join(words, ", "))
	}
}

// tlsMetric returns a metric that has no value without TLS.
func tlsMetric(kind func(string, string, []string, func(*scrapeData, emitFunc)) metric, name, help string, labels []string, each func(*tlsDoc, emitFunc)) metric {
	return kind(name, help, labels, func(s *scrapeData, emit emitFunc) {
		if s.TLS != nil {
			each(s.TLS, emit)
		}
	})
}

var tlsMetrics = []metric{
	tlsMetric(newGauge, "tls_connections", "Connections with TLS, by whether their clients have presented certificates (mtls).", []string{"mode"}, func(d *tlsDoc, emit emitFunc) {
		emit(float64(d.Connections-d.Mutual), "tls")
		emit(float64(d.Mutual), "mtls")
	}),
	tlsMetric(newGauge, "tls_handshakes", "TLS handshakes in progress.", noLabels, func(d *tlsDoc, emit emitFunc) { emit(float64(d.Handshakes)) }),
	tlsMetric(newCounter, "tls_connections_total", "Connections with TLS since the start: made, and those closed because their certificates are no longer trusted.", []string{"event"}, func(d *tlsDoc, emit emitFunc) {
		emit(float64(d.Made), "made")
		emit(float64(d.Cut), "cut")
	}),
	tlsMetric(newCounter, "tls_clear_connections_total", "Connections without TLS.", noLabels, func(d *tlsDoc, emit emitFunc) { emit(float64(d.Clear)) }),
	tlsMetric(newCounter, "tls_failures_total", "Failed TLS handshakes, and clients that were rejected before.", []string{"reason"}, func(d *tlsDoc, emit emitFunc) {
		for _, r := range d.Failed {
			emit(float64(r.Count), r.Reason)
		}
	}),
	tlsMetric(newGauge, "tls_certificate_end_seconds", "Expiry of this server's certificate, in seconds since 1970.", noLabels, func(d *tlsDoc, emit emitFunc) { emit(float64(d.Ends.Unix())) }),
}
