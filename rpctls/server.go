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

// The names of protocols inside of TLS (ALPN). RPC's is of RFC 9289, Section 7.2.
// MPA's is this project's own.
const (
	protocolRPC = "sunrpc"
	protocolMPA = "nfsrdma-mpa/1"
)

// A ServerConfig configures a Server.
type ServerConfig struct {
	// Files must have a certificate and its key. Without Files.CA clients must not
	// show certificates.
	Files Files

	// Strict refuses clients that do not name the protocol inside of TLS, which is
	// their duty (RFC 9289, Section 5) and which Linux's tlshd omits.
	Strict bool

	// Kernel has the kernel make the records of connections, if it can: Linux with the
	// module tls.
	Kernel bool

	// MaxRecords is the number of records of one direction after which a connection
	// ends, so that another takes its place; 0 means 2^24, and more is not safe.
	MaxRecords uint64

	// Now returns the time; nil means time.Now.
	Now func() time.Time

	// Log receives a line for each connection; nil means slog.Default.
	Log *slog.Logger
}

// A Server makes connections secure if their clients ask for that (oncrpc.Guard).
// It is safe for concurrent use.
type Server struct {
	cfg   ServerConfig
	store *store
	log   *slog.Logger // for refusals
	audit *slog.Logger // for a line for each connection

	kernel *kernelUse

	places   int // for handshakes
	patience time.Duration

	mu         sync.Mutex
	handshakes map[*handshake]struct{}
	begun      uint64 // number of handshakes so far
	parties    fairshare.Parties[struct{}]
	conns      map[*Conn]*fairshare.Party[*fairshare.Part]
	memory     *fairshare.Memory                  // see maxHeld
	writers    fairshare.Parties[*fairshare.Part] // of memory
	made, cut  uint64
	clear      uint64 // connections without TLS
	failed     [reasons]uint64
}

var _ oncrpc.Guard = (*Server)(nil)

// NewServer returns a Server. The error names the file that is at fault, and the
// remedy.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Files.Cert == "" {
		return nil, errors.New("TLS needs a certificate of this server and its key: name both files")
	}
	files, err := openStore(cfg.Files, asServer, cfg.Now)
	if err != nil {
		return nil, err
	}
	memory := fairshare.NewMemory(maxHeld, partOfHeld, nil) // nobody waits for it
	log := lograte.Logger(cfg.Log)
	return &Server{
		cfg: cfg, store: files, log: log, audit: lograte.Audit(cfg.Log), kernel: newKernelUse(cfg.Kernel, log),
		places: maxHandshakes, patience: handshakeTime,
		handshakes: make(map[*handshake]struct{}), conns: make(map[*Conn]*fairshare.Party[*fairshare.Part]),
		parties: fairshare.NewParties(func() struct{} { return struct{}{} }),
		memory:  memory, writers: fairshare.NewParties(memory.Part),
	}, nil
}

// Mutual reports whether clients can show certificates.
func (s *Server) Mutual() bool { return s.cfg.Files.CA != "" }

// Probe reports whether a call asks for TLS, and turns such a call into a plain one
// (oncrpc.Guard). denial is the answer to a call that asks wrongly.
func (s *Server) Probe(msg []byte) (asks bool, denial error) {
	asks, denial = isProbe(msg)
	if asks && denial == nil {
		makePlain(msg)
	}
	return asks, denial
}

// Answer makes the reply to the plain call the answer to the probe (oncrpc.Guard). It
// returns false if the reply is a denial.
func (s *Server) Answer(reply []byte) ([]byte, bool) { return addToken(reply) }

// Secure makes the handshake with a client whose probe was answered (oncrpc.Guard). It
// takes over nc.
func (s *Server) Secure(ctx context.Context, nc net.Conn) (oncrpc.SecureConn, error) {
	c, err := s.handshake(ctx, nc, protocolRPC, s.cfg.Strict)
	if err != nil {
		return nil, err // not a nil *Conn
	}
	return c, nil
}

// SecureMPA makes the handshake with a client that begins with it, and speaks MPA then.
// It takes over nc.
func (s *Server) SecureMPA(ctx context.Context, nc net.Conn) (*Conn, error) {
	return s.handshake(ctx, nc, protocolMPA, true)
}

