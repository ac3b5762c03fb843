package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names of the TLS files.
const certFile, keyFile = "cert.pem", "key.pem"

// ensureCertificate returns a directory with a self-signed certificate for
// 127.0.0.1, and its key.
func (w *testbed) ensureCertificate() (dir string, err error) {
	dir = filepath.Join(w.dir, "tls")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, errors.Join(os.Mkdir(dir, 0o700), createCertificate(dir))
}

func createCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(filepath.Join(dir, certFile), "CERTIFICATE", cert), writePEM(filepath.Join(dir, keyFile), "PRIVATE KEY", secret))
}

func writePEM(name, kind string, b []byte) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600)
}

// plainTLSConfig returns the configuration for crypto/tls without RPC, with full
// records.
func plainTLSConfig(dir string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "127.0.0.1",
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
	}, nil
}
