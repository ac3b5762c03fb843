package nlmserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

const (
	testEpoch = 7
	testLease = 40 * time.Second
)

// A testServer is a server for an in-memory file system with the file "f", and its clients'
// hosts.
type testServer struct {
	t     testing.TB
	s     *Server
	state *nfs4state.State
	realm *exportset.Set
	mux   *oncrpc.Mux
	fh    []byte // the handle of "f"

	mu    sync.Mutex
	hosts map[netip.Addr]*fakeHost
	disk  *fakeDisk // or nil
}

// A configChange changes a testServer's configuration.
type configChange func(*nfs4state.Config, *Config, *exportset.Config)

func newTestServer(t testing.TB, settings ...configChange) *testServer {
	g := &testServer{t: t, hosts: make(map[netip.Addr]*fakeHost)}
	g.startServer(mem.New(mem.Options{Size: 1 << 20}), settings...)
	return g
}

// startServer starts a server with what the last one has left on the disk.
func (g *testServer) startServer(fs vfs.FS, settings ...configChange) {
	t := g.t
	g.mux = new(oncrpc.Mux)
	start := time.Now()
	state := nfs4state.Config{
		Now: func() time.Duration { return time.Hour + time.Since(start) }, Epoch: testEpoch, Lease: testLease,
		Release: func(file any) { file.(*exportset.Open).Close() },
	}
	c := Config{Epoch: testEpoch, Dial: g.dialHost, Name: "server.example"}
	exported := exportset.Config{Exports: []exportset.Export{{Path: "/x", FS: fs}}, Key: [32]byte{1}}
	if d := g.disk; d != nil {
		past, err := nfs4state.ReadPast(d.records)
		require.NoError(t, err)
		state.Journal, state.Past, state.Epoch = d, past, past.Epoch+1
		c.Epoch, c.Restarted = state.Epoch, past.Machines()
	}
	for _, set := range settings {
		set(&state, &c, &exported)
	}
	g.fh = g.makeFile(exported.Exports[0].FS, "f", 0o644)
	var err error
	g.realm, err = exportset.New(exported)
	require.NoError(t, err)
	g.fh = g.fileHandle(g.fh)
	g.state = nfs4state.New(state)
	c.Exports, c.State = g.realm, g.state
	g.s = New(c)
	pollLocks(g.s)
	g.s.Register(g.mux)
	t.Cleanup(g.s.Close)
}

// pollLocks polls for free locks while any owner waits, until the server closes, as package
// nfs4server does.
func pollLocks(s *Server) {
	var mu sync.Mutex
	polling := false
	poll := func() {
		for again := true; again; {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(time.Second):
			}
			s.state.PollLocks()
			mu.Lock()
			again = s.state.HasLockWaiters()
			polling = again
			mu.Unlock()
		}
	}
	s.state.NotifyLockWait(func() {
		mu.Lock()
		defer mu.Unlock()
		polling = polling || s.goUnlessClosed(poll)
	})
}

// makeFile creates a file owned by user 1000, and returns its handle in the
// file system.
func (g *testServer) makeFile(fs vfs.FS, name string, mode uint32) []byte {
	g.t.Helper()
	root := &vfs.Cred{}
	_, _ = fs.SetAttr(context.Background(), root, fs.Root(), vfs.SetAttr{Mode: new(uint32(0o777))}, nil)
	made, err := fs.Create(context.Background(), &vfs.Cred{UID: 1000, GID: 1000}, fs.Root(), name, vfs.CreateHow{Mode: vfs.Unchecked, Attr: vfs.SetAttr{Mode: &mode}})
	require.NoError(g.t, err)
	return made.Handle.AppendTo(nil)
}

// fileHandle returns the file handle of a handle in the first export.
func (g *testServer) fileHandle(b []byte) []byte {
	h, ok := vfs.NewHandle(b)
	require.True(g.t, ok)
	return g.realm.AppendHandle(nil, g.realm.Snapshot().List()[0], &h)
}

// A fakeHost is the host of clients: its lock manager and its status monitor.
type fakeHost struct {
	mu       sync.Mutex
	down     bool
	answer   func(a *nlm4.TestArgs) (nlm4.Status, bool) // the reply to GRANTED; false: none
	granted  []nlm4.TestArgs
	results  []hostCall // calls of _RES procedures, and GRANTED_MSG
	notified []nsm.NotifyArgs
	from     []netip.Addr // the server's addresses
	dials    int

	state     int32 // the status monitor's
	unmonitor bool  // there is none
}

// A hostCall is a call to the lock manager of a host.
type hostCall struct {
	vers, proc uint32
	args       []byte
}

