package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An Authority signs certificates.
type Authority struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey

	t          testing.TB
	now        time.Time
	lastSerial int64 // serial number
}

// New creates a self-signed authority. Its certificates are valid at the time now.
func New(t testing.TB, name string, now time.Time) *Authority {
	a := &Authority{t: t, now: now, Key: newKey(t)}
	a.Cert = a.signCertificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}, &a.Key.PublicKey)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// signCertificate signs a certificate, which gets the next serial number, and a
// validity of one day unless it has times.
func (a *Authority) signCertificate(c *x509.Certificate, pub any) *x509.Certificate {
	a.lastSerial++
	c.SerialNumber = big.NewInt(a.lastSerial)
	if c.NotBefore.IsZero() {
		c.NotBefore, c.NotAfter = a.now.Add(-time.Hour), a.now.Add(24*time.Hour)
	}
	parent := a.Cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, pub, a.Key)
	require.NoError(a.t, err)
	signed, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return signed
}

// Under returns an authority that a has signed. change may be nil.
func (a *Authority) Under(name string, change func(*x509.Certificate)) *Authority {
	b := &Authority{t: a.t, now: a.now, Key: newKey(a.t)}
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if change != nil {
		change(c)
	}
	b.Cert = a.signCertificate(c, &b.Key.PublicKey)
	return b
}

// A Holder is a certificate with its key: the paths of their files.
type Holder struct {
	Cert, Key string
	Leaf      *x509.Certificate
}

// Issue creates a certificate for a host with the name server, or as changed by
// change, and writes it with the certificates between it and its root.
func (a *Authority) Issue(change func(*x509.Certificate), between ...*Authority) Holder {
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: "common name"}, DNSNames: []string{"server"}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if change != nil {
		change(c)
	}
	key := newKey(a.t)
	signed := a.signCertificate(c, &key.PublicKey)
	chain := Encode(signed)
	for _, b := range between {
		chain = append(chain, Encode(b.Cert)...)
	}
	return writeHolder(a.t, chain, key, signed)
}

// Self returns the holder of the authority's own certificate.
func (a *Authority) Self() Holder { return writeHolder(a.t, Encode(a.Cert), a.Key, a.Cert) }

func writeHolder(t testing.TB, chain []byte, key *ecdsa.PrivateKey, leaf *x509.Certificate) Holder {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	return Holder{
		Cert: Write(t, dir, "cert.pem", chain),
		Key:  Write(t, dir, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		Leaf: leaf,
	}
}

// Encode returns a certificate in PEM.
func Encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// Write atomically writes or replaces a file that only its owner may read, and
// returns its path.
func Write(t testing.TB, dir, name string, content []byte) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	return path
}

// Bundle writes the authorities' certificates to a file, and returns its path.
func Bundle(all ...*Authority) string {
	var content []byte
	for _, a := range all {
		content = append(content, Encode(a.Cert)...)
	}
	return Write(all[0].t, all[0].t.TempDir(), "ca.pem", content)
}

// Revoke returns a revocation list, in PEM.
func (a *Authority) Revoke(until time.Time, revoked ...*x509.Certificate) []byte {
	list := &x509.RevocationList{Number: big.NewInt(a.lastSerial), ThisUpdate: a.now.Add(-time.Hour), NextUpdate: until}
	for _, c := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: a.now.Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.Cert, a.Key)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}
