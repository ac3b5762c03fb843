package nlmclient

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A Config configures a Client.
type Config struct {
	Server Server

	// Name is this host's name in calls; "" means os.Hostname.
	Name string

	// RPCBind is this host's rpcbind, with which the port for GRANTED is
	// registered. If NoCallback is set, nothing is registered, and waiting
	// requests only poll.
	RPCBind    rpcbind.Host
	NoCallback bool

	// File is the path of the list of lock owners, from which the next Client
	// releases their locks if this process is killed; "" means no list.
	File string

	// Log receives events that are not returned to a caller; nil means
	// slog.Default.
	Log *slog.Logger

	times waitTimes // set by tests; zero means defaultTimes
}

// An Owner is a lock owner as the kernel numbers it: a process's open files,
// or, if Flock is set, one open file.
type Owner struct {
	ID    uint64
	Flock bool
}

// A Client holds one mount's locks. Its methods are safe for concurrent use.
type Client struct {
	cfg           Config
	lockManager   *lockManagerConn
	grantedServer *grantedServer // nil if the server cannot call back

	ctx        context.Context // for calls
	cancel     context.CancelFunc
	background sync.WaitGroup // watchForRestart and unlockOldRecords
	requests   sync.WaitGroup // none starts once closed is set

	mu     sync.Mutex
	closed bool
	onLost func(handle []byte, o Owner)
	lockTable
}

// New finds the server's lock manager. The error lists the addresses that were
// tried.
func New(ctx context.Context, cfg Config) (*Client, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Name == "" {
		cfg.Name, _ = os.Hostname()
	}
	if cfg.times == (waitTimes{}) {
		cfg.times = defaultTimes
	}
	c := &Client{cfg: cfg}
	var err error
	if c.lockManager, err = findLockManager(ctx, &c.cfg.Server); err != nil {
		return nil, err
	}
	c.lockTable = newTable(cfg.Name, rand.Int32())
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if !cfg.NoCallback {
		if c.grantedServer, err = c.listenForGranted(ctx); err != nil {
			cfg.Log.Debug("no GRANTED callbacks: waiting lock requests poll the server", "err", err)
		}
	}
	c.unlockOldRecords()
	c.background.Go(c.watchForRestart)
	return c, nil
}

// OnLost sets the function f that is called for each lock that another client
// has acquired after a server restart. f must not use the Client.
func (c *Client) OnLost(f func(handle []byte, o Owner)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onLost = f
}

// CallsBack reports whether the server can send GRANTED callbacks.
func (c *Client) CallsBack() bool { return c.grantedServer != nil }

// Close releases all locks, and makes all waiting requests fail with ErrClosed.
// If the server does not reply in time, the next Client with the same
// Config.File releases the locks.
func (c *Client) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	for _, f := range c.files {
		for _, w := range f.queue {
			w.finishLocked(ErrClosed)
		}
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.times.closeLimit)
	requestLimit := time.After(c.cfg.times.closeLimit / 2) // for requests, because one may be stuck
	requestsDone := make(chan struct{})
	go func() {
		defer close(requestsDone)
		c.requests.Wait()
	}()
	select {
	case <-requestsDone:
	case <-requestLimit:
	}
	allReleased := c.unlockEverything(ctx)
	cancel()
	c.cancel()
	<-requestsDone
	if c.grantedServer != nil {
		c.grantedServer.closeServer()
	}
	c.background.Wait()
	c.lockManager.closeConn()
	c.ownerList.closeList(allReleased)
}

// unlockEverything releases all owners' locks, and reports whether the server
// replied to all calls.
func (c *Client) unlockEverything(ctx context.Context) (done bool) {
	done = true
	for _, h := range c.useAllHolders() {
		done = c.unlockRange(ctx, h, wholeFile) == nil && done
		c.releaseHolder(h)
	}
	return done
}

// callArgs are a call's arguments.
type callArgs interface {
	AppendTo(b []byte, vers uint32) []byte
}

// callStatus sends a call whose results are a Status.
func (c *Client) callStatus(ctx context.Context, proc uint32, cred *rpcmsg.Cred, args callArgs) (nlm4.Status, error) {
	var res nlm4.Res
	err := c.lockManager.callUntilReply(ctx, proc, cred, args.AppendTo(nil, nlm4.Version), func(r *xdr.Reader) { res.Decode(r, nlm4.Version) })
	return res.Status, err
}
