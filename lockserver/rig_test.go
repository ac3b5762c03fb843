package lockserver

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const (
	testEpoch = 7
	testLease = 40 * time.Second
)

// A rig is a server over a file system in memory with the file "f", and the hosts of its
// clients.
type rig struct {
	t     testing.TB
	s     *Server
	state *nfs4state.State
	realm *realm.Realm
	mux   *oncrpc.Mux
	fh    []byte // of "f"

	mu    sync.Mutex
	hosts map[netip.Addr]*fakeHost
	disk  *disk // or nil
}

// A setting changes the configuration of a rig.
type setting func(*nfs4state.Config, *Config, *realm.Config)

func newRig(t testing.TB, settings ...setting) *rig {
	g := &rig{t: t, hosts: make(map[netip.Addr]*fakeHost)}
	g.start(mem.New(mem.Options{Size: 1 << 20}), settings...)
	return g
}

// start starts a server, with what the last one has left on the disk.
func (g *rig) start(fs vfs.FS, settings ...setting) {
	t := g.t
	g.mux = new(oncrpc.Mux)
	start := time.Now()
	state := nfs4state.Config{
		Now: func() time.Duration { return time.Hour + time.Since(start) }, Epoch: testEpoch, Lease: testLease,
		Release: func(file any) { file.(*realm.Open).Close() },
	}
	c := Config{Epoch: testEpoch, Dial: g.dial, Name: "server.example"}
	exported := realm.Config{Exports: []realm.Export{{Path: "/x", FS: fs}}, Key: [32]byte{1}}
	if d := g.disk; d != nil {
		past, err := nfs4state.ReadPast(d.records)
		require.NoError(t, err)
		state.Journal, state.Past, state.Epoch = d, past, past.Epoch+1
		c.Epoch, c.Restarted = state.Epoch, past.Machines()
	}
	for _, set := range settings {
		set(&state, &c, &exported)
	}
	g.fh = g.make(exported.Exports[0].FS, "f", 0o644)
	var err error
	g.realm, err = realm.New(exported)
	require.NoError(t, err)
	g.fh = g.handle(g.fh)
	g.state = nfs4state.New(state)
	c.Realm, c.State = g.realm, g.state
	g.s = New(c)
	g.s.Register(g.mux)
	t.Cleanup(g.s.Close)
}

// make makes a file of user 1000, and returns its handle in the file system.
func (g *rig) make(fs vfs.FS, name string, mode uint32) []byte {
	g.t.Helper()
	root := &vfs.Cred{}
	_, _ = fs.SetAttr(context.Background(), root, fs.Root(), vfs.SetAttr{Mode: new(uint32(0o777))}, nil)
	made, err := fs.Create(context.Background(), &vfs.Cred{UID: 1000, GID: 1000}, fs.Root(), name, vfs.CreateHow{Mode: vfs.Unchecked, Attr: vfs.SetAttr{Mode: &mode}})
	require.NoError(g.t, err)
	return made.Handle.AppendTo(nil)
}

// handle returns the file handle of a handle in the first export.
func (g *rig) handle(b []byte) []byte {
	h, ok := vfs.NewHandle(b)
	require.True(g.t, ok)
	return g.realm.AppendHandle(nil, g.realm.Set().List()[0], &h)
}

// A fakeHost is the host of clients: its lock manager and its status monitor.
type fakeHost struct {
	mu       sync.Mutex
	down     bool
	answer   func(a *nlm4.TestArgs) (nlm4.Status, bool) // to GRANTED; false: none
	granted  []nlm4.TestArgs
	results  []call // of procedures _MSG, and GRANTED_MSG
	notified []nsm.NotifyArgs
	from     []netip.Addr // the server's addresses
	dials    int
}

// A call is a call to the lock manager of a host.
type call struct {
	vers, proc uint32
	args       []byte
}

func (g *rig) host(addr string) *fakeHost {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := netip.MustParseAddr(addr)
	if g.hosts[a] == nil {
		g.hosts[a] = &fakeHost{answer: func(*nlm4.TestArgs) (nlm4.Status, bool) { return nlm4.Granted, true }}
	}
	return g.hosts[a]
}

var errDown = errors.New("no rpcbind answers")

func (g *rig) dial(_ context.Context, m nfs4state.Machine, prog, vers uint32) (Line, error) {
	h := g.host(m.Addr.String())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dials++
	h.from = append(h.from, m.Local)
	if h.down {
		return nil, errDown
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
	case x.Prog == nsm.Program:
		var n nsm.NotifyArgs
		n.Decode(&r)
		l.notified = append(l.notified, n)
		l.mu.Unlock()
		return nil
	case x.Proc != nlm4.ProcGranted:
		l.results = append(l.results, call{x.Vers, x.Proc, bytes.Clone(x.Args)})
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

// set makes the host unreachable, or reachable again.
func (h *fakeHost) set(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

// dialled returns how often the host was called.
func (h *fakeHost) dialled() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials
}

// grants returns the arguments of GRANTED since it was called last.
func (h *fakeHost) grants() []nlm4.TestArgs {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.granted = nil }()
	return slices.Clone(h.granted)
}

// A client is a process of a client's host.
type client struct {
	g    *rig
	peer oncrpc.Peer
	cred rpcmsg.Cred
	vers uint32
	lock nlm4.Lock
}

// client returns process 1 of the host at an address with a name.
func (g *rig) client(addr, name string) *client {
	return &client{
		g: g, vers: nlm4.Version, cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 1000},
		peer: oncrpc.Peer{Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), 700), Local: netip.MustParseAddrPort("192.0.2.100:2049"), Network: "tcp"},
		lock: nlm4.Lock{Caller: []byte(name), Handle: g.fh, Owner: []byte("1@" + name), SVID: 1},
	}
}

