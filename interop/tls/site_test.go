//go:build interop

package tls

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/interop"
)

const tlshd = `[debug]
loglevel=1
[authenticate.client]
x509.truststore=/etc/ca.pem
x509.certificate=/etc/client.pem
x509.private_key=/etc/client.key
`

// A tlsSite is a server with TLS for the guest, whose tlshd has certificates of the same
// authority.
type tlsSite struct {
	interop.Machine
	*interop.Server
	*checkingProxy
	root  *certtest.Authority
	certs string // a directory: cert.pem, key.pem, ca.pem
	base  string // the exports' parent directory
	flags []string
	log   *os.File
}

// newSite starts nfsrdmad with directories to which all users may write, each with its
// options of exports(5).
func newSite(t *testing.T, exports map[string]string, flags ...string) *tlsSite {
	t.Helper()
	s := newBareSite(t)
	s.root, s.certs = certtest.New(t, "root", time.Now()), t.TempDir()
	s.serverHas(s.root.Issue(withNames("server.test.example", "localhost")))
	s.serverTrusts(s.root)
	s.guestHas(s.root.Issue(withNames("guest")))
	s.guestTrusts(s.root)
	conf := certtest.Write(t, t.TempDir(), "tlshd.conf", []byte(tlshd))
	require.NoError(t, s.Push(t.Context(), conf, "/etc/tlshd.conf"))
	s.startTlshd()
	s.startDaemon(exports, append([]string{"--tls-cert", s.certs + "/cert.pem", "--tls-key", s.certs + "/key.pem", "--tls-ca", s.certs + "/ca.pem"}, flags...)...)
	return s
}

// newBareSite returns the guest without certificates, and without a server.
func newBareSite(t *testing.T) *tlsSite {
	t.Helper()
	g, err := linux()
	require.NoError(t, err)
	s := &tlsSite{Machine: interop.Machine{T: t, Guest: g}, base: interop.Served(t)}
	s.log, err = os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		if s.Server != nil {
			s.Kill()
		}
		s.log.Close()
		out, _ := s.Try("killall tlshd; tail -n 60 /tmp/tlshd.log; dmesg | tail -n 30")
		if t.Failed() {
			t.Logf("nfsrdmad says:\n%s\ntlshd and the kernel of the guest say:\n%s", s.daemonLog(), out)
		}
	})
	s.Must("rm -f /tmp/stop; date -s @%d; modprobe tls", time.Now().Unix())
	return s
}

// startTlshd starts tlshd in the guest, and waits until it has a socket of generic netlink (protocol
// 16), whose port is made of the process ID. Before that, the kernel has nobody for a handshake.
func (s *tlsSite) startTlshd() {
	s.Helper()
	s.Must(`tlshd -s >/tmp/tlshd.log 2>&1 &
		for i in $(seq 200); do
			awk -v pid=$! '$2 == 16 && $3 %% 4194304 == pid { found = 1 } END { exit !found }' /proc/net/netlink && exit 0
			sleep 0.1
		done
		cat /proc/net/netlink; exit 1`)
}

// startDaemon starts nfsrdmad with directories, and what the guest reaches instead of its port.
func (s *tlsSite) startDaemon(exports map[string]string, flags ...string) {
	s.Helper()
	var list strings.Builder
	for name, options := range exports {
		dir := filepath.Join(s.base, name)
		require.NoError(s, os.Mkdir(dir, 0o777))
		require.NoError(s, os.Chmod(dir, 0o777|os.ModeSticky))
		fmt.Fprintf(&list, "%s *(rw,insecure,no_root_squash,%s)\n", dir, options)
	}
	s.flags = append([]string{
		"--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--control", "", "--state", s.TempDir(),
		"--exports", certtest.Write(s, s.TempDir(), "exports", []byte(list.String())),
	}, flags...)
	var err error
	s.Server, err = interop.StartServer(s.log, programPath("nfsrdmad"), s.flags...)
	require.NoError(s, err, "%s", s.daemonLog())
	s.checkingProxy = newWire(s.T, s.TCP)
}

// withNames changes a certificate's names.
func withNames(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

func (s *tlsSite) daemonLog() string {
	text, err := os.ReadFile(s.log.Name())
	require.NoError(s, err)
	return string(text)
}

// restartDaemon kills the daemon, and starts it on the same ports and state.
func (s *tlsSite) restartDaemon() {
	s.Helper()
	s.Kill()
	var err error
	s.Server, err = interop.StartServer(s.log, programPath("nfsrdmad"), append(s.flags, "--listen", s.RDMA, "--tcp", s.TCP)...)
	require.NoError(s, err)
}

func (s *tlsSite) copyFile(file, name string) {
	s.Helper()
	content, err := os.ReadFile(file)
	require.NoError(s, err)
	certtest.Write(s, s.certs, name, content)
}

// serverHas gives the daemon another certificate.
func (s *tlsSite) serverHas(h certtest.Holder) {
	s.Helper()
	s.copyFile(h.Cert, "cert.pem")
	s.copyFile(h.Key, "key.pem")
}

// serverTrusts gives the daemon other authorities.
func (s *tlsSite) serverTrusts(all ...*certtest.Authority) {
	s.Helper()
	s.copyFile(certtest.Bundle(all...), "ca.pem")
}

// guestHas gives tlshd another certificate.
func (s *tlsSite) guestHas(h certtest.Holder) {
	s.Helper()
	s.placeInGuest(h.Cert, "client.pem")
	s.placeInGuest(h.Key, "client.key")
}

// guestTrusts gives tlshd other authorities.
func (s *tlsSite) guestTrusts(all ...*certtest.Authority) {
	s.Helper()
	s.placeInGuest(certtest.Bundle(all...), "ca.pem")
}

func (s *tlsSite) placeInGuest(file, name string) {
	s.Helper()
	require.NoError(s, s.Push(s.Context(), file, "/etc/"+name+".new"))
	s.Must("chmod 600 /etc/%[1]s.new && mv /etc/%[1]s.new /etc/%[1]s", name)
}

// withTest returns the site in a test of its own.
func (s *tlsSite) withTest(t *testing.T) *tlsSite {
	sub := *s
	sub.Machine.T = t
	return &sub
}

// mountOptions are those of mounts by the wire.
func (s *tlsSite) mountOptions(vers, sec string) string {
	o := fmt.Sprintf("vers=%s,proto=tcp,port=%d,xprtsec=%s", vers, s.portNumber(s.T), sec)
	if vers == "3" {
		o += fmt.Sprintf(",nolock,mountproto=tcp,mountport=%d", s.portNumber(s.T))
	}
	return o
}

// exportPath is an export, as the guest names it.
func (s *tlsSite) exportPath(export string) string {
	return "server.test.example:" + filepath.Join(s.base, export)
}

// mountExport mounts an export with TLS.
func (s *tlsSite) mountExport(export, point, vers, sec string, more ...string) {
	s.Helper()
	s.Mount(s.exportPath(export), point, strings.Join(append([]string{s.mountOptions(vers, sec)}, more...), ","))
	assert.Contains(s, s.Must("grep ' %s ' /proc/mounts", point), "xprtsec="+sec)
}

// expectRejected tries a mount, which must fail, and returns what mount.nfs says.
func (s *tlsSite) expectRejected(source, options string) string {
	s.Helper()
	out, status := s.Try("mount.nfs %s /mnt -o %s 2>&1", source, options)
	assert.NotZero(s, status)
	return out
}
