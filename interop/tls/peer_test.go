//go:build interop

package tls

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

var quiet = slog.New(slog.DiscardHandler)

// A peerOrder is what the peer does.
type peerOrder struct {
	Role    string   `json:"role"`
	Address []any    `json:"address,omitempty"`
	Host    string   `json:"host"`
	CA      string   `json:"ca"`
	Cert    string   `json:"cert,omitempty"`
	Key     string   `json:"key,omitempty"`
	Max     string   `json:"max,omitempty"`
	ALPN    []string `json:"alpn,omitempty"`
	Mutual  bool     `json:"mutual,omitempty"`
}

// A peerResult is what the peer has seen.
type peerResult struct {
	Version, Cipher, ALPN string
	Reply, Second         string
	Tickets               bool
	Calls                 int
	End, Error            string
	Port                  int
}

// A pythonPeer runs peer.py.
type pythonPeer struct {
	t   *testing.T
	out *bufio.Scanner
}

func startPeer(t *testing.T, o peerOrder, env ...string) *pythonPeer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", "peer.py")
	in, err := json.Marshal(o)
	require.NoError(t, err)
	cmd.Stdin, cmd.Stderr, cmd.Env = bytes.NewReader(in), t.Output(), append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	return &pythonPeer{t, bufio.NewScanner(out)}
}

func (p *pythonPeer) nextResult() (r peerResult) {
	p.t.Helper()
	require.True(p.t, p.out.Scan())
	require.NoError(p.t, json.Unmarshal(p.out.Bytes(), &r))
	return r
}

// A tlsDaemon is a server with TLS, and its authority.
type tlsDaemon struct {
	root *certtest.Authority
	ca   string
	tcp  string
}

func startDaemon(t *testing.T, strict bool) tlsDaemon {
	root := certtest.New(t, "root", time.Now())
	own := root.Issue(nil)
	d := tlsDaemon{root: root, ca: certtest.Bundle(root)}
	tls, err := rpctls.NewServer(rpctls.ServerConfig{Files: rpctls.Files{Cert: own.Cert, Key: own.Key, CA: d.ca}, Strict: strict, Log: quiet})
	require.NoError(t, err)
	s, err := nfsrdma.NewServer(nfsrdma.ServerConfig{
		TLS: tls, RDMATLS: true, Log: quiet, Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{Size: 1 << 20})}},
	})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d.tcp = l.Addr().String()
	go func() { _ = s.ServeTCP(l) }()
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return d
}

func (d *tlsDaemon) newOrder() peerOrder {
	host, port, _ := net.SplitHostPort(d.tcp)
	n, _ := strconv.Atoi(port)
	return peerOrder{Role: "client", Address: []any{host, n}, Host: "server", CA: d.ca, ALPN: []string{"sunrpc"}}
}

// onlySuite returns the environment in which OpenSSL has one cipher suite.
func onlySuite(t *testing.T, suite string) string {
	path := filepath.Join(t.TempDir(), "openssl.cnf")
	text := "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nCiphersuites = " + suite + "\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return "OPENSSL_CONF=" + path
}

// TestClients checks OpenSSL's clients at our server (R9289-4.2-2, R9289-5-1, R9289-5-2,
// R9289-5-6, R9289-6-1, R9289-4.1-11).
func TestClients(t *testing.T) {
	d, strict := startDaemon(t, false), startDaemon(t, true)
	host, foreign := d.root.Issue(nil), certtest.New(t, "other", time.Now()).Issue(nil)
	for _, tt := range []struct {
		name   string
		daemon tlsDaemon
		change func(o *peerOrder)
		suite  string
		alpn   string
		fails  string // words of the peer's error; empty: it works
	}{
		{name: "tls", daemon: d, alpn: "sunrpc"},
		{name: "mtls", daemon: d, change: func(o *peerOrder) { o.Cert, o.Key = host.Cert, host.Key }, alpn: "sunrpc"},
		{name: "R9289-5-2 the mandatory suite alone", daemon: d, suite: "TLS_AES_128_GCM_SHA256", alpn: "sunrpc"},
		{name: "another suite alone", daemon: d, suite: "TLS_CHACHA20_POLY1305_SHA256", alpn: "sunrpc"},
		{name: "no ALPN", daemon: d, change: func(o *peerOrder) { o.ALPN = nil }},
		{name: "R9289-5-6 several protocols", daemon: d, change: func(o *peerOrder) { o.ALPN = []string{"h2", "sunrpc"} }, alpn: "sunrpc"},
		{name: "strict", daemon: strict, change: func(o *peerOrder) { o.CA = strict.ca }, alpn: "sunrpc"},
		{name: "strict, no ALPN", daemon: strict, change: func(o *peerOrder) { o.CA, o.ALPN = strict.ca, nil }, fails: "SSL"},
		{name: "another protocol", daemon: d, change: func(o *peerOrder) { o.ALPN = []string{"h2"} }, fails: "ALERT NO APPLICATION PROTOCOL"},
		{name: "R9289-5-1 TLS 1.2", daemon: d, change: func(o *peerOrder) { o.Max = "1.2" }, fails: "ALERT_PROTOCOL_VERSION"},
		{name: "a certificate of another authority", daemon: d, change: func(o *peerOrder) { o.Cert, o.Key = foreign.Cert, foreign.Key }, fails: "BAD_CERTIFICATE"},
		{name: "another name", daemon: d, change: func(o *peerOrder) { o.Host = "elsewhere" }, fails: "Hostname mismatch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.daemon.newOrder()
			if tt.change != nil {
				tt.change(&o)
			}
			var env []string
			if tt.suite != "" {
				env = append(env, onlySuite(t, tt.suite))
			}
			r := startPeer(t, o, env...).nextResult()
			if tt.fails != "" {
				assert.Contains(t, strings.ToUpper(r.Error), strings.ToUpper(tt.fails))
				return
			}
			require.Empty(t, r.Error)
			assert.Equal(t, "TLSv1.3", r.Version)
			assert.Equal(t, tt.alpn, r.ALPN)
			if tt.suite != "" {
				assert.Equal(t, tt.suite, r.Cipher)
			}
			assert.False(t, r.Tickets)
			assert.Equal(t, hex.EncodeToString(rpcmsg.AppendAccepted(nil, 2, rpcmsg.Success)), r.Reply)
			assert.Equal(t, hex.EncodeToString(rpcmsg.AppendAuthError(nil, 3, rpcmsg.AuthBadCred)), r.Second)
		})
	}
}

