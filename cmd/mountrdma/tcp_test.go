package main

import (
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A tcpTestServer serves a directory over TCP: /x for anyone, and /m only with mutual
// TLS.
type tcpTestServer struct {
	dir, addr string
	mutual    []string // client flags for mutual TLS
}

func newTCPTestServer(t *testing.T) *tcpTestServer {
	checkLeaks(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	quiet := slog.New(slog.DiscardHandler)
	root := certtest.New(t, "root", time.Now())
	own := root.Issue(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{net.IPv4(127, 0, 0, 1)} })
	host, trusted := root.Issue(nil), certtest.Bundle(root)
	tls, err := rpctls.NewServer(rpctls.ServerConfig{Files: rpctls.Files{Cert: own.Cert, Key: own.Key, CA: trusted}, Log: quiet})
	require.NoError(t, err)
	r := &tcpTestServer{dir: t.TempDir(), mutual: []string{"--xprtsec", "mtls", "--tls-ca", trusted, "--tls-cert", host.Cert, "--tls-key", host.Key}}
	require.NoError(t, os.Chmod(r.dir, 0o755))
	files, err := posix.Open(r.dir, posix.Options{})
	require.NoError(t, err)
	may := exports.Options{NoRootSquash: true, Insecure: true}
	secret := may
	secret.Xprtsec = exports.OfTransports(exports.TransportMTLS)
	s, err := nfsrdma.NewServer(nfsrdma.ServerConfig{
		TLS: tls, Log: quiet, Minors: []uint32{1, 2},
		Exports: []nfsserver.Export{
			{Path: "/x", FS: files, Clients: exports.Everyone(may)}, {Path: "/m", FS: files, Clients: exports.Everyone(secret)},
		},
	})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.ServeTCP(l) }()
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, <-served)
		assert.NoError(t, files.Close())
	})
	return r
}

// TestTCP checks the commands over TCP, unencrypted and with TLS.
func TestTCP(t *testing.T) {
	r := newTCPTestServer(t)
	data := randomBytes(3<<20+1, 1)
	for export, flags := range map[string][]string{"/x": nil, "/m": r.mutual} {
		flags = append([]string{"--proto", "tcp"}, flags...)
		do := func(args ...string) string { return mustRun(t, append(args, flags...)...) }
		url := scheme + r.addr + export
		here := t.TempDir()
		writeFile(t, data, here, "f")
		do("mkdir", url+"/d")
		do("cp", filepath.Join(here, "f"), url+"/d")
		assert.Equal(t, "f\n", do("ls", url+"/d"))
		do("cp", url+"/d/f", filepath.Join(here, "back"))
		assert.True(t, readFile(t, here, "back") == string(data))
		assert.True(t, do("cat", url+"/d/f") == string(data))
		assert.Contains(t, do("stat", url+"/d/f"), "3145729")
		assert.Contains(t, do("ping", r.addr, "-c", "1"), "1 round trips to "+r.addr)
		for _, vers := range []string{"3", "4.2"} {
			assert.Contains(t, do("bench", url+"/d/f", "--op", "randread", "--block", "64KiB", "--time", "50ms", "--vers", vers, "--json"), `"op":"randread"`)
		}
		do("rm", "-r", url+"/d")
		out := do("info", r.addr)
		assert.Contains(t, out, "transport            TCP\n")
		assert.Contains(t, out, "NFS versions         3, 4.1, 4.2\n")
		assert.Contains(t, out, "MOUNT                TCP "+r.addr)
		assert.NotContains(t, out, "credits")
		assert.NotContains(t, do("info", r.addr, "--json"), `"mpa"`)
	}
	assert.Contains(t, mustRun(t, append([]string{"info", r.addr, "--proto", "tcp"}, r.mutual...)...), "TLS                  mtls, TLS_AES_128_GCM_SHA256")
	assert.Regexp(t, "use xprtsec=mtls or xprtsec=tls, or sec=krb5p$", runForSentence(t, "ls", scheme+r.addr+"/m", "--proto", "tcp"))
}

