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
	// Dial makes a connection to the server. Session calls Dial for the first
	// connection, and to replace a lost one.
	Dial func(ctx context.Context) (Conn, error)

	// Network is the kind of transport, "tcp" or "rdma". A client ID belongs to
	// one kind: nfsrdmad keeps the state of the two apart.
	Network string

	// Minor is the minor version: nfs4.Minor1 or nfs4.Minor2.
	Minor uint32

	// Cred is the credential of all calls. The server knows the client by the
	// credential, too (RFC 8881, Section 2.4).
	Cred rpcmsg.Cred

	// Slots is how many calls may be under way; 0 means 64, and more than 256
	// is 256. The server may grant fewer.
	Slots int

	// Payload is the length in bytes of the longest READ or WRITE to ask for; 0
	// means 1 MiB. The server may grant less.
	Payload int

	// GiveUp is how long a call goes on without a server before it fails with
	// ErrUnreachable; 0 means for ever: contexts of calls bound the wait.
	GiveUp time.Duration

	// Log receives the losses of the server's state; nil means slog.Default().
	Log *slog.Logger
}

const (
	defaultSlots   = 64
	defaultPayload = 1 << 20
	overhead       = 1 << 10 // bytes of a request or reply besides a payload
	maxCached      = 4 << 10 // bytes of a reply that the server must keep
	maxOperations  = 16      // in a COMPOUND
	backSize       = 4 << 10 // bytes of the messages of a backchannel that is not used
)

// A Session is a client of one server: a client ID with one session (RFC 8881,
// Section 2.10), which is replaced if the server loses it. Its methods are safe
// for concurrent use.
type Session struct {
	cfg      Config
	redialer *redialer
	owner    []byte
	began    time.Time

	life  context.Context // ended by Close
	end   context.CancelFunc
	under sync.WaitGroup // goroutines

	renewed atomic.Int64 // when the lease was renewed last, in ns after began
	flags   atomic.Uint32

	acknowledging atomic.Bool  // revoked state is being freed
	notBefore     atomic.Int64 // when revoked state may be looked for again, in ns after began

	now    atomic.Pointer[generation] // the session in force
	listed atomic.Uint64              // epoch for which the files were listed last; changes under mu
	calls  sync.Pool                  // of *Compound

	mu     sync.Mutex
	repair *repair // nil: none is running
	files  map[*File]struct{}

	// Of Dial, and of the running repair.
	verf   nfs4.Verifier
	client uint64 // client ID
	create uint32 // sequence ID of the next CREATE_SESSION
	epoch  uint64 // number of client IDs so far
	server Server
}

// A generation is one session at the server.
type generation struct {
	id    nfs4.SessionID
	fore  nfs4.ChannelAttrs
	epoch uint64
	slots slots
}

// A Server is a server's description of itself (RFC 8881, Section 18.35), with
// the limits of the session.
type Server struct {
	Minor        uint32
	Scope, Major []byte // eir_server_scope, so_major_id
	MinorID      uint64 // so_minor_id
	Domain, Name string // of the implementation; may be empty
	Lease        time.Duration
	ClientID     uint64
	Session      nfs4.SessionID
	Fore         nfs4.ChannelAttrs // as granted
}

