package rpctls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
)

// A ClientConfig configures a Client.
type ClientConfig struct {
	// Files.CA are the authorities that may have signed the server's certificate; ""
	// means the host's. Files.Cert is needed only for Mutual.
	Files Files

	// Host is the server's name or address as the user typed it. The server's certificate
	// must contain it.
	Host string

	// Mutual presents this end's certificate, and requires that the server requests it.
	Mutual bool

	// Strict rejects servers that do not confirm the protocol inside TLS
	// (ServerConfig.Strict).
	Strict bool

	// Kernel lets the kernel encrypt the records, if it can: Linux with the module tls.
	Kernel bool

	// MaxRecords is the number of records in one direction after which a connection is
	// closed and replaced; 0 means 2^24, and more is not safe.
	MaxRecords uint64

	// Now returns the time; nil means time.Now.
	Now func() time.Time

	// Log receives errors in files that have changed; nil means slog.Default.
	Log *slog.Logger
}

// A Client secures connections to one server, or fails: it never falls back to
// unencrypted connections. It is safe for concurrent use.
type Client struct {
	cfg    ClientConfig
	store  *fileStore
	kernel *kernelUse
}

// NewClient returns a Client. An error names the faulty file and the remedy.
func NewClient(cfg ClientConfig) (*Client, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Mutual && cfg.Files.Cert == "" {
		return nil, errors.New("mutual TLS (mtls) needs a certificate of this host and its key: name both with tls-cert= and tls-key=")
	}
	files, err := openStore(cfg.Files, asClient, cfg.Now)
	if err != nil {
		return nil, err
	}
	return &Client{cfg, files, newKernelUse(cfg.Kernel, lograte.Logger(cfg.Log))}, nil
}

// ForHost returns a Client for another server, whose certificate must contain host.
func (c *Client) ForHost(host string) *Client {
	next := *c
	next.cfg.Host = host
	return &next
}

// Secure requests TLS from the server at nc, with a call to a program that it serves, and
// performs the handshake. Nothing else must have been sent over nc (RFC 9289, Section
// 5.1.1). Secure takes over nc, even if it fails.
func (c *Client) Secure(ctx context.Context, nc net.Conn, prog, vers uint32) (*Conn, error) {
	ctx, stop := context.WithTimeoutCause(ctx, handshakeTime, errStalled)
	defer stop()
	if err := c.sendProbe(ctx, nc, prog, vers); err != nil {
		nc.Close()
		return nil, err
	}
	return c.performHandshake(ctx, nc, protocolRPC, c.cfg.Strict)
}

// SecureMPA performs the handshake for MPA, which must be the first exchange on nc. It
// takes over nc, even if it fails.
func (c *Client) SecureMPA(ctx context.Context, nc net.Conn) (*Conn, error) {
	ctx, stop := context.WithTimeoutCause(ctx, handshakeTime, errStalled)
	defer stop()
	conn, err := c.performHandshake(ctx, nc, protocolMPA, true)
	if err != nil && reasonOf(err) == Broken && isDisconnect(err) {
		err = &Error{NoTLS, fmt.Sprintf("the server %s closes the connection when TLS begins: TLS on RDMA needs nfsrdmad serve --rdma-tls=allow there, and no other server has it; use sec=krb5p, or mount without xprtsec=", c.cfg.Host), err}
	}
	return conn, err
}

// reasonOf returns an error's Reason, or Broken.
func reasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return Broken
}

