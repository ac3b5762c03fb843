package rpctls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// Protocol names inside TLS (ALPN). RPC's is defined in RFC 9289, Section 7.2, MPA's by
// this project.
const (
	protocolRPC = "sunrpc"
	protocolMPA = "nfsrdma-mpa/1"
)

// A ServerConfig configures a Server.
type ServerConfig struct {
	// Files must have a certificate and its key. Without Files.CA clients must not
	// present certificates.
	Files Files

	// Strict rejects clients that do not name the protocol inside TLS, as they must (RFC
	// 9289, Section 5), but Linux's tlshd does not.
	Strict bool

	// Tolerant makes NewServer succeed although Files cannot be used: handshakes then fail
	// until Watch finds that they can.
	Tolerant bool

	// Kernel lets the kernel encrypt the records, if it can: Linux with the module tls.
	Kernel bool

	// MaxRecords is the number of records in one direction after which a connection is
	// closed and replaced; 0 means 2^24, and more is not safe.
	MaxRecords uint64

	// Now returns the time; nil means time.Now.
	Now func() time.Time

	// Log receives a line for each connection; nil means slog.Default.
	Log *slog.Logger
}

// A Server secures connections if their clients request that (oncrpc.Guard).
// It is safe for concurrent use.
type Server struct {
	cfg   ServerConfig
	store *fileStore
	log   *slog.Logger // for rejected clients
	audit *slog.Logger // for one line per connection

	kernel *kernelUse

	handshakeLimit   int // for handshakes
	handshakeTimeout time.Duration

	mu                      sync.Mutex
	handshakes              map[*handshake]struct{}
	handshakeCount          uint64 // number of handshakes so far
	parties                 fairshare.Parties[struct{}]
	conns                   map[*Conn]*fairshare.Party[*fairshare.Part]
	memory                  *fairshare.Memory                  // see maxHeld
	writers                 fairshare.Parties[*fairshare.Part] // shares of memory
	madeCount, abortedCount uint64
	unencryptedCount        uint64 // connections without TLS
	failed                  [reasons]uint64
}

var _ oncrpc.Guard = (*Server)(nil)

// NewServer returns a Server. An error names the faulty file and the remedy.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Files.Cert == "" {
		return nil, errors.New("TLS needs this server's certificate and its key: name both files")
	}
	files, err := openStore(cfg.Files, asServer, cfg.Now)
	if err != nil && !cfg.Tolerant {
		return nil, err
	}
	if err != nil {
		cfg.Log.Error("TLS handshakes fail until the certificates can be used", "err", err)
	}
	memory := fairshare.NewMemory(maxHeld, partOfHeld, nil) // no goroutine waits for it
	log := lograte.Logger(cfg.Log)
	return &Server{
		cfg: cfg, store: files, log: log, audit: lograte.Audit(cfg.Log), kernel: newKernelUse(cfg.Kernel, log),
		handshakeLimit: maxHandshakes, handshakeTimeout: handshakeTime,
		handshakes: make(map[*handshake]struct{}), conns: make(map[*Conn]*fairshare.Party[*fairshare.Part]),
		parties: fairshare.NewParties(func() struct{} { return struct{}{} }),
		memory:  memory, writers: fairshare.NewParties(memory.Part),
	}, nil
}

// Probe reports whether a call requests TLS, and turns such a call into a plain one
// (oncrpc.Guard). denial is the reply to an invalid request.
func (s *Server) Probe(msg []byte) (asks bool, denial error) {
	asks, denial = isProbe(msg)
	if asks && denial == nil {
		makePlain(msg)
	}
	return asks, denial
}

// Answer turns the plain call's reply into the probe's reply (oncrpc.Guard). It returns
// false if the reply is a denial.
func (s *Server) Answer(reply []byte) ([]byte, bool) { return addToken(reply) }

