package rpctls

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// alertOf returns the number of the alert that an end has received, or -1.
func alertOf(err error) int {
	if alert, ok := remoteAlert(err); ok {
		return int(alert)
	}
	return -1
}

func wordOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason.String()
	}
	return ""
}

var (
	rpcServer = func(c *x509.Certificate) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{asServer.rpc} }
	rpcClient = func(c *x509.Certificate) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{asClient.rpc} }
)

func withPurposes(list ...x509.ExtKeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.ExtKeyUsage = list }
}

func withNames(dns ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = dns }
}

func withAddresses(all ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.DNSNames = nil
		for _, a := range all {
			c.IPAddresses = append(c.IPAddresses, net.ParseIP(a))
		}
	}
}

func withPastDates(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = now.AddDate(-1, 0, 0), now.AddDate(0, 0, -1)
}

func withFutureDates(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = now.AddDate(0, 0, 1), now.AddDate(1, 0, 0)
}

// rawMaterial returns a material with any certificate, even one that NewServer refuses.
func rawMaterial(t *testing.T, h holder) *trustMaterial {
	pair, err := tls.LoadX509KeyPair(h.Cert, h.Key)
	require.NoError(t, err)
	pair.Leaf = h.Leaf
	return &trustMaterial{cert: &pair}
}