// isDisconnect reports whether the peer has closed the connection.
func isDisconnect(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Begin secures a connection before MPA starts (iwarp.Config.Secure).
func (c *Client) Begin(ctx context.Context, nc net.Conn) (net.Conn, error) {
	conn, err := c.SecureMPA(ctx, nc)
	if err != nil {
		return nil, err // not a nil *Conn
	}
	return conn, nil
}

// sendProbe requests TLS. It reads the whole reply, which no bytes may follow.
func (c *Client) sendProbe(ctx context.Context, nc net.Conn, prog, vers uint32) error {
	keepalive.Watch(nc)
	over := context.AfterFunc(ctx, func() { nc.Close() })
	defer over()
	xid := rand.Uint32()
	call := AppendProbe(make([]byte, markLen, markLen+probeLen), xid, prog, vers)
	call[0], call[3] = lastFrag>>24, probeLen
	if _, err := nc.Write(call); err != nil {
		return c.connLostError(ctx, err)
	}
	msg, behind, err := receiveReply(nc)
	switch {
	case err == nil:
	case errors.Is(err, errProbeReply):
		return &Error{NoTLS, "the server does not reply with RPC: is this the NFS port?", err}
	default:
		return c.connLostError(ctx, err)
	}
	if err := checkReply(msg, xid); err != nil {
		return &Error{NoTLS, fmt.Sprintf("the server %s has no TLS, or an attacker on the network pretends that (%v): give it a certificate (nfsrdmad serve --tls-cert), or mount with xprtsec=none", c.cfg.Host, err), err}
	}
	if len(behind) > 0 {
		return &Error{Injected, fmt.Sprintf("%d unencrypted bytes followed the server's STARTTLS, perhaps from an attacker on the network", len(behind)), nil}
	}
	return nil
}

// connLostError returns the error for a connection that closed before the handshake.
func (c *Client) connLostError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &Error{Broken, "the connection was lost before TLS began: " + err.Error(), err}
}

// receiveReply reads one record, and also returns the bytes that followed it.
func receiveReply(nc net.Conn) (msg, behind []byte, err error) {
	in := make([]byte, 2*maxReply)
	for n := 0; n < len(in); {
		m, err := nc.Read(in[n:])
		n += m
		msg, behind, whole, bad := splitRecord(in[:n])
		if whole || bad != nil {
			return msg, behind, bad
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errProbeReply
}

func (c *Client) performHandshake(ctx context.Context, nc net.Conn, protocol string, strict bool) (*Conn, error) {
	keepalive.Watch(nc)
	if _, err := c.store.refreshFiles(false); err != nil {
		c.cfg.Log.Warn("cannot reload the TLS certificates; the previous ones remain in use", "err", err)
	}
	asked := false
	w := &recordWire{Conn: nc}
	config := c.tlsConfig(c.store.current(), protocol, strict, &asked)
	secrets := c.kernel.requestSecrets(config, w)
	t := tls.Client(w, config)
	err := t.HandshakeContext(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
		err = explainHandshake(err, false)
	case c.cfg.Mutual && !asked:
		err = &Error{NoCert, "the server does not request this host's certificate: name the clients' authority there (nfsrdmad serve --tls-ca), or mount with xprtsec=tls", nil}
	}
	if err != nil {
		_ = t.Close()
		_ = w.Close()
		return nil, err
	}
	conn := newConn(t, w, c.cfg.MaxRecords)
	conn.countReads, conn.security.Mutual = true, c.cfg.Mutual
	if err := c.kernel.moveToKernel(conn, secrets); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// tlsConfig returns crypto/tls's configuration. This package verifies the server's name,
// because crypto/tls accepts wildcards.
func (c *Client) tlsConfig(m *trustMaterial, protocol string, strict bool, asked *bool) *tls.Config {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS13,
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
		InsecureSkipVerify: true, // VerifyConnection verifies
		Time:               c.cfg.Now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			*asked = true
			if c.cfg.Mutual {
				return m.cert, nil
			}
			return new(tls.Certificate), nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := checkProtocol(&state, protocol, strict); err != nil {
				return err
			}
			return c.verifyServer(&state, m)
		},
	}
	if _, err := netip.ParseAddr(strings.Trim(c.cfg.Host, "[]")); err != nil {
		cfg.ServerName = strings.TrimSuffix(c.cfg.Host, ".")
	}
	return cfg
}

// verifyServer returns why the server's certificate is rejected, or nil.
func (c *Client) verifyServer(state *tls.ConnectionState, m *trustMaterial) error {
	owner := "the server " + c.cfg.Host
	err := m.verifyChain(state.PeerCertificates, &asServer, c.cfg.Now())
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == Untrusted && m.roots == nil {
		err = &Error{e.Reason, e.Text + ": name its authority with tls-ca=", e.Err}
	}
	if err != nil {
		return addOwner(owner, err)
	}
	return addOwner(owner, checkName(state.PeerCertificates[0], c.cfg.Host))
}
