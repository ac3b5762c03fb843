package tickets

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
)

// A CallersConfig configures Callers.
type CallersConfig struct {
	Helper *Helper

	// Service returns the server's name: nfs@server.example, with the host as it was
	// typed. It is called for each context. Calls fail with its error.
	Service func(ctx context.Context) (string, error)

	// Prog and Vers are as in rpcsec.ClientConfig.
	Prog, Vers uint32

	// GiveUp is the time for which calls wait for a KDC, or until the helper can be
	// started, if their user has had a context; compare rpcrdma.ClientConfig. 0 means
	// forever.
	GiveUp time.Duration

	// Log gets a line for each user and ticket that cannot be used; nil means none.
	Log *slog.Logger
}

// Callers is a Caller that makes calls with a Kerberos flavor in their user's context. A
// call's credential has that flavor and AUTH_SYS fields, which identify the local user
// and are not sent. Other calls are passed on unchanged.
type Callers struct {
	next oncrpc.Caller
	cfg  CallersConfig

	bound rpcsec.Bound

	mu          sync.Mutex
	failureLife time.Duration // failureLifetime
	users       map[userKey]*userContext
	callCount   uint64 // counts calls
	closed      bool
}

// An userKey is a user and a flavor: one mount has one flavor, but a client may use
// several exports.
type userKey struct{ uid, flavor uint32 }

// An userContext is a user with a context, or with a failure to establish one.
type userContext struct {
	client      *rpcsec.Client
	calls       int    // in flight
	lastCall    uint64 // callCount at the last call
	established bool   // a context was established

	user User // from the newest call: the helper gets its groups

	failure       error
	failureEnd    time.Time // when the failure expires
	loggedFailure string    // text of the logged failure; "" if calls have succeeded since
}

// NewCallers returns Callers that make their calls through next.
func NewCallers(next oncrpc.Caller, cfg CallersConfig) *Callers {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Callers{next: next, cfg: cfg, failureLife: failureLifetime, users: make(map[userKey]*userContext)}
}

var _ oncrpc.Caller = (*Callers)(nil)

// errClosed is the error for calls after Close.
var errClosed = errors.New("tickets: closed")

// Call makes a call in its user's context (oncrpc.Caller). If there is no context, the
// error has type *Error. A connection that is lost while a context is established is not
// an error: the next attempt has another AP-REQ. A user who has had a context waits for
// the KDC, as for the server: the user's programs may have written data that would be
// lost, and both may have restarted.
func (c *Callers) Call(ctx context.Context, x *oncrpc.Exchange) error {
	user, ok := userOf(&x.Cred)
	if !ok {
		return c.next.Call(ctx, x)
	}
	m, spare, err := c.acquireMember(user, x.Cred.Flavor)
	c.destroyContext(spare)
	if err != nil {
		return err
	}
	defer c.releaseMember(m)
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
			return c.recordFailure(m, user.rejectionError(refused))
		case c.shouldRetry(m, err, &since):
			select {
			case <-time.After(c.failureLife):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		default:
			return err
		}
	}
}

// shouldRetry reports whether a call that failed with err should be retried. since is the
// time when the first such call failed.
func (c *Callers) shouldRetry(m *userContext, err error, since *time.Time) bool {
	own, ok := errors.AsType[*Error](err)
	if !ok || !own.isTransient() {
		return false
	}
	if since.IsZero() {
		*since = time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.established && (c.cfg.GiveUp == 0 || time.Since(*since) < c.cfg.GiveUp)
}

// Lack returns an error if cred's user cannot have a context, because this host has no
// ticket for that user, lacks the Kerberos library, or does not know the server's name. A
// transient failure, such as an unresponsive KDC or an expired ticket, is ignored. The
// server is not contacted.
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

// acquireMember returns the member for a user's call, and the client of an evicted user.
func (c *Callers) acquireMember(user User, flavor uint32) (m *userContext, spare *rpcsec.Client, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, errClosed
	}
	key := userKey{user.UID, flavor}
	if m = c.users[key]; m == nil {
		if len(c.users) >= maxUsers {
			spare = c.evictLocked()
		}
		m = c.newUserContext(flavor)
		c.users[key] = m
	}
	m.calls++
	c.callCount++
	m.lastCall, m.user.UID, m.user.GID = c.callCount, user.UID, user.GID
	if !slices.Equal(m.user.Groups, user.Groups) { // a helper may read the old list
		m.user.Groups = slices.Clone(user.Groups)
	}
	return m, spare, nil
}