// TestServerCertificates checks which certificates of servers a client takes, and the
// errno, the words and the alert of those that it refuses (R9289-4.2-4, R9289-4.1-9,
// R9289-5.2.1-1).
func TestServerCertificates(t *testing.T) {
	root := newAuthority(t, "root")
	other := newAuthority(t, "other root")
	sub := root.Under("sub", nil)
	mail := root.Under("mail only", withPurposes(x509.ExtKeyUsageEmailProtection))
	rpcSub := root.Under("rpc only", rpcServer)
	limited := root.Under("for b.example", func(c *x509.Certificate) {
		c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"b.example"}, true
	})
	noCA := root.Under("no authority", func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature })
	self := newAuthority(t, "self")
	revoked, other1 := root.Issue(nil), root.Issue(nil)
	for _, tt := range []struct {
		name, host string
		holder     holder
		crl        []byte
		reason     string // empty: taken
		words      string
	}{
		{name: "dNSName", host: "server", holder: root.Issue(nil)},
		{name: "R9289-5.2.1-2 letters' case and a dot at the end", host: "SERVER.", holder: root.Issue(nil)},
		{name: "R9289-5.2.1-2 one of several names", host: "b.example", holder: root.Issue(withNames("a.example", "b.example"))},
		{name: "R9289-5.2.1-4 IPv4", host: "192.0.2.1", holder: root.Issue(withAddresses("192.0.2.1"))},
		{name: "R9289-5.2.1-4 IPv6, another form", host: "2001:DB8:0::1", holder: root.Issue(withAddresses("192.0.2.1", "2001:db8::1"))},
		{name: "R9289-5.2.1-4 IPv6 in brackets with a zone", host: "[fe80::1%eth0]", holder: root.Issue(withAddresses("fe80::1"))},
		{name: "an authority between", host: "server", holder: sub.Issue(nil, sub)},
		{name: "R9289-5.2.1.1-1 serverAuth", host: "server", holder: root.Issue(withPurposes(x509.ExtKeyUsageServerAuth))},
		{name: "R9289-5.2.1.1-1 any", host: "server", holder: root.Issue(withPurposes(x509.ExtKeyUsageAny))},
		{name: "R9289-5.2.1.1-1 id-kp-rpcTLSServer", host: "server", holder: root.Issue(rpcServer)},
		{name: "R9289-5.2.1.1-1 an authority for that alone", host: "server", holder: rpcSub.Issue(rpcServer, rpcSub)},
		{name: "a revocation list that names another", host: "server", holder: root.Issue(nil), crl: root.Revoke(now.AddDate(0, 0, 1), other1.Leaf)},

		{name: "R9289-5.2.1-2 another name", host: "b.example", holder: root.Issue(withNames("a.example")), reason: "name", words: `is for "a.example", and not for b.example: use a name that it has`},
		{name: "R9289-5.2.1-2 the end of a name", host: "example", holder: root.Issue(withNames("a.example")), reason: "name", words: "not for example"},
		{name: "R9289-5.2.1-3 a wildcard", host: "a.example", holder: root.Issue(withNames("*.example")), reason: "name", words: "wildcards do not count"},
		{name: "R9289-5.2.1-3 an address for a wildcard", host: "*.example", holder: root.Issue(withNames("*.example")), reason: "name", words: "wildcards do not count"},
		{name: "R9289-5.2.1-2 the common name", host: "server", holder: root.Issue(func(c *x509.Certificate) { c.DNSNames, c.Subject = nil, pkix.Name{CommonName: "server"} }), reason: "name", words: "no subjectAltName"},
		{name: "R9289-5.2.1-4 the name for an address", host: "192.0.2.1", holder: root.Issue(withNames("192.0.2.1.example")), reason: "name", words: "does not have the address 192.0.2.1"},
		{name: "R9289-5.2.1-4 another address", host: "2001:db8::2", holder: root.Issue(withAddresses("2001:db8::1")), reason: "name", words: "for 2001:db8::1, and does not have the address 2001:db8::2"},
		{name: "ended", host: "server", holder: root.Issue(withPastDates), reason: "dates", words: "ended on 2026-11-26 12:00 UTC"},
		{name: "not begun", host: "server", holder: root.Issue(withFutureDates), reason: "dates", words: "is valid from 2026-11-28 12:00 UTC on: are the clocks right?"},
		{name: "R9289-4.1-9 another root", host: "server", holder: other.Issue(nil), reason: "untrusted", words: `the certificate of the server server is signed by "CN=other root", which is not trusted`},
		{name: "signed by itself", host: "self", holder: self.Self(), reason: "untrusted", words: "has signed itself"},
		{name: "the authority between is missing", host: "server", holder: sub.Issue(nil), reason: "untrusted", words: `signed by "CN=sub"`},
		{name: "R9289-5.2.1-1 basic constraints", host: "server", holder: noCA.Issue(nil, noCA), reason: "untrusted", words: "is signed by"},
		{name: "R9289-5.2.1-1 name constraints", host: "a.example", holder: limited.Issue(withNames("a.example"), limited), reason: "untrusted", words: "is not valid"},
		{name: "for clients", host: "server", holder: root.Issue(withPurposes(x509.ExtKeyUsageClientAuth)), reason: "purpose", words: "is not for TLS servers"},
		{name: "for RPC's clients", host: "server", holder: root.Issue(rpcClient), reason: "purpose", words: "is not for TLS servers"},
		{name: "an authority for mail", host: "server", holder: mail.Issue(nil, mail), reason: "purpose", words: `signed by "CN=mail only", which may not`},
		{name: "a key that may not sign", host: "server", holder: root.Issue(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }), reason: "purpose", words: "has a key that may not sign"},
		{name: "revoked", host: "server", holder: revoked, crl: root.Revoke(now.AddDate(0, 0, 1), other1.Leaf, revoked.Leaf), reason: "revoked", words: "was revoked on 2026-11-27 11:59 UTC"},
		{name: "an authority is revoked", host: "server", holder: sub.Issue(nil, sub), crl: root.Revoke(now.AddDate(0, 0, 1), sub.Cert), reason: "revoked", words: "was revoked"},
		{name: "a revocation list that has ended", host: "server", holder: root.Issue(nil), crl: root.Revoke(now.Add(-1), other1.Leaf), reason: "revoked", words: "the revocation list of \"CN=root\" ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil))})
			m := rawMaterial(t, tt.holder)
			r.server.store.latest.Store(m)
			cfg := ClientConfig{Files: Files{CA: certtest.Bundle(root)}, Host: tt.host}
			if tt.crl != nil {
				cfg.Files.CRL = certtest.Write(t, t.TempDir(), "crl.pem", tt.crl)
			}
			client, server := r.handshake(newTestClient(t, cfg))
			if tt.reason == "" {
				assert.NoError(t, client.err)
				assert.NoError(t, server.err)
				return
			}
			require.Error(t, client.err)
			assert.Equal(t, tt.reason, wordOf(client.err))
			assert.ErrorIs(t, client.err, syscall.EACCES)
			assert.ErrorContains(t, client.err, tt.words)
			assert.True(t, strings.HasPrefix(client.err.Error(), "the certificate of the server "+tt.host+" "), client.err)
			assert.Equal(t, int(alertBadCertificate), alertOf(server.err), server.err)
			assert.Contains(t, r.log.String(), "the client rejects this host's certificate")
		})
	}
}

