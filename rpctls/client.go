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
	// Files.CA are the authorities that may have signed the server's certificate;
	// "" means those of the host. Files.Cert is needed for Mutual alone.
	Files Files

	// Host is the server's name or address as the user has typed it. The server's
	// certificate must have it.
	Host string

	// Mutual shows the certificate of this end, and demands that the server asks
	// for it.
	Mutual bool

	// Strict refuses servers that do not answer which protocol is inside of TLS
	// (ServerConfig.Strict).
	Strict bool

	// Kernel has the kernel make the records of connections, if it can: Linux with the
	// module tls.
	Kernel bool

	// MaxRecords is the number of records of one direction after which a connection
	// ends, so that another takes its place; 0 means 2^24, and more is not safe.
	MaxRecords uint64

	// Now returns the time; nil means time.Now.
	Now func() time.Time

	// Log receives faults of files that have changed; nil means slog.Default.
	Log *slog.Logger
}

// A Client makes connections to one server secure, or fails: it never falls back to
// clear. It is safe for concurrent use.
type Client struct {
	cfg    ClientConfig
	store  *store
	kernel *kernelUse
}

// NewClient returns a Client. The error names the file that is at fault, and the
// remedy.
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

// Secure asks the server behind nc for TLS, by a call of a program that it serves, and
// makes the handshake. Nothing else must have been sent over nc (RFC 9289, Section
// 5.1.1). Secure takes over nc, even if it fails.
func (c *Client) Secure(ctx context.Context, nc net.Conn, prog, vers uint32) (*Conn, error) {
	ctx, stop := context.WithTimeoutCause(ctx, handshakeTime, errStalled)
	defer stop()
	if err := c.probe(ctx, nc, prog, vers); err != nil {
		nc.Close()
		return nil, err
	}
	return c.handshake(ctx, nc, protocolRPC, c.cfg.Strict)
}

// SecureMPA makes the handshake for MPA, which must be the first bytes of nc. It takes
// over nc, even if it fails.
func (c *Client) SecureMPA(ctx context.Context, nc net.Conn) (*Conn, error) {
	ctx, stop := context.WithTimeoutCause(ctx, handshakeTime, errStalled)
	defer stop()
	conn, err := c.handshake(ctx, nc, protocolMPA, true)
	if err != nil && reasonOf(err) == Broken && hungUp(err) {
		err = &Error{NoTLS, fmt.Sprintf("the server %s hangs up when TLS begins: TLS on RDMA needs nfsrdmad serve --rdma-tls=allow there, and no other server has it; use sec=krb5p, or mount without xprtsec=", c.cfg.Host), err}
	}
	return conn, err
}

// reasonOf returns the Reason of an error, or Broken.
func reasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return Broken
}

// hungUp reports whether the peer has closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Begin makes a connection secure before MPA begins on it (iwarp.Config.Secure).
func (c *Client) Begin(ctx context.Context, nc net.Conn) (net.Conn, error) {
	conn, err := c.SecureMPA(ctx, nc)
	if err != nil {
		return nil, err // not a nil *Conn
	}
	return conn, nil
}

// probe asks for TLS. It reads the whole answer, and nothing may be behind it.
func (c *Client) probe(ctx context.Context, nc net.Conn, prog, vers uint32) error {
	keepalive.Watch(nc)
	over := context.AfterFunc(ctx, func() { nc.Close() })
	defer over()
	xid := rand.Uint32()
	call := AppendProbe(make([]byte, markLen, markLen+probeLen), xid, prog, vers)
	call[0], call[3] = lastFrag>>24, probeLen
	if _, err := nc.Write(call); err != nil {
		return c.lost(ctx, err)
	}
	msg, behind, err := receiveAnswer(nc)
	switch {
	case err == nil:
	case errors.Is(err, errAnswer):
		return &Error{NoTLS, "the server does not answer as RPC does: is this the port of NFS?", err}
	default:
		return c.lost(ctx, err)
	}
	if err := readAnswer(msg, xid); err != nil {
		return &Error{NoTLS, fmt.Sprintf("the server %s has no TLS, or someone on the way pretends that (%v): give it a certificate (nfsrdmad serve --tls-cert), or mount with xprtsec=none", c.cfg.Host, err), err}
	}
	if len(behind) > 0 {
		return &Error{Injected, fmt.Sprintf("%d bytes in clear came behind the server's STARTTLS, perhaps from someone on the way", len(behind)), nil}
	}
	return nil
}

// lost returns the error of a connection that ended before the handshake.
func (c *Client) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &Error{Broken, "the connection was lost before TLS began: " + err.Error(), err}
}

// receiveAnswer reads one record, and returns also the bytes that have come with it.
func receiveAnswer(nc net.Conn) (msg, behind []byte, err error) {
	in := make([]byte, 2*maxAnswer)
	for n := 0; n < len(in); {
		m, err := nc.Read(in[n:])
		n += m
		msg, behind, whole, bad := takeRecord(in[:n])
		if whole || bad != nil {
			return msg, behind, bad
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errAnswer
}

func (c *Client) handshake(ctx context.Context, nc net.Conn, protocol string, strict bool) (*Conn, error) {
	keepalive.Watch(nc)
	if _, err := c.store.refresh(false); err != nil {
		c.cfg.Log.Warn("the certificates of TLS stay as they were", "err", err)
	}
	asked := false
	w := &wire{Conn: nc}
	config := c.config(c.store.material(), protocol, strict, &asked)
	secrets := c.kernel.prepare(config, w)
	t := tls.Client(w, config)
	err := t.HandshakeContext(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
		err = explain(err, false)
	case c.cfg.Mutual && !asked:
		err = &Error{NoCert, "the server does not ask for the certificate of this host: name the authority of clients there (nfsrdmad serve --tls-ca), or mount with xprtsec=tls", nil}
	}
	if err != nil {
		_ = t.Close()
		_ = w.Close()
		return nil, err
	}
	conn := newConn(t, w, c.cfg.MaxRecords)
	conn.both, conn.security.Mutual = true, c.cfg.Mutual
	if err := c.kernel.enter(conn, secrets); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// config returns crypto/tls's configuration. The server's name is judged here, because
// crypto/tls takes wildcards.
func (c *Client) config(m *material, protocol string, strict bool, asked *bool) *tls.Config {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS13,
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
		InsecureSkipVerify: true, // VerifyConnection judges
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
			return c.judge(&state, m)
		},
	}
	if _, err := netip.ParseAddr(strings.Trim(c.cfg.Host, "[]")); err != nil {
		cfg.ServerName = strings.TrimSuffix(c.cfg.Host, ".")
	}
	return cfg
}

// judge returns why the server's certificate is refused.
func (c *Client) judge(state *tls.ConnectionState, m *material) error {
	owner := "the server " + c.cfg.Host
	err := m.judge(state.PeerCertificates, &asServer, c.cfg.Now())
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == Untrusted && m.roots == nil {
		err = &Error{e.Reason, e.Text + ": name its authority with tls-ca=", e.Err}
	}
	if err != nil {
		return about(owner, err)
	}
	return about(owner, checkName(state.PeerCertificates[0], c.cfg.Host))
}