// Dial makes a client ID and a session. Dial connects once: the error is from
// Config.Dial, or from the first call that fails. A server without version 4
// gives an oncrpc.ReplyError, a server without the minor version an Error with
// the status NFS4ERR_MINOR_VERS_MISMATCH.
func Dial(ctx context.Context, cfg Config) (*Session, error) {
	if cfg.Minor != nfs4.Minor1 && cfg.Minor != nfs4.Minor2 {
		return nil, fmt.Errorf("nfs4client: no minor version %d: use 1 or 2", cfg.Minor)
	}
	cfg.Slots = min(cmp.Or(cfg.Slots, defaultSlots), maxSlots)
	cfg.Payload = min(cmp.Or(cfg.Payload, defaultPayload), maxItem)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	s := &Session{
		cfg: cfg, redialer: newRedialer(&cfg), owner: newOwner(cfg.Network), verf: newVerifier(),
		began: time.Now(), files: make(map[*File]struct{}),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.calls.New = func() any { return new(Compound) }
	g, err := s.connect(ctx)
	if err == nil {
		s.now.Store(g)
		s.listed.Store(g.epoch)
		err = s.complete(ctx, g)
	}
	if err == nil {
		err = s.learnLease(ctx, g)
	}
	if err != nil {
		s.end()
		s.redialer.close(context.Cause(ctx))
		return nil, err
	}
	s.under.Go(s.renew)
	return s, nil
}

// Close destroys the session and the client ID, as far as ctx allows, and
// closes the connection. Calls under way fail. If the last call has failed with
// ErrUnreachable, Close tries to reach the server only once.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock() // no repair begins any more
	s.end()
	s.mu.Unlock()
	s.under.Wait()
	g := s.now.Load()
	g.slots.end()
	s.redialer.depart()
	var c Compound
	c.Add(nfs4.OpDestroySession, &nfs4.SessionArgs{Session: g.id}, &c.done)
	err := s.bare(ctx, &c)
	if err == nil || statusIs(err, nfs4.ErrBadSession) {
		c.Reset()
		c.Add(nfs4.OpDestroyClientID, &nfs4.ClientIDArgs{ClientID: s.client}, &c.done)
		err = s.bare(ctx, &c)
	}
	c.Reset()
	s.redialer.close(context.Cause(ctx))
	if statusIs(err, nfs4.ErrStaleClientID, nfs4.ErrClientIDBusy) {
		return nil // lost already, or files are open: the server drops it after a lease
	}
	return err
}

// Server describes the server.
func (s *Session) Server() Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// MaxRead and MaxWrite return the length in bytes of the longest READ and WRITE
// that the session allows.
func (s *Session) MaxRead() int { return s.payload(s.now.Load().fore.MaxResponseSize) }

// MaxWrite is described at MaxRead.
func (s *Session) MaxWrite() int { return s.payload(s.now.Load().fore.MaxRequestSize) }

func (s *Session) payload(limit uint32) int {
	return max(min(int(limit)-overhead, s.cfg.Payload), 1)
}

// Flags returns the status flags of the last SEQUENCE (nfs4.SeqCBPathDown and
// so on).
func (s *Session) Flags() uint32 { return s.flags.Load() }

// connect makes a client ID and a session for it.
func (s *Session) connect(ctx context.Context) (*generation, error) {
	if err := s.exchangeID(ctx); err != nil {
		return nil, err
	}
	return s.createSession(ctx)
}

// exchangeID makes a client ID (RFC 8881, Section 18.35).
func (s *Session) exchangeID(ctx context.Context) error {
	var c Compound
	var res nfs4.ExchangeIDRes
	c.Add(nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{
		Verifier: s.verf, Owner: s.owner, Flags: nfs4.ExchangeUseNonPNFS,
		Impl: nfs4.ImplID{Set: true, Domain: []byte("nfsrdma.org"), Name: []byte("nfsrdma")},
	}, &res)
	if err := s.bare(ctx, &c); err != nil {
		return err
	}
	defer c.Reset()
	if res.Protect.How != nfs4.ProtectNone {
		return bad("EXCHANGE_ID: state protection %d, which was not asked for", res.Protect.How)
	}
	s.client, s.create = res.ClientID, res.SequenceID
	s.epoch++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Minor, s.server.ClientID, s.server.MinorID = s.cfg.Minor, res.ClientID, res.MinorID
	s.server.Scope, s.server.Major = append([]byte(nil), res.Scope...), append([]byte(nil), res.MajorID...)
	s.server.Domain, s.server.Name = string(res.Impl.Domain), string(res.Impl.Name)
	return nil
}

