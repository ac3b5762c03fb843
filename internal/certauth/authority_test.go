package certauth

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testClock is the time of a test.
type testClock struct{ time.Time }

func (c *testClock) now() time.Time { return c.Time }

func newClock() *testClock { return &testClock{time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

func readLeaf(t *testing.T, name string) *x509.Certificate {
	c, err := readCert(name)
	require.NoError(t, err)
	return c
}

// verify verifies a certificate as the peers of its holder do.
func verify(t *testing.T, c, ca *x509.Certificate, usage x509.ExtKeyUsage, at time.Time) error {
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: at})
	return err
}

// extract returns the files of a bundle.
func extract(t *testing.T, bundle []byte) (files map[string][]byte, modes map[string]int64) {
	files, modes = make(map[string][]byte), make(map[string]int64)
	for r := tar.NewReader(bytes.NewReader(bundle)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, modes
		}
		require.NoError(t, err)
		files[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
		modes[h.Name] = h.Mode
		assert.Zero(t, h.Uid)
	}
}

func parse(t *testing.T, text []byte) *x509.Certificate {
	block, rest := pem.Decode(text)
	require.NotNil(t, block)
	assert.Empty(t, rest)
	c, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return c
}

// TestCreate checks what an authority and a server's certificate may be used for, and that no
// other user can read the keys.
func TestCreate(t *testing.T) {
	clock, dir := newClock(), filepath.Join(t.TempDir(), "etc", "tls")
	a, err := Create(dir, []string{"NFS.example.org", "192.0.2.7", "2001:DB8::7"}, false, clock.now)
	require.NoError(t, err)
	certFile, keyFile, caFile := a.ServerFiles()
	for name, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, caKey): 0o600, keyFile: 0o600} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), name)
	}
	ca, server := readLeaf(t, caFile), readLeaf(t, certFile)
	assert.True(t, ca.IsCA && ca.MaxPathLenZero, "the authority signs hosts, and no authorities")
	assert.Equal(t, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, ca.KeyUsage)
	assert.Equal(t, []string{"nfs.example.org"}, server.DNSNames)
	assert.Equal(t, []string{"nfs.example.org", "192.0.2.7", "2001:db8::7"}, namesOf(server))
	assert.False(t, server.IsCA)
	assert.NoError(t, verify(t, server, ca, x509.ExtKeyUsageServerAuth, clock.Time))
	assert.Error(t, verify(t, server, ca, x509.ExtKeyUsageClientAuth, clock.Time))
	assert.NoError(t, verify(t, server, ca, x509.ExtKeyUsageServerAuth, clock.Add(396*day)))
	assert.Error(t, verify(t, server, ca, x509.ExtKeyUsageServerAuth, clock.Add(398*day)))
	assert.Equal(t, clock.Add(3650*day), ca.NotAfter)
}

// TestCreateAgain checks that nothing is overwritten: --force moves the old files.
func TestCreateAgain(t *testing.T) {
	clock, dir := newClock(), filepath.Join(t.TempDir(), "tls")
	require.NoError(t, os.Mkdir(dir, 0o755), "an empty directory is used")
	_, err := Create(dir, []string{"server"}, false, clock.now)
	require.NoError(t, err)
	old, err := os.ReadFile(filepath.Join(dir, caKey))
	require.NoError(t, err)

	_, err = Create(dir, []string{"server"}, false, clock.now)
	assert.ErrorContains(t, err, dir+" exists already: nfsrdmad cert renew renews its certificates; --force moves it to "+dir+".old")
	clock.Time = clock.Add(time.Second)
	_, err = Create(dir, []string{"server"}, true, clock.now)
	require.NoError(t, err)
	moved, err := os.ReadFile(filepath.Join(dir+".old", caKey))
	require.NoError(t, err)
	assert.Equal(t, old, moved)
	assert.NotEqual(t, readLeaf(t, filepath.Join(dir+".old", caCert)).Subject.CommonName, readLeaf(t, filepath.Join(dir, caCert)).Subject.CommonName)
	_, err = Create(dir, []string{"server"}, true, clock.now)
	assert.EqualError(t, err, dir+".old exists already: remove it, or rename it")
	assert.NoDirExists(t, dir+".new")

	for _, name := range []string{"", "*.example.org", "a b", "-a", "fe80::1%eth0", "../x", "a..b"} {
		_, err = Create(filepath.Join(t.TempDir(), "tls"), []string{name}, false, clock.now)
		assert.ErrorContains(t, err, "is neither a host's name nor an address", name)
	}
	_, err = Create(dir, nil, false, clock.now)
	assert.ErrorContains(t, err, "give --name")
}

