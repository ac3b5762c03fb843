package rpctls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Files are the paths of an end's certificates, in PEM. "" means none.
type Files struct {
	Cert string // this end's certificate, followed by intermediate ones up to the CA
	Key  string // Cert's private key; other users must not be able to read it
	CA   string // authorities that may sign peers' certificates
	CRL  string // revocation lists from authorities in CA
}

// A trustMaterial is the content of Files. It is immutable.
type trustMaterial struct {
	cert  *tls.Certificate // or nil
	roots *x509.CertPool   // nil without Files.CA
	lists []*revocationList
	fault error // why Files could not be used yet; nil: they could
}

// A fileStamp detects whether a file has changed: replacing a file changes its inode.
type fileStamp struct {
	name  string
	id    fileID
	size  int64
	mtime time.Time
}

// A fileStore has the content of Files, and reads them again if they change.
type fileStore struct {
	files Files
	role  certRole
	now   func() time.Time

	latest atomic.Pointer[trustMaterial]

	readMu sync.Mutex  // held while files are read, which may take long
	stamps []fileStamp // when the files were last read, even with an error
}

// openStore reads files for the end with role r. After an error it returns a store whose content
// has the fault.
func openStore(files Files, r certRole, now func() time.Time) (*fileStore, error) {
	s := &fileStore{files: files, role: r, now: now}
	s.stamps = s.statFiles()
	m, err := s.readFiles()
	if err != nil {
		m = &trustMaterial{fault: err}
	}
	s.latest.Store(m)
	return s, err
}

// current returns the files' last valid content, or the fault if they were never valid. It never
// waits.
func (s *fileStore) current() *trustMaterial { return s.latest.Load() }

// refreshFiles reads the files again if they have changed, or if always is set. It
// reports whether it read them. After an error the content stays as it was, and the files
// are not read again before they change. Unless always is set, refresh returns at once if
// the files are already being read, perhaps from storage that does not respond.
func (s *fileStore) refreshFiles(always bool) (read bool, err error) {
	if always {
		s.readMu.Lock()
	} else if !s.readMu.TryLock() {
		return false, nil
	}
	defer s.readMu.Unlock()
	stamps := s.statFiles() // before the files are read, so that the next refresh sees a concurrent change
	if !always && slices.Equal(stamps, s.stamps) {
		return false, nil
	}
	s.stamps = stamps
	m, err := s.readFiles()
	if err != nil {
		return true, err
	}
	s.latest.Store(m)
	return true, nil
}

func (s *fileStore) statFiles() (list []fileStamp) {
	for _, name := range [...]string{s.files.Cert, s.files.Key, s.files.CA, s.files.CRL} {
		if name == "" {
			continue
		}
		one := fileStamp{name: name}
		if info, err := os.Stat(name); err == nil {
			one.id, one.size, one.mtime = fileIDOf(info), info.Size(), info.ModTime()
		}
		list = append(list, one)
	}
	return list
}

// readFiles reads all files, and checks them against each other.
func (s *fileStore) readFiles() (*trustMaterial, error) {
	m := new(trustMaterial)
	if err := s.readCert(m); err != nil {
		return nil, err
	}
	authorities, err := s.readCA(m)
	if err != nil {
		return nil, err
	}
	if s.files.CRL == "" {
		return m, nil
	}
	if s.files.CA == "" {
		return nil, fmt.Errorf("the revocation lists in %s need the authorities that signed them: name these too", s.files.CRL)
	}
	content, err := readFile(s.files.CRL)
	if err != nil {
		return nil, err
	}
	m.lists, err = parseRevocationLists(s.files.CRL, content, authorities)
	return m, err
}

func (s *fileStore) readCert(m *trustMaterial) error {
	if s.files.Cert == "" && s.files.Key == "" {
		return nil
	}
	if s.files.Cert == "" || s.files.Key == "" {
		return errors.New("a certificate and its key belong together: name both files")
	}
	if err := checkPrivate(s.files.Key); err != nil {
		return err
	}
	cert, err := readFile(s.files.Cert)
	if err != nil {
		return err
	}
	key, err := readFile(s.files.Key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("the certificate in %s and the key in %s cannot be used (%w): write both again, as PEM", s.files.Cert, s.files.Key, err)
	}
	if _, err := blocksOf(s.files.Cert, cert, "CERTIFICATE"); err != nil {
		return err
	}
	if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return fmt.Errorf("the certificate in %s cannot be read: %w", s.files.Cert, err)
	}
	err = checkValidity(pair.Leaf, s.now())
	if err == nil {
		err = s.role.checkUsage(pair.Leaf)
	}
	if err != nil {
		return fmt.Errorf("the certificate in %s %w: write another there", s.files.Cert, err)
	}
	m.cert = &pair
	return nil
}

func (s *fileStore) readCA(m *trustMaterial) ([]*x509.Certificate, error) {
	if s.files.CA == "" {
		return nil, nil
	}
	content, err := readFile(s.files.CA)
	if err != nil {
		return nil, err
	}
	blocks, err := blocksOf(s.files.CA, content, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	m.roots = x509.NewCertPool()
	var list []*x509.Certificate
	for _, der := range blocks {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d in %s cannot be read: %w", len(list)+1, s.files.CA, err)
		}
		list = append(list, c)
		m.roots.AddCert(c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no certificate of an authority: write it there, as PEM", s.files.CA)
	}
	return list, nil
}

// blocksOf returns the content of a file's PEM blocks with a type. An unterminated block
// is an error: half a file would trust fewer authorities, or revoke fewer certificates,
// than the whole.
func blocksOf(name string, content []byte, kind string) (list [][]byte, err error) {
	begun := bytes.Count(append([]byte("\n"), content...), []byte("\n-----BEGIN "))
	for rest := content; ; begun-- {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == kind {
			list = append(list, block.Bytes)
		}
	}
	if begun > 0 {
		return nil, fmt.Errorf("%s ends in the middle of a block, or has one that is not PEM: write a complete new file and rename it to this name", name)
	}
	return list, nil
}

// checkPrivate rejects a key that other users on the host may read (RFC 9289, Section
// 6.2).
func checkPrivate(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return pathError(name, err)
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("other users may read the key in %s (mode %#o): make that impossible with chmod o= %s", name, info.Mode().Perm(), name)
	}
	return nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, pathError(name, err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, pathError(name, err)
	case len(content) > maxFile:
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxFile)
	}
	return content, nil
}

// pathError adds the file's name to an error.
func pathError(name string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s cannot be read (%w)", name, err)
}
