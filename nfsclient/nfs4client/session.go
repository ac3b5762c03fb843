package nfs4client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Config configures a Session. Dial and Network are required.
type Config struct {
	// Dial connects to the server. Session calls it for the first connection,
	// and to replace a lost one.
	Dial func(ctx context.Context) (Conn, error)

	// Network is the kind of transport, "tcp" or "rdma". A client ID belongs to
	// one kind, because nfsrdmad keeps separate state for each.
	Network string

	// Minor is the minor version: nfs4.Minor1 or nfs4.Minor2.
	Minor uint32

	// Cred is the credential for all calls. The server also identifies the
	// client by it (RFC 8881, Section 2.4).
	Cred rpcmsg.Cred

	// Slots is the maximum number of calls in flight; 0 means 64, and the limit
	// is 256. The server may grant fewer.
	Slots int

	// Payload is the maximum READ or WRITE size in bytes to request; 0 means 1
	// MiB. The server may grant less.
	Payload int

	// GiveUp is the time for which a call tries to reach the server before it
	// fails with ErrUnreachable; 0 means no limit: the calls' contexts bound
	// the wait.
	GiveUp time.Duration

	// Log receives messages about lost server state; nil means slog.Default().
	Log *slog.Logger
}

const (
	defaultSlots    = 64
	defaultPayload  = 1 << 20
	messageOverhead = 1 << 10 // bytes in a request or reply besides the payload
	maxCachedReply  = 4 << 10 // bytes in a reply that the server must cache
	maxOperations   = 16      // in a COMPOUND
	backchannelSize = 4 << 10 // message size in bytes for a backchannel that is not used
)

// A Session is one server's client: a client ID with one session (RFC 8881,
// Section 2.10), which is replaced if the server loses it. Its methods are safe
// for concurrent use.
type Session struct {
	cfg       Config
	redialer  *redialer
	owner     []byte
	startTime time.Time

	ctx        context.Context // cancelled by Close
	cancel     context.CancelFunc
	background sync.WaitGroup // goroutines

	lastRenewal atomic.Int64 // when the lease was last renewed, in ns after startTime
	flags       atomic.Uint32

	freeingRevoked   atomic.Bool  // revoked state is being freed
	nextRevokedCheck atomic.Int64 // when to check for revoked state again, in ns after startTime

	current     atomic.Pointer[sessionState] // the current session
	listedEpoch atomic.Uint64                // the epoch for which the files were last listed; written under mu
	compounds   sync.Pool                    // unused *Compound values

	mu       sync.Mutex
	recovery *recovery // nil if none is running
	files    map[*File]struct{}

	// Dial and the running recovery own the following fields.
	verifier    nfs4.Verifier
	clientID    uint64 // client ID
	createSeqID uint32 // sequence ID for the next CREATE_SESSION
	epoch       uint64 // number of client IDs so far
	server      Server
}

// A sessionState is the state of one session on the server.
type sessionState struct {
	id    nfs4.SessionID
	fore  nfs4.ChannelAttrs
	epoch uint64
	slots slotTable
}

// A Server is a server's description of itself (RFC 8881, Section 18.35), with
// the session's limits.
type Server struct {
	Minor        uint32
	Scope, Major []byte // eir_server_scope, so_major_id
	MinorID      uint64 // so_minor_id
	Domain, Name string // implementation (nfs_impl_id4); may be empty
	Lease        time.Duration
	ClientID     uint64
	Session      nfs4.SessionID
	Fore         nfs4.ChannelAttrs // as granted
}

