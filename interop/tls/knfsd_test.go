//go:build interop

package tls

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/interop"
)

// serverOf is the configuration of tlshd for Linux's server.
const serverOf = `[debug]
loglevel=1
[authenticate.server]
x509.truststore=/etc/ca.pem
x509.certificate=/etc/server.pem
x509.private_key=/etc/server.key
`

// TestTLSKnfsd uses Linux's server over TCP by mountrdma with xprtsec=tls and mtls: by
// commands of versions 3 and 4.2, and by a mount. Nothing but TLS records passes behind
// the probe and its answer. What is weaker than the export wants is refused, and so is
// MOUNT, which Linux does not support inside TLS, unless it may be unencrypted.
func TestTLSKnfsd(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	server := root.Issue(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{net.IPv4(127, 0, 0, 1)} })
	host := root.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"host"} })
	trusted := certtest.Bundle(root)
	g, err := linux()
	require.NoError(t, err)
	m := interop.Machine{T: t, Guest: g}
	for to, from := range map[string]string{
		"ca.pem": trusted, "server.pem": server.Cert, "server.key": server.Key, "tlshd.conf": certtest.Write(t, t.TempDir(), "tlshd.conf", []byte(serverOf)),
	} {
		require.NoError(t, m.Push(t.Context(), from, "/etc/"+to))
	}
	m.Must("date -s @%d; chmod 600 /etc/server.key; modprobe tls; tlshd -s >/tmp/tlshd.log 2>&1 &", time.Now().Unix())
	for _, e := range []string{"tls", "mtls"} {
		m.Must("mkdir -p /export/%[1]s && chmod 1777 /export/%[1]s && exportfs -o rw,insecure,no_root_squash,no_subtree_check,fsid=9%[2]d,xprtsec=%[1]s '*:/export/%[1]s'", e, len(e))
	}
	t.Cleanup(func() {
		out, _ := m.Try("killall tlshd; exportfs -v; tail -n 60 /tmp/tlshd.log; exportfs -u '*:/export/tls'; exportfs -u '*:/export/mtls'; rm -rf /export/tls /export/mtls")
		if t.Failed() {
			t.Logf("the server's exports, and tlshd:\n%s", out)
		}
	})
	w, mountd := newWire(t, m.Addr(2049)), portOf(t, m.Addr(20048))
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	copy(data, mark)
	file := certtest.Write(t, t.TempDir(), "data", data)
	flags := func(sec string) []string {
		all := []string{"--proto", "tcp", "--xprtsec", sec, "--tls-ca", trusted}
		if sec == "mtls" {
			all = append(all, "--tls-cert", host.Cert, "--tls-key", host.Key)
		}
		return all
	}
	run := func(t *testing.T, args ...string) (string, error) {
		out, err := exec.Command(programPath("mountrdma"), args...).CombinedOutput()
		t.Logf("mountrdma %s\n%.400s", strings.Join(args, " "), out)
		return string(out), err
	}
	url := func(export, name string) string {
		return fmt.Sprintf("nfs://127.0.0.1:%d/export/%s%s?mountport=%d", w.portNumber(t), export, name, mountd)
	}
	inClear := []string{"--clear-mount", "--sec", "sys"}
	for range 10 { // knfsd gives up a handshake of 5 s, which tlshd's first one may need in the emulated machine
		if _, err := run(t, append([]string{"ping", "-c", "1", fmt.Sprintf("127.0.0.1:%d", w.portNumber(t))}, flags("tls")...)...); err == nil {
			break
		}
	}
	for _, sec := range []string{"tls", "mtls"} {
		t.Run("commands/"+sec, func(t *testing.T) {
			must := func(args ...string) string {
				t.Helper()
				out, err := run(t, append(append(args, flags(sec)...), inClear...)...)
				require.NoError(t, err, out)
				return out
			}
			must("cp", file, url(sec, "/f"))
			assert.Equal(t, "f\n", must("ls", url(sec, "")))
			back := filepath.Join(t.TempDir(), "back")
			must("cp", url(sec, "/f"), back)
			got, err := os.ReadFile(back)
			require.NoError(t, err)
			assert.True(t, string(got) == string(data))
			assert.Contains(t, must("info", fmt.Sprintf("127.0.0.1:%d?mountport=%d", w.portNumber(t), mountd)), sec+", TLS_")
			must("rm", url(sec, "/f"))
		})
		t.Run("mount/"+sec, func(t *testing.T) {
			point := t.TempDir()
			options := fmt.Sprintf("proto=tcp,port=%d,mountport=%d,xprtsec=%s,sec=sys,clear-mount,nolock,tls-ca=%s", w.portNumber(t), mountd, sec, trusted)
			if sec == "mtls" {
				options += ",tls-cert=" + host.Cert + ",tls-key=" + host.Key
			}
			out, err := run(t, "127.0.0.1:/export/"+sec, point, "-v", "-o", options)
			require.NoError(t, err, out)
			defer func() {
				out, err := run(t, "umount", point)
				assert.NoError(t, err, out)
			}()
			require.NoError(t, os.Mkdir(filepath.Join(point, mark), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(point, mark, "f"), data, 0o644))
			assert.Equal(t, fmt.Sprintf("%d\n", len(data)), m.Must("stat -c %%s '/export/%s/%s/f'", sec, mark))
			m.Must("cp '/export/%[1]s/%[2]s/f' /export/%[1]s/%[1]s-g", sec, mark)
			got, err := os.ReadFile(filepath.Join(point, sec+"-g"))
			require.NoError(t, err)
			assert.True(t, string(got) == string(data))
			require.NoError(t, os.RemoveAll(filepath.Join(point, mark)))
		})
	}
	t.Run("refused", func(t *testing.T) {
		for want, args := range map[string][]string{
			"use xprtsec=mtls or xprtsec=tls": {"ls", url("tls", ""), "--proto", "tcp"},
			"use xprtsec=mtls":                append(append([]string{"ls", url("mtls", "")}, flags("tls")...), inClear...),
			"clear-mount, with sec=, permits": append([]string{"ls", url("tls", "")}, flags("tls")...),
		} {
			out, err := run(t, args...)
			assert.Error(t, err)
			assert.Contains(t, out, want)
		}
	})
	protected, size, clear := w.observed(t)
	t.Logf("%d connections with %d bytes in TLS, %d unencrypted", protected, size, clear)
	assert.Greater(t, size, 2*3*len(data))
}
