package certauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"
)

// A purpose is what a certificate is for: TLS, and RPC with TLS (RFC 9289, Section 7.3).
type purpose struct {
	usage x509.ExtKeyUsage
	rpc   asn1.ObjectIdentifier
}

var (
	forClient = purpose{x509.ExtKeyUsageClientAuth, asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 33}} // id-kp-rpcTLSClient
	forServer = purpose{x509.ExtKeyUsageServerAuth, asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 34}} // id-kp-rpcTLSServer
)

// createKey creates a key in the directory.
func (a *Authority) createKey(name string) (*ecdsa.PrivateKey, error) {
	key, content, err := generateKey()
	if err != nil {
		return nil, err
	}
	return key, a.writeFile(name, content)
}

// generateKey returns a new key, also as PEM.
func generateKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// signSelf writes a new certificate of the authority itself. One with the same name replaces the
// earlier one also for certificates that this one has signed.
func (a *Authority) signSelf(name string) error {
	c, err := a.newTemplate(authorityDays)
	if err != nil {
		return err
	}
	c.Subject = pkix.Name{CommonName: name}
	c.IsCA, c.BasicConstraintsValid, c.MaxPathLenZero = true, true, true
	c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, &a.key.PublicKey, a.key)
	if err != nil {
		return err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	return a.writeFile(caCert, encodeCert(der))
}

// signHost returns a certificate for a host, which is not valid for longer than the authority's.
func (a *Authority) signHost(names []string, p purpose, key *ecdsa.PublicKey) ([]byte, error) {
	c, err := a.newTemplate(hostDays)
	if err != nil {
		return nil, err
	}
	if !a.cert.NotAfter.After(a.now()) {
		return nil, fmt.Errorf("the authority in %s ended on %s: nfsrdmad cert renew renews it, and clients then need new bundles", a.dir, a.cert.NotAfter.UTC().Format(time.DateOnly))
	}
	if c.NotAfter.After(a.cert.NotAfter) {
		c.NotAfter = a.cert.NotAfter
	}
	for _, n := range names {
		if ip, err := netip.ParseAddr(n); err == nil {
			c.IPAddresses = append(c.IPAddresses, net.IP(ip.AsSlice()))
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	if len(names[0]) <= 64 { // ub-common-name (RFC 5280); it only helps people
		c.Subject = pkix.Name{CommonName: names[0]}
	}
	c.BasicConstraintsValid = true
	c.KeyUsage = x509.KeyUsageDigitalSignature
	c.ExtKeyUsage, c.UnknownExtKeyUsage = []x509.ExtKeyUsage{p.usage}, []asn1.ObjectIdentifier{p.rpc}
	return x509.CreateCertificate(rand.Reader, c, a.cert, key, a.key)
}

// newTemplate returns a certificate with a random serial number, which is valid from an hour ago
// on, because clocks differ.
func (a *Authority) newTemplate(days int) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := a.now()
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(time.Duration(days) * day),
	}, nil
}

// Every label of a name: letters, digits, hyphens, and the underscores that some hosts have.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?)*$`)

// NormalizeName returns a host's name in lower case, or its address in the usual form, and an error
// for anything else.
func NormalizeName(name string) (string, error) {
	if ip, err := netip.ParseAddr(name); err == nil && ip.Zone() == "" {
		return ip.Unmap().String(), nil
	}
	if len(name) > 253 || !namePattern.MatchString(name) {
		return "", fmt.Errorf("%q is neither a host's name nor an address: write a name such as server.example.org, without wildcards, or an address such as 192.0.2.7 or 2001:db8::7", name)
	}
	return strings.ToLower(name), nil
}

// namesOf returns the names and addresses in a certificate, at least one.
func namesOf(c *x509.Certificate) (names []string) {
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 { // not by an authority of this package
		names = []string{c.Subject.CommonName}
	}
	return names
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func readCert(name string) (*x509.Certificate, error) {
	der, err := readBlock(name, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: restore it, or create new certificates with nfsrdmad cert init --force", name, err)
	}
	return c, nil
}

func readKey(name string) (*ecdsa.PrivateKey, error) {
	der, err := readBlock(name, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: restore it, or create new certificates with nfsrdmad cert init --force", name, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an ECDSA key, as nfsrdmad cert init creates", name)
	}
	return key, nil
}

// readBlock returns a file's first PEM block, which must have a type.
func readBlock(name, kind string) ([]byte, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s does not exist: create certificates with nfsrdmad cert init", name)
		}
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s does not begin with a %s in PEM: restore it, or create new certificates with nfsrdmad cert init --force", name, kind)
	}
	return block.Bytes, nil
}
