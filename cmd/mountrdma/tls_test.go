package main

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestXprtsec checks the commands against a server that accepts only encrypted connections,
// and the error messages: nothing falls back to unencrypted connections.
func TestXprtsec(t *testing.T) {
	root, other := certtest.New(t, "root", time.Now()), certtest.New(t, "other", time.Now())
	here := func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{net.IPv4(127, 0, 0, 1)} }
	own, elsewhere, host := root.Issue(here), root.Issue(nil), root.Issue(nil)
	trusted, foreign := certtest.Bundle(root), certtest.Bundle(other)
	start := func(cert certtest.Holder, below, only bool) (url string) {
		quiet := slog.New(slog.DiscardHandler)
		tls, err := rpctls.NewServer(rpctls.ServerConfig{Files: rpctls.Files{Cert: cert.Cert, Key: cert.Key, CA: trusted}, Log: quiet})
		require.NoError(t, err)
		s, err := nfsrdma.NewServer(nfsrdma.ServerConfig{
			TLS: tls, RDMATLS: below, OnlyRDMATLS: only, Log: quiet, Minors: []uint32{1, 2},
			Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{Size: 1 << 20}), Clients: exports.Everyone(exports.Options{
				Insecure: true, Xprtsec: exports.OfTransports(exports.TransportMTLS),
			})}},
		})
		require.NoError(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		served := make(chan error, 1)
		go func() { served <- s.ServeRDMA(l) }()
		t.Cleanup(func() {
			assert.NoError(t, s.Close())
			assert.NoError(t, <-served)
		})
		return "nfs://" + l.Addr().String() + "/x"
	}
	good := start(own, true, false)
	mutual := []string{"--xprtsec", "mtls", "--tls-ca", trusted, "--tls-cert", host.Cert, "--tls-key", host.Key}
	var cores unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &cores))
	cores.Cur = cores.Max
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_CORE, &cores))
	status, stdout, _ := runCommand(t, append([]string{"info", good}, mutual...)...)
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &cores))
	assert.LessOrEqual(t, cores.Cur, uint64(1), "a core dump would contain the key")
	assert.Equal(t, cli.ExitOK, status)
	assert.Contains(t, stdout, "mtls, TLS_AES_128_GCM_SHA256; server certificate serial "+own.Leaf.SerialNumber.Text(16)+", issuer CN=root")
	status, stdout, _ = runCommand(t, append([]string{"info", start(own, true, true)}, mutual...)...)
	assert.Equal(t, cli.ExitOK, status)
	assert.Contains(t, stdout, "NFS versions         3, 4.1, 4.2\n", "NFSv4 sessions use TLS")
	for _, tt := range []struct {
		name  string
		url   string
		flags []string
		want  string // empty: success
	}{
		{"mtls", good, mutual, ""},
		{"tls", good, []string{"--xprtsec", "tls", "--tls-ca", trusted}, "the server requires connections with stronger protection: use xprtsec=mtls"},
		{"none", good, nil, "the server requires connections with stronger protection: use xprtsec=mtls or xprtsec=tls"},
		{"another authority", good, []string{"--xprtsec", "tls", "--tls-ca", foreign}, `TLS: the certificate of the server 127.0.0.1 is signed by "CN=root", which is not trusted`},
		{"another name", start(elsewhere, true, false), mutual, "does not have the address 127.0.0.1 (iPAddress)"},
		{"no TLS there", start(own, false, false), mutual, "TLS on RDMA needs nfsrdmad serve --rdma-tls=allow there"},
		{"no certificate here", good, []string{"--xprtsec", "mtls", "--tls-ca", trusted}, "needs a certificate of this host and its key"},
		{"no file", good, []string{"--xprtsec", "tls", "--tls-ca", "/none"}, "/none cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, stderr := runCommand(t, append([]string{"ls", tt.url}, tt.flags...)...)
			if tt.want == "" {
				assert.Equal(t, []any{cli.ExitOK, ""}, []any{status, stderr})
				return
			}
			assert.NotEqual(t, cli.ExitOK, status)
			assert.Contains(t, stderr, tt.want)
		})
	}
}

// TestFinal checks after which TLS failures a mount gives up, and that a mount
// that fails so has an errno.
func TestFinal(t *testing.T) {
	for reason, want := range map[rpctls.Reason]bool{
		rpctls.NoTLS: true, rpctls.Untrusted: true, rpctls.Name: true, rpctls.Injected: true, rpctls.Broken: false, rpctls.Stalled: false,
	} {
		err := tlsError("server:20049", &rpctls.Error{Reason: reason, Text: "words", Err: syscall.ECONNRESET})
		assert.Equal(t, "server:20049: TLS: words", err.Error())
		assert.Equal(t, want, isPermanent(err), reason)
		assert.Equal(t, !want, isTransient(err), reason)
		assert.Equal(t, want, errors.Is(err, syscall.EACCES), reason)
	}
	assert.NoError(t, tlsError("server:20049", syscall.ECONNRESET))
}
