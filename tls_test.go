package nfsrdma

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An encryptedServer is a server with an export for each protection, and its clients' files.
type encryptedServer struct {
	testServer
	mutual, anonymous *rpctls.Client
	files             rpctls.Files // a client's files
	tls               *rpctls.Server
}

func startEncrypted(t *testing.T, change func(*ServerConfig), maxRecords ...uint64) encryptedServer {
	root := certtest.New(t, "root", time.Now())
	own, host := root.Issue(nil), root.Issue(nil)
	trusted := certtest.Bundle(root)
	config := rpctls.ServerConfig{Files: rpctls.Files{Cert: own.Cert, Key: own.Key, CA: trusted}, Log: silent}
	if len(maxRecords) > 0 {
		config.MaxRecords = maxRecords[0]
	}
	tls, err := rpctls.NewServer(config)
	require.NoError(t, err)
	cfg := ServerConfig{TLS: tls, RDMATLS: true}
	for path, list := range map[string]exports.Transports{
		"/none": exports.OfTransports(exports.TransportNone), "/tls": exports.OfTransports(exports.TransportTLS), "/mtls": exports.OfTransports(exports.TransportMTLS),
	} {
		cfg.Exports = append(cfg.Exports, nfsserver.Export{
			Path: path, FS: mem.New(mem.Options{Size: 64 << 20}),
			Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true, Xprtsec: list}),
		})
	}
	change(&cfg)
	e := encryptedServer{testServer: startServer(t, cfg), files: rpctls.Files{Cert: host.Cert, Key: host.Key, CA: trusted}, tls: tls}
	e.mutual = e.newTLSClient(t, rpctls.ClientConfig{Files: e.files, Mutual: true})
	e.anonymous = e.newTLSClient(t, rpctls.ClientConfig{Files: rpctls.Files{CA: trusted}})
	return e
}

func (e *encryptedServer) newTLSClient(t *testing.T, cfg rpctls.ClientConfig) *rpctls.Client {
	cfg.Host, cfg.Log = "server", silent
	c, err := rpctls.NewClient(cfg)
	require.NoError(t, err)
	return c
}

// TestTransportsOverRDMA checks which exports a client over RDMA can use without TLS, with
// TLS and with mutual TLS, all on one port (R9289-5.1.3-1).
func TestTransportsOverRDMA(t *testing.T) {
	e := startEncrypted(t, func(*ServerConfig) {})
	for _, tt := range []struct {
		name string
		tls  *rpctls.Client
		can  map[string]bool
	}{
		{"none", nil, map[string]bool{"/none": true}},
		{"tls", e.anonymous, map[string]bool{"/none": true, "/tls": true}},
		{"mtls", e.mutual, map[string]bool{"/none": true, "/tls": true, "/mtls": true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := e.dialServer(t, ClientConfig{TLS: tt.tls, Connections: 2})
			for _, path := range []string{"/none", "/tls", "/mtls"} {
				fs, err := c.Mount(t.Context(), path)
				if !tt.can[path] {
					assert.ErrorIs(t, err, rpcmsg.AuthTooWeak, path)
					continue
				}
				require.NoError(t, err, path)
				content := make([]byte, 3<<20)
				rand.Read(content)
				name := "file of " + tt.name
				writeFile(t, fs, name, content)
				assert.True(t, string(content) == readText(t, fs, name), path)
			}
			for _, conn := range e.Parts().Device.Conns() {
				if _, secure := conn.NetConn().(*rpctls.Conn); secure {
					p := conn.Params()
					assert.False(t, p.CRC || p.SendMarkers || p.RecvMarkers)
				}
			}
			require.NoError(t, c.Close())
		})
	}
}

func writeFile(t *testing.T, fs *nfsclient.FS, name string, content []byte) {
	t.Helper()
	f, err := fs.Create(t.Context(), name, 0o644)
	require.NoError(t, err)
	_, err = f.CopyFrom(t.Context(), bytes.NewReader(content), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync(t.Context()))
}