// createSession makes a session (RFC 8881, Section 18.36). The session has no
// backchannel, but servers check the limits of a backchannel.
func (s *Session) createSession(ctx context.Context) (*generation, error) {
	var c Compound
	var res nfs4.CreateSessionRes
	args := nfs4.CreateSessionArgs{
		ClientID: s.client, Sequence: s.create,
		Fore: nfs4.ChannelAttrs{
			MaxRequestSize: uint32(s.cfg.Payload) + overhead, MaxResponseSize: uint32(s.cfg.Payload) + overhead,
			MaxResponseSizeCached: maxCached, MaxOperations: maxOperations, MaxRequests: uint32(s.cfg.Slots),
		},
		Back:     nfs4.ChannelAttrs{MaxRequestSize: backSize, MaxResponseSize: backSize, MaxOperations: 2, MaxRequests: 1},
		SecParms: nfs4.SecParms{None: true},
	}
	c.Add(nfs4.OpCreateSession, &args, &res)
	if err := s.bare(ctx, &c); err != nil {
		return nil, err
	}
	defer c.Reset()
	s.create++
	f := &res.Fore
	if f.MaxRequests == 0 || f.MaxOperations < 2 || f.MaxRequestSize < overhead || f.MaxResponseSize < overhead {
		return nil, bad("CREATE_SESSION: %d slots, %d operations, requests of %d bytes and replies of %d bytes are too small",
			f.MaxRequests, f.MaxOperations, f.MaxRequestSize, f.MaxResponseSize)
	}
	g := &generation{id: res.Session, fore: *f, epoch: s.epoch}
	g.slots.init(min(f.MaxRequests, uint32(s.cfg.Slots)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Session, s.server.Fore = res.Session, res.Fore
	return g, nil
}

// complete sends RECLAIM_COMPLETE, without which the server refuses to open
// files (RFC 8881, Section 18.51).
func (s *Session) complete(ctx context.Context, g *generation) error {
	c := s.compound()
	defer s.put(c)
	c.Add(nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, &c.done)
	err := s.within(ctx, g, c)
	if statusIs(err, nfs4.ErrCompleteAlready) {
		return nil
	}
	return err
}

// learnLease asks for the lease time.
func (s *Session) learnLease(ctx context.Context, g *generation) error {
	c := s.compound()
	defer s.put(c)
	c.PutRootFH()
	c.GetAttr(nfs4.BitmapOf(nfs4.AttrLeaseTime), &c.attrs)
	if err := s.within(ctx, g, c); err != nil {
		return err
	}
	a := &c.attrs.Attrs
	if !a.Mask.Has(nfs4.AttrLeaseTime) || a.LeaseTime == 0 {
		return bad("GETATTR: no lease_time")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Lease = time.Duration(a.LeaseTime) * time.Second
	return nil
}

// renew keeps the lease while there are no calls.
func (s *Session) renew() {
	for {
		every := s.Server().Lease / 3
		idle := time.Since(s.began) - time.Duration(s.renewed.Load())
		if idle >= every {
			err := s.Sequence(s.life)
			if err != nil && s.life.Err() == nil {
				s.cfg.Log.Warn("the lease of an NFS session was not renewed", "err", err)
			}
			idle = 0
		}
		if sleep(s.life, every-idle) != nil {
			return
		}
	}
}

// Sequence sends a SEQUENCE alone: the call renews the lease, and shows that
// the server answers.
func (s *Session) Sequence(ctx context.Context) error {
	c := s.compound()
	defer s.put(c)
	return s.Do(ctx, c)
}

// compound returns an empty Compound, and put takes it back.
func (s *Session) compound() *Compound {
	c := s.calls.Get().(*Compound)
	c.Reset()
	return c
}

func (s *Session) put(c *Compound) {
	c.Reset()
	s.calls.Put(c)
}