// TestIssueClient checks a bundle: its certificate is only for clients, and its key is only there.
func TestIssueClient(t *testing.T) {
	clock, dir := newClock(), filepath.Join(t.TempDir(), "tls")
	_, err := Create(dir, []string{"server", "192.0.2.7"}, false, clock.now)
	require.NoError(t, err)
	a, err := Open(dir, clock.now)
	require.NoError(t, err)
	bundle, expiry, err := a.IssueClient("Laptop.example.org")
	require.NoError(t, err)
	assert.Equal(t, clock.Add(397*day), expiry)
	files, modes := extract(t, bundle)
	assert.Equal(t, map[string]int64{"tls-client/": 0o700, "tls-client/ca.pem": 0o644, "tls-client/client.pem": 0o644, "tls-client/client.key": 0o600, "tls-client/tlshd.conf": 0o644}, modes)
	client, ca := parse(t, files["tls-client/client.pem"]), parse(t, files["tls-client/ca.pem"])
	assert.Equal(t, []string{"laptop.example.org"}, namesOf(client))
	assert.NoError(t, verify(t, client, ca, x509.ExtKeyUsageClientAuth, clock.Time))
	assert.Error(t, verify(t, client, ca, x509.ExtKeyUsageServerAuth, clock.Time), "a client cannot serve")
	assert.Contains(t, string(files["tls-client/tlshd.conf"]), "x509.private_key=/etc/nfsrdma/tls-client/client.key\n")
	kept, err := os.ReadFile(filepath.Join(dir, "clients", "laptop.example.org.pem"))
	require.NoError(t, err)
	assert.Equal(t, string(files["tls-client/client.pem"]), string(kept), "without the key")

	for _, name := range []string{"SERVER", "192.0.2.7", "::ffff:192.0.2.7"} {
		_, _, err = a.IssueClient(name)
		assert.ErrorContains(t, err, "is a name of the server", name)
	}
	_, _, err = a.IssueClient("../x")
	assert.ErrorContains(t, err, "neither a host's name nor an address")
}

