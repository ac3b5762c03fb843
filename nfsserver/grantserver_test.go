package nfsserver

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	grantLease = 6 * time.Second
	allTypes   = delegation.FileData | delegation.FileAttributes | delegation.Directory
)

// A grantServer is a server with a tree in memory, with clients that hold delegations, in a
// bubble:
//
//	/ ── d ── f
//	  │    └─ sub
//	  └─ e ── g
type grantServer struct {
	t      *testing.T
	k      *delegserver.Keeper
	s      *Server
	fs     vfs.FS
	mux    *oncrpc.Mux
	kept   *replay.Cache
	listen *rdmatest.Listener
	fh     map[string]nfs3.FH
	hosts  map[string]vfs.Handle
}

// runWithGrants runs f, and checks that nothing is left afterwards.
func runWithGrants(t *testing.T, change func(*Config), f func(t *testing.T, g *grantServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before, start := buf.Default.Out(), time.Now()
		g := &grantServer{t: t, mux: new(oncrpc.Mux), listen: rdmatest.Listen(t), fh: make(map[string]nfs3.FH)}
		var err error
		g.k, err = delegserver.New(delegserver.Config{
			Lease: grantLease, Slots: 16, Receives: 2, Clock: func() time.Duration { return time.Since(start) + time.Hour },
		})
		require.NoError(t, err)
		c := Config{Key: testKey, Grants: g.k, Holders: g.k.Holders(), Exports: []Export{
			{Path: "/x", FS: mem.New(mem.Options{}), Clients: exports.Everyone(exports.Options{Insecure: true, Exclusive: true})},
		}}
		if change != nil {
			change(&c)
		}
		g.s, err = New(c)
		require.NoError(t, err)
		g.fs = c.Exports[0].FS
		g.makeTree()
		g.s.Register(g.mux)
		g.kept = replay.New(g.mux, replay.Config{Keep: ExecuteOnce})
		srv := &rpcrdma.Server{Handler: g.kept, Extensions: g.k.Extension()}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(g.listen) }()
		f(t, g)
		require.NoError(t, srv.Shutdown(t.Context()))
		require.NoError(t, <-served)
		g.kept.Close()
		g.k.Close()
		assert.Equal(t, before, buf.Default.Out(), "buffers lent")
	})
}

// countPermits returns the number of permits that the clients' calls have: over RDMA these are
// one client group.
func (g *grantServer) countPermits() int {
	p := &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:20049"), Network: "rdma"}
	return countPermits(g.t, g.s.exports, p, g.s.exports.Snapshot().List()[0])
}

// makeTree makes the tree.
func (g *grantServer) makeTree() {
	fs, c := g.fs, vfs.Cred{UID: 1000, GID: 1000}
	var none vfs.SetAttr
	g.hosts = make(map[string]vfs.Handle)
	enter := func(name string, h vfs.Handle) vfs.Handle {
		g.hosts[name] = h
		g.fh[name] = g.s.exports.AppendHandle(nil, g.s.exports.Snapshot().List()[0], &h)
		return h
	}
	made := func(name string) func(vfs.Made, error) vfs.Handle {
		return func(m vfs.Made, err error) vfs.Handle {
			require.NoError(g.t, err)
			return enter(name, m.Handle)
		}
	}
	root := enter("/", fs.Root())
	d := made("d")(fs.Mkdir(context.Background(), &c, root, "d", none))
	e := made("e")(fs.Mkdir(context.Background(), &c, root, "e", none))
	made("sub")(fs.Mkdir(context.Background(), &c, d, "sub", none))
	made("f")(fs.Create(context.Background(), &c, d, "f", vfs.CreateHow{}))
	made("g")(fs.Create(context.Background(), &c, e, "g", vfs.CreateHow{}))
}

// A delegClient is a client.
type delegClient struct {
	g    *grantServer
	c    *rpcrdma.ClientConn
	link *rpcrdma.ExtensionConn
	stop chan struct{}

	mu       sync.Mutex
	holds    map[delegation.Immediate]string // by the expected recall
	recalled []string
	silent   bool                   // the client does not reply to recalls
	owed     []delegation.Immediate // recalls without a reply yet
	ended    chan error
}

// connectClient connects a client that renews its lease until leave.
func (g *grantServer) connectClient() *delegClient {
	p := &delegClient{g: g, holds: make(map[delegation.Immediate]string), ended: make(chan error, 1), stop: make(chan struct{})}
	var err error
	p.c, err = rpcrdma.DialConn(g.t.Context(), p, "", rpcrdma.ClientConnConfig{Extensions: &rpcrdma.ExtensionConfig{
		ImmediateRecvs: 2, Atomics: true, Delegation: true,
		Attach: func(l *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler { p.link = l; return p },
	}})
	require.NoError(g.t, err)
	require.True(g.t, p.c.ExtensionConn().Extensions().Delegation)
	require.Equal(g.t, nfs3.OK, p.callNFS(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: g.fh["/"]})) // to receive credits
	go func() {
		tick := time.NewTicker(grantLease / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = p.link.Atomic(rdma.OpFetchAdd, p.link.Counter(0), delegation.OpRenew.Operands(), p, 0)
			case <-p.stop:
				return
			}
		}
	}()
	return p
}