func (g *testServer) hostAt(addr string) *fakeHost {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := netip.MustParseAddr(addr)
	if g.hosts[a] == nil {
		g.hosts[a] = &fakeHost{answer: func(*nlm4.TestArgs) (nlm4.Status, bool) { return nlm4.Granted, true }}
	}
	return g.hosts[a]
}

var errDown = errors.New("no rpcbind answers")

func (g *testServer) dialHost(_ context.Context, m nfs4state.Machine, prog, vers uint32) (Line, error) {
	h := g.hostAt(m.Addr.String())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dials++
	h.from = append(h.from, m.Local)
	switch {
	case h.down:
		return nil, errDown
	case h.unmonitor && prog == nsm.Program:
		return nil, fmt.Errorf("dial: %w", rpcbind.ErrNotRegistered)
	}
	return &fakeLine{h}, nil
}

type fakeLine struct{ *fakeHost }

func (l *fakeLine) Close() error { return nil }

func (l *fakeLine) Call(ctx context.Context, x *oncrpc.Exchange) error {
	l.mu.Lock()
	r := xdr.NewReader(x.Args)
	var a nlm4.TestArgs
	switch {
	case l.down:
		l.mu.Unlock()
		return errDown
	case x.Prog == nsm.Program && x.Proc == nsm.ProcStat:
		x.Results = xdr.NewReader((&nsm.StatRes{Failed: true, State: l.state}).AppendTo(nil))
		l.mu.Unlock()
		return nil
	case x.Prog == nsm.Program:
		var n nsm.NotifyArgs
		n.Decode(&r)
		l.notified = append(l.notified, n)
		l.mu.Unlock()
		return nil
	case x.Proc != nlm4.ProcGranted:
		l.results = append(l.results, hostCall{x.Vers, x.Proc, bytes.Clone(x.Args)})
		l.mu.Unlock()
		return nil
	}
	a.Decode(&r, x.Vers)
	l.granted = append(l.granted, a)
	answer := l.answer
	l.mu.Unlock()
	status, ok := answer(&a)
	if !ok {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	res := nlm4.Res{Cookie: a.Cookie, Status: status}
	x.Results = xdr.NewReader(res.AppendTo(nil, x.Vers))
	return nil
}

// setDown makes the host unreachable, or reachable again.
func (h *fakeHost) setDown(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

// dialCount returns the number of connections to the host.
func (h *fakeHost) dialCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials
}

// takeGranted returns the arguments of GRANTED since its last call.
func (h *fakeHost) takeGranted() []nlm4.TestArgs {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.granted = nil }()
	return slices.Clone(h.granted)
}

// A testClient is a process of a client's host.
type testClient struct {
	g    *testServer
	peer oncrpc.Peer
	cred rpcmsg.Cred
	vers uint32
	lock nlm4.Lock
}

// newClient returns process 1 of the host at an address with a name.
func (g *testServer) newClient(addr, name string) *testClient {
	return &testClient{
		g: g, vers: nlm4.Version, cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 1000},
		peer: oncrpc.Peer{Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 700), Local: netip.MustParseAddrPort("192.0.2.100:2049"), Network: "tcp"},
		lock: nlm4.Lock{Caller: []byte(name), Handle: g.fh, Owner: []byte("1@" + name), SVID: 1},
	}
}

// otherProcess returns another process of the host.
func (c *testClient) otherProcess(svid int32) *testClient {
	d := *c
	d.lock.SVID = svid
	return &d
}

// lockOf returns the process's Lock for a range.
func (c *testClient) lockOf(start, length uint64) nlm4.Lock {
	l := c.lock
	l.Offset, l.Length = start, length
	return l
}

// message holds NLM arguments or results.
type message interface {
	AppendTo(b []byte, vers uint32) []byte
}

// callRaw sends a call, and returns its reply after the XID.
func (c *testClient) callRaw(prog, vers, proc uint32, args []byte) []byte {
	msg := oncrpc.AppendCall(nil, 1, &oncrpc.Exchange{Prog: prog, Vers: vers, Proc: proc, Cred: c.cred}, "machine")
	var rep oncrpc.Reply
	if !c.g.mux.Serve(context.Background(), &oncrpc.Request{Msg: append(msg, args...), Peer: &c.peer, MaxReply: 8192}, &rep) {
		return nil
	}
	return rep.Head[4:]
}

// mustCall sends a call, which must succeed, and returns its results.
func (c *testClient) mustCall(proc uint32, a message) xdr.Reader {
	c.g.t.Helper()
	r := xdr.NewReader(append([]byte{0, 0, 0, 1}, c.callRaw(nlm4.Program, c.vers, proc, a.AppendTo(nil, c.vers))...))
	require.NoError(c.g.t, oncrpc.ReadReply(&r, 1))
	return r
}

