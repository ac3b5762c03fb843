package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certauth"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
)

// extractBundle extracts a client's bundle, as the client's administrator does.
func extractBundle(t *testing.T, name string) rpctls.Files {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.Mkdir(filepath.Join(dir, h.Name), os.FileMode(h.Mode)))
			continue
		}
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, h.Name), content, os.FileMode(h.Mode)))
	}
	dir = filepath.Join(dir, certauth.BundleDir)
	return rpctls.Files{Cert: filepath.Join(dir, "client.pem"), Key: filepath.Join(dir, "client.key"), CA: filepath.Join(dir, "ca.pem")}
}

// TestCert creates certificates by commands. A daemon and a client use them for mutual TLS, and
// each certificate that does not fit is rejected with an error that says why. A running daemon
// uses a renewed certificate.
func TestCert(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "tls"), filepath.Join(t.TempDir(), "laptop.tar")
	cert := func(args ...string) string {
		status, stdout, stderr := runCommand(t, append([]string{"cert", "--dir", dir}, args...)...)
		require.Equal(t, []any{cli.ExitOK, ""}, []any{status, stderr})
		return stdout
	}
	said := cert("init", "--name", "server,127.0.0.1")
	typed := regexp.MustCompile(`(?m)^    (printf .*) >>/etc/nfsrdma/nfsrdmad\.conf$`).FindStringSubmatch(said)
	require.NotNil(t, typed, said)
	conf := filepath.Join(t.TempDir(), "nfsrdmad.conf")
	flags, err := exec.CommandContext(t.Context(), "sh", "-c", typed[1]).Output()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(conf, flags, 0o600))
	for _, want := range []string{"systemctl restart nfsrdmad\n", "nfsrdmad cert client NAME --dir " + dir + "\n"} {
		assert.Contains(t, said, want)
	}
	said = cert("client", "laptop", "--out", out)
	for _, want := range []string{"valid until ", "tar -C /etc/nfsrdma -xf laptop.tar\n", "xprtsec=mtls,tls-ca=/etc/nfsrdma/tls-client/ca.pem,", " server:/EXPORT /mnt\n", "/etc/tlshd.conf"} {
		assert.Contains(t, said, want)
	}
	info, err := os.Stat(out)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	laptop := extractBundle(t, out)

	var s *testDaemon
	t.Cleanup(func() { // after the daemon's end
		if s != nil {
			assert.Contains(t, s.stderr.String(), "which is not trusted", "the certificate of another authority")
		}
	})
	s = startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--xprtsec", "mtls", "--config", conf, "mem:=/x")
	use := func(host string, files rpctls.Files) (serial string, err error) {
		nc, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
		require.NoError(t, err)
		defer nc.Close()
		secure, err := newTLSClient(t, rpctls.ClientConfig{Host: host, Files: files, Mutual: true}).Secure(t.Context(), nc, nfs3.Program, nfs3.Version)
		if err != nil {
			return "", err
		}
		c := oncrpc.NewTCPClient(secure, oncrpc.ClientConfig{})
		defer c.Close()
		mnt := nfsclient.NewMount(c, new(nfsclient.ProcessCred()))
		fh, err := mnt.Mnt(t.Context(), "/x")
		if err == nil {
			_, err = nfsclient.New(c, nfsclient.Config{}).GetAttr(t.Context(), fh)
		}
		return secure.Security().Serial, err
	}
	first, err := use("server", laptop)
	require.NoError(t, err)
	_, err = use("127.0.0.1", laptop)
	require.NoError(t, err)

	_, err = use("other", laptop)
	assert.ErrorContains(t, err, `is for "server", 127.0.0.1, and not for other`)
	foreign := filepath.Join(t.TempDir(), "tls")
	_, err = certauth.Create(foreign, []string{"server"}, false, time.Now)
	require.NoError(t, err)
	_, err = use("server", rpctls.Files{Cert: laptop.Cert, Key: laptop.Key, CA: foreign + "/ca.pem"})
	assert.ErrorContains(t, err, "which is not trusted")
	stranger := issueAt(t, foreign, "stranger", time.Now())
	stranger.CA = laptop.CA
	_, err = use("server", stranger)
	assert.Error(t, err)
	_, err = newTLSClientError(issueAt(t, dir, "late", time.Now().AddDate(-2, 0, 0)))
	assert.ErrorContains(t, err, "ended on ")
	assert.ErrorContains(t, err, "write another there")

	assert.Contains(t, cert("renew"), "nothing is due\n")
	said = cert("renew", "--force")
	assert.Contains(t, said, "renewed "+dir+"/server.pem: valid until ")
	assert.Contains(t, said, "the certificate of client late has expired on ")
	assert.Contains(t, said, ": nfsrdmad cert client late --dir "+dir+"\n")
	assert.Eventually(t, func() bool {
		serial, err := use("server", laptop)
		return err == nil && serial != first
	}, 20*time.Second, 100*time.Millisecond, "the daemon reads the renewed certificate")
	said = cert("show")
	assert.Regexp(t, `(?m)^authority +is valid until .*3649 days\).*ca\.pem +nfsrdma server `, said)
	assert.Regexp(t, `(?m)^server +is valid until .*396 days\).*server\.pem +server, 127\.0\.0\.1$`, said)
	assert.Regexp(t, `(?m)^client +is valid until .*laptop\.pem +laptop$`, said)
}