// process returns another process of the host.
func (c *client) process(svid int32) *client {
	d := *c
	d.lock.SVID = svid
	return &d
}

// over returns the process with a lock of a range.
func (c *client) over(start, length uint64) nlm4.Lock {
	l := c.lock
	l.Offset, l.Length = start, length
	return l
}

// message is arguments or results of NLM.
type message interface {
	AppendTo(b []byte, vers uint32) []byte
}

// raw makes a call, and returns its reply behind the XID.
func (c *client) raw(prog, vers, proc uint32, args []byte) []byte {
	msg := oncrpc.AppendCall(nil, 1, &oncrpc.Exchange{Prog: prog, Vers: vers, Proc: proc, Cred: c.cred}, "machine")
	var rep oncrpc.Reply
	if !c.g.mux.Serve(context.Background(), &oncrpc.Request{Msg: append(msg, args...), Peer: &c.peer, MaxReply: 8192}, &rep) {
		return nil
	}
	return rep.Head[4:]
}

// do makes a call, which must succeed, and returns its results.
func (c *client) do(proc uint32, a message) xdr.Reader {
	c.g.t.Helper()
	r := xdr.NewReader(append([]byte{0, 0, 0, 1}, c.raw(nlm4.Program, c.vers, proc, a.AppendTo(nil, c.vers))...))
	require.NoError(c.g.t, oncrpc.ReadReply(&r, 1))
	return r
}

var cookie = []byte("cookie")

// status makes a call whose results are a status.
func (c *client) status(proc uint32, a message) nlm4.Status {
	c.g.t.Helper()
	r := c.do(proc, a)
	var res nlm4.Res
	res.Decode(&r, c.vers)
	require.NoError(c.g.t, r.Done())
	require.Equal(c.g.t, string(cookie), string(res.Cookie))
	return res.Status
}

func (c *client) lockArgs(block, exclusive bool, start, length uint64) *nlm4.LockArgs {
	return &nlm4.LockArgs{Cookie: cookie, Block: block, Exclusive: exclusive, Lock: c.over(start, length), State: 3}
}

// try is LOCK that does not wait, and waits LOCK that does.
func (c *client) try(exclusive bool, start, length uint64) nlm4.Status {
	c.g.t.Helper()
	return c.status(nlm4.ProcLock, c.lockArgs(false, exclusive, start, length))
}

func (c *client) waits(exclusive bool, start, length uint64) nlm4.Status {
	c.g.t.Helper()
	return c.status(nlm4.ProcLock, c.lockArgs(true, exclusive, start, length))
}

func (c *client) unlock(start, length uint64) nlm4.Status {
	c.g.t.Helper()
	return c.status(nlm4.ProcUnlock, &nlm4.UnlockArgs{Cookie: cookie, Lock: c.over(start, length)})
}

func (c *client) cancel(exclusive bool, start, length uint64) nlm4.Status {
	c.g.t.Helper()
	return c.status(nlm4.ProcCancel, &nlm4.CancelArgs{Cookie: cookie, Block: true, Exclusive: exclusive, Lock: c.over(start, length)})
}

func (c *client) test(exclusive bool, start, length uint64) (nlm4.Status, nlm4.Holder) {
	c.g.t.Helper()
	r := c.do(nlm4.ProcTest, &nlm4.TestArgs{Cookie: cookie, Exclusive: exclusive, Lock: c.over(start, length)})
	var res nlm4.TestRes
	res.Decode(&r, c.vers)
	require.NoError(c.g.t, r.Done())
	return res.Status, res.Holder
}

func (c *client) share(proc uint32, access, deny nlm4.ShareMode, reclaim bool) nlm4.Status {
	c.g.t.Helper()
	a := nlm4.ShareArgs{Cookie: cookie, Reclaim: reclaim, Share: nlm4.Share{Caller: c.lock.Caller, Handle: c.lock.Handle, Owner: c.lock.Owner, Access: access, Deny: deny}}
	r := c.do(proc, &a)
	var res nlm4.ShareRes
	res.Decode(&r, c.vers)
	require.NoError(c.g.t, r.Done())
	require.Zero(c.g.t, res.Sequence)
	return res.Status
}

// notify is NOTIFY of NSM.
func (c *client) notify(name string, state int32) {
	c.g.t.Helper()
	a := nsm.NotifyArgs{Name: []byte(name), State: state}
	r := xdr.NewReader(append([]byte{0, 0, 0, 1}, c.raw(nsm.Program, nsm.Version, nsm.ProcNotify, a.AppendTo(nil))...))
	require.NoError(c.g.t, oncrpc.ReadReply(&r, 1))
	require.NoError(c.g.t, r.Done()) // RNSM-NOTIFY-6: void
}

// locked returns the number of locks of all clients.
func (g *rig) locked() int { return g.state.Counts().Locks }

// mark returns the File of an Open of "f", and the name of the object.
func (g *rig) mark() (*realm.Open, string) {
	var q realm.Request
	var reply oncrpc.Reply
	q.Begin(g.realm, nil, &rpcmsg.Cred{}, &reply)
	defer q.End()
	h, err := q.Open(context.Background(), g.fh)
	require.NoError(g.t, err)
	key, err := q.AppendObject(nil, h)
	require.NoError(g.t, err)
	return q.Mark(), string(key)
}

// open returns the numbers of open grants and their cookies, and lines that of hosts with a goroutine.
func (g *rig) open() [2]int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return [2]int{len(g.s.grants), len(g.s.cookies)}
}

func (g *rig) lines() int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return len(g.s.hosts)
}