// Dial connects to the server (rdma.Dialer).
func (p *delegClient) Dial(ctx context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	return p.g.listen.Dial(ctx, cfg)
}

func (p *delegClient) disconnect() {
	close(p.stop)
	require.NoError(p.g.t, p.c.Close())
}

func (p *delegClient) Complete(rdma.Completion) {}
func (p *delegClient) Closed(err error)         { p.ended <- err }

// Immediate records a recall, and replies to it.
func (p *delegClient) Immediate(word [8]byte) {
	m, err := delegation.ParseImmediate(word, delegation.KindRecall)
	assert.NoError(p.g.t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recalled = append(p.recalled, p.holds[m])
	if p.silent {
		p.owed = append(p.owed, m)
	} else {
		p.returnDelegation(m)
	}
}

// stopReturning stops the client from replying to recalls.
func (p *delegClient) stopReturning() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = true
}

// returnPending replies to the recalls that came while the client was silent.
func (p *delegClient) returnPending() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.owed {
		p.returnDelegation(m)
	}
	p.owed, p.silent = nil, false
}

func (p *delegClient) returnDelegation(m delegation.Immediate) {
	m.Kind = delegation.KindReturned
	_ = p.link.PostImmediate(m.Bytes(), nil, 0) // the connection may have ended
}

// takeRecalls returns the recalls since the last call.
func (p *delegClient) takeRecalls() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := slices.Sorted(slices.Values(p.recalled))
	p.recalled = nil
	return r
}

// acquire makes an ACQUIRE.
func (p *delegClient) acquire(fh nfs3.FH, types delegation.Types) (res delegation.AcquireRes, err error) {
	a := delegation.AcquireArgs{Handle: fh, Types: types}
	x := &oncrpc.Exchange{
		Prog: delegation.Program, Vers: delegation.Version, Proc: delegation.ProcAcquire, MaxResults: delegation.MaxAcquireRes,
		Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 1000}, Args: a.AppendTo(nil),
	}
	if err := p.c.Call(p.g.t.Context(), x); err != nil {
		return res, err
	}
	defer x.Release()
	res.Decode(&x.Results)
	res.Attr = slices.Clone(res.Attr)
	return res, x.Results.Done()
}

// acquireAll acquires delegations of objects in the tree.
func (p *delegClient) acquireAll(names ...string) {
	p.g.t.Helper()
	for _, name := range names {
		res, err := p.acquire(p.g.fh[name], allTypes)
		require.NoError(p.g.t, err)
		require.Equal(p.g.t, delegation.StatusOK, res.Status, "%s: %v", name, res.Reason)
		p.mu.Lock()
		p.holds[delegation.Immediate{Kind: delegation.KindRecall, Slot: res.Slot, Generation: res.Generation}] = name
		p.mu.Unlock()
	}
}

// refusalReason returns the reason why a delegation of an object is refused.
func (p *delegClient) refusalReason(name string) delegation.Reason {
	p.g.t.Helper()
	res, err := p.acquire(p.g.fh[name], allTypes)
	require.NoError(p.g.t, err)
	require.Equal(p.g.t, delegation.StatusRefused, res.Status)
	return res.Reason
}

// callNFS sends an NFS call, and returns its status.
func (p *delegClient) callNFS(proc uint32, args message) nfs3.Status {
	return p.callProgram(nfs3.Program, proc, args)
}

// callProgram is call for NFSACL too.
func (p *delegClient) callProgram(prog, proc uint32, args message) nfs3.Status {
	return p.callAsUser(1000, prog, proc, args)
}

// callAsUser is callProgram as another user.
func (p *delegClient) callAsUser(uid, prog, proc uint32, args message) nfs3.Status {
	x := &oncrpc.Exchange{
		Prog: prog, Vers: nfs3.Version, Proc: proc, MaxResults: 4096,
		Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: uid, GID: uid}, Args: args.AppendTo(nil), Item: dataItem(args),
		Sink: make([]byte, 4096),
	}
	err := p.c.Call(p.g.t.Context(), x)
	require.NoError(p.g.t, err)
	defer x.Release()
	return nfs3.Status(x.Results.Uint32())
}

// startCall starts a call that may take long.
func (p *delegClient) startCall(proc uint32, args message) <-chan nfs3.Status {
	done := make(chan nfs3.Status, 1)
	go func() { done <- p.callNFS(proc, args) }()
	time.Sleep(10 * time.Millisecond) // another goroutine reads the connection by then
	return done
}

// writeCall is a call that changes a file.
func (g *grantServer) writeCall(name string) (proc uint32, args message) {
	return nfs3.ProcWrite, &nfs3.WriteArgs{File: g.fh[name], Data: []byte("data")}
}

// allNames returns the names in the tree.
func (g *grantServer) allNames() []string { return slices.Sorted(maps.Keys(g.fh)) }