// issueAt returns the files of a client whose certificate was issued at a time.
func issueAt(t *testing.T, dir, name string, at time.Time) rpctls.Files {
	a, err := certauth.Open(dir, func() time.Time { return at })
	require.NoError(t, err)
	bundle, _, err := a.IssueClient(name)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "bundle.tar")
	require.NoError(t, os.WriteFile(file, bundle, 0o600))
	return extractBundle(t, file)
}

func newTLSClientError(files rpctls.Files) (*rpctls.Client, error) {
	return rpctls.NewClient(rpctls.ClientConfig{Host: "server", Files: files, Mutual: true})
}

// TestCertErrors checks that nothing is overwritten, and that each error names a remedy.
func TestCertErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	out := filepath.Join(t.TempDir(), "c.tar")
	for _, tt := range []struct {
		status int
		want   string
		args   []string
	}{
		{cli.ExitError, "ca.pem does not exist: create certificates with nfsrdmad cert init", []string{"client", "c", "--out", out}},
		{cli.ExitError, "ca.pem does not exist: create certificates with nfsrdmad cert init", []string{"renew"}},
		{cli.ExitError, "ca.pem does not exist: create certificates with nfsrdmad cert init", []string{"show"}},
		{cli.ExitUsage, `"*.example.org" is neither a host's name nor an address`, []string{"init", "--name", "*.example.org"}},
		{cli.ExitOK, "", []string{"init", "--name", "server"}},
		{cli.ExitError, dir + " exists already: nfsrdmad cert renew renews its certificates; --force", []string{"init", "--name", "server"}},
		{cli.ExitUsage, "name one client: nfsrdmad cert client NAME", []string{"client"}},
		{cli.ExitUsage, `"a/b" is neither a host's name nor an address`, []string{"client", "a/b"}},
		{cli.ExitError, "server is a name of the server", []string{"client", "server", "--out", out}},
		{cli.ExitOK, "", []string{"client", "c", "--out", out}},
		{cli.ExitError, out + " exists already: --force replaces it, --out names another file", []string{"client", "c", "--out", out}},
		{cli.ExitOK, "", []string{"client", "c", "--out", out, "--force"}},
	} {
		status, _, stderr := runCommand(t, append([]string{"cert", "--dir", dir}, tt.args...)...)
		assert.Equal(t, tt.status, status, tt.args)
		assert.Contains(t, stderr, tt.want)
	}
	status, _, stderr := runCommand(t, "cert", "init", "--dir", "")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stderr, "--dir is empty")
}

// TestCertPaths checks that printed commands work for IPv6 addresses and from any directory.
func TestCertPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	status, stdout, stderr := runCommand(t, "cert", "init", "--dir", "tls/", "--name", "2001:db8::1")
	require.Equal(t, cli.ExitOK, status, stderr)
	assert.Contains(t, stdout, "tls-cert = "+dir+"/tls/server.pem")
	status, stdout, stderr = runCommand(t, "cert", "client", "--dir", "tls", "2001:db8::7")
	require.Equal(t, cli.ExitOK, status, stderr)
	assert.FileExists(t, "2001-db8--7.tar")
	assert.Contains(t, stdout, "scp 2001-db8--7.tar root@[2001:db8::7]: ")
	assert.Contains(t, stdout, " [2001:db8::1]:/EXPORT /mnt\n")
}