// TestOnlyTLSOverRDMA checks that a server that requires TLS below MPA rejects connections
// without it, as MPA specifies, and serves the others.
func TestOnlyTLSOverRDMA(t *testing.T) {
	e := startEncrypted(t, func(cfg *ServerConfig) { cfg.OnlyRDMATLS = true })
	_, err := Dial(t.Context(), e.rdma, ClientConfig{Log: silent})
	_, ok := errors.AsType[*iwarp.RejectedError](err)
	assert.True(t, ok, err)
	assert.EqualValues(t, 1, e.tls.Stats().Failed["no_tls"], "rejections are counted")
	_, err = e.dialServer(t, ClientConfig{TLS: e.mutual}).Mount(t.Context(), "/mtls")
	assert.NoError(t, err)
}

// TestNoTLSOverRDMA checks the error for a server without TLS below MPA.
func TestNoTLSOverRDMA(t *testing.T) {
	e := startEncrypted(t, func(cfg *ServerConfig) { cfg.RDMATLS = false })
	_, err := Dial(t.Context(), e.rdma, ClientConfig{TLS: e.mutual, Log: silent})
	assert.ErrorContains(t, err, "closes the connection when TLS begins: TLS on RDMA needs nfsrdmad serve --rdma-tls=allow there")
}

// TestReconnectInsideTLS checks that a client whose connections are aborted reconnects with
// TLS, and that its calls are never sent unencrypted.
func TestReconnectInsideTLS(t *testing.T) {
	for name, tcp := range map[string]bool{"RDMA": false, "TCP": true} {
		t.Run(name, func(t *testing.T) {
			e := startEncrypted(t, func(*ServerConfig) {})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			r := tap{l: l, to: e.rdma}
			if tcp {
				r.to = e.tcp
			}
			r.wg.Go(r.acceptConns)
			defer func() {
				l.Close()
				r.closeConns()
				r.wg.Wait()
			}()
			c, err := Dial(t.Context(), l.Addr().String(), ClientConfig{TCP: tcp, TLS: e.mutual, Log: silent})
			require.NoError(t, err)
			defer c.Close()
			fs, err := c.Mount(t.Context(), "/mtls")
			require.NoError(t, err)
			secret := bytes.Repeat([]byte("a secret of 21 bytes "), 10000)
			for range 5 {
				writeFile(t, fs, "secret", secret)
				assert.Equal(t, string(secret), readText(t, fs, "secret"))
				r.closeConns()
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			assert.GreaterOrEqual(t, r.made, 5)
			assert.Greater(t, r.seen.Len(), len(secret))
			assert.False(t, bytes.Contains(r.seen.Bytes(), []byte("secret")))
		})
	}
}

// TestVersion4InsideTLS checks that version 4 sessions use TLS as other connections do.
func TestVersion4InsideTLS(t *testing.T) {
	e := startEncrypted(t, func(cfg *ServerConfig) { cfg.OnlyRDMATLS, cfg.Minors = true, []uint32{1} })
	s, err := DialV4(t.Context(), e.rdma, 1, ClientConfig{TLS: e.mutual, Log: silent})
	require.NoError(t, err)
	_, err = s.Walk(t.Context(), "/mtls")
	assert.NoError(t, err)
	assert.NoError(t, s.Close(t.Context()))
}

// TestMOUNTInsideTLS checks that MOUNT calls over TCP use TLS or are not made.
func TestMOUNTInsideTLS(t *testing.T) {
	for name, want := range map[string]string{"with TLS": "", "without TLS": "has no TLS"} {
		t.Run(name, func(t *testing.T) {
			e := startEncrypted(t, func(cfg *ServerConfig) {
				if want != "" {
					cfg.TLS, cfg.RDMATLS = nil, false
				}
			})
			_, port, err := net.SplitHostPort(e.tcp)
			require.NoError(t, err)
			c := Client{cfg: ClientConfig{TLS: e.mutual}, servers: []*endpoint{{tls: e.mutual}}, lines: []*oncrpc.Line{nil}}
			s := c.MountSearch()
			s.NFS, s.Host = nil, "127.0.0.1"
			s.MountPort, err = strconv.Atoi(port)
			require.NoError(t, err)
			m, err := s.Find(t.Context())
			if want != "" {
				assert.ErrorContains(t, err, want)
				return
			}
			require.NoError(t, err)
			assert.NoError(t, m.Close())
		})
	}
}

// A closeNotifier is an rdma.Handler that reports why a connection ends.
type closeNotifier chan error

func (closeNotifier) Receive(m rdma.Recv)  { m.Buf.Release() }
func (e closeNotifier) Closed(cause error) { e <- cause }

// TestEndInsideTLS checks that only a TLS alert ends an RDMA connection in order, and that a
// forged FIN counts as a loss: otherwise the server would give the client's delegations to
// others at once.
func TestEndInsideTLS(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	own := root.Issue(nil)
	trusted := certtest.Bundle(root)
	far, err := rpctls.NewServer(rpctls.ServerConfig{Files: rpctls.Files{Cert: own.Cert, Key: own.Key}, Log: silent})
	require.NoError(t, err)
	near, err := rpctls.NewClient(rpctls.ClientConfig{Files: rpctls.Files{CA: trusted}, Host: "server", Log: silent})
	require.NoError(t, err)
	for _, forged := range []bool{false, true} {
		l, err := iwarp.Open(iwarp.Config{Secure: far.Begin}).Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ended := make(closeNotifier, 1)
		accepted := make(chan rdma.Conn, 1)
		go func() {
			req, err := l.Accept(context.Background())
			if err != nil {
				close(accepted)
				return
			}
			c, _ := req.Accept(rdma.ConnConfig{Handler: ended, RecvSize: 64, Recvs: 1})
			accepted <- c
		}()
		nc, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		c, err := iwarp.Open(iwarp.Config{Secure: near.Begin}).Client(t.Context(), nc, rdma.ConnConfig{Handler: make(closeNotifier, 1)})
		require.NoError(t, err)
		require.NoError(t, c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("first")}}))
		server := <-accepted
		require.NotNil(t, server)
		if forged {
			require.NoError(t, nc.(*net.TCPConn).CloseWrite())
		} else {
			require.NoError(t, c.Close())
		}
		cause := <-ended
		assert.Equal(t, !forged, errors.Is(cause, io.EOF), cause)
		_ = c.Close()
		_ = server.Close()
		require.NoError(t, l.Close())
	}
}

