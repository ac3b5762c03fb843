package nfsrdma

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTransportsOverTCP checks which exports a client over TCP can use without TLS, with
// TLS and with mutual TLS, in versions 3 and 4.
func TestTransportsOverTCP(t *testing.T) {
	e := startEncrypted(t, func(cfg *ServerConfig) { cfg.Minors = []uint32{1} })
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
			cfg := ClientConfig{TCP: true, TLS: tt.tls, Connections: 2, Log: silent}
			c, err := Dial(t.Context(), e.tcp, cfg)
			require.NoError(t, err)
			defer c.Close()
			s, err := DialV4(t.Context(), e.tcp, 1, cfg)
			require.NoError(t, err)
			defer func() { assert.NoError(t, s.Close(t.Context())) }()
			for _, path := range []string{"/none", "/tls", "/mtls"} {
				_, err4 := s.Walk(t.Context(), path)
				fs, err := c.Mount(t.Context(), path)
				if !tt.can[path] {
					assert.ErrorIs(t, err, rpcmsg.AuthTooWeak, path)
					assert.Error(t, err4, path)
					continue
				}
				require.NoError(t, err, path)
				assert.NoError(t, err4, path)
				content := make([]byte, 3<<20)
				rand.Read(content)
				name := "file of " + tt.name
				writeFile(t, fs, name, content)
				assert.True(t, string(content) == readText(t, fs, name), path)
			}
			list, err := c.Exports(t.Context())
			assert.NoError(t, err)
			assert.Len(t, list, 3)
			assert.True(t, c.Up())
			assert.Len(t, c.Lines(), 2)
			assert.Empty(t, c.Conns())
		})
	}
}

// TestTCPConfig checks the combinations that Dial rejects.
func TestTCPConfig(t *testing.T) {
	_, err := Dial(t.Context(), "localhost:1", ClientConfig{TCP: true, Delegations: new(delegclient.Set)})
	assert.ErrorContains(t, err, "delegations need RDMA")
	_, err = Dial(t.Context(), "localhost:1", ClientConfig{TCP: true, ClearMOUNT: true, TLS: new(rpctls.Client)})
	assert.ErrorContains(t, err, "unencrypted MOUNT calls need Sec")
}

// A stripper forwards connections to a server. After some of them it acts as an attacker
// in the server's place, who wants unencrypted calls.
type stripper struct {
	l       net.Listener
	to      string
	last    int                                    // how many connections it passes on
	attacks []func(client io.Writer, probe []byte) // its replies on later connections, in turn

	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  []net.Conn
	made   int          // connections
	tried  int          // attacks
	stolen bytes.Buffer // what clients send after the replies
}

func (r *stripper) acceptConns() {
	for {
		client, err := r.l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.made++
		attack := r.made > r.last
		r.conns = append(r.conns, client)
		r.mu.Unlock()
		if attack {
			r.wg.Go(func() { r.stripTLS(client) })
			continue
		}
		server, err := net.Dial("tcp", r.to)
		if err != nil {
			client.Close()
			continue
		}
		r.wg.Go(func() { copyConn(server, client) })
		r.wg.Go(func() { copyConn(client, server) })
	}
}

func copyConn(to, from net.Conn) {
	defer to.Close()
	_, _ = io.Copy(to, from)
}

// stripTLS reads the probe, replies to it, and records all that follows.
func (r *stripper) stripTLS(client net.Conn) {
	defer client.Close()
	mark := make([]byte, 4)
	if _, err := io.ReadFull(client, mark); err != nil {
		return
	}
	probe := make([]byte, binary.BigEndian.Uint32(mark)&^(1<<31))
	if _, err := io.ReadFull(client, probe); err != nil {
		return
	}
	r.mu.Lock()
	attack := r.attacks[r.tried%len(r.attacks)]
	r.tried++
	r.mu.Unlock()
	attack(client, probe)
	all, _ := io.ReadAll(client)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stolen.Write(all)
}

func (r *stripper) closeConns() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// sendReply sends an unencrypted reply with the probe's XID.
func sendReply(nc io.Writer, probe, rest []byte) {
	msg := append(bytes.Clone(probe[:4]), rest...)
	_, _ = nc.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg))), msg...))
}

// TestStrippedTLS checks that a client that has connected fifty times with TLS sends
// nothing unencrypted if TLS is then denied, or if a reply is unencrypted (RFC 9289,
// Section 7.1.1), and that the caller gets the reason.
func TestStrippedTLS(t *testing.T) {
	const connections = 50
	accepted := make([]byte, 5*4)
	accepted[3] = 1 // REPLY
	starttls := append(bytes.Clone(accepted[:15]), "\x08STARTTLS\x00\x00\x00\x00"...)
	attacks := []func(nc io.Writer, probe []byte){
		func(nc io.Writer, probe []byte) { // AUTH_ERROR, AUTH_REJECTEDCRED
			sendReply(nc, probe, []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2})
		},
		func(nc io.Writer, probe []byte) { sendReply(nc, probe, accepted) },
		func(nc io.Writer, probe []byte) { // with a reply to a call that was not made
			var both bytes.Buffer
			sendReply(&both, probe, starttls)
			sendReply(&both, probe, accepted)
			_, _ = nc.Write(both.Bytes())
		},
	}
	e := startEncrypted(t, func(*ServerConfig) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := stripper{l: l, to: e.tcp, last: connections, attacks: attacks}
	r.wg.Go(r.acceptConns)
	stop := sync.OnceFunc(func() {
		l.Close()
		r.closeConns()
		r.wg.Wait()
	})
	defer stop()
	c, err := Dial(t.Context(), l.Addr().String(), ClientConfig{TCP: true, TLS: e.mutual, GiveUp: 3 * time.Second, Log: silent})
	require.NoError(t, err)
	defer c.Close()
	fs, err := c.Mount(t.Context(), "/mtls")
	require.NoError(t, err)
	for n := 1; n < connections; n++ {
		r.closeConns()
		_, err := fs.Stat(t.Context(), "")
		require.NoError(t, err, n)
	}
	r.closeConns()
	_, err = fs.Stat(t.Context(), "")
	assert.ErrorIs(t, err, oncrpc.ErrUnreachable)
	failed, ok := errors.AsType[*rpctls.Error](err)
	require.True(t, ok, err)
	assert.Contains(t, []rpctls.Reason{rpctls.NoTLS, rpctls.Injected}, failed.Reason)
	require.NoError(t, c.Close())
	stop()
	assert.Equal(t, connections+r.tried, r.made)
	assert.GreaterOrEqual(t, r.tried, len(attacks))
	assert.Empty(t, r.stolen.String())
}
