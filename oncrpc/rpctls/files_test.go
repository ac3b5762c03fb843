package rpctls

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFiles checks that faulty files are rejected, with an error that names the file and
// the remedy (R9289-4.2-1, R9289-6.2-1).
func TestFiles(t *testing.T) {
	root := newAuthority(t, "root")
	other := newAuthority(t, "other")
	good := filesOf(root.Issue(nil))
	dir := t.TempDir()
	open := certtest.Write(t, dir, "open.pem", readTestFile(t, good.Key))
	require.NoError(t, os.Chmod(open, 0o644))
	group := certtest.Write(t, dir, "group.pem", readTestFile(t, good.Key))
	require.NoError(t, os.Chmod(group, 0o640))
	text := certtest.Write(t, dir, "text.pem", []byte("no certificate"))
	missing := filepath.Join(dir, "missing.pem")
	list := certtest.Write(t, dir, "crl.pem", root.Revoke(now.AddDate(0, 0, 1)))
	for _, tt := range []struct {
		name  string
		files Files
		words []string // none: taken
	}{
		{"all", Files{good.Cert, good.Key, certtest.Bundle(root), list}, nil},
		{"a key for a group", Files{good.Cert, group, "", ""}, nil},
		{"R9289-4.2-1 no certificate", Files{}, []string{"TLS needs this server's certificate"}},
		{"no key", Files{Cert: good.Cert}, []string{"name both files"}},
		{"no file of the certificate", Files{missing, good.Key, "", ""}, []string{missing, "no such file"}},
		{"no file of the key", Files{good.Cert, missing, "", ""}, []string{missing, "no such file"}},
		{"R9289-6.2-1 a key for all users", Files{good.Cert, open, "", ""}, []string{open, "0644", "chmod o="}},
		{"the key of another certificate", Files{good.Cert, root.Issue(nil).Key, "", ""}, []string{good.Cert, "private key does not match"}},
		{"no certificate in the file", Files{text, good.Key, "", ""}, []string{text, "as PEM"}},
		{"a certificate that has ended", filesOf(root.Issue(withPastDates)), []string{"ended on 2026-11-26"}},
		{"a certificate for clients", filesOf(root.Issue(withPurposes(x509.ExtKeyUsageClientAuth))), []string{"is not for TLS servers"}},
		{"no authority in the file", Files{good.Cert, good.Key, text, ""}, []string{text, "no certificate of an authority"}},
		{"a list without authorities", Files{good.Cert, good.Key, "", list}, []string{list, "need the authorities"}},
		{"a list of another authority", Files{good.Cert, good.Key, certtest.Bundle(other), list}, []string{list, `"CN=root"`, "not signed by an authority that is trusted"}},
		{"no list in the file", Files{good.Cert, good.Key, certtest.Bundle(root), text}, []string{text, "no readable revocation list"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewServer(ServerConfig{Files: tt.files, Now: testNow})
			if tt.words == nil {
				assert.NoError(t, err)
				return
			}
			for _, w := range tt.words {
				assert.ErrorContains(t, err, w)
			}
		})
	}
	_, err := NewClient(ClientConfig{Mutual: true, Now: testNow})
	assert.ErrorContains(t, err, "tls-cert= and tls-key=")
}

func readTestFile(t *testing.T, name string) []byte {
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return content
}

// TestReload checks that new files count for new connections, that running ones go on
// with the old certificate, and that a fault leaves everything as it was, with one line
// in the log.
func TestReload(t *testing.T) {
	root := newAuthority(t, "root")
	first, second := root.Issue(nil), root.Issue(nil)
	r := newRig(t, ServerConfig{Files: filesOf(first)})
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	serial := func() string {
		client, _ := r.handshakeOK(c)
		return client.Security().Serial
	}
	_, one := identityOf(first.Leaf)
	_, two := identityOf(second.Leaf)
	client, server := r.handshakeOK(c)
	assert.Equal(t, one, client.Security().Serial)
	require.NoError(t, r.server.reloadFiles(false))
	assert.NotContains(t, r.log.String(), "TLS certificates reloaded")

	dir := filepath.Dir(first.Cert)
	certtest.Write(t, dir, "cert.pem", readTestFile(t, second.Cert)) // the key does not fit yet
	assert.Error(t, r.server.reloadFiles(false))
	assert.NoError(t, r.server.reloadFiles(false), "the same fault is not said again")
	assert.Equal(t, one, serial())
	assert.Contains(t, r.log.String(), "the previous ones remain in use")

	certtest.Write(t, dir, "key.pem", readTestFile(t, second.Key))
	require.NoError(t, r.server.reloadFiles(false))
	assert.Equal(t, two, serial())

	go func() { _, _ = client.Write([]byte("still here")) }()
	got := make([]byte, 10)
	n, err := server.Read(got)
	assert.NoError(t, err)
	assert.Equal(t, "still here", string(got[:n]))
	require.NoError(t, r.server.Reload())
}

