package tickets

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcsec"
	"github.com/nfsrdma/nfsrdma/tickets/wire"
)

// A CallersConfig configures Callers.
type CallersConfig struct {
	Helper *Helper

	// Service returns the server's name: nfs@server.example, with the host as it was
	// typed. It is called for each context. Its error becomes that of calls.
	Service func(ctx context.Context) (string, error)

	// Prog and Vers are those of rpcsec.ClientConfig.
	Prog, Vers uint32

	// GiveUp is how long calls wait for a KDC, or for a host that cannot start the
	// helper, if their user has had a context: as those of rpcrdma.ClientConfig for
	// the server. 0 means for ever.
	GiveUp time.Duration

	// Log gets a line for each user and ticket that cannot be used. Nil: none.
	Log *slog.Logger
}

// Callers is a Caller that makes calls with a flavour of Kerberos in the context of
// their user. The credential of a call has that flavour and the fields of AUTH_SYS,
// which name the local user and are not sent. Other calls are made as they are.
type Callers struct {
	next oncrpc.Caller
	cfg  CallersConfig

	bound rpcsec.Bound

	mu     sync.Mutex
	life   time.Duration // failureLife
	users  map[memberKey]*member
	clock  uint64 // counts calls
	closed bool
}

// A memberKey is a user and a flavour: one mount has one flavour, but a client may use
// several exports.
type memberKey struct{ uid, flavor uint32 }

// A member is a user with a context, or with a failure to make one.
type member struct {
	client *rpcsec.Client
	calls  int    // under way
	last   uint64 // clock of the last call
	had    bool   // a context

	user User // of the newest call: the helper gets its groups

	failure error
	until   time.Time // end of the failure
	told    string    // of the failure that the log has; "" if calls succeeded since
}

// NewCallers returns Callers that make their calls through next.
func NewCallers(next oncrpc.Caller, cfg CallersConfig) *Callers {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Callers{next: next, cfg: cfg, life: failureLife, users: make(map[memberKey]*member)}
}

var _ oncrpc.Caller = (*Callers)(nil)

// errClosed is the error of calls after Close.
var errClosed = errors.New("tickets: closed")

