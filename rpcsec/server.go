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

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A User is the user of a principal on this host.
type User struct {
	UID, GID uint32
	GIDs     []uint32
}

// A ServerConfig configures a Server.
type ServerConfig struct {
	// Acceptor makes contexts. It must not be nil.
	Acceptor gss.Acceptor

	// Off, if not nil, reports that there is no mechanism now. Then all calls pass,
	// and the Service behind denies those of RPCSEC_GSS.
	Off func() bool

	// Map returns the user of a principal for a client, and is asked for each call.
	// ok is false if the principal has none: then the call is anonymous. After an
	// error its user is unknown: programs ask the client to come again, which
	// SYSTEM_ERR would not do, and calls that need no user are executed. Map must not
	// be nil.
	Map func(ctx context.Context, client netip.Addr, p gss.Principal) (u User, ok bool, err error)

	// MaxContexts bounds the contexts; 0 means 65,536. Above that, the party with
	// the most loses the context that no call has used for longest.
	MaxContexts int

	// Log receives messages for the administrator; nil means slog.Default.
	Log *slog.Logger
}

// A Server is a Service in front of another Service. It serves RPCSEC_GSS
// version 1: it makes contexts, verifies calls, and hands each up as a plain call
// with Request.Verified; it signs or encrypts the replies. All other calls pass.
// All transports must share one Server, because a context may be made over TCP
// and used over RDMA.
type Server struct {
	next     oncrpc.Service
	cfg      ServerConfig
	log      *slog.Logger
	contexts *table
	accepts  *fairshare.Places
	calls    sync.Pool // of *call
	counts   counts
}

// Stats is the state of a Server and its counters.
type Stats struct {
	Contexts  int           // held now
	Made      uint64        // contexts
	Refused   uint64        // tokens of initiators, altogether
	Evicted   uint64        // contexts, to make room
	Expired   uint64        // contexts, some time after their end
	Destroyed uint64        // contexts, by their clients
	Accepting time.Duration // for which the mechanism looked at tokens

	// RefusedBy counts the refused tokens by the status of the mechanism (Minor of
	// gss.Error); 0 is a refusal of the Server's own.
	RefusedBy map[uint32]uint64

	Calls     [3]uint64 // verified, by service: none, integrity, privacy
	Unknown   uint64    // calls of unknown contexts
	BadMICs   uint64    // calls whose header was not signed by the context
	Dropped   uint64    // calls with a sequence number that was seen or is too old
	BadBodies uint64    // calls whose arguments were not signed or encrypted by the context
}

// A ContextInfo describes a context, for lists.
type ContextInfo struct {
	Principal string // escaped as in replay keys and log lines
	Client    string // the party of the address from which the context was made
	Mechanism string
	Expires   time.Time // the end of the ticket
	UID       uint32    // of the last call
	Mapped    bool      // the principal had a user then
	Calls     int       // under way
}

// Contexts returns up to limit contexts, the last used of each client first, and
// how many there are.
func (s *Server) Contexts(limit int) (list []ContextInfo, all int) { return s.contexts.list(limit) }

type counts struct {
	made, refused, expired, destroyed, unknown, badMICs, dropped, badBodies atomic.Uint64

	calls     [3]atomic.Uint64
	accepting atomic.Int64 // nanoseconds

	mu        sync.Mutex
	refusedBy map[uint32]uint64
}

// maxStatuses bounds the statuses of the mechanism that are counted apart.
const maxStatuses = 64

// refuse counts a refused token.
func (c *counts) refuse(minor uint32) {
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
		contexts: newTable(cfg.MaxContexts), accepts: fairshare.NewPlaces(maxAccepts),
	}
}

var _ oncrpc.Service = (*Server)(nil)

// Resumes reports Resumes of the Service behind s.
func (s *Server) Resumes() bool { return oncrpc.Resumes(s.next) }

// Stats returns the state of s and its counters.
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
	t.Contexts, t.Evicted, idle = s.contexts.held()
	t.Expired += idle
	return t
}

// off reports whether there is no mechanism now.
func (s *Server) off() bool { return s.cfg.Off != nil && s.cfg.Off() }

// Serve answers a call (Service).
func (s *Server) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	if len(req.Msg) < 7*4 || binary.BigEndian.Uint32(req.Msg[6*4:]) != rpcmsg.AuthGSS || s.off() {
		return s.next.Serve(ctx, req, rep)
	}
	c, _ := s.calls.Get().(*call)
	if c == nil {
		c = &call{server: s}
		c.lend, c.hold = c.lendItem, c.holdHead
	}
	defer s.calls.Put(c)
	defer c.reset()
	return c.serve(ctx, req, rep)
}

// errDropped is the cause of the end of a connection. A client that has lost a
// reply calls again on another connection, with a new sequence number.
var errDropped = errors.New("rpcsec: a call's sequence number was seen before or is too old")

// cut ends the connection of a call without an answer. On a reliable connection a
// client would wait for ever for an answer that does not come (RFC 8881, Section
// 2.9.2).
func (s *Server) cut(peer *oncrpc.Peer, cause error) (answer bool) {
	s.log.Warn("RPC connection cut", "peer", peer, "err", cause)
	if peer.Cut != nil {
		peer.Cut(cause)
	}
	return false
}

var escape = strings.NewReplacer(`\`, `\\`, "/", `\/`, "@", `\@`, "\x00", `\0`, "\n", `\n`)

// nameOf returns a principal as one string. Different principals have different
// strings.
func nameOf(p gss.Principal) string {
	parts := make([]string, len(p.Name))
	for i, part := range p.Name {
		parts[i] = escape.Replace(part)
	}
	return strings.Join(parts, "/") + "@" + escape.Replace(p.Realm)
}
