package main

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
)

// TestServeTLS checks a daemon whose export takes only clients with certificates: those
// read and write, others are rejected with an error message, status shows what is encrypted with
// what and whose certificate it is (R9289-6.1-1, R9289-4.1-1), and new files are read
// while calls go on.
func TestServeTLS(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	server, host := root.Issue(nil), root.Issue(nil)
	trusted := certtest.Bundle(root)
	socket := filepath.Join(t.TempDir(), "socket")
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--control", socket, "--xprtsec", "mtls",
		"--tls-cert", server.Cert, "--tls-key", server.Key, "--tls-ca", trusted, "mem:=/x")
	call := func(cfg rpctls.ClientConfig) (oncrpc.Caller, error) {
		nc, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		if cfg.Host == "" {
			c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{})
			t.Cleanup(func() { c.Close() })
			return c, nil
		}
		secure, err := newTLSClient(t, cfg).Secure(t.Context(), nc, nfs3.Program, nfs3.Version)
		if err != nil {
			return nil, err
		}
		c := oncrpc.NewTCPClient(secure, oncrpc.ClientConfig{})
		t.Cleanup(func() { c.Close() })
		return c, nil
	}
	read := func(c oncrpc.Caller) error {
		mnt := nfsclient.NewMount(c, new(nfsclient.ProcessCred()))
		fh, err := mnt.Mnt(t.Context(), "/x")
		require.NoError(t, err, "MOUNT is for everybody")
		_, err = nfsclient.New(c, nfsclient.Config{}).GetAttr(t.Context(), fh)
		return err
	}
	var cores unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &cores))
	assert.LessOrEqual(t, cores.Cur, uint64(1), "a core would have the key in it")
	plain, err := call(rpctls.ClientConfig{})
	require.NoError(t, err)
	assert.ErrorContains(t, read(plain), "AUTH_TOOWEAK")
	anonymous, err := call(rpctls.ClientConfig{Host: "server", Files: rpctls.Files{CA: trusted}})
	require.NoError(t, err)
	assert.ErrorContains(t, read(anonymous), "AUTH_TOOWEAK")
	mutual := rpctls.ClientConfig{Host: "server", Files: rpctls.Files{Cert: host.Cert, Key: host.Key, CA: trusted}, Mutual: true}
	known, err := call(mutual)
	require.NoError(t, err)
	require.NoError(t, read(known))

	status, stdout, stderr := runCommand(t, "status", "--control", socket)
	assert.Equal(t, []any{cli.ExitOK, ""}, []any{status, stderr})
	assert.Contains(t, stdout, "2 connections now (1 mutual), 2 in total")
	assert.Contains(t, stdout, "mtls TLS_AES_128_GCM_SHA256")
	assert.Contains(t, stdout, "xprtsec=mtls")
	_, stdout, _ = runCommand(t, "status", "--json", "--control", socket)
	for _, part := range []string{`"mode":"none"`, `"mode":"tls"`, `"mode":"mtls"`, `"alpn":"sunrpc"`, `"issuer":"CN=root"`, `"failed"`} {
		assert.Contains(t, stdout, part)
	}

	next := root.Issue(nil)
	dir := filepath.Dir(server.Cert)
	for name, from := range map[string]string{"key.pem": next.Key, "cert.pem": next.Cert} {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		certtest.Write(t, dir, name, content)
	}
	require.Eventually(t, func() bool {
		nc, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
		require.NoError(t, err)
		conn, err := newTLSClient(t, mutual).Secure(t.Context(), nc, nfs3.Program, nfs3.Version)
		require.NoError(t, err)
		defer conn.Close()
		return conn.Security().Serial == next.Leaf.SerialNumber.Text(16)
	}, 10*time.Second, 50*time.Millisecond)
	require.NoError(t, read(known))

	s.stop()
	ended := <-s.status
	s.status <- ended
	for _, part := range []string{"over=tcp", "xprtsec=none", "takes=mtls", "security=none", "security.mode=mtls", `security.issuer="CN=root"`, "TLS certificates reloaded"} {
		assert.Contains(t, s.stderr.String(), part)
	}
}

func newTLSClient(t *testing.T, cfg rpctls.ClientConfig) *rpctls.Client {
	c, err := rpctls.NewClient(cfg)
	require.NoError(t, err)
	return c
}