// TestClientCertificates does the same for certificates of clients (R9289-4.2-4,
// R9289-5.2.1-5): neither their names nor their addresses count.
func TestClientCertificates(t *testing.T) {
	root := newAuthority(t, "clients")
	other := newAuthority(t, "other root")
	sub := root.Under("sub", nil)
	serverRoot := newAuthority(t, "servers")
	revoked := root.Issue(nil)
	for _, tt := range []struct {
		name   string
		holder holder
		crl    []byte
		ca     string
		reason string // empty: taken
		words  string
	}{
		{name: "R9289-5.2.1-5 any name", holder: root.Issue(withNames("elsewhere.example"))},
		{name: "R9289-5.2.1-5 another address", holder: root.Issue(withAddresses("192.0.2.77"))},
		{name: "no name", holder: root.Issue(withNames())},
		{name: "an authority between", holder: sub.Issue(nil, sub)},
		{name: "R9289-5.2.1.1-1 clientAuth", holder: root.Issue(withPurposes(x509.ExtKeyUsageClientAuth))},
		{name: "R9289-5.2.1.1-1 id-kp-rpcTLSClient", holder: root.Issue(rpcClient)},

		{name: "ended", holder: root.Issue(withPastDates), reason: "dates", words: "ended on"},
		{name: "not begun", holder: root.Issue(withFutureDates), reason: "dates", words: "is valid from"},
		{name: "another root", holder: other.Issue(nil), reason: "untrusted", words: "which is not trusted"},
		{name: "the root of servers", holder: serverRoot.Issue(nil), reason: "untrusted", words: "which is not trusted"},
		{name: "for servers", holder: root.Issue(withPurposes(x509.ExtKeyUsageServerAuth)), reason: "purpose", words: "is not for TLS clients"},
		{name: "for RPC's servers", holder: root.Issue(rpcServer), reason: "purpose", words: "is not for TLS clients"},
		{name: "revoked", holder: revoked, crl: root.Revoke(now.AddDate(0, 0, 1), revoked.Leaf), reason: "revoked", words: "was revoked"},
		{name: "no authority of clients", holder: root.Issue(nil), ca: "none", reason: "untrusted", words: "name the clients' authority with --tls-ca"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := filesOf(serverRoot.Issue(nil))
			if tt.ca == "" {
				files.CA = certtest.Bundle(root)
			}
			if tt.crl != nil {
				files.CRL = certtest.Write(t, t.TempDir(), "crl.pem", tt.crl)
			}
			r := newRig(t, ServerConfig{Files: files})
			c := newTestClient(t, ClientConfig{Files: filesOf(root.Issue(nil), serverRoot), Mutual: true})
			c.store.current().cert = rawMaterial(t, tt.holder).cert
			client, server := r.handshake(c)
			if tt.reason == "" {
				require.NoError(t, client.err)
				require.NoError(t, server.err)
				assert.True(t, server.conn.Security().Mutual)
				return
			}
			require.Error(t, server.err)
			assert.Equal(t, tt.reason, wordOf(server.err))
			assert.ErrorContains(t, server.err, tt.words)
			assert.Equal(t, int(alertBadCertificate), alertOf(client.err), client.err)
			assert.Equal(t, "refused", wordOf(client.err))
			assert.ErrorIs(t, client.err, syscall.EACCES)
			assert.ErrorContains(t, client.err, "the server rejects this host's certificate")
			assert.Contains(t, r.log.String(), "TLS handshake with a client failed")
			assert.Contains(t, r.log.String(), tt.words)
			assert.EqualValues(t, 1, r.server.Stats().Failed[tt.reason])
		})
	}
}

// TestProtocols checks the names inside of TLS at both ends, in both modes (R9289-5-5,
// R9289-5-6, R9289-5-7).
func TestProtocols(t *testing.T) {
	root := newAuthority(t, "root")
	files := filesOf(root.Issue(nil))
	trust := x509.NewCertPool()
	trust.AddCert(root.Cert)
	t.Run("server", func(t *testing.T) {
		for _, tt := range []struct {
			name    string
			offered []string
			strict  bool
			reason  string
			got     string
		}{
			{name: "sunrpc", offered: []string{"sunrpc"}, got: "sunrpc"},
			{name: "sunrpc, strict", offered: []string{"sunrpc"}, strict: true, got: "sunrpc"},
			{name: "among others", offered: []string{"h2", "sunrpc"}, strict: true, got: "sunrpc"},
			{name: "none", offered: nil},
			{name: "none, strict", offered: nil, strict: true, reason: "protocol"},
			{name: "another", offered: []string{"h2"}, reason: "protocol"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				r := newRig(t, ServerConfig{Files: files, Strict: tt.strict})
				near, far := r.dialBoth()
				got := make(chan string, 1)
				go func() {
					c := tls.Client(near, &tls.Config{RootCAs: trust, ServerName: "server", NextProtos: tt.offered, Time: testNow})
					defer c.Close()
					_ = c.Handshake()
					got <- c.ConnectionState().NegotiatedProtocol
					_, _ = c.Read(make([]byte, 1))
				}()
				s, err := r.server.Secure(t.Context(), far)
				if tt.reason != "" {
					assert.Equal(t, tt.reason, wordOf(err), err)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, tt.got, <-got)
				assert.Equal(t, tt.got, s.Security().Protocol)
				s.Close()
			})
		}
	})
	t.Run("client", func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			has    []string
			strict bool
			reason string
		}{
			{name: "sunrpc", has: []string{"sunrpc"}, strict: true},
			{name: "none", has: nil},
			{name: "none, strict", has: nil, strict: true, reason: "protocol"},
			{name: "another", has: []string{"h2"}, reason: "protocol"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				r := newRig(t, ServerConfig{Files: files})
				near, far := r.dialBoth()
				offered := make(chan []string, 1)
				go func() {
					pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
					if err != nil {
						panic(err)
					}
					s := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: tt.has, Time: testNow, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
						offered <- h.SupportedProtos
						return nil, nil
					}})
					defer s.Close()
					_ = s.Handshake()
					_, _ = s.Read(make([]byte, 1))
				}()
				c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}, Strict: tt.strict})
				conn, err := c.performHandshake(t.Context(), near, protocolRPC, tt.strict)
				assert.Equal(t, []string{"sunrpc"}, <-offered)
				if tt.reason != "" {
					assert.Equal(t, tt.reason, wordOf(err), err)
					return
				}
				require.NoError(t, err)
				conn.Close()
			})
		}
	})
}