// TestServers checks our client at OpenSSL's servers (R9289-5-5, R9289-5-7,
// R9289-5.1.1-7).
func TestServers(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	own, host := root.Issue(nil), root.Issue(nil)
	trusted := certtest.Bundle(root)
	for _, tt := range []struct {
		name   string
		alpn   []string
		max    string
		mutual bool
		strict bool
		suite  string
		fails  string // the reason; empty: it works
	}{
		{name: "tls", alpn: []string{"sunrpc"}},
		{name: "mtls", alpn: []string{"sunrpc"}, mutual: true},
		{name: "no ALPN"},
		{name: "no ALPN, strict", strict: true, fails: "protocol"},
		{name: "strict", alpn: []string{"sunrpc"}, strict: true},
		{name: "TLS 1.2", max: "1.2", fails: "old_tls"},
		{name: "the mandatory suite alone", alpn: []string{"sunrpc"}, suite: "TLS_AES_128_GCM_SHA256"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var env []string
			if tt.suite != "" {
				env = append(env, onlySuite(t, tt.suite))
			}
			p := startPeer(t, peerOrder{Role: "server", CA: trusted, Cert: own.Cert, Key: own.Key, ALPN: tt.alpn, Max: tt.max, Mutual: tt.mutual}, env...)
			c, err := rpctls.NewClient(rpctls.ClientConfig{
				Files: rpctls.Files{Cert: host.Cert, Key: host.Key, CA: trusted}, Host: "server", Mutual: tt.mutual, Strict: tt.strict, Log: quiet,
			})
			require.NoError(t, err)
			nc, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(p.nextResult().Port))
			require.NoError(t, err)
			conn, err := c.Secure(t.Context(), nc, nfs3.Program, nfs3.Version)
			if tt.fails != "" {
				var e *rpctls.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, tt.fails, e.Reason.String(), err)
				return
			}
			require.NoError(t, err)
			caller := oncrpc.NewTCPClient(conn, oncrpc.ClientConfig{})
			for range 3 {
				require.NoError(t, nfsclient.New(caller, nfsclient.Config{}).Null(t.Context()))
			}
			require.NoError(t, caller.Close())
			r := p.nextResult()
			assert.Equal(t, "TLSv1.3", r.Version)
			assert.Equal(t, strings.Join(tt.alpn, ""), r.ALPN)
			assert.Equal(t, 3, r.Calls)
			assert.Equal(t, "EOFError", r.End, "the end came inside of TLS: otherwise Python raises SSLEOFError")
		})
	}
}

// TestKeyUpdate checks that a peer may change its keys, and ask for new ones of ours.
func TestKeyUpdate(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	own := root.Issue(nil)
	s, err := rpctls.NewServer(rpctls.ServerConfig{Files: rpctls.Files{Cert: own.Cert, Key: own.Key}, Log: quiet})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cmd := exec.CommandContext(t.Context(), "openssl", "s_client", "-connect", l.Addr().String(), "-alpn", "nfsrdma-mpa/1",
		"-CAfile", certtest.Bundle(root), "-servername", "server")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	nc, err := l.Accept()
	require.NoError(t, err)
	conn, err := s.SecureMPA(t.Context(), nc)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	lines := bufio.NewScanner(out)
	stderr := bufio.NewScanner(said)
	for i := range 3 {
		_, err = io.WriteString(in, "K\n")
		require.NoError(t, err)
		for stderr.Scan() && !strings.Contains(stderr.Text(), "KEYUPDATE") {
		}
		word := "word " + strconv.Itoa(i)
		_, err = io.WriteString(in, word+"\n")
		require.NoError(t, err)
		got := make([]byte, len(word)+1)
		_, err = io.ReadFull(conn, got)
		require.NoError(t, err)
		assert.Equal(t, word+"\n", string(got))
		_, err = io.WriteString(conn, "answer to "+word+"\n")
		require.NoError(t, err)
		for lines.Scan() && lines.Text() != "answer to "+word {
		}
		require.Equal(t, "answer to "+word, lines.Text())
	}
}