// TestMountTCP mounts over TCP with TLS, and uses the mount.
func TestMountTCP(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("needs root: only it can mount without fusermount3")
	}
	r, point := newTCPTestServer(t), t.TempDir()
	writeFile(t, []byte("content"), r.dir, "d", "f")
	source := r.addr + ":/m/d"
	options := "proto=tcp,sec=sys"
	for i := 0; i < len(r.mutual); i += 2 {
		options += "," + strings.TrimPrefix(r.mutual[i], "--") + "=" + r.mutual[i+1]
	}
	status, stdout, stderr := runProcess(t, "mountrdma", source, point, "-v", "-o", options)
	require.Zero(t, status, stderr)
	assert.Empty(t, stderr)
	assert.Regexp(t, `^mounted `+source+` on `+point+`: rsize 1048576, wsize 1048576, TCP, MOUNT at TCP `+r.addr+`, locks .*\n$`, stdout)
	daemon := findDaemon(t)
	assert.Equal(t, "content", readFile(t, point, "f"))
	data := randomBytes(5<<20, 2)
	writeFile(t, data, point, "g")
	assert.True(t, readFile(t, r.dir, "d", "g") == string(data))
	writeFile(t, data[:1000], r.dir, "d", "h")
	assert.True(t, readFile(t, point, "h") == string(data[:1000]))
	stats := mustRun(t, "mountstats", point)
	assert.Contains(t, stats, ",proto=tcp,nconnect=1,")
	assert.Contains(t, stats, ",xprtsec=mtls,")
	assert.Regexp(t, `\txprt:\ttcp 0 0 0 0 0 \d+ \d+ 0 0 0 0 0 0\n`, stats)
	mustRun(t, "umount", point)
	assert.Zero(t, waitExit(t, daemon))
}

// TestTCPErrors checks the error messages over TCP.
func TestTCPErrors(t *testing.T) {
	r := newTCPTestServer(t)
	rdma := startTestServer(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"ls", scheme + closedAddr(t) + "/x"}, refusedText},
		{[]string{"ls", scheme + rdma.addr + "/x"}, "RPC: the peer closed the connection without a reply, as a program without NFS over TCP does; " + otherPortRemedy},
		{[]string{"ls", scheme + rdma.addr + "/x", "--xprtsec", "tls", "--tls-ca", r.mutual[3]}, "TLS: the connection was lost before TLS began"},
		{[]string{"ls", scheme + listenTCP(t, replyText("HTTP/1.1 400 Bad Request\r\n\r\n")) + "/x"}, "the server does not seem to speak RPC"},
		{[]string{"ls", scheme + listenTCP(t, readUntilClosed) + "/x", "--timeout", "300ms"}, "RPC: the server accepted the connection, but replies to no call"},
		{[]string{"ls", scheme + r.addr + "/x", "--xprtsec", "tls", "--tls-ca", certtest.Bundle(certtest.New(t, "other", time.Now()))}, "is not trusted"},
	} {
		assert.Contains(t, runForSentence(t, append(tt.args, "--proto", "tcp")...), tt.want)
	}
	for want, args := range map[string][]string{
		"bridge leads to servers over RDMA":                {"bridge", r.addr},
		"this command sends over RoCE, which has neither":  {"discover", "h"},
		"RoCE, which has neither TCP nor TLS: leave --pro": {"pingpong", "h"},
		"--record is for RDMA connections":                 {"ls", "nfs://h/x", "--record", "f"},
		"--clear-mount needs --xprtsec=tls or mtls":        {"ls", "nfs://h/x", "--clear-mount"},
		"--clear-mount needs --xprtsec=tls or mtls, and -": {"ls", "nfs://h/x", "--clear-mount", "--xprtsec", "tls"},
	} {
		status, _, stderr := runCommand(t, append(args, "--proto", "tcp")...)
		assert.Equal(t, cli.ExitUsage, status)
		assert.Contains(t, stderr, want)
	}
}

// TestTCPRemedies checks that the messages for a lost server, and for locks that are not
// found, name TLS if that is the reason.
func TestTCPRemedies(t *testing.T) {
	gone := &oncrpc.UnreachableError{
		Server: "h:2049", Lost: fmt.Errorf("%w: %w", oncrpc.ErrClosed, io.EOF), Last: &rpctls.Error{Reason: rpctls.NoTLS, Text: "the server h has no TLS"},
	}
	assert.EqualError(t, fatalError(t.Context(), fmt.Errorf("READ: %w", gone)), "h:2049: TLS: the server h has no TLS")
	gone.Last = &rpctls.Error{Reason: rpctls.Broken, Text: "lost"}
	assert.ErrorContains(t, fatalError(t.Context(), gone), "the server closed it")
	assert.Contains(t, locksRemedy(fmt.Errorf("rpcbind at h: %w", errLocksUnencrypted)), "nfsrdmad has locks inside TLS")
	assert.Contains(t, locksRemedy(io.EOF), "start its lock manager")
}

// TestDefaultPorts checks the ports for operands without one.
func TestDefaultPorts(t *testing.T) {
	for tcp, want := range map[bool]string{false: "h:20049", true: "h:2049"} {
		at, err := parseURL("h:/x", tcp)
		require.NoError(t, err)
		assert.Equal(t, want, at.addr())
		assert.Equal(t, "nfs://h/x", at.String())
	}
	l, err := parseURL("nfs://h:20049/x", true)
	require.NoError(t, err)
	assert.Equal(t, "nfs://h:20049/x", l.String())
}