// A tap forwards connections and records their bytes.
type tap struct {
	l  net.Listener
	to string
	wg sync.WaitGroup

	mu    sync.Mutex
	seen  bytes.Buffer
	conns []net.Conn
	made  int
}

func (r *tap) acceptConns() {
	for {
		client, err := r.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.to)
		if err != nil {
			client.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, server)
		r.made++
		r.mu.Unlock()
		r.wg.Go(func() { r.copyRecorded(server, client) })
		r.wg.Go(func() { r.copyRecorded(client, server) })
	}
}

func (r *tap) copyRecorded(to, from net.Conn) {
	defer to.Close()
	_, _ = io.Copy(io.MultiWriter(r, to), from)
}

func (r *tap) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.Write(p)
}

func (r *tap) closeConns() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// TestWornLines checks that connections are replaced when their keys have protected as many
// records as permitted, and that no call is lost or executed twice: with the limit at either
// side, and with one connection or several.
func TestWornLines(t *testing.T) {
	const limit = 150 // more than the longest message needs
	for _, tt := range []struct {
		name           string
		server, client uint64
		connections    int
	}{{"the server's records", limit, 0, 1}, {"the client's", 0, limit, 1}, {"two connections", limit, limit, 2}} {
		t.Run(tt.name, func(t *testing.T) {
			e := startEncrypted(t, func(*ServerConfig) {}, tt.server)
			tls := e.newTLSClient(t, rpctls.ClientConfig{Files: e.files, Mutual: true, MaxRecords: tt.client})
			c := e.dialServer(t, ClientConfig{TLS: tls, Connections: tt.connections})
			fs, err := c.Mount(t.Context(), "/mtls")
			require.NoError(t, err)
			var calling sync.WaitGroup
			for i := range 4 {
				calling.Go(func() {
					for n := range 150 { // executing the same MKDIR again would fail
						err := fs.Mkdir(t.Context(), strconv.Itoa(i)+"."+strconv.Itoa(n), 0o755)
						if !assert.NoError(t, err) {
							return
						}
					}
				})
			}
			calling.Wait()
			content := make([]byte, 1<<20)
			rand.Read(content)
			writeFile(t, fs, "file", content)
			assert.True(t, string(content) == readText(t, fs, "file"))
			assert.Greater(t, e.tls.Stats().Made, uint64(tt.connections), "connections were replaced")
			require.NoError(t, c.Close())
		})
	}
}