// Secure performs the handshake with a client whose probe was accepted (oncrpc.Guard). It
// takes over nc.
func (s *Server) Secure(ctx context.Context, nc net.Conn) (oncrpc.SecureConn, error) {
	c, err := s.performHandshake(ctx, nc, protocolRPC, s.cfg.Strict)
	if err != nil {
		return nil, err // not a nil *Conn
	}
	return c, nil
}

// SecureMPA performs the handshake with a client that starts with it, and then uses MPA.
// It takes over nc.
func (s *Server) SecureMPA(ctx context.Context, nc net.Conn) (*Conn, error) {
	return s.performHandshake(ctx, nc, protocolMPA, true)
}

// Begin secures an MPA connection if its client starts with TLS, and returns nc itself if
// the client starts with MPA (iwarp.Config.Secure).
func (s *Server) Begin(ctx context.Context, nc net.Conn) (net.Conn, error) {
	first, err := peekByte(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	if first != typeHandshake { // MPA starts with the letter M
		s.NoteUnencrypted(nc)
		return nc, nil
	}
	c, err := s.SecureMPA(ctx, nc)
	if err != nil {
		return nil, err // not a nil *Conn
	}
	return c, nil
}

var errNoTLS = &Error{Reason: NoTLS, Text: "the client's connection is unencrypted, and this server requires TLS: mount with xprtsec=mtls or xprtsec=tls"}

// BeginOnly is like Begin, but counts unencrypted connections as failures, because the
// server rejects them in MPA.
func (s *Server) BeginOnly(ctx context.Context, nc net.Conn) (net.Conn, error) {
	conn, err := s.Begin(ctx, nc)
	if conn == nc {
		_ = s.recordFailure(nc, errNoTLS)
	}
	return conn, err
}

func (s *Server) performHandshake(ctx context.Context, nc net.Conn, protocol string, strict bool) (*Conn, error) {
	ctx, h := s.beginHandshake(ctx, nc)
	defer s.endHandshake(h)
	ctx, stop := context.WithTimeoutCause(ctx, s.handshakeTimeout, errStalled)
	defer stop()
	m := s.store.current()
	w := &recordWire{Conn: nc, server: true}
	if m.fault != nil {
		err := s.recordFailure(nc, &Error{Reason: NoCert, Text: "this server's certificates cannot be used: " + m.fault.Error()})
		_ = w.Close()
		return nil, err
	}
	config := s.tlsConfig(m, protocol, strict)
	secrets := s.kernel.requestSecrets(config, w)
	t := tls.Server(w, config)
	if err := t.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = s.recordFailure(nc, explainHandshake(err, true)) // counted before the peer sees the close
		_ = w.Close()
		return nil, err
	}
	c := newConn(t, w, s.cfg.MaxRecords)
	c.server, c.security.Mutual = s, len(c.state.PeerCertificates) > 0
	err := s.kernel.moveToKernel(c, secrets)
	if err == nil {
		err = s.addConn(c, m)
	}
	if err != nil {
		err = s.recordFailure(nc, err)
		_ = c.Close()
		return nil, err
	}
	s.audit.Info("TLS", "peer", nc.RemoteAddr(), "security", c.security)
	return c, nil
}

// tlsConfig returns crypto/tls's configuration. It offers neither tickets nor early data
// (RFC 9289, Section 6), and requests a certificate from every client (Section 4.2).
func (s *Server) tlsConfig(m *trustMaterial, protocol string, strict bool) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{*m.cert},
		MinVersion:   tls.VersionTLS13, MaxVersion: tls.VersionTLS13,
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
		ClientAuth: tls.RequestClientCert, // verifyClient verifies it
		Time:       s.cfg.Now,
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := checkProtocol(&state, protocol, strict); err != nil {
				return err
			}
			return s.verifyClient(&state, m)
		},
	}
}

// verifyClient returns why a client's certificate is rejected, or nil. A client without
// one is anonymous.
func (s *Server) verifyClient(state *tls.ConnectionState, m *trustMaterial) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	leaf := state.PeerCertificates[0]
	owner := "the client (" + quoteName(leaf.Subject.String()) + ")"
	if m.roots == nil { // which would trust the host's authorities
		return addOwner(owner, rejectf(Untrusted, "cannot be verified: name the clients' authority with --tls-ca, or mount with xprtsec=tls"))
	}
	return addOwner(owner, m.verifyChain(state.PeerCertificates, &asClient, s.cfg.Now()))
}

