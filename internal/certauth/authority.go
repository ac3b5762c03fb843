package certauth

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/stablefile"
)

// Validity of certificates. The authority's is renewed while it is longer than a new client's, so
// that clients get it with their next certificates.
const (
	authorityDays = 3650
	hostDays      = 397
	renewDays     = hostDays / 3 // a host's certificate is due when it is valid for less
	day           = 24 * time.Hour
)

// Files in an authority's directory.
const (
	caCert     = "ca.pem"
	caKey      = "ca.key"
	serverCert = "server.pem"
	serverKey  = "server.key"
	clientsDir = "clients"
)

// An Authority is a certificate authority in a directory.
type Authority struct {
	dir  string
	now  func() time.Time
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Create creates an authority in dir, which must be missing or empty, and a certificate for a
// server with the names. With force, it moves an existing directory to dir.old. After an error
// dir is as it was. A crash may leave a directory whose name begins with dir.new, which nothing uses.
func Create(dir string, names []string, force bool, now func() time.Time) (*Authority, error) {
	if len(names) == 0 {
		return nil, errors.New("a server's certificate needs a name or an address: give --name")
	}
	names = slices.Clone(names)
	for i, n := range names {
		var err error
		if names[i], err = NormalizeName(n); err != nil {
			return nil, err
		}
	}
	old := dir + ".old"
	used, err := isUsed(dir)
	if err != nil {
		return nil, err
	}
	if used && !force {
		return nil, fmt.Errorf("%s exists already: nfsrdmad cert renew renews its certificates; --force moves it to %s, and clients then need new bundles", dir, old)
	}
	if used {
		unlock, err := lockDir(dir)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if _, err := os.Lstat(old); err == nil {
			return nil, fmt.Errorf("%s exists already: remove it, or rename it", old)
		}
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	next, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".new") // only this command uses it
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(next)
	a := &Authority{dir: next, now: now}
	if err := a.createFiles(names); err != nil {
		return nil, err
	}
	if used {
		err = os.Rename(dir, old)
	} else if err = os.Remove(dir); errors.Is(err, fs.ErrNotExist) { // an empty directory
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if err := os.Rename(next, dir); err != nil {
		if used {
			err = errors.Join(err, os.Rename(old, dir))
		}
		return nil, err
	}
	a.dir = dir
	return a, stablefile.SyncDir(filepath.Dir(dir), (*os.File).Sync)
}

// isUsed reports whether dir exists and is not empty.
func isUsed(dir string) (bool, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(list) > 0, err
}

func (a *Authority) createFiles(names []string) (err error) {
	if err := os.Mkdir(filepath.Join(a.dir, clientsDir), 0o700); err != nil { // writeFile syncs the directory
		return err
	}
	if a.key, err = a.createKey(caKey); err != nil {
		return err
	}
	// Authorities of one server have different names, of at most 64 bytes (ub-common-name, RFC 5280).
	name := fmt.Sprintf("nfsrdma %.32s %s", names[0], a.now().UTC().Format("20060102T150405Z"))
	if err := a.signSelf(name); err != nil {
		return err
	}
	key, err := a.createKey(serverKey)
	if err != nil {
		return err
	}
	der, err := a.signHost(names, forServer, &key.PublicKey)
	if err != nil {
		return err
	}
	return a.writeFile(serverCert, encodeCert(der))
}

// Open opens the authority that Create has created in dir.
func Open(dir string, now func() time.Time) (*Authority, error) {
	a := &Authority{dir: dir, now: now}
	return a, a.readFiles()
}

// readFiles reads the authority's certificate and its key.
func (a *Authority) readFiles() (err error) {
	if a.cert, err = readCert(a.path(caCert)); err != nil {
		return err
	}
	if a.key, err = readKey(a.path(caKey)); err != nil {
		return err
	}
	if !a.key.PublicKey.Equal(a.cert.PublicKey) {
		return fmt.Errorf("%s is not the key of %s: restore both from one backup", a.path(caKey), a.path(caCert))
	}
	return nil
}

// lockDir waits until no other process changes files in an authority's directory, and keeps others
// from that until unlock is called.
func lockDir(dir string) (unlock func(), err error) {
	for {
		d, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		if err := lockFile(d); err != nil {
			d.Close()
			return nil, &fs.PathError{Op: "lock", Path: dir, Err: err}
		}
		locked, _ := d.Stat()
		if now, err := os.Stat(dir); err == nil && os.SameFile(locked, now) {
			return func() { d.Close() }, nil
		}
		d.Close() // Create has replaced the directory
	}
}

func lockFile(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// beginChange locks the directory, and reads the authority's files again, because another process may
// have changed them while this one waited.
func (a *Authority) beginChange() (end func(), err error) {
	end, err = lockDir(a.dir)
	if err != nil {
		return nil, err
	}
	if err := a.readFiles(); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// path returns the path of one of the authority's files.
func (a *Authority) path(name string) string { return filepath.Join(a.dir, name) }

// ServerFiles returns the paths of the server's certificate, its key, and the authority.
func (a *Authority) ServerFiles() (cert, key, ca string) {
	return a.path(serverCert), a.path(serverKey), a.path(caCert)
}

func (a *Authority) writeFile(name string, content []byte) error {
	return stablefile.Replace(a.path(name), content, (*os.File).Sync)
}

// A Certificate is one that an authority has signed, or its own.
type Certificate struct {
	Role   string // authority, server or client
	Names  []string
	File   string
	Expiry time.Time
}

// Due reports whether the certificate should be renewed.
func (c *Certificate) Due(now time.Time) bool {
	days := renewDays
	if c.Role == "authority" {
		days = 2 * hostDays
	}
	return c.Expiry.Sub(now) < time.Duration(days)*day
}

// List returns the certificates in dir: the authority's, the server's, and the clients' in order
// of their names.
func List(dir string) ([]Certificate, error) {
	_, _, list, err := readOwn(dir)
	if err != nil {
		return nil, err
	}
	clients, err := os.ReadDir(filepath.Join(dir, clientsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, c := range clients {
		if !strings.HasSuffix(c.Name(), ".pem") {
			continue
		}
		file := filepath.Join(dir, clientsDir, c.Name())
		cert, err := readCert(file)
		if err != nil {
			return nil, err
		}
		list = append(list, Certificate{"client", namesOf(cert), file, cert.NotAfter})
	}
	return list, nil
}

// readOwn returns the certificates of the authority in dir and of its server.
func readOwn(dir string) (ca, server *x509.Certificate, list []Certificate, err error) {
	caFile, serverFile := filepath.Join(dir, caCert), filepath.Join(dir, serverCert)
	ca, err = readCert(caFile)
	if err != nil {
		return nil, nil, nil, err
	}
	server, err = readCert(serverFile)
	if err != nil {
		return nil, nil, nil, err
	}
	return ca, server, []Certificate{
		{"authority", []string{ca.Subject.CommonName}, caFile, ca.NotAfter},
		{"server", namesOf(server), serverFile, server.NotAfter},
	}, nil
}

// Renew renews the authority's and the server's certificates if they are due, the server's in any
// case with always. It returns the renewed ones. Of two processes that renew at the same time, the
// second finds what the first has written.
func (a *Authority) Renew(always bool) (renewed []Certificate, err error) {
	end, err := a.beginChange()
	if err != nil {
		return nil, err
	}
	defer end()
	ca, server, list, err := readOwn(a.dir)
	if err != nil {
		return nil, err
	}
	if err := server.CheckSignatureFrom(ca); err != nil {
		return nil, fmt.Errorf("%s is not a certificate of the authority in %s (%w): renew it where you got it, or restore the authority's", list[1].File, a.dir, err)
	}
	now := a.now()
	if list[0].Due(now) {
		if err := a.signSelf(a.cert.Subject.CommonName); err != nil {
			return nil, err
		}
		renewed = append(renewed, Certificate{list[0].Role, list[0].Names, list[0].File, a.cert.NotAfter})
	}
	if !always && !list[1].Due(now) {
		return renewed, nil
	}
	key, err := readKey(a.path(serverKey))
	if err != nil {
		return renewed, err
	}
	der, err := a.signHost(list[1].Names, forServer, &key.PublicKey)
	if err != nil {
		return renewed, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return renewed, err
	}
	if err := a.writeFile(serverCert, encodeCert(der)); err != nil {
		return renewed, err
	}
	return append(renewed, Certificate{list[1].Role, list[1].Names, list[1].File, c.NotAfter}), nil
}