var cookie = []byte("cookie")

// callForStatus sends a call, and returns the status in its results.
func (c *testClient) callForStatus(proc uint32, a message) nlm4.Status {
	c.g.t.Helper()
	r := c.mustCall(proc, a)
	var res nlm4.Res
	res.Decode(&r, c.vers)
	require.NoError(c.g.t, r.Done())
	require.Equal(c.g.t, string(cookie), string(res.Cookie))
	return res.Status
}

func (c *testClient) lockArgs(block, exclusive bool, start, length uint64) *nlm4.LockArgs {
	return &nlm4.LockArgs{Cookie: cookie, Block: block, Exclusive: exclusive, Lock: c.lockOf(start, length), State: 3}
}

// tryLock sends a LOCK that does not wait, and waitLock one that does.
func (c *testClient) tryLock(exclusive bool, start, length uint64) nlm4.Status {
	c.g.t.Helper()
	return c.callForStatus(nlm4.ProcLock, c.lockArgs(false, exclusive, start, length))
}

func (c *testClient) waitLock(exclusive bool, start, length uint64) nlm4.Status {
	c.g.t.Helper()
	return c.callForStatus(nlm4.ProcLock, c.lockArgs(true, exclusive, start, length))
}

func (c *testClient) unlockRange(start, length uint64) nlm4.Status {
	c.g.t.Helper()
	return c.callForStatus(nlm4.ProcUnlock, &nlm4.UnlockArgs{Cookie: cookie, Lock: c.lockOf(start, length)})
}

func (c *testClient) cancelLock(exclusive bool, start, length uint64) nlm4.Status {
	c.g.t.Helper()
	return c.callForStatus(nlm4.ProcCancel, &nlm4.CancelArgs{Cookie: cookie, Block: true, Exclusive: exclusive, Lock: c.lockOf(start, length)})
}

func (c *testClient) testLock(exclusive bool, start, length uint64) (nlm4.Status, nlm4.Holder) {
	c.g.t.Helper()
	r := c.mustCall(nlm4.ProcTest, &nlm4.TestArgs{Cookie: cookie, Exclusive: exclusive, Lock: c.lockOf(start, length)})
	var res nlm4.TestRes
	res.Decode(&r, c.vers)
	require.NoError(c.g.t, r.Done())
	return res.Status, res.Holder
}

func (c *testClient) shareFile(proc uint32, access, deny nlm4.ShareMode, reclaim bool) nlm4.Status {
	c.g.t.Helper()
	a := nlm4.ShareArgs{Cookie: cookie, Reclaim: reclaim, Share: nlm4.Share{Caller: c.lock.Caller, Handle: c.lock.Handle, Owner: c.lock.Owner, Access: access, Deny: deny}}
	r := c.mustCall(proc, &a)
	var res nlm4.ShareRes
	res.Decode(&r, c.vers)
	require.NoError(c.g.t, r.Done())
	require.Zero(c.g.t, res.Sequence)
	return res.Status
}

// sendNotify sends an NSM NOTIFY.
func (c *testClient) sendNotify(name string, state int32) {
	c.g.t.Helper()
	a := nsm.NotifyArgs{Name: []byte(name), State: state}
	r := xdr.NewReader(append([]byte{0, 0, 0, 1}, c.callRaw(nsm.Program, nsm.Version, nsm.ProcNotify, a.AppendTo(nil))...))
	require.NoError(c.g.t, oncrpc.ReadReply(&r, 1))
	require.NoError(c.g.t, r.Done()) // RNSM-NOTIFY-6: void
}

// lockCount returns the number of locks of all clients.
func (g *testServer) lockCount() int { return g.state.Counts().Locks }

// newMark returns the File of an Open of "f", and the name of the object.
func (g *testServer) newMark() (*exportset.Open, string) {
	var q exportset.Request
	var reply oncrpc.Reply
	q.Begin(g.realm, nil, &rpcmsg.Cred{}, &reply)
	defer q.End()
	h, err := q.Open(context.Background(), g.fh)
	require.NoError(g.t, err)
	key, err := q.AppendObject(nil, h)
	require.NoError(g.t, err)
	return q.OpenMarker(), string(key)
}

// countOpen returns the number of open grants and of their cookies, and hostCount that of hosts
// with a goroutine.
func (g *testServer) countOpen() [2]int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return [2]int{len(g.s.grants), len(g.s.cookies)}
}

func (g *testServer) hostCount() int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return len(g.s.hosts)
}