// addConn adds a connection whose client was verified with m, unless the files have
// changed since and it is no longer trusted.
func (s *Server) addConn(c *Conn, m *trustMaterial) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.store.current(); now != m {
		if err := s.verifyClient(&c.state, now); err != nil {
			return err
		}
	}
	party := s.writers.Enter(c.RemoteAddr())
	s.conns[c], c.wire.memory = party, party.Own
	s.madeCount++
	return nil
}

func (s *Server) removeConn(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeConnLocked(c)
}

func (s *Server) removeConnLocked(c *Conn) {
	if party, known := s.conns[c]; known {
		s.writers.Leave(party)
		delete(s.conns, c)
	}
}

// Reload reads the files again, and verifies connected clients again (RFC 9289, Section
// 5.2.1). If the files are invalid, everything stays as it was, and Reload returns the
// error.
func (s *Server) Reload() error { return s.reloadFiles(true) }

func (s *Server) reloadFiles(always bool) error {
	read, err := s.store.refreshFiles(always)
	switch {
	case err != nil:
		before := "the previous ones remain in use"
		if s.store.current().fault != nil {
			before = "handshakes still fail"
		}
		s.cfg.Log.Error("cannot reload the TLS certificates; "+before, "err", err)
		return err
	case !read:
		return nil
	}
	s.cfg.Log.Info("TLS certificates reloaded", "cert", s.cfg.Files.Cert)
	s.reverifyClients()
	return nil
}

// retryFiles reads files again that could not be used yet, even if they have not changed: a
// certificate may have become valid. It logs the error at most once per faultPause, and returns
// when it has logged one last.
func (s *Server) retryFiles(logged time.Time) time.Time {
	_, err := s.store.refreshFiles(true)
	now := s.cfg.Now()
	switch {
	case err == nil:
		s.cfg.Log.Info("TLS handshakes are possible now", "cert", s.cfg.Files.Cert)
	case now.Sub(logged) >= faultPause:
		s.cfg.Log.Error("TLS handshakes fail until the certificates can be used", "err", err)
		return now
	}
	return logged
}

func (s *Server) reverifyClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.store.current()
	for c := range s.conns {
		if err := s.verifyClient(&c.state, m); err != nil {
			s.abortLocked(c, err)
		}
	}
}

func (s *Server) abortLocked(c *Conn, err error) {
	s.log.Warn("a client is no longer trusted; its connection is closed", "peer", c.RemoteAddr(), "err", err)
	s.abortedCount++
	s.removeConnLocked(c)
	c.abort(err)
}

// abortExpired verifies again the clients whose certificates or revocation lists have
// expired since a time. It returns the current time.
func (s *Server) abortExpired(since time.Time) time.Time {
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.store.current()
	all := slices.ContainsFunc(m.lists, func(l *revocationList) bool { return expiredBetween(l.nextUpdate, since, now) })
	for c := range s.conns {
		if !all && !slices.ContainsFunc(c.state.PeerCertificates, func(one *x509.Certificate) bool { return expiredBetween(one.NotAfter, since, now) }) {
			continue
		}
		if err := s.verifyClient(&c.state, m); err != nil {
			s.abortLocked(c, err)
		}
	}
	return now
}

// expiredBetween reports whether end is between since and now.
func expiredBetween(end, since, now time.Time) bool { return !end.Before(since) && end.Before(now) }

// Watch reads the files again when they change, and closes connections whose clients'
// certificates expire, until ctx ends.
func (s *Server) Watch(ctx context.Context) {
	since := s.cfg.Now()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	logged := since
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.store.current().fault != nil {
				logged = s.retryFiles(logged)
				continue
			}
			_ = s.reloadFiles(false) // in the log
			since = s.abortExpired(since)
		}
	}
}