// TestRenew checks that certificates are renewed before they end, with their keys and names, and
// that a renewed authority is one also for the certificates that it has signed before.
func TestRenew(t *testing.T) {
	clock, dir := newClock(), filepath.Join(t.TempDir(), "tls")
	a, err := Create(dir, []string{"server", "192.0.2.7"}, false, clock.now)
	require.NoError(t, err)
	_, _, caFile := a.ServerFiles()
	first, firstCA := readLeaf(t, filepath.Join(dir, serverCert)), readLeaf(t, caFile)
	renewed, err := a.Renew(false)
	require.NoError(t, err)
	assert.Empty(t, renewed, "nothing is due")

	clock.Time = clock.Add(300 * day)
	renewed, err = a.Renew(false)
	require.NoError(t, err)
	require.Len(t, renewed, 1)
	assert.Equal(t, Certificate{"server", []string{"server", "192.0.2.7"}, filepath.Join(dir, serverCert), clock.Add(397 * day)}, renewed[0])
	second := readLeaf(t, filepath.Join(dir, serverCert))
	assert.Equal(t, first.PublicKey, second.PublicKey)
	assert.NotEqual(t, first.SerialNumber, second.SerialNumber)
	assert.NoError(t, verify(t, second, firstCA, x509.ExtKeyUsageServerAuth, clock.Time))
	renewed, err = a.Renew(true)
	require.NoError(t, err)
	assert.Len(t, renewed, 1)

	clock.Time = firstCA.NotAfter.Add(-700 * day)
	renewed, err = a.Renew(false)
	require.NoError(t, err)
	require.Len(t, renewed, 2)
	ca, third := readLeaf(t, caFile), readLeaf(t, filepath.Join(dir, serverCert))
	assert.Equal(t, clock.Add(3650*day), ca.NotAfter)
	for _, root := range []*x509.Certificate{firstCA, ca} {
		assert.NoError(t, verify(t, third, root, x509.ExtKeyUsageServerAuth, clock.Time))
	}

	clock.Time = ca.NotAfter.Add(-day)
	_, expiry, err := a.IssueClient("early")
	require.NoError(t, err)
	assert.Equal(t, ca.NotAfter, expiry, "not longer than the authority's")
	clock.Time = ca.NotAfter.Add(day) // nothing was renewed for years
	_, _, err = a.IssueClient("late")
	assert.ErrorContains(t, err, "nfsrdmad cert renew renews it")
	renewed, err = a.Renew(false)
	require.NoError(t, err)
	assert.Len(t, renewed, 2)
}

// TestRenewOthers checks that the server's certificate is renewed whatever files of clients there
// are, and that one of another authority is not replaced.
func TestRenewOthers(t *testing.T) {
	clock, dir, foreign := newClock(), filepath.Join(t.TempDir(), "tls"), filepath.Join(t.TempDir(), "tls")
	a, err := Create(dir, []string{"server"}, false, clock.now)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, clientsDir, "x.pem"), []byte("damaged"), 0o600))
	renewed, err := a.Renew(true)
	require.NoError(t, err)
	assert.Len(t, renewed, 1)
	_, err = List(dir)
	assert.ErrorContains(t, err, "x.pem does not begin with a CERTIFICATE")

	_, err = Create(foreign, []string{"server"}, false, clock.now)
	require.NoError(t, err)
	other, err := os.ReadFile(filepath.Join(foreign, serverCert))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, serverCert), other, 0o600))
	_, err = a.Renew(true)
	assert.ErrorContains(t, err, filepath.Join(dir, serverCert)+" is not a certificate of the authority in "+dir)
	kept, err := os.ReadFile(filepath.Join(dir, serverCert))
	require.NoError(t, err)
	assert.Equal(t, other, kept)
	assert.Equal(t, []string{"nfs"}, namesOf(&x509.Certificate{Subject: pkix.Name{CommonName: "nfs"}}))
}

// TestOpenErrors checks that each missing or damaged file is named, with a remedy.
func TestOpenErrors(t *testing.T) {
	clock, dir := newClock(), filepath.Join(t.TempDir(), "tls")
	_, err := Open(dir, clock.now)
	assert.EqualError(t, err, filepath.Join(dir, caCert)+" does not exist: create certificates with nfsrdmad cert init")
	_, err = Create(dir, []string{"server"}, false, clock.now)
	require.NoError(t, err)
	_, key, _ := mustOpen(t, dir, clock).ServerFiles()
	other, err := os.ReadFile(key)
	require.NoError(t, err)
	for content, want := range map[string]string{
		"": "does not begin with a PRIVATE KEY in PEM",
		"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n": "nfsrdmad cert init --force",
		string(other): "is not the key of",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, caKey), []byte(content), 0o600))
		_, err = Open(dir, clock.now)
		assert.ErrorContains(t, err, want)
	}
}

func mustOpen(t *testing.T, dir string, clock *testClock) *Authority {
	a, err := Open(dir, clock.now)
	require.NoError(t, err)
	return a
}
