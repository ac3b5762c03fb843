package rpctls

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"time"
)

// revocations are a revocation list of one authority (RFC 5280, Section 5).
type revocations struct {
	issuer  []byte // the authority's name, in DER
	name    string // the same in words
	until   time.Time
	revoked map[string]time.Time // by serial number
}

// parseLists parses a file of revocation lists, in PEM, or one in DER. Each must be
// signed by one of the authorities.
func parseLists(name string, content []byte, authorities []*x509.Certificate) (all []*revocations, err error) {
	blocks, err := blocksOf(name, content, "X509 CRL")
	if err != nil {
		return nil, err
	}
	for _, der := range blocks {
		one, err := parseList(name, der, authorities)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		return all, nil
	}
	one, err := parseList(name, content, authorities)
	if err != nil {
		return nil, err
	}
	return []*revocations{one}, nil
}

func parseList(name string, der []byte, authorities []*x509.Certificate) (*revocations, error) {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("%s has no revocation list that can be read (%w): write one there, as PEM", name, err)
	}
	for _, e := range list.Extensions {
		if e.Critical {
			return nil, fmt.Errorf("the revocation list of %q in %s is for a part of the certificates (%v): write a complete one there", list.Issuer, name, e.Id)
		}
	}
	for _, a := range authorities {
		if bytes.Equal(a.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(a) == nil {
			r := &revocations{
				issuer: list.RawIssuer, name: list.Issuer.String(), until: list.NextUpdate,
				revoked: make(map[string]time.Time, len(list.RevokedCertificateEntries)),
			}
			for _, e := range list.RevokedCertificateEntries {
				r.revoked[string(e.SerialNumber.Bytes())] = e.RevocationTime
			}
			return r, nil
		}
	}
	return nil, fmt.Errorf("the revocation list in %s is not signed by an authority that is trusted, but by %q: add that authority, or remove the list", name, list.Issuer)
}

// check returns an error if a list names a certificate of a chain. A list that has
// ended cannot tell, and so counts as if it named all (RFC 5280, Section 6.3.3).
func checkRevoked(chain []*x509.Certificate, lists []*revocations, now time.Time) error {
	for _, c := range chain {
		for _, l := range lists {
			if !bytes.Equal(l.issuer, c.RawIssuer) {
				continue
			}
			if at, ok := l.revoked[string(c.SerialNumber.Bytes())]; ok {
				return reject(Revoked, "was revoked on %s", day(at))
			}
			if !l.until.IsZero() && now.After(l.until) {
				return reject(Revoked, "may be revoked: the revocation list of %q ended on %s, and needs a new one", l.name, day(l.until))
			}
		}
	}
	return nil
}