// Begin makes a connection for MPA secure if its client begins with TLS, and returns nc
// itself if the client begins with MPA (iwarp.Config.Secure).
func (s *Server) Begin(ctx context.Context, nc net.Conn) (net.Conn, error) {
	first, err := peek(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	if first != typeHandshake { // MPA begins with the letter M
		s.InClear(nc)
		return nc, nil
	}
	c, err := s.SecureMPA(ctx, nc)
	if err != nil {
		return nil, err // not a nil *Conn
	}
	return c, nil
}

var errNoTLS = &Error{Reason: NoTLS, Text: "the client begins in clear, and this server wants TLS: mount with xprtsec=mtls or xprtsec=tls"}

// BeginOnly is Begin for a server that rejects connections in clear, by MPA: they count
// as failures.
func (s *Server) BeginOnly(ctx context.Context, nc net.Conn) (net.Conn, error) {
	conn, err := s.Begin(ctx, nc)
	if conn == nc {
		_ = s.failure(nc, errNoTLS)
	}
	return conn, err
}

func (s *Server) handshake(ctx context.Context, nc net.Conn, protocol string, strict bool) (*Conn, error) {
	ctx, h := s.begin(ctx, nc)
	defer s.end(h)
	ctx, stop := context.WithTimeoutCause(ctx, s.patience, errStalled)
	defer stop()
	m := s.store.material()
	w := &wire{Conn: nc, server: true}
	config := s.config(m, protocol, strict)
	secrets := s.kernel.prepare(config, w)
	t := tls.Server(w, config)
	if err := t.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = s.failure(nc, explain(err, true)) // counted before the peer sees the end
		_ = w.Close()
		return nil, err
	}
	c := newConn(t, w, s.cfg.MaxRecords)
	c.server, c.security.Mutual = s, len(c.state.PeerCertificates) > 0
	err := s.kernel.enter(c, secrets)
	if err == nil {
		err = s.admit(c, m)
	}
	if err != nil {
		err = s.failure(nc, err)
		_ = c.Close()
		return nil, err
	}
	s.audit.Info("TLS", "peer", nc.RemoteAddr(), "security", c.security)
	return c, nil
}

// config returns crypto/tls's configuration. It offers neither tickets nor data before
// the end of the handshake (RFC 9289, Section 6), and asks every client for a
// certificate (Section 4.2).
func (s *Server) config(m *material, protocol string, strict bool) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{*m.cert},
		MinVersion:   tls.VersionTLS13, MaxVersion: tls.VersionTLS13,
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
		ClientAuth: tls.RequestClientCert, // judge decides
		Time:       s.cfg.Now,
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := checkProtocol(&state, protocol, strict); err != nil {
				return err
			}
			return s.judge(&state, m)
		},
	}
}

// judge returns why a client's certificate is refused. A client without one is
// anonymous.
func (s *Server) judge(state *tls.ConnectionState, m *material) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	leaf := state.PeerCertificates[0]
	owner := "the client (" + quote(leaf.Subject.String()) + ")"
	if m.roots == nil { // which would mean every authority of the host
		return about(owner, reject(Untrusted, "cannot be judged: name the authority of clients with --tls-ca, or mount with xprtsec=tls"))
	}
	return about(owner, m.judge(state.PeerCertificates, &asClient, s.cfg.Now()))
}

// admit adds a connection whose client was judged with m, unless the files have changed
// meanwhile and it is not trusted any more.
func (s *Server) admit(c *Conn, m *material) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.store.material(); now != m {
		if err := s.judge(&c.state, now); err != nil {
			return err
		}
	}
	party := s.writers.Enter(c.RemoteAddr())
	s.conns[c], c.wire.memory = party, party.Own
	s.made++
	return nil
}

func (s *Server) forget(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(c)
}

func (s *Server) forgetLocked(c *Conn) {
	if party, known := s.conns[c]; known {
		s.writers.Leave(party)
		delete(s.conns, c)
	}
}

// Reload reads the files again, and judges the clients of running connections anew
// (RFC 9289, Section 5.2.1). If the files have a fault, everything stays as it was, and
// Reload returns the fault.
func (s *Server) Reload() error { return s.reload(true) }

func (s *Server) reload(always bool) error {
	read, err := s.store.refresh(always)
	switch {
	case err != nil:
		s.cfg.Log.Error("the certificates of TLS stay as they were", "err", err)
		return err
	case !read:
		return nil
	}
	s.cfg.Log.Info("the certificates of TLS were read again", "cert", s.cfg.Files.Cert)
	s.judgeAgain()
	return nil
}

func (s *Server) judgeAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.store.material()
	for c := range s.conns {
		if err := s.judge(&c.state, m); err != nil {
			s.cutLocked(c, err)
		}
	}
}

func (s *Server) cutLocked(c *Conn, err error) {
	s.log.Warn("a client is trusted no longer, and its connection ends", "peer", c.RemoteAddr(), "err", err)
	s.cut++
	s.forgetLocked(c)
	c.abort(err)
}

// lapse judges the clients anew whose certificates, or the lists about them, have ended
// since a time. It returns the present time.
func (s *Server) lapse(since time.Time) time.Time {
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.store.material()
	all := slices.ContainsFunc(m.lists, func(l *revocations) bool { return within(l.until, since, now) })
	for c := range s.conns {
		if !all && !slices.ContainsFunc(c.state.PeerCertificates, func(one *x509.Certificate) bool { return within(one.NotAfter, since, now) }) {
			continue
		}
		if err := s.judge(&c.state, m); err != nil {
			s.cutLocked(c, err)
		}
	}
	return now
}

// within reports whether an end has come after since.
func within(end, since, now time.Time) bool { return !end.Before(since) && end.Before(now) }

// Watch reads the files again when they change, and ends connections whose clients'
// certificates end, until ctx ends.
func (s *Server) Watch(ctx context.Context) {
	since := s.cfg.Now()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = s.reload(false) // in the log
			since = s.lapse(since)
		}
	}
}