// TestTLSFlags checks the words for flags that do not fit each other, and for exports
// that demand more than the daemon has.
func TestTLSFlags(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--tls-cert", "c"}, "--tls-cert and --tls-key belong together"},
		{[]string{"--tls-key", "k"}, "--tls-cert and --tls-key belong together"},
		{[]string{"--tls-ca", "a"}, "need a certificate of this server"},
		{[]string{"--tls-strict"}, "need a certificate of this server"},
		{[]string{"--tls-kernel", "auto"}, "need a certificate of this server"},
		{[]string{"--rdma-tls", "allow"}, "need a certificate of this server"},
		{[]string{"--tls-cert", "c", "--tls-key", "k", "--rdma-tls", "require", "--discover", "127.0.0.1"}, "--discover is unencrypted"},
		{[]string{"--tls-cert", "c", "--tls-key", "k", "--tls-crl", "l"}, "give --tls-ca"},
		{[]string{"--require-encryption", "--discover", "127.0.0.1"}, "--discover is unencrypted, and --require-encryption forbids that"},
		{[]string{"--xprtsec", "ssl"}, `"ssl" is none of none, tls and mtls`},
	} {
		status, _, stderr := runCommand(t, append([]string{"serve", t.TempDir()}, tt.args...)...)
		assert.Equal(t, cli.ExitUsage, status)
		assert.Contains(t, stderr, tt.want)
	}
	of := func(list string) *exportSpec {
		o := exports.Options{}
		o.Xprtsec, _ = exports.ParseTransports(list)
		return &exportSpec{name: "/x", clients: exports.Everyone(o)}
	}
	some := rpctls.Files{Cert: "c", Key: "k"}
	for _, tt := range []struct {
		files rpctls.Files
		list  string
		want  string
	}{
		{rpctls.Files{}, "none:tls", ""},
		{rpctls.Files{}, "tls:mtls", "TLS is not enabled: give the daemon a certificate"},
		{some, "tls:mtls", ""},
		{some, "mtls", "name their authority with --tls-ca"},
		{rpctls.Files{Cert: "c", Key: "k", CA: "a"}, "mtls", ""},
	} {
		err := (&tlsOptions{files: tt.files}).checkProtection(of(tt.list))
		if tt.want == "" {
			assert.NoError(t, err, tt.list)
			continue
		}
		assert.ErrorContains(t, err, tt.want)
		assert.ErrorContains(t, err, "/x is exported to * with xprtsec="+tt.list)
	}
	for _, tt := range []struct {
		files rpctls.Files
		sec   []exports.Flavor
		fits  bool
	}{
		{rpctls.Files{}, nil, false},
		{rpctls.Files{}, []exports.Flavor{exports.FlavorKrb5i, exports.FlavorKrb5}, false},
		{rpctls.Files{}, []exports.Flavor{exports.FlavorSys, exports.FlavorKrb5p}, true},
		{some, nil, true},
	} {
		e := &exportSpec{name: "/x", clients: exports.Everyone(exports.Options{Sec: exports.Secure(exports.Rights{}, tt.sec...)})}
		err := (&tlsOptions{files: tt.files, onlyEncrypted: true}).checkProtection(e)
		if tt.fits {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, "/x is exported to * without krb5p, and --require-encryption rejects unencrypted calls: write sec=krb5p, or give the daemon a certificate")
	}
	text := new(bytes.Buffer)
	_, err := (&tlsOptions{files: rpctls.Files{Cert: filepath.Join(t.TempDir(), "c"), Key: "k"}}).openTLS(false, slog.New(slog.NewTextHandler(text, nil)))
	assert.ErrorContains(t, err, "TLS: ")
}

// TestServeEncryptedOnly checks a daemon that demands encryption: an export for all is
// denied to unencrypted calls on both transports, with a log message and a count, and
// served over TLS.
func TestServeEncryptedOnly(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	server := root.Issue(nil)
	trusted := certtest.Bundle(root)
	socket := filepath.Join(t.TempDir(), "socket")
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--control", socket, "--require-encryption", "--rdma-tls", "allow",
		"--tls-cert", server.Cert, "--tls-key", server.Key, "mem:=/x")
	secure := newTLSClient(t, rpctls.ClientConfig{Host: "server", Files: rpctls.Files{CA: trusted}})
	for _, tt := range []struct {
		name string
		tls  *rpctls.Client
		want string
	}{{"in clear", nil, "AUTH_TOOWEAK"}, {"by TLS", secure, ""}} {
		cfg := nfsrdma.ClientConfig{Log: slog.New(slog.DiscardHandler), TLS: tt.tls}
		c, err := nfsrdma.Dial(t.Context(), s.transportAddr(t, "rdma"), cfg)
		require.NoError(t, err)
		_, overRDMA := c.Mount(t.Context(), "/x")
		require.NoError(t, c.Close())
		nc, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
		require.NoError(t, err)
		if tt.tls != nil {
			nc, err = tt.tls.Secure(t.Context(), nc, nfs3.Program, nfs3.Version)
			require.NoError(t, err)
		}
		line := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{})
		fh, err := nfsclient.NewMount(line, new(nfsclient.ProcessCred())).Mnt(t.Context(), "/x")
		require.NoError(t, err, "MNT is for all")
		_, overTCP := nfsclient.New(line, nfsclient.Config{}).GetAttr(t.Context(), fh)
		line.Close()
		for _, err := range []error{overRDMA, overTCP} {
			if tt.want == "" {
				assert.NoError(t, err, tt.name)
			} else {
				assert.ErrorContains(t, err, tt.want, tt.name)
			}
		}
	}
	_, stdout, _ := runCommand(t, "status", "--json", "--control", socket)
	assert.Contains(t, stdout, `"AUTH_TOOWEAK","calls":1`)
	s.stop()
	ended := <-s.status
	s.status <- ended
	assert.Contains(t, s.stderr.String(), "unencrypted calls were denied; mount with sec=krb5p or TLS")
}

// TestProbeOverRDMA checks that a call that asks for TLS is denied on an RDMA connection,
// where TLS is below MPA or nowhere (R9289-4.1-2).
func TestProbeOverRDMA(t *testing.T) {
	root := certtest.New(t, "root", time.Now()).Issue(nil)
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--rdma-tls", "allow", "--tls-cert", root.Cert, "--tls-key", root.Key, "mem:=/x")
	c, err := nfsrdma.Dial(t.Context(), s.transportAddr(t, "rdma"), nfsrdma.ClientConfig{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer c.Close()
	x := &oncrpc.Exchange{Relay: true, Prog: nfs3.Program, Vers: nfs3.Version, Args: rpctls.AppendProbe(nil, 0, nfs3.Program, nfs3.Version)[4:]}
	require.NoError(t, c.Conns()[0].Call(t.Context(), x))
	assert.Equal(t, rpcmsg.AppendAuthError(nil, 0, rpcmsg.AuthBadCred)[4:], x.Reply[4:])
	x.Release()
}
