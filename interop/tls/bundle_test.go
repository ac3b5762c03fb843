//go:build interop

package tls

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runCert runs a command of nfsrdmad cert, and returns the lines that it tells the administrator to
// type.
func (s *tlsSite) runCert(words ...string) (typed []string) {
	s.Helper()
	out, err := exec.Command(programPath("nfsrdmad"), append([]string{"cert"}, words...)...).CombinedOutput()
	require.NoError(s, err, "%s", out)
	for line := range strings.Lines(string(out)) {
		if line, ok := strings.CutPrefix(line, "    "); ok {
			typed = append(typed, strings.TrimSpace(line))
		}
	}
	return typed
}

// findTyped returns the line that begins with a word.
func findTyped(t *testing.T, typed []string, word string) string {
	t.Helper()
	for _, line := range typed {
		if strings.HasPrefix(line, word+" ") {
			return line
		}
	}
	require.Fail(t, "no line", "%s in %q", word, typed)
	return ""
}

// TestTLSBundle has the certificates of both ends made by nfsrdmad cert, installed by the lines that
// the commands print, and an export that requires them. Before that, with nothing and with only the
// authority, the guest is rejected, and the daemon's log says what the export requires.
func TestTLSBundle(t *testing.T) {
	s := newBareSite(t)
	dir := t.TempDir()
	certs, conf, bundle := dir+"/tls", dir+"/nfsrdmad.conf", dir+"/guest.test.example.tar"
	typed := s.runCert("init", "--dir", certs, "--name", "server.test.example")
	line := strings.ReplaceAll(findTyped(t, typed, "printf"), "/etc/nfsrdma/nfsrdmad.conf", conf)
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
	s.startDaemon(map[string]string{"mtls": "xprtsec=mtls"}, "--config", conf)

	s.Must("rm -rf /etc/nfsrdma /etc/tlshd.conf")
	require.NoError(t, s.Push(t.Context(), certs+"/ca.pem", "/etc/ca.pem"))
	for _, tt := range []struct{ name, conf, sec, says string }{
		{"unencrypted", "", "none", "the export requires an encrypted connection"},
		{"without a certificate", "[authenticate.client]\nx509.truststore=/etc/ca.pem\n", "tls", "the export requires a client certificate"},
	} {
		for _, vers := range []string{"3", "4.2"} {
			t.Run(tt.name+"/"+vers, func(t *testing.T) {
				s := s.withTest(t)
				s.Must("printf '%%s' '%s' >/etc/tlshd.conf", tt.conf)
				s.startTlshd()
				defer s.Must("killall tlshd")
				before := len(s.daemonLog())
				reject := func() string { return s.expectRejected(s.exportPath("mtls"), s.mountOptions(vers, tt.sec)) }
				out := reject()
				for strings.Contains(out, "No such process") && t.Context().Err() == nil { // tlshd has not joined its group yet
					out = reject()
				}
				assert.Regexp(t, "access denied|Operation not permitted|Permission denied", out)
				said := s.daemonLog()[before:]
				assert.Contains(t, said, tt.says)
				assert.Contains(t, said, "export="+s.base+"/mtls")
				assert.Contains(t, said, "xprtsec="+tt.sec+" takes=mtls")
			})
		}
	}

	typed = s.runCert("client", "guest.test.example", "--dir", certs, "--out", bundle)
	require.NoError(t, s.Push(t.Context(), bundle, "/tmp/"+filepath.Base(bundle)))
	s.Must("rm /etc/tlshd.conf; cd /tmp && %s", findTyped(t, typed, "mkdir"))
	install, _, ok := strings.Cut(findTyped(t, typed, "cat"), " && systemctl restart tlshd")
	require.True(t, ok, "the guest has no systemd")
	s.Must("%s", install)
	assert.Equal(t, "700 600", strings.TrimSpace(s.Must("echo $(stat -c %%a /etc/nfsrdma/tls-client /etc/nfsrdma/tls-client/client.key)")))
	s.startTlshd()
	for _, vers := range []string{"3", "4.2"} {
		t.Run("bundle/"+vers, func(t *testing.T) {
			s := s.withTest(t)
			s.mountExport("mtls", "/mnt", vers, "mtls")
			s.Must("echo '%s' >/mnt/f%s && echo 3 >/proc/sys/vm/drop_caches && grep -q '%[1]s' /mnt/f%[2]s && umount /mnt", mark, vers)
			content, err := os.ReadFile(filepath.Join(s.base, "mtls", "f"+vers))
			require.NoError(t, err)
			assert.Equal(t, mark+"\n", string(content))
		})
	}
	text, err := os.ReadFile(certs + "/clients/guest.test.example.pem")
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	client, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	assert.Contains(t, s.daemonLog(), fmt.Sprintf("%x", client.SerialNumber), "the bundle's certificate")
	protected, size, clear := s.observed(t)
	t.Logf("%d connections with %d bytes in TLS, %d unencrypted", protected, size, clear)
}
