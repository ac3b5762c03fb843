package nfsrdma

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// TestPlaces checks that RDMA connections with and without TLS share one limit, that TCP
// connections do not count, and that a connection no longer counts however it ends: in the
// TLS handshake, in MPA's start-up, or later.
func TestPlaces(t *testing.T) {
	e := startEncrypted(t, func(cfg *ServerConfig) { cfg.MaxConns = 2 })
	parts := e.Parts()
	now := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return parts.RDMA.Stats().Now == n }, time.Minute, time.Millisecond)
	}
	device := func(tls *rpctls.Client) *iwarp.Device {
		cfg := iwarp.Config{}
		if tls != nil {
			cfg.Secure = tls.Begin
		}
		return iwarp.Open(cfg)
	}
	connect := func(t *testing.T, tls *rpctls.Client) (rdma.Conn, error) {
		return device(tls).Dial(t.Context(), e.rdma, rdma.ConnConfig{Handler: make(closeNotifier, 1), Recvs: 1})
	}
	stranger := certtest.New(t, "stranger", time.Now())
	trusting := e.newTLSClient(t, rpctls.ClientConfig{Files: rpctls.Files{CA: certtest.Bundle(stranger)}})
	sends := func(b ...byte) func(t *testing.T) {
		return func(t *testing.T) {
			nc, err := net.Dial("tcp", e.rdma)
			require.NoError(t, err)
			_, err = nc.Write(b)
			require.NoError(t, err)
			require.NoError(t, nc.Close())
		}
	}
	inside := func(b ...byte) func(t *testing.T) {
		return func(t *testing.T) {
			nc, err := net.Dial("tcp", e.rdma)
			require.NoError(t, err)
			c, err := e.anonymous.SecureMPA(t.Context(), nc)
			require.NoError(t, err)
			_, err = c.Write(b)
			require.NoError(t, err)
			nc.Close()
		}
	}
	ends := func(tls *rpctls.Client, abort bool) func(t *testing.T) {
		return func(t *testing.T) {
			c, err := connect(t, tls)
			require.NoError(t, err)
			if abort {
				c.Abort(nil)
			}
			require.NoError(t, c.Close())
		}
	}
	request := append([]byte("MPA ID Req Frame"), 0x50, 2, 0, 4, 0, 1, 0, 1)
	total := parts.RDMA.Stats().Total
	for _, tt := range []struct {
		name   string
		counts uint64 // 1: it gets as far as MPA's Request
		fails  func(t *testing.T)
	}{
		{"nothing", 0, sends()},
		{"half a request", 0, sends(request[:17]...)},
		{"no MPA", 0, sends([]byte("GET / HTTP/1.1\r\nHost: server\r\n\r\n")...)},
		{"no handshake", 0, sends(0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0)},
		{"half a handshake", 0, sends(0x16, 3, 1, 2, 0)},
		{"trusts another", 0, func(t *testing.T) { _, err := connect(t, trusting); assert.Error(t, err) }},
		{"no MPA inside of TLS", 0, inside(make([]byte, 64)...)},
		{"gone before the reply", 1, sends(request...)},
		{"gone inside of TLS", 1, inside(request...)},
		{"aborted", 1, ends(nil, true)},
		{"closed", 1, ends(nil, false)},
		{"aborted inside of TLS", 1, ends(e.mutual, true)},
		{"closed inside of TLS", 1, ends(e.anonymous, false)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 4 { // more than the limit
				tt.fails(t)
				total += tt.counts
				require.Eventually(t, func() bool {
					s := parts.RDMA.Stats()
					return s.Total == total && s.Now == 0
				}, time.Minute, time.Millisecond)
			}
		})
	}
	before := parts.RDMA.Stats()
	var all []*Client
	for _, cfg := range []ClientConfig{{}, {TLS: e.anonymous}, {TCP: true}, {TCP: true, TLS: e.mutual}, {TLS: e.mutual}} {
		cfg.Log = silent
		addr := e.rdma
		if cfg.TCP {
			addr = e.tcp
		}
		c, err := Dial(t.Context(), addr, cfg)
		require.NoError(t, err)
		all = append(all, c)
	}
	now(2) // the last one has replaced an idle one
	after := parts.RDMA.Stats()
	assert.Equal(t, before.Replaced+1, after.Replaced)
	assert.Equal(t, before.Refused, after.Refused)
	require.Eventually(t, func() bool { return parts.TCP.Stats().Now == 2 }, time.Minute, time.Millisecond)
	for _, c := range all {
		assert.NoError(t, c.Close())
	}
	now(0)
	require.Eventually(t, func() bool { return parts.TCP.Stats().Now == 0 }, time.Minute, time.Millisecond)
}
