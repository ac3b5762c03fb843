package rpcsec

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A User is a principal's user on this host.
type User struct {
	UID, GID uint32
	GIDs     []uint32
}

// A ServerConfig configures a Server.
type ServerConfig struct {
	// Acceptor establishes contexts. It must not be nil.
	Acceptor gss.Acceptor

	// Off, if not nil, reports that no mechanism is currently available. All calls then
	// pass, and the next Service denies those with RPCSEC_GSS.
	Off func() bool

	// Map returns a principal's user for a client, and is called for each call. ok is
	// false if the principal has none: the call is then anonymous. After an error its
	// user is unknown: programs tell the client to retry, which SYSTEM_ERR would not do,
	// and execute calls that need no user. Map must not be nil.
	Map func(ctx context.Context, client netip.Addr, p gss.Principal) (u User, ok bool, err error)

	// MaxContexts bounds the contexts; 0 means 65,536. Beyond that, the party with the
	// most loses its least recently used context.
	MaxContexts int

	// Log receives messages for the administrator; nil means slog.Default.
	Log *slog.Logger
}

// A Server is a Service in front of another Service. It serves RPCSEC_GSS version 1: it
// establishes contexts, verifies calls, and passes each on as a plain call with
// Request.Verified; it signs or encrypts the replies. All other calls pass unchanged. All
// transports must share one Server, because a context may be established over TCP and
// used over RDMA.
type Server struct {
	next     oncrpc.Service
	cfg      ServerConfig
	log      *slog.Logger
	contexts *contextTable
	accepts  *fairshare.Places
	calls    sync.Pool // contains *serverCall
	counts   counts
}

// Stats is a Server's state and counters.
type Stats struct {
	Contexts  int           // current contexts
	Made      uint64        // contexts
	Refused   uint64        // all rejected initiator tokens
	Evicted   uint64        // contexts evicted in favor of new ones
	Expired   uint64        // expired contexts removed
	Destroyed uint64        // contexts destroyed by their clients
	Accepting time.Duration // time that the mechanism spent on tokens

	// RefusedBy counts the rejected tokens by the mechanism's status (gss.Error.Minor); 0
	// means that the Server itself rejected them.
	RefusedBy map[uint32]uint64

	Calls     [3]uint64 // verified, by service: none, integrity, privacy
	Unknown   uint64    // calls with unknown contexts
	BadMICs   uint64    // calls whose header was not signed by the context
	Dropped   uint64    // calls with a sequence number that was seen or is too old
	BadBodies uint64    // calls whose arguments were not signed or encrypted by the context
}

// A ContextInfo describes a context, for lists.
type ContextInfo struct {
	Principal string // escaped as in replay keys and log lines
	Client    string // the party from whose address the context was established
	Mechanism string
	Expires   time.Time // when the ticket expires
	UID       uint32    // the last call's
	Mapped    bool      // the principal had a user in the last call
	Calls     int       // in progress
}

// Contexts returns up to limit contexts, each client's last used first, and the total
// number.
func (s *Server) Contexts(limit int) (list []ContextInfo, all int) {
	return s.contexts.listContexts(limit)
}

type counts struct {
	made, refused, expired, destroyed, unknown, badMICs, dropped, badBodies atomic.Uint64

	calls     [3]atomic.Uint64
	accepting atomic.Int64 // nanoseconds

	mu        sync.Mutex
	refusedBy map[uint32]uint64
}

// maxStatuses bounds the mechanism statuses that are counted separately.
const maxStatuses = 64

// countRejected counts a rejected token.
func (c *counts) countRejected(minor uint32) {
	c.refused.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusedBy == nil {
		c.refusedBy = make(map[uint32]uint64)
	}
	if _, known := c.refusedBy[minor]; !known && len(c.refusedBy) >= maxStatuses {
		minor = 0
	}
	c.refusedBy[minor]++
}

// NewServer returns a Server in front of next.
func NewServer(next oncrpc.Service, cfg ServerConfig) *Server {
	if cfg.MaxContexts == 0 {
		cfg.MaxContexts = defaultMaxContexts
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Server{
		next: next, cfg: cfg, log: lograte.Logger(cfg.Log),
		contexts: newContextTable(cfg.MaxContexts), accepts: fairshare.NewPlaces(maxAccepts),
	}
}

var _ oncrpc.Service = (*Server)(nil)

// Resumes reports whether the next Service Resumes.
func (s *Server) Resumes() bool { return oncrpc.Resumes(s.next) }

// Stats returns s's state and counters.
func (s *Server) Stats() Stats {
	c := &s.counts
	t := Stats{
		Made: c.made.Load(), Refused: c.refused.Load(), Expired: c.expired.Load(), Destroyed: c.destroyed.Load(),
		Unknown: c.unknown.Load(), BadMICs: c.badMICs.Load(), Dropped: c.dropped.Load(), BadBodies: c.badBodies.Load(),
	}
	t.Accepting = time.Duration(c.accepting.Load())
	for i := range t.Calls {
		t.Calls[i] = c.calls[i].Load()
	}
	c.mu.Lock()
	t.RefusedBy = maps.Clone(c.refusedBy)
	c.mu.Unlock()
	var idle uint64
	t.Contexts, t.Evicted, idle = s.contexts.stats()
	t.Expired += idle
	return t
}

// isOff reports whether no mechanism is currently available.
func (s *Server) isOff() bool { return s.cfg.Off != nil && s.cfg.Off() }

// Serve serves a call (Service).
func (s *Server) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	if len(req.Msg) < 7*4 || binary.BigEndian.Uint32(req.Msg[6*4:]) != rpcmsg.AuthGSS || s.isOff() {
		return s.next.Serve(ctx, req, rep)
	}
	c, _ := s.calls.Get().(*serverCall)
	if c == nil {
		c = &serverCall{server: s}
		c.lendItemFunc, c.holdHeadFunc = c.lendItem, c.holdHead
	}
	defer s.calls.Put(c)
	defer c.reset()
	return c.serveCall(ctx, req, rep)
}

// errDropped is the reason for closing a connection. A client that has lost a reply
// retransmits on another connection, with a new sequence number.
var errDropped = errors.New("rpcsec: a call's sequence number was seen before or is too old")

// closeConn closes the connection without replying to the call. On a reliable connection a
// client would wait forever for the reply (RFC 8881, Section 2.9.2).
func (s *Server) closeConn(peer *oncrpc.Peer, cause error) (answer bool) {
	s.log.Warn("RPC connection closed without a reply, so that the client retransmits", "peer", peer, "err", cause)
	if peer.Cut != nil {
		peer.Cut(cause)
	}
	return false
}

var nameEscaper = strings.NewReplacer(`\`, `\\`, "/", `\/`, "@", `\@`, "\x00", `\0`, "\n", `\n`)

// principalName returns a principal as one string. Different principals have different
// strings.
func principalName(p gss.Principal) string {
	parts := make([]string, len(p.Name))
	for i, part := range p.Name {
		parts[i] = nameEscaper.Replace(part)
	}
	return strings.Join(parts, "/") + "@" + nameEscaper.Replace(p.Realm)
}