// Dial creates a client ID and a session. It connects only once: the error is
// from Config.Dial, or from the first call that fails. If the server does not
// support NFSv4, the error is an oncrpc.ReplyError; if it does not support the
// minor version, an Error with the status NFS4ERR_MINOR_VERS_MISMATCH.
func Dial(ctx context.Context, cfg Config) (*Session, error) {
	if cfg.Minor != nfs4.Minor1 && cfg.Minor != nfs4.Minor2 {
		return nil, fmt.Errorf("nfs4client: unsupported minor version %d: use 1 or 2", cfg.Minor)
	}
	cfg.Slots = min(cmp.Or(cfg.Slots, defaultSlots), maxSlots)
	cfg.Payload = min(cmp.Or(cfg.Payload, defaultPayload), maxItem)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	s := &Session{
		cfg: cfg, redialer: newRedialer(&cfg), owner: newOwner(cfg.Network), verifier: newVerifier(),
		startTime: time.Now(), files: make(map[*File]struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.compounds.New = func() any { return new(Compound) }
	g, err := s.connectServer(ctx)
	if err == nil {
		s.current.Store(g)
		s.listedEpoch.Store(g.epoch)
		err = s.sendReclaimComplete(ctx, g)
	}
	if err == nil {
		err = s.fetchLease(ctx, g)
	}
	if err != nil {
		s.cancel()
		s.redialer.closeConn(context.Cause(ctx))
		return nil, err
	}
	s.background.Go(s.renewLease)
	return s, nil
}

// Close destroys the session and the client ID, unless ctx ends first, and
// closes the connection. Calls in flight fail. If the last call has failed with
// ErrUnreachable, Close tries to reach the server only once.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock() // from now on, no recovery starts
	s.cancel()
	s.mu.Unlock()
	s.background.Wait()
	g := s.current.Load()
	g.slots.breakSession()
	s.redialer.announceLastCalls()
	var c Compound
	c.Add(nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.id}, &c.statusRes)
	err := s.doWithoutSequence(ctx, &c)
	if err == nil || hasStatus(err, nfs4.ErrBadSession) {
		c.Reset()
		c.Add(nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: s.clientID}, &c.statusRes)
		err = s.doWithoutSequence(ctx, &c)
	}
	c.Reset()
	s.redialer.closeConn(context.Cause(ctx))
	if hasStatus(err, nfs4.ErrStaleClientID, nfs4.ErrClientIDBusy) {
		return nil // lost already, or files are open: the server expires it after a lease time
	}
	return err
}

// Server returns the server's description.
func (s *Session) Server() Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// MaxRead returns the maximum READ size in bytes that the session allows.
func (s *Session) MaxRead() int { return s.maxPayload(s.current.Load().fore.MaxResponseSize) }

// MaxWrite returns the maximum WRITE size in bytes that the session allows.
func (s *Session) MaxWrite() int { return s.maxPayload(s.current.Load().fore.MaxRequestSize) }

func (s *Session) maxPayload(limit uint32) int {
	return max(min(int(limit)-messageOverhead, s.cfg.Payload), 1)
}

// Flags returns the last SEQUENCE's status flags (nfs4.SeqCBPathDown and so
// on).
func (s *Session) Flags() uint32 { return s.flags.Load() }

// connectServer creates a client ID and a session for it.
func (s *Session) connectServer(ctx context.Context) (*sessionState, error) {
	if err := s.exchangeID(ctx); err != nil {
		return nil, err
	}
	return s.createSession(ctx)
}

// exchangeID obtains a client ID (RFC 8881, Section 18.35).
func (s *Session) exchangeID(ctx context.Context) error {
	var c Compound
	var res nfs4.ExchangeIDRes
	c.Add(nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{
		Verifier: s.verifier, Owner: s.owner, Flags: nfs4.ExchangeUseNonPNFS,
		Impl: nfs4.ImplID{Set: true, Domain: []byte("nfsrdma.org"), Name: []byte("nfsrdma")},
	}, &res)
	if err := s.doWithoutSequence(ctx, &c); err != nil {
		return err
	}
	defer c.Reset()
	if res.Protect.How != nfs4.ProtectNone {
		return replyError("EXCHANGE_ID: state protection %d was not requested", res.Protect.How)
	}
	s.clientID, s.createSeqID = res.ClientID, res.SequenceID
	s.epoch++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Minor, s.server.ClientID, s.server.MinorID = s.cfg.Minor, res.ClientID, res.MinorID
	s.server.Scope, s.server.Major = append([]byte(nil), res.Scope...), append([]byte(nil), res.MajorID...)
	s.server.Domain, s.server.Name = string(res.Impl.Domain), string(res.Impl.Name)
	return nil
}

