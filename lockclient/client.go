package lockclient

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcbind"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Config configures a Client.
type Config struct {
	Server Server

	// Name is this host's name in calls; "" means os.Hostname.
	Name string

	// RPCBind is the rpcbind of this host, at which the port for GRANTED is
	// registered. NoCallback registers nothing: waiters then only ask again.
	RPCBind    rpcbind.Host
	NoCallback bool

	// File keeps the list of the locks, for a Client that comes after this
	// process was killed; "" means that none does.
	File string

	// Log gets what no caller is told; nil means slog.Default.
	Log *slog.Logger

	times times // other than usual in tests
}

// An Owner is an owner of locks as the kernel numbers it: the open files of a
// process, or, with Flock, one open file.
type Owner struct {
	ID    uint64
	Flock bool
}

// A Client keeps the locks of one mount. Its methods may be used by multiple
// goroutines at once.
type Client struct {
	cfg      Config
	line     *line
	callback *callback // nil: the server cannot call back

	life     context.Context // of the calls
	quit     context.CancelFunc
	work     sync.WaitGroup // watch and takeOver
	requests sync.WaitGroup // none begins once closed is set

	mu     sync.Mutex
	closed bool
	lost   func(handle []byte, o Owner)
	table
}

// New finds the server's lock manager. The error says where it does not answer.
func New(ctx context.Context, cfg Config) (*Client, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Name == "" {
		cfg.Name, _ = os.Hostname()
	}
	if cfg.times == (times{}) {
		cfg.times = usual
	}
	c := &Client{cfg: cfg}
	var err error
	if c.line, err = find(ctx, &c.cfg.Server); err != nil {
		return nil, err
	}
	c.table = newTable(cfg.Name, rand.Int32())
	c.life, c.quit = context.WithCancel(context.Background())
	if !cfg.NoCallback {
		if c.callback, err = c.listen(ctx); err != nil {
			cfg.Log.Debug("the server cannot say when a lock is free: waiters ask again and again", "err", err)
		}
	}
	c.takeOver()
	c.work.Go(c.watch)
	return c, nil
}

// OnLost has f called for each lock that another client has got after a restart
// of the server. f must not use the Client.
func (c *Client) OnLost(f func(handle []byte, o Owner)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = f
}

// CallsBack reports whether the server can say that a lock is free.
func (c *Client) CallsBack() bool { return c.callback != nil }

// OverTCP reports whether the lock manager has a connection of its own.
func (c *Client) OverTCP() bool { return !c.line.shared }

// Close unlocks everything, and ends all waits with ErrClosed. If the server does
// not answer in time, its locks are left to the next Client with the same
// Config.File.
func (c *Client) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	for _, f := range c.files {
		for _, w := range f.queue {
			w.endLocked(ErrClosed)
		}
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.times.farewell)
	half := time.After(c.cfg.times.farewell / 2) // for requests, of which one may be stuck
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.requests.Wait()
	}()
	select {
	case <-ended:
	case <-half:
	}
	gone := c.unlockAll(ctx)
	cancel()
	c.quit()
	<-ended
	if c.callback != nil {
		c.callback.close()
	}
	c.work.Wait()
	c.line.close()
	c.left.close(gone)
}

// unlockAll releases all locks of all owners, and reports whether the server
// answered.
func (c *Client) unlockAll(ctx context.Context) (done bool) {
	done = true
	for _, h := range c.holders() {
		done = c.unlock(ctx, h, whole) == nil && done
		c.unhold(h)
	}
	return done
}

// arguments are arguments of a call.
type arguments interface {
	AppendTo(b []byte, vers uint32) []byte
}

// call makes a call whose results are a Status.
func (c *Client) call(ctx context.Context, proc uint32, cred *rpcmsg.Cred, args arguments) (nlm4.Status, error) {
	var res nlm4.Res
	err := c.line.call(ctx, proc, cred, args.AppendTo(nil, nlm4.Version), func(r *xdr.Reader) { res.Decode(r, nlm4.Version) })
	return res.Status, err
}