// TestOldTLS checks that nothing below TLS 1.3 is taken (R9289-5-1), with the alert for
// that.
func TestOldTLS(t *testing.T) {
	root := newAuthority(t, "root")
	files := filesOf(root.Issue(nil))
	old := &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true, Time: testNow}
	t.Run("client", func(t *testing.T) {
		r := newRig(t, ServerConfig{Files: files})
		near, far := r.dialBoth()
		refused := make(chan error, 1)
		go func() { refused <- tls.Client(near, old).Handshake() }()
		_, err := r.server.Secure(t.Context(), far)
		assert.Equal(t, "old_tls", wordOf(err), err)
		assert.Equal(t, int(alertProtocolVersion), alertOf(<-refused))
	})
	t.Run("server", func(t *testing.T) {
		r := newRig(t, ServerConfig{Files: files})
		near, far := r.dialBoth()
		refused := make(chan error, 1)
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		require.NoError(t, err)
		old := old.Clone()
		old.Certificates = []tls.Certificate{pair}
		go func() {
			refused <- tls.Server(far, old).Handshake()
			far.Close()
		}()
		_, err = newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}).performHandshake(t.Context(), near, protocolRPC, false)
		assert.Equal(t, "old_tls", wordOf(err), err)
		assert.ErrorIs(t, err, syscall.EACCES)
		assert.Error(t, <-refused)
	})
}

// TestClientModes checks what each mode of a client gets (R9289-4.2-1, R9289-4.2-2,
// R9289-5-4): the server asks every client for a certificate.
func TestClientModes(t *testing.T) {
	root := newAuthority(t, "root")
	host := root.Issue(func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "host"} })
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil), root)})

	client, server := r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}))
	assert.Equal(t, "tls", client.Security().String())
	assert.Equal(t, "tls", server.Security().String())
	assert.Empty(t, server.Security().Serial)

	client, server = r.handshakeOK(newTestClient(t, ClientConfig{Files: filesOf(host, root), Mutual: true}))
	assert.Equal(t, "mtls", client.Security().String())
	assert.Equal(t, "mtls", server.Security().String())
	issuer, serial := identityOf(host.Leaf)
	assert.Equal(t, issuer, server.Security().Issuer)
	assert.Equal(t, serial, server.Security().Serial)
	assert.Equal(t, client.Security().Binding, server.Security().Binding)
	assert.Len(t, client.Security().Binding, bindingLen)
	for _, part := range []string{"security.mode=mtls", "security.alpn=sunrpc", `security.issuer="CN=root"`, "security.serial=" + serial, "security.suite=TLS_"} {
		assert.Contains(t, r.log.String(), part, "R9289-6.1-1")
	}

	// A server that does not ask has no mtls.
	near, far := r.dialBoth()
	pair, err := tls.LoadX509KeyPair(r.server.cfg.Files.Cert, r.server.cfg.Files.Key)
	require.NoError(t, err)
	go func() {
		s := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"sunrpc"}, Time: testNow})
		_ = s.Handshake()
		_, _ = s.Read(make([]byte, 1))
		s.Close()
	}()
	_, err = newTestClient(t, ClientConfig{Files: filesOf(host, root), Mutual: true}).performHandshake(t.Context(), near, protocolRPC, false)
	assert.Equal(t, "no_certificate", wordOf(err))
	assert.ErrorContains(t, err, "mount with xprtsec=tls")
}

// TestSuites checks that every cipher suite that can be negotiated encrypts
// (R9289-5-3), and that the mandatory one is among them (R9289-5-2).
func TestSuites(t *testing.T) {
	var names []string
	for _, s := range tls.CipherSuites() {
		if slices.Contains(s.SupportedVersions, tls.VersionTLS13) {
			names = append(names, s.Name)
			assert.True(t, strings.Contains(s.Name, "_GCM_") || strings.Contains(s.Name, "_CHACHA20_"), s.Name)
		}
	}
	assert.Contains(t, names, "TLS_AES_128_GCM_SHA256")
}
