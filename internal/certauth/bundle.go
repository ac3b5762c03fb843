package certauth

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// BundleDir is the directory in a client's bundle, which belongs into /etc/nfsrdma there.
const BundleDir = "tls-client"

// InstalledBundle is the directory of a client's files after the bundle was extracted.
const InstalledBundle = "/etc/nfsrdma/" + BundleDir

// tlshdConf is the part of tlshd's configuration that uses the bundle (tlshd.conf(5)).
const tlshdConf = `[authenticate.client]
x509.truststore=` + InstalledBundle + `/ca.pem
x509.certificate=` + InstalledBundle + `/client.pem
x509.private_key=` + InstalledBundle + `/client.key
`

// IssueClient creates a key and a certificate for the client with a name or an address. It returns
// a tar archive with both and with the authority, and the certificate's end. The key is nowhere
// else.
func (a *Authority) IssueClient(name string) (bundle []byte, expiry time.Time, err error) {
	if name, err = NormalizeName(name); err != nil {
		return nil, expiry, err
	}
	end, err := a.beginChange()
	if err != nil {
		return nil, expiry, err
	}
	defer end()
	server, err := readCert(a.path(serverCert))
	if err != nil {
		return nil, expiry, err
	}
	// Linux's tlshd does not check what a certificate is for.
	if slices.Contains(namesOf(server), name) {
		return nil, expiry, fmt.Errorf("%s is a name of the server: the holder of a client's certificate with it could impersonate the server; give the client another name", name)
	}
	key, keyPEM, err := generateKey()
	if err != nil {
		return nil, expiry, err
	}
	der, err := a.signHost([]string{name}, forClient, &key.PublicKey)
	if err != nil {
		return nil, expiry, err
	}
	cert := encodeCert(der)
	bundle, err = archive(a.now(), []archiveFile{
		{"ca.pem", 0o644, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})},
		{"client.pem", 0o644, cert},
		{"client.key", 0o600, keyPEM},
		{"tlshd.conf", 0o644, []byte(tlshdConf)},
	})
	if err != nil {
		return nil, expiry, err
	}
	if err := a.writeFile(filepath.Join(clientsDir, name+".pem"), cert); err != nil {
		return nil, expiry, err
	}
	c, err := readCert(a.path(filepath.Join(clientsDir, name+".pem")))
	if err != nil {
		return nil, expiry, err
	}
	return bundle, c.NotAfter, nil
}

type archiveFile struct {
	name    string
	mode    int64
	content []byte
}

// archive returns a tar archive of root's files in BundleDir.
func archive(now time.Time, files []archiveFile) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := tar.Header{Typeflag: tar.TypeDir, Name: BundleDir + "/", Mode: 0o700, Uname: "root", Gname: "root", ModTime: now.Truncate(time.Second)}
	if err := w.WriteHeader(&h); err != nil {
		return nil, err
	}
	for _, f := range files {
		h.Typeflag, h.Name, h.Mode, h.Size = tar.TypeReg, BundleDir+"/"+f.name, f.mode, int64(len(f.content))
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes the archive's end
	return b.Bytes(), err
}