// TestTolerant checks that a Tolerant server with an expired certificate rejects handshakes, logs
// an error each hour, and secures connections once the certificate has been replaced.
func TestTolerant(t *testing.T) {
	clock, root := now, newAuthority(t, "root")
	old := root.Issue(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-2*time.Hour), now.Add(-time.Hour) })
	_, err := NewServer(ServerConfig{Files: filesOf(old), Now: testNow})
	require.ErrorContains(t, err, "the certificate in "+old.Cert+" ended on")

	r := newRig(t, ServerConfig{Files: filesOf(old), Tolerant: true, Now: func() time.Time { return clock }})
	assert.Contains(t, r.server.Stats().Fault, "ended on")
	client, server := r.dialBoth()
	defer client.Close()
	_, err = r.server.Secure(t.Context(), server)
	assert.ErrorContains(t, err, "this server's certificates cannot be used")
	assert.EqualValues(t, 1, r.server.Stats().Failed[NoCert.String()])
	logged := clock
	for range 5 {
		clock = clock.Add(faultPause / 2)
		logged = r.server.retryFiles(logged)
	}
	assert.Equal(t, 1+2, strings.Count(r.log.String(), "level=ERROR"), r.log.String())

	next := root.Issue(nil)
	certtest.Write(t, filepath.Dir(old.Cert), "cert.pem", readTestFile(t, next.Cert))
	certtest.Write(t, filepath.Dir(old.Cert), "key.pem", readTestFile(t, next.Key))
	r.server.retryFiles(logged)
	assert.Empty(t, r.server.Stats().Fault)
	assert.Equal(t, next.Leaf.NotAfter, r.server.Stats().Ends)
	r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}))
}

// TestRevokedDuringHandshake checks that a client whose certificate is revoked, by files
// that are read while its handshake runs, is not admitted.
func TestRevokedDuringHandshake(t *testing.T) {
	root := newAuthority(t, "root")
	client := root.Issue(nil)
	files := filesOf(root.Issue(nil), root)
	revoke := func(leaves ...*x509.Certificate) {
		files.CRL = certtest.Write(t, filepath.Dir(files.CA), "crl.pem", root.Revoke(now.AddDate(0, 0, 1), leaves...))
	}
	revoke()
	var r *testServer
	var armed atomic.Bool
	r = newRig(t, ServerConfig{Files: files, Now: func() time.Time {
		if armed.CompareAndSwap(true, false) {
			revoke(client.Leaf)
			assert.NoError(t, r.server.Reload())
		}
		return now
	}})
	c := newTestClient(t, ClientConfig{Files: Files{client.Cert, client.Key, files.CA, ""}, Mutual: true})
	armed.Store(true)
	_, server := r.handshake(c)
	assert.ErrorContains(t, server.err, "revoked")
	assert.False(t, armed.Load())
}

// TestJudgedAgain checks that running connections end if their clients are not trusted
// any more (R9289-5.2.1-7).
func TestJudgedAgain(t *testing.T) {
	old, next := newAuthority(t, "old"), newAuthority(t, "next")
	revoked, stays, foreign := next.Issue(nil), next.Issue(nil), old.Issue(nil)
	files := filesOf(next.Issue(nil))
	files.CA = certtest.Bundle(old, next)
	files.CRL = certtest.Write(t, filepath.Dir(files.CA), "crl.pem", next.Revoke(now.AddDate(0, 0, 1)))
	r := newRig(t, ServerConfig{Files: files})
	dial := func(h holder) (client, server *Conn) {
		return r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{h.Cert, h.Key, files.CA, ""}, Mutual: true}))
	}
	_, one := dial(revoked)
	_, two := dial(stays)
	_, three := dial(foreign)
	_, four := r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{CA: files.CA}}))
	alive := func(c *Conn) bool {
		_, err := c.Write([]byte("x"))
		return err == nil
	}

	certtest.Write(t, filepath.Dir(files.CA), "crl.pem", next.Revoke(now.AddDate(0, 0, 1), revoked.Leaf))
	require.NoError(t, r.server.reloadFiles(false))
	assert.Equal(t, []bool{false, true, true, true}, []bool{alive(one), alive(two), alive(three), alive(four)})
	_, err := one.Read(make([]byte, 1))
	assert.Equal(t, "revoked", wordOf(err))

	certtest.Write(t, filepath.Dir(files.CA), "ca.pem", certtest.Encode(next.Cert))
	require.NoError(t, r.server.reloadFiles(false))
	assert.Equal(t, []bool{true, false, true}, []bool{alive(two), alive(three), alive(four)})
	assert.EqualValues(t, 2, r.server.Stats().Cut)
	assert.Contains(t, r.log.String(), "is no longer trusted")
}