// newUserContext returns a member without a context.
func (c *Callers) newUserContext(flavor uint32) *userContext {
	m := new(userContext)
	m.client = rpcsec.NewClient(c.next, rpcsec.ClientConfig{
		Bound: &c.bound, Flavor: flavor, Prog: c.cfg.Prog, Vers: c.cfg.Vers,
		Begin: func(ctx context.Context, bindings []byte) (gss.Initiator, error) {
			return c.beginContext(ctx, m, bindings)
		},
	})
	return m
}

func (c *Callers) releaseMember(m *userContext) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.calls--
}

// evictLocked removes the least recently active user without calls in flight. If all have
// some, it removes none: calls are bounded elsewhere.
func (c *Callers) evictLocked() *rpcsec.Client {
	var oldest *userContext
	var of userKey
	for key, m := range c.users {
		if m.calls == 0 && (oldest == nil || m.lastCall < oldest.lastCall) {
			oldest, of = m, key
		}
	}
	if oldest == nil {
		return nil
	}
	delete(c.users, of)
	return oldest.client
}

// destroyContext destroys a client's context at the server.
func (c *Callers) destroyContext(client *rpcsec.Client) {
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), destroyTimeout)
	defer cancel()
	client.Close(ctx)
}

// beginContext starts establishing a context, unless that has just failed.
func (c *Callers) beginContext(ctx context.Context, m *userContext, bindings []byte) (gss.Initiator, error) {
	c.mu.Lock()
	user, failure := m.user, m.failure
	fresh := time.Now().Before(m.failureEnd)
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
		return nil, c.recordFailure(m, err)
	}
	return &failureRecorder{i, c, m}, nil
}

// recordFailure records a user's failure, and logs it once.
func (c *Callers) recordFailure(m *userContext, err error) error {
	own, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	description := own.Text // without a time, which grows
	if own.Reason == wire.Expired {
		description = own.Ended.String()
	}
	c.mu.Lock()
	m.failure, m.failureEnd = err, time.Now().Add(c.failureLife)
	isNew := m.loggedFailure != description
	m.loggedFailure = description
	c.mu.Unlock()
	if isNew {
		c.cfg.Log.Warn("cannot create a Kerberos context for a user", "err", err)
	}
	return err
}

// A failureRecorder is an Initiator that records failures.
type failureRecorder struct {
	gss.Initiator
	callers *Callers
	user    *userContext
}

// Step calls the Initiator, and records the result.
func (w *failureRecorder) Step(ctx context.Context, answer []byte) ([]byte, gss.Context, error) {
	token, made, err := w.Initiator.Step(ctx, answer)
	if err != nil {
		return nil, nil, w.callers.recordFailure(w.user, err)
	}
	if made != nil {
		w.callers.mu.Lock()
		w.user.loggedFailure, w.user.established = "", true
		w.callers.mu.Unlock()
	}
	return token, made, nil
}

// Close destroys all contexts at the server, if it can be reached before ctx ends. Later
// calls fail. All calls must have returned.
func (c *Callers) Close(ctx context.Context) {
	c.mu.Lock()
	all := c.users
	c.users, c.closed = nil, true
	c.mu.Unlock()
	for _, m := range all {
		m.client.Close(ctx)
	}
}
