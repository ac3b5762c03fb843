package nlmclient

import (
	"context"
	"encoding/binary"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4/nlm4test"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

var discard = slog.New(slog.DiscardHandler)

var quick = waitTimes{firstRetry: time.Millisecond, lastRetry: 4 * time.Millisecond, lastUncalled: 4 * time.Millisecond, gracePause: time.Millisecond, probeInterval: 2 * time.Millisecond, closeLimit: 10 * time.Second}

// newClient returns a Client for s that polls.
func newClient(t testing.TB, s *nlm4test.Server, change func(*Config)) *Client {
	t.Helper()
	cfg := Config{
		Server: Server{NFS: s, Conn: s.Conn, Hosts: []string{"127.0.0.1"}}, Name: "h1", NoCallback: true, Log: discard, times: quick,
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		assert.Empty(t, c.files)
		assert.Empty(t, c.identities)
		assert.Empty(t, c.usedSVIDs)
	})
	return c
}

func rangeAt(start, end uint64) locks.Range { return locks.Range{Start: start, End: end} }

func newRequest(owner uint64, r locks.Range, exclusive, wait bool) *Request {
	return &Request{
		Handle: []byte("f"), Owner: Owner{ID: owner}, PID: uint32(owner), Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys},
		Range: r, Exclusive: exclusive, Wait: wait,
	}
}

// mustLock locks, and waits until the request has left the queue, which is after Lock
// returns: tests count the requests in the queue.
func (c *Client) mustLock(t testing.TB, r *Request) {
	t.Helper()
	require.NoError(t, c.Lock(t.Context(), r))
	requireEventually(t, "the request has left the queue", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		f := c.files[string(r.Handle)]
		return f == nil || !slices.ContainsFunc(f.queue, func(w *lockRequest) bool { return w.Owner == r.Owner })
	})
}

// lockLater locks in the background.
func (c *Client) lockLater(ctx context.Context, r *Request) chan error {
	done := make(chan error, 1)
	go func() { done <- c.Lock(ctx, r) }()
	return done
}

// requireEventually waits for a condition that other goroutines bring about.
func requireEventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Microsecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

// A fakeBind is a host's rpcbind.
type fakeBind struct {
	rpcbind.Host

	mu   sync.Mutex
	list map[string]rpcbind.RPCB // by netid
}

// newFakeBind starts an rpcbind. If taken, another lock manager is registered.
func newFakeBind(t testing.TB, taken bool) *fakeBind {
	b := &fakeBind{list: make(map[string]rpcbind.RPCB)}
	b.Socket = filepath.Join(t.TempDir(), "rpcbind.sock")
	if taken {
		for _, netid := range []string{rpcbind.NetidTCP, rpcbind.NetidTCP6} {
			b.list[netid] = rpcbind.RPCB{Prog: nlm4.Program, Vers: nlm4.Version, Netid: netid, Addr: "0.0.0.0.0.1", Owner: "superuser"}
		}
		// An address at which a listener accepts connections.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		for netid, m := range b.list {
			m.Addr = rpcbind.Uaddr(l.Addr().(*net.TCPAddr).AddrPort())
			b.list[netid] = m
		}
	}
	l, err := net.Listen("unix", b.Socket)
	require.NoError(t, err)
	mux := &oncrpc.Mux{}
	mux.Register(rpcbind.Program, rpcbind.RPCBVers4, b)
	srv := &oncrpc.Server{Handler: mux, Log: discard}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, srv.Shutdown(context.Background()))
		assert.NoError(t, <-done)
	})
	return b
}

// ServeRPC implements oncrpc.Handler.
func (b *fakeBind) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	const set, unset, dump = 1, 2, 4
	var m rpcbind.RPCB
	switch c.Proc {
	case set, unset:
		m.Decode(&c.Args)
		_, found := b.list[m.Netid]
		if c.Proc == unset {
			delete(b.list, m.Netid)
		} else if !found {
			b.list[m.Netid] = m
		}
		r.Head = xdr.AppendBool(r.Head, found == (c.Proc == unset))
	case dump:
		for _, netid := range slices.Sorted(maps.Keys(b.list)) {
			r.Head = b.list[netid].AppendTo(xdr.AppendBool(r.Head, true))
		}
		r.Head = xdr.AppendBool(r.Head, false)
	default:
		return oncrpc.ErrProcUnavail
	}
	return c.Args.Done()
}

// registeredPort returns the lock manager's registered address.
func (b *fakeBind) registeredPort(t testing.TB) netip.AddrPort {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, err := rpcbind.ParseUaddr(b.list[rpcbind.NetidTCP].Addr)
	require.NoError(t, err)
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), a.Port())
}

// newCaller connects to the GRANTED port from one of this host's addresses.
func (b *fakeBind) newCaller(t testing.TB, from string) oncrpc.Caller {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.DialContext(t.Context(), "tcp", b.registeredPort(t).String())
	require.NoError(t, err)
	c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{})
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// sendGranted sends a GRANTED call, and returns the Status.
func sendGranted(t testing.TB, c oncrpc.Caller, proc uint32, a *nlm4.TestArgs) (nlm4.Status, error) {
	x := oncrpc.Exchange{Prog: nlm4.Program, Vers: nlm4.Version, Proc: proc, Args: a.AppendTo(nil, nlm4.Version), MaxResults: nlm4.MaxResult(proc)}
	if err := c.Call(context.Background(), &x); err != nil {
		return 0, err
	}
	defer x.Release()
	if proc != nlm4.ProcGranted {
		return 0, x.Results.Done()
	}
	var res nlm4.Res
	res.Decode(&x.Results, nlm4.Version)
	assert.Equal(t, a.Cookie, res.Cookie)
	return res.Status, x.Results.Done()
}

// grantCookie is a cookie from the server.
var grantCookie = binary.BigEndian.AppendUint64(nil, 99)

// grantedArgs returns the GRANTED arguments for a LOCK.
func grantedArgs(a *nlm4.LockArgs) *nlm4.TestArgs {
	return &nlm4.TestArgs{Cookie: grantCookie, Exclusive: a.Exclusive, Lock: a.Lock}
}