// TestLapse checks that running connections end with their clients' certificates, and with
// the list that would tell of their revocation (R9289-5.2.1-7).
func TestLapse(t *testing.T) {
	root := newAuthority(t, "root")
	short := root.Issue(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(time.Hour) })
	long := root.Issue(nil)
	files := filesOf(root.Issue(nil), root)
	files.CRL = certtest.Write(t, filepath.Dir(files.CA), "crl.pem", root.Revoke(now.Add(2*time.Hour)))
	clock := now
	r := newRig(t, ServerConfig{Files: files, Now: func() time.Time { return clock }})
	dial := func(h holder) *Conn {
		_, server := r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{h.Cert, h.Key, files.CA, ""}, Mutual: true}))
		return server
	}
	one, two := dial(short), dial(long)
	_, three := r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{CA: files.CA}}))
	alive := func() (list []bool) {
		for _, c := range []*Conn{one, two, three} {
			_, err := c.Write([]byte("x"))
			list = append(list, err == nil)
		}
		return list
	}
	since := r.server.abortExpired(clock)
	assert.Equal(t, []bool{true, true, true}, alive())
	clock = now.Add(90 * time.Minute)
	since = r.server.abortExpired(since)
	assert.Equal(t, []bool{false, true, true}, alive())
	_, err := one.Write([]byte("x"))
	assert.Equal(t, "dates", wordOf(err))
	clock = now.Add(3 * time.Hour)
	r.server.abortExpired(since)
	assert.Equal(t, []bool{false, false, true}, alive())
	assert.EqualValues(t, 2, r.server.Stats().Cut)
}

// TestHalfFiles checks that a file that somebody is still writing is not taken, although
// its first blocks are whole: fewer authorities would be trusted, and revoked certificates
// too.
func TestHalfFiles(t *testing.T) {
	one, two := newAuthority(t, "one"), newAuthority(t, "two")
	below := one.Under("below", nil)
	chain := filesOf(below.Issue(nil, below))
	bundle := readTestFile(t, certtest.Bundle(one, two))
	lists := append(one.Revoke(now.AddDate(0, 0, 1)), two.Revoke(now.AddDate(0, 0, 1))...)
	dir := t.TempDir()
	for name, content := range map[string][]byte{"chain.pem": readTestFile(t, chain.Cert), "ca.pem": bundle, "crl.pem": lists} {
		files := Files{Cert: chain.Cert, Key: chain.Key, CA: certtest.Write(t, dir, "all.pem", bundle), CRL: certtest.Write(t, dir, "lists.pem", lists)}
		path := map[string]*string{"chain.pem": &files.Cert, "ca.pem": &files.CA, "crl.pem": &files.CRL}[name]
		for _, cut := range []int{0, 2, 30, 200} {
			*path = certtest.Write(t, dir, name, content[:len(content)-cut])
			_, err := NewServer(ServerConfig{Files: files, Now: testNow})
			if cut == 0 {
				assert.NoError(t, err, name)
			} else {
				assert.ErrorContains(t, err, *path+" ends in the middle", "%s without its last %d bytes", name, cut)
			}
		}
	}
}

// TestFilesOfSilentStorage checks that storage that does not answer holds up only the one
// that reads it: connections are made, and status tells of them.
func TestFilesOfSilentStorage(t *testing.T) {
	root := newAuthority(t, "root")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	files := r.server.store.files
	kept := readTestFile(t, files.Key)
	require.NoError(t, os.Remove(files.Key))
	require.NoError(t, syscall.Mkfifo(files.Key, 0o600))
	reading := make(chan error, 1)
	go func() { reading <- r.server.reloadFiles(false) }()
	w, err := os.OpenFile(files.Key, os.O_WRONLY, 0) // once the reader waits for content
	require.NoError(t, err)

	r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}))
	assert.EqualValues(t, 1, r.server.Stats().Made)
	assert.NoError(t, r.server.reloadFiles(false), "the next look does not wait")

	_, err = w.Write(kept)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	assert.NoError(t, <-reading)
}

// TestListsInDER checks that one list may also be in DER.
func TestListsInDER(t *testing.T) {
	root := newAuthority(t, "root")
	h := root.Issue(nil)
	list := root.Revoke(now.AddDate(0, 0, 1), h.Leaf)
	parsed, err := parseRevocationLists("crl", list, []*x509.Certificate{root.Cert})
	require.NoError(t, err)
	der := decodePEM(t, list)
	again, err := parseRevocationLists("crl", der, []*x509.Certificate{root.Cert})
	require.NoError(t, err)
	assert.Equal(t, parsed, again)
	assert.Error(t, checkRevoked([]*x509.Certificate{h.Leaf}, again, now))
}

func decodePEM(t *testing.T, text []byte) []byte {
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	return block.Bytes
}
