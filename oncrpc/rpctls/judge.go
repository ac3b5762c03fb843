package rpctls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// A certRole is the role in which a peer presents a certificate.
type certRole struct {
	peers string
	usage x509.ExtKeyUsage
	rpc   asn1.ObjectIdentifier // id-kp-rpcTLSClient or id-kp-rpcTLSServer (RFC 9289, Section 7.3)
}

var (
	asClient = certRole{"clients", x509.ExtKeyUsageClientAuth, asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 33}}
	asServer = certRole{"servers", x509.ExtKeyUsageServerAuth, asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 34}}
)

// permits reports whether a certificate's purposes include the role, or it has none.
func (r *certRole) permits(c *x509.Certificate) bool {
	if len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.Contains(c.ExtKeyUsage, r.usage) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) ||
		slices.ContainsFunc(c.UnknownExtKeyUsage, r.rpc.Equal)
}

// checkUsage rejects a certificate for another purpose. TLS 1.3 signs with its key, so a
// certificate with key usages must have digitalSignature (RFC 8446, Section 4.4.2.2).
func (r *certRole) checkUsage(c *x509.Certificate) error {
	switch {
	case !r.permits(c):
		return rejectf(Purpose, "is not for TLS %s (extended key usage)", r.peers)
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return rejectf(Purpose, "has a key that may not sign (key usage)")
	}
	return nil
}

func checkValidity(c *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(c.NotBefore):
		return rejectf(Dates, "is valid from %s on: are the clocks right?", formatDate(c.NotBefore))
	case now.After(c.NotAfter):
		return rejectf(Dates, "ended on %s", formatDate(c.NotAfter))
	}
	return nil
}

// verifyChain returns why a peer's chain is rejected for a role, or nil. Without roots it
// trusts the host's authorities.
func (m *trustMaterial) verifyChain(certs []*x509.Certificate, r *certRole, now time.Time) error {
	leaf := certs[0]
	if err := checkValidity(leaf, now); err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: m.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return untrustedError(leaf, err)
	}
	if err := r.checkUsage(leaf); err != nil {
		return err
	}
	for _, chain := range chains {
		if err = r.checkChain(chain, m.lists, now); err == nil {
			return nil // one is enough
		}
	}
	return err
}

// checkChain checks a chain's authorities. The last is trusted unconditionally.
func (r *certRole) checkChain(chain []*x509.Certificate, lists []*revocationList, now time.Time) error {
	last := len(chain) - 1
	for _, c := range chain[min(1, last):last] {
		if !r.permits(c) {
			return rejectf(Purpose, "is signed by %q, which may not sign for TLS %s (extended key usage)", c.Subject, r.peers)
		}
	}
	return checkRevoked(chain[:max(1, last)], lists, now)
}

func untrustedError(leaf *x509.Certificate, err error) error {
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		if leaf.Issuer.String() == leaf.Subject.String() {
			return &Error{Untrusted, "has signed itself, and is not trusted", err}
		}
		return &Error{Untrusted, "is signed by " + quoteName(leaf.Issuer.String()) + ", which is not trusted", err}
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return &Error{Dates, "is signed by an authority whose own certificate has expired, or is not valid yet", err}
	}
	return &Error{Untrusted, "is not valid: " + err.Error(), err}
}

// checkName returns why a certificate does not belong to a host, which is a name or an
// address as a user typed it. Only the alternative names count, no wildcards, and never
// the common name (RFC 9289, Section 5.2.1).
func checkName(c *x509.Certificate, host string) error {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		for _, ip := range c.IPAddresses {
			if a, ok := netip.AddrFromSlice(ip); ok && a.Unmap() == addr.Unmap().WithZone("") {
				return nil
			}
		}
		return rejectf(Name, "is %s, and does not have the address %s (iPAddress): use a name that it has, or add the address to it", namesOf(c), host)
	}
	host = strings.TrimSuffix(host, ".")
	wild := false
	for _, name := range c.DNSNames {
		if strings.Contains(name, "*") {
			wild = true
			continue
		}
		if strings.EqualFold(strings.TrimSuffix(name, "."), host) {
			return nil
		}
	}
	if wild {
		return rejectf(Name, "is %s, and not for %s: wildcards do not count for RPC (RFC 9289), so that it needs the whole name", namesOf(c), host)
	}
	return rejectf(Name, "is %s, and not for %s: use a name that it has, or add the name to it (dNSName)", namesOf(c), host)
}

// namesOf describes a certificate's hosts.
func namesOf(c *x509.Certificate) string {
	var list []string
	for _, n := range c.DNSNames {
		list = append(list, quoteName(n))
	}
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	if len(list) == 0 {
		return "for no host (it has no subjectAltName)"
	}
	return "for " + strings.Join(list[:min(len(list), 8)], ", ")
}

// checkProtocol checks the negotiated protocol (ALPN). Without strict, a peer may name
// none, as Linux's tlshd does; crypto/tls rejects another name.
func checkProtocol(s *tls.ConnectionState, want string, strict bool) error {
	switch {
	case s.NegotiatedProtocol == want, s.NegotiatedProtocol == "" && !strict:
		return nil
	case s.NegotiatedProtocol == "":
		return &Error{Protocol, "the peer does not say that it wants TLS for " + quoteName(want) + " (ALPN), which is demanded here", nil}
	}
	return &Error{Protocol, "the peer wants TLS for " + quoteName(s.NegotiatedProtocol) + " (ALPN), not for " + quoteName(want), nil}
}

// addOwner prefixes an Error's text with the certificate's owner.
func addOwner(owner string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{e.Reason, "the certificate of " + owner + " " + e.Text, e.Err}
	}
	return err
}
