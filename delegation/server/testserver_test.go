package server

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

const term = 9 * time.Second

// A testServer is a Keeper and a server that grants every ACQUIRE, in a
// synctest bubble.
type testServer struct {
	*Keeper
	t      *testing.T
	listen *rdmatest.Listener
	srv    *rpcrdma.Server
	take   func(broken func()) (release func(), err error) // takes the lease for every grant; nil means none

	dirs bool // every object is a directory

	mu    sync.Mutex
	peers []*oncrpc.Peer
}

func runTest(t *testing.T, c Config, f func(t *testing.T, r *testServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c.Lease, c.Clock = term, func() time.Duration { return time.Since(start) + time.Hour }
		k, err := New(c)
		require.NoError(t, err)
		r := &testServer{Keeper: k, t: t, listen: rdmatest.Listen(t)}
		mux := new(oncrpc.Mux)
		mux.Register(delegation.Program, delegation.Version, r)
		srv := &rpcrdma.Server{Handler: mux, Extensions: k.Extension()}
		r.srv = srv
		served := make(chan error, 1)
		go func() { served <- srv.Serve(r.listen) }()
		defer func() { // even if f fails: timers that go on would keep the bubble
			synctest.Wait() // the server has seen the clients' closes
			assert.NoError(t, srv.Shutdown(t.Context()))
			assert.NoError(t, <-served)
			if c.Recorder == nil {
				time.Sleep(2 * term) // postponed changes, and refused ACQUIREs, are forgotten
				var ch recall.Change
				assert.True(t, k.Holders().NothingHeld(&ch), "nothing is counted any more")
				k.Holders().Done(&ch)
			}
			k.Close()
			k.Close()
			assert.Empty(t, k.leases.byKey)
		}()
		f(t, r)
	})
}

// beginChange begins a change by p, or from elsewhere if p is nil.
func (r *testServer) beginChange(ch *recall.Change, p *oncrpc.Peer, key string) bool {
	return r.Holders().Begin(ch, recall.Changer{Conn: p}, []byte(key))
}

// startWaiting begins a change from elsewhere that must wait for a recall.
func (r *testServer) startWaiting(key string) *recall.Change {
	ch := new(recall.Change)
	assert.False(r.t, r.beginChange(ch, nil, key))
	return ch
}

// awaitChange waits for a change that began with startWaiting, however long that takes.
func (r *testServer) awaitChange(ch *recall.Change, key string) {
	for !r.beginChange(ch, nil, key) {
		if err := r.Holders().Wait(r.t.Context(), ch, fairshare.Name{}); err != nil {
			assert.ErrorIs(r.t, err, recall.ErrTryLater)
		}
	}
	r.Holders().Done(ch)
}

// ServeRPC serves ACQUIRE (oncrpc.Handler).
func (r *testServer) ServeRPC(_ context.Context, c *oncrpc.Call, rep *oncrpc.Reply) error {
	r.mu.Lock()
	r.peers = append(r.peers, c.Peer)
	r.mu.Unlock()
	var a delegation.AcquireArgs
	a.Decode(&c.Args)
	res := delegation.AcquireRes{Status: delegation.StatusRefused}
	s, why := r.Prepare(c.Peer, a.Handle)
	if why == 0 {
		defer s.Cancel()
		if r.dirs {
			s.Directory()
		}
		if r.take != nil {
			why, _ = s.Lease(r.take)
		}
	}
	var gt delegation.Grant
	if why == 0 {
		gt, why = s.Commit()
	}
	if res.Reason = why; why == 0 {
		rep.Posted = s.Replied
		res = delegation.AcquireRes{
			Status: delegation.StatusOK, Slot: gt.Slot, Generation: gt.Generation, Types: a.Types,
			LeaseMS: uint32(r.Keeper.Lease().Milliseconds()), Attr: make([]byte, delegation.AttrLen),
		}
	}
	rep.Head = res.AppendTo(rep.Head)
	return c.Args.Done()
}

// A fakeClient holds grants, and returns them only when told to.
type fakeClient struct {
	t    *testing.T
	conn *rpcrdma.ClientConn
	link *rpcrdma.ExtensionConn
	got  chan [8]byte
}

func (r *testServer) dialClient(x rpcrdma.ExtensionConfig) *fakeClient {
	c := &fakeClient{t: r.t, got: make(chan [8]byte, 100)}
	x.Attach = func(l *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler { c.link = l; return c }
	var err error
	c.conn, err = rpcrdma.DialConn(r.t.Context(), r, "", rpcrdma.ClientConnConfig{Extensions: &x})
	require.NoError(r.t, err)
	return c
}

// Dial connects to the server (rdma.Dialer).
func (r *testServer) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	return r.listen.Dial(ctx, cfg)
}

// dialWithCounters is a client with counters.
func (r *testServer) dialWithCounters() *fakeClient {
	return r.dialClient(rpcrdma.ExtensionConfig{ImmediateRecvs: 4, Atomics: true, Delegation: true})
}

func (c *fakeClient) Immediate(word [8]byte)   { c.got <- word }
func (c *fakeClient) Closed(error)             {}
func (c *fakeClient) Complete(rdma.Completion) {}
func (c *fakeClient) closeConn()               { require.NoError(c.t, c.conn.Close()) }

// renewLease adds to LeaseWord.
func (c *fakeClient) renewLease() {
	require.NoError(c.t, c.link.Atomic(rdma.OpFetchAdd, c.link.Counter(0), delegation.OpRenew.Operands(), c, 0))
}

// returnGrants replies to the oldest unanswered recall.
func (c *fakeClient) returnGrants() {
	c.t.Helper()
	var word [8]byte
	select {
	case word = <-c.got:
	case <-time.After(time.Hour):
		require.Fail(c.t, "no recall arrives")
	}
	word[0] = byte(delegation.KindReturned)
	require.NoError(c.t, c.link.PostImmediate(word, nil, 0))
	synctest.Wait()
}

// acquireGrant sends an ACQUIRE, and returns the Reason if it is refused.
func (c *fakeClient) acquireGrant(key string) delegation.Reason {
	c.t.Helper()
	a := delegation.AcquireArgs{Handle: []byte(key), Types: delegation.FileData}
	x := &oncrpc.Exchange{
		Prog: delegation.Program, Vers: delegation.Version, Proc: delegation.ProcAcquire,
		Args: a.AppendTo(nil), MaxResults: delegation.MaxAcquireRes,
	}
	require.NoError(c.t, c.conn.Call(c.t.Context(), x))
	defer x.Release()
	var res delegation.AcquireRes
	res.Decode(&x.Results)
	require.NoError(c.t, x.Results.Done())
	synctest.Wait() // the server has learned that the reply is posted
	return res.Reason
}