// createSession creates a session (RFC 8881, Section 18.36). The session has no
// backchannel, but servers check the backchannel's limits.
func (s *Session) createSession(ctx context.Context) (*sessionState, error) {
	var c Compound
	var res nfs4.CreateSessionRes
	args := nfs4.CreateSessionArgs{
		ClientID: s.clientID, Sequence: s.createSeqID,
		Fore: nfs4.ChannelAttrs{
			MaxRequestSize: uint32(s.cfg.Payload) + messageOverhead, MaxResponseSize: uint32(s.cfg.Payload) + messageOverhead,
			MaxResponseSizeCached: maxCachedReply, MaxOperations: maxOperations, MaxRequests: uint32(s.cfg.Slots),
		},
		Back:     nfs4.ChannelAttrs{MaxRequestSize: backchannelSize, MaxResponseSize: backchannelSize, MaxOperations: 2, MaxRequests: 1},
		SecParms: nfs4.SecParms{None: true},
	}
	c.Add(nfs4.OpCreateSession, &args, &res)
	if err := s.doWithoutSequence(ctx, &c); err != nil {
		return nil, err
	}
	defer c.Reset()
	s.createSeqID++
	f := &res.Fore
	if f.MaxRequests == 0 || f.MaxOperations < 2 || f.MaxRequestSize < messageOverhead || f.MaxResponseSize < messageOverhead {
		return nil, replyError("CREATE_SESSION: %d slots, %d operations, requests of %d bytes and replies of %d bytes are too small",
			f.MaxRequests, f.MaxOperations, f.MaxRequestSize, f.MaxResponseSize)
	}
	g := &sessionState{id: res.Session, fore: *f, epoch: s.epoch}
	g.slots.initSlots(uint32(s.cfg.Slots), f.MaxRequests)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Session, s.server.Fore = res.Session, res.Fore
	return g, nil
}

// sendReclaimComplete sends RECLAIM_COMPLETE, without which the server does not
// open files (RFC 8881, Section 18.51).
func (s *Session) sendReclaimComplete(ctx context.Context, g *sessionState) error {
	c := s.getCompound()
	defer s.putCompound(c)
	c.Add(nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, &c.statusRes)
	err := s.doInSession(ctx, g, c)
	if hasStatus(err, nfs4.ErrCompleteAlready) {
		return nil
	}
	return err
}

// fetchLease gets the server's lease time.
func (s *Session) fetchLease(ctx context.Context, g *sessionState) error {
	c := s.getCompound()
	defer s.putCompound(c)
	c.PutRootFH()
	c.GetAttr(nfs4.BitmapOf(nfs4.AttrLeaseTime), &c.getAttrRes)
	if err := s.doInSession(ctx, g, c); err != nil {
		return err
	}
	a := &c.getAttrRes.Attrs
	if !a.Mask.Has(nfs4.AttrLeaseTime) || a.LeaseTime == 0 {
		return replyError("GETATTR: no lease_time")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Lease = time.Duration(a.LeaseTime) * time.Second
	return nil
}

// renewLease renews the lease while there are no calls.
func (s *Session) renewLease() {
	for {
		every := s.Server().Lease / 3
		idle := time.Since(s.startTime) - time.Duration(s.lastRenewal.Load())
		if idle >= every {
			err := s.Sequence(s.ctx)
			if err != nil && s.ctx.Err() == nil {
				s.cfg.Log.Warn("cannot renew the lease of an NFS session", "err", err)
			}
			idle = 0
		}
		if sleepContext(s.ctx, every-idle) != nil {
			return
		}
	}
}

// Sequence sends a single SEQUENCE, which renews the lease, and shows that the
// server is reachable.
func (s *Session) Sequence(ctx context.Context) error {
	c := s.getCompound()
	defer s.putCompound(c)
	return s.Do(ctx, c)
}

// getCompound returns an empty Compound, which the caller returns with
// putCompound.
func (s *Session) getCompound() *Compound {
	c := s.compounds.Get().(*Compound)
	c.Reset()
	return c
}

func (s *Session) putCompound(c *Compound) {
	c.Reset()
	s.compounds.Put(c)
}
