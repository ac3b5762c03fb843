package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
)

// TestALPN checks that a server over TCP that does not say what TLS is for, as tlshd 1.0.0
// does not, is refused with alpn=strict alone (R9289-5-7).
func TestALPN(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	own := root.Issue(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{net.IPv4(127, 0, 0, 1)} })
	cert, err := tls.LoadX509KeyPair(own.Cert, own.Key)
	require.NoError(t, err)
	for word, want := range map[string]string{"any": "", "strict": "ALPN"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		served := make(chan struct{})
		go func() {
			defer close(served)
			nc, err := l.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			probe := make([]byte, 44)
			_, _ = io.ReadFull(nc, probe)
			answer := append([]byte{0x80, 0, 0, 32}, probe[4:8]...)
			answer = append(answer, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8)
			_, _ = nc.Write(append(append(answer, "STARTTLS"...), 0, 0, 0, 0))
			_ = tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert}}).Handshake()
		}()
		a := newApp(io.Discard, io.Discard)
		a.xprtsec, a.alpn = cli.NewChoice("tls", "tls"), cli.NewChoice(word, word)
		a.tls.CA = certtest.Bundle(root)
		var cfg nfsrdma.ClientConfig
		require.NoError(t, a.setTLS(server{host: "127.0.0.1"}, &cfg))
		nc, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		c, err := cfg.TLS.Secure(t.Context(), nc, mount3.Program, mount3.Version)
		if want == "" {
			require.NoError(t, err)
			c.Close()
		} else {
			assert.ErrorContains(t, err, want)
		}
		<-served
		l.Close()
	}
}
