package rpctls

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"time"
)

// revocationList is one authority's revocation list (RFC 5280, Section 5).
type revocationList struct {
	issuer     []byte // the authority's name, in DER
	name       string // the authority's name as text
	nextUpdate time.Time
	revoked    map[string]time.Time // by serial number
}

// parseRevocationLists parses a file with revocation lists in PEM, or with one in DER.
// Each must be signed by one of the authorities.
func parseRevocationLists(name string, content []byte, authorities []*x509.Certificate) (all []*revocationList, err error) {
	blocks, err := blocksOf(name, content, "X509 CRL")
	if err != nil {
		return nil, err
	}
	for _, der := range blocks {
		one, err := parseRevocationList(name, der, authorities)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		return all, nil
	}
	one, err := parseRevocationList(name, content, authorities)
	if err != nil {
		return nil, err
	}
	return []*revocationList{one}, nil
}

func parseRevocationList(name string, der []byte, authorities []*x509.Certificate) (*revocationList, error) {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("%s has no readable revocation list (%w): write one there, as PEM", name, err)
	}
	for _, e := range list.Extensions {
		if e.Critical {
			return nil, fmt.Errorf("the revocation list of %q in %s is for a part of the certificates (%v): write a complete one there", list.Issuer, name, e.Id)
		}
	}
	for _, a := range authorities {
		if bytes.Equal(a.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(a) == nil {
			r := &revocationList{
				issuer: list.RawIssuer, name: list.Issuer.String(), nextUpdate: list.NextUpdate,
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

// checkRevoked returns an error if a list names a certificate in the chain. An expired
// list rejects all certificates (RFC 5280, Section 6.3.3).
func checkRevoked(chain []*x509.Certificate, lists []*revocationList, now time.Time) error {
	for _, c := range chain {
		for _, l := range lists {
			if !bytes.Equal(l.issuer, c.RawIssuer) {
				continue
			}
			if at, ok := l.revoked[string(c.SerialNumber.Bytes())]; ok {
				return rejectf(Revoked, "was revoked on %s", formatDate(at))
			}
			if !l.nextUpdate.IsZero() && now.After(l.nextUpdate) {
				return rejectf(Revoked, "may be revoked: the revocation list of %q ended on %s, and needs a new one", l.name, formatDate(l.nextUpdate))
			}
		}
	}
	return nil
}