// Call makes a call in the context of its user (oncrpc.Caller). If there is no
// context, the error is of type *Error. A connection that is lost while a context
// is made is no error: the next attempt has another AP-REQ. A user who has had a context
// waits for the KDC, as for the server: the user's programs may have written data that
// would be lost, and both may have restarted.
func (c *Callers) Call(ctx context.Context, x *oncrpc.Exchange) error {
	user, ok := userOf(&x.Cred)
	if !ok {
		return c.next.Call(ctx, x)
	}
	m, spare, err := c.enter(user, x.Cred.Flavor)
	c.end(spare)
	if err != nil {
		return err
	}
	defer c.leave(m)
	defer func() { x.XID = 0 }() // the attempts below are one call
	var since time.Time          // when the first attempt failed
	for {
		err := m.client.Call(ctx, x)
		if err == nil {
			return nil
		}
		switch refused, ok := errors.AsType[*gss.Error](err); {
		case errors.Is(err, rpcsec.ErrResent):
		case ok && !errors.Is(err, rpcsec.ErrReply):
			return c.failed(m, user.refused(refused))
		case c.waits(m, err, &since):
			select {
			case <-time.After(c.life):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		default:
			return err
		}
	}
}

// waits reports whether a call of m with an error is to be made again. since is when
// the first such call failed.
func (c *Callers) waits(m *member, err error, since *time.Time) bool {
	own, ok := errors.AsType[*Error](err)
	if !ok || !own.passing() {
		return false
	}
	if since.IsZero() {
		*since = time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.had && (c.cfg.GiveUp == 0 || time.Since(*since) < c.cfg.GiveUp)
}

// Lack returns an error if the user of cred cannot have a context, because this host
// does not have a ticket of that user, Kerberos's library, or the server's name.
// Trouble that may pass, such as a silent KDC or an expired ticket, is no lack.
// The server is not asked.
func (c *Callers) Lack(ctx context.Context, cred rpcmsg.Cred) error {
	service, err := c.cfg.Service(ctx)
	if err != nil {
		return err
	}
	i, err := c.cfg.Helper.Begin(ctx, User{UID: cred.UID, GID: cred.GID, Groups: cred.GIDs}, service, nil)
	if err == nil {
		_, _, err = i.Step(ctx, nil)
		i.Close()
	}
	if own, ok := errors.AsType[*Error](err); ok && !own.NoTicket() && own.Reason != wire.NoLibrary {
		return nil
	}
	return err
}

// enter returns the member for a call of a user, and a client that made room.
func (c *Callers) enter(user User, flavor uint32) (m *member, spare *rpcsec.Client, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, errClosed
	}
	key := memberKey{user.UID, flavor}
	if m = c.users[key]; m == nil {
		if len(c.users) >= maxUsers {
			spare = c.evictLocked()
		}
		m = c.newMember(flavor)
		c.users[key] = m
	}
	m.calls++
	c.clock++
	m.last, m.user.UID, m.user.GID = c.clock, user.UID, user.GID
	if !slices.Equal(m.user.Groups, user.Groups) { // a helper may read the old list
		m.user.Groups = slices.Clone(user.Groups)
	}
	return m, spare, nil
}

// newMember returns a member without a context.
func (c *Callers) newMember(flavor uint32) *member {
	m := new(member)
	m.client = rpcsec.NewClient(c.next, rpcsec.ClientConfig{
		Bound: &c.bound, Flavor: flavor, Prog: c.cfg.Prog, Vers: c.cfg.Vers,
		Begin: func(ctx context.Context, bindings []byte) (gss.Initiator, error) {
			return c.begin(ctx, m, bindings)
		},
	})
	return m
}

func (c *Callers) leave(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.calls--
}

// evictLocked forgets the user whose last call was the earliest, of those without
// calls under way. If all have some, nobody goes: calls are bounded elsewhere.
func (c *Callers) evictLocked() *rpcsec.Client {
	var oldest *member
	var of memberKey
	for key, m := range c.users {
		if m.calls == 0 && (oldest == nil || m.last < oldest.last) {
			oldest, of = m, key
		}
	}
	if oldest == nil {
		return nil
	}
	delete(c.users, of)
	return oldest.client
}

// end has the server forget a context.
func (c *Callers) end(client *rpcsec.Client) {
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), destroyTime)
	defer cancel()
	client.Close(ctx)
}

// begin starts to make a context, unless that has just failed.
func (c *Callers) begin(ctx context.Context, m *member, bindings []byte) (gss.Initiator, error) {
	c.mu.Lock()
	user, failure := m.user, m.failure
	fresh := time.Now().Before(m.until)
	c.mu.Unlock()
	if fresh {
		return nil, failure
	}
	service, err := c.cfg.Service(ctx)
	if err != nil {
		return nil, err
	}
	i, err := c.cfg.Helper.Begin(ctx, user, service, bindings)
	if err != nil {
		return nil, c.failed(m, err)
	}
	return &watched{i, c, m}, nil
}

// failed remembers a failure of a user's own, and tells it once.
func (c *Callers) failed(m *member, err error) error {
	own, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	about := own.Words // without a time, which grows
	if own.Reason == wire.Expired {
		about = own.Ended.String()
	}
	c.mu.Lock()
	m.failure, m.until = err, time.Now().Add(c.life)
	tell := m.told != about
	m.told = about
	c.mu.Unlock()
	if tell {
		c.cfg.Log.Warn("a user has no Kerberos context", "err", err)
	}
	return err
}

// A watched Initiator remembers failures.
type watched struct {
	gss.Initiator
	callers *Callers
	member  *member
}

// Step is Initiator's.
func (w *watched) Step(ctx context.Context, answer []byte) ([]byte, gss.Context, error) {
	token, made, err := w.Initiator.Step(ctx, answer)
	if err != nil {
		return nil, nil, w.callers.failed(w.member, err)
	}
	if made != nil {
		w.callers.mu.Lock()
		w.member.told, w.member.had = "", true
		w.callers.mu.Unlock()
	}
	return token, made, nil
}

// Close ends all contexts at the server, if it is reached before ctx ends. Later
// calls fail. The caller must have ended all calls.
func (c *Callers) Close(ctx context.Context) {
	c.mu.Lock()
	all := c.users
	c.users, c.closed = nil, true
	c.mu.Unlock()
	for _, m := range all {
		m.client.Close(ctx)
	}
}
