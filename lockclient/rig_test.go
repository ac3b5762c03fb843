package lockclient

import (
	"context"
	"encoding/binary"
	"errors"
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

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcbind"
	"github.com/nfsrdma/nfsrdma/xdr"
)

var discard = slog.New(slog.DiscardHandler)

// A fakeServer is a lock manager in memory. It is the Caller of its clients.
type fakeServer struct {
	t testing.TB

	mu     sync.Mutex
	epoch  int // counts restarts
	grace  bool
	object map[string]*locks.Object
	owners map[fakeOwner]*locks.Part
	queue  []nlm4.LockArgs // that wait
	calls  [nlm4.NumProc]int
	log    []nlm4.LockArgs // each LOCK
	// before, if not nil, is called before each call, and may wait, or return an
	// error in place of the call or, with lose, of its reply.
	before func(x *oncrpc.Exchange) (err error, lose bool)
	// refuse, if not nil, returns the Status of a call in place of the server.
	refuse func(proc uint32) (nlm4.Status, bool)
	freed  func(a nlm4.LockArgs) // told of each waiter that got its lock; nil: nobody
	told   sync.WaitGroup        // calls of freed
}

type fakeOwner struct {
	handle string
	svid   int32
	oh     string
}

func newServer(t testing.TB) *fakeServer {
	s := &fakeServer{t: t}
	s.restart(false)
	return s
}

// restart forgets all locks.
func (s *fakeServer) restart(grace bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.grace = grace
	s.object, s.owners, s.queue = make(map[string]*locks.Object), make(map[fakeOwner]*locks.Part), nil
}

// reconnect ends the connection of the clients, and nothing else.
func (s *fakeServer) reconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
}

func (s *fakeServer) endGrace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grace = false
}

func (s *fakeServer) conn() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

func (s *fakeServer) setBefore(f func(x *oncrpc.Exchange) (error, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

func (s *fakeServer) count(proc uint32) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[proc]
}

var errLost = errors.New("the connection is lost")

// Call implements oncrpc.Caller.
func (s *fakeServer) Call(ctx context.Context, x *oncrpc.Exchange) error {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	lose := false
	if before != nil {
		var err error
		if err, lose = before(x); err != nil && !lose {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r := xdr.NewReader(slices.Clone(x.Args))
	res := s.answer(x.Proc, &r, x.Cred)
	assert.NoError(s.t, r.Done(), "arguments of %s", nlm4.ProcName(x.Proc))
	assert.EqualValues(s.t, nlm4.Program, x.Prog)
	assert.EqualValues(s.t, nlm4.Version, x.Vers)
	if lose {
		return errLost
	}
	x.Results = xdr.NewReader(res)
	return nil
}

func (s *fakeServer) part(l *nlm4.Lock) (*locks.Object, *locks.Part) {
	o := s.object[string(l.Handle)]
	if o == nil {
		o = new(locks.Object)
		s.object[string(l.Handle)] = o
	}
	key := fakeOwner{string(l.Handle), l.SVID, string(l.Owner)}
	if s.owners[key] == nil {
		s.owners[key] = o.NewOwner(key).NewPart()
	}
	return o, s.owners[key]
}

func rangeOf(l *nlm4.Lock) locks.Range {
	if l.Length == 0 {
		return locks.Range{Start: l.Offset, End: locks.ToEnd}
	}
	return locks.Range{Start: l.Offset, End: l.Offset + l.Length - 1}
}

func (s *fakeServer) answer(proc uint32, r *xdr.Reader, cred rpcmsg.Cred) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[proc]++
	if proc != nlm4.ProcNull {
		assert.EqualValues(s.t, rpcmsg.AuthSys, cred.Flavor, "RNLM-6.1.1-1")
	}
	refused, fixed := nlm4.Granted, false
	if s.refuse != nil {
		refused, fixed = s.refuse(proc)
	}
	status := func(cookie []byte, st nlm4.Status) []byte {
		if fixed {
			st = refused
		}
		return (&nlm4.Res{Cookie: cookie, Status: st}).AppendTo(nil, nlm4.Version)
	}
	switch proc {
	case nlm4.ProcLock:
		var a nlm4.LockArgs
		a.Decode(r, nlm4.Version)
		s.log = append(s.log, a)
		if fixed {
			return status(a.Cookie, refused)
		}
		return status(a.Cookie, s.lockLocked(&a))
	case nlm4.ProcUnlock:
		var a nlm4.UnlockArgs
		a.Decode(r, nlm4.Version)
		if s.grace {
			return status(a.Cookie, nlm4.DeniedGrace)
		}
		if !fixed {
			_, p := s.part(&a.Lock)
			p.Owner().Unlock(rangeOf(&a.Lock))
			s.tellLocked()
		}
		return status(a.Cookie, nlm4.Granted)
	case nlm4.ProcCancel:
		var a nlm4.CancelArgs
		a.Decode(r, nlm4.Version)
		n := len(s.queue)
		s.queue = slices.DeleteFunc(s.queue, func(b nlm4.LockArgs) bool { return sameLock(&a.Lock, &b.Lock) })
		if n == len(s.queue) {
			return status(a.Cookie, nlm4.Denied)
		}
		return status(a.Cookie, nlm4.Granted)
	case nlm4.ProcTest:
		var a nlm4.TestArgs
		a.Decode(r, nlm4.Version)
		res := nlm4.TestRes{Cookie: a.Cookie}
		o, p := s.part(&a.Lock)
		if l, held := o.Conflict(p.Owner(), rangeOf(&a.Lock), a.Exclusive); held {
			res.Status, res.Holder = nlm4.Denied, nlm4.Holder{Exclusive: l.Exclusive, Offset: l.Start, Length: l.End - l.Start + 1}
		}
		return res.AppendTo(nil, nlm4.Version)
	case nlm4.ProcGrantedRes:
		var res nlm4.Res
		res.Decode(r, nlm4.Version)
		assert.Equal(s.t, grantCookie, res.Cookie)
		assert.Equal(s.t, nlm4.Granted, res.Status)
	}
	return nil
}

func sameLock(a, b *nlm4.Lock) bool {
	return a.SVID == b.SVID && string(a.Handle) == string(b.Handle) && a.Offset == b.Offset && a.Length == b.Length
}

func (s *fakeServer) lockLocked(a *nlm4.LockArgs) nlm4.Status {
	if s.grace != a.Reclaim {
		return nlm4.DeniedGrace
	}
	o, p := s.part(&a.Lock)
	if _, held := o.Conflict(p.Owner(), rangeOf(&a.Lock), a.Exclusive); !held {
		p.Lock(rangeOf(&a.Lock), a.Exclusive)
		s.queue = slices.DeleteFunc(s.queue, func(b nlm4.LockArgs) bool { return sameLock(&a.Lock, &b.Lock) })
		s.tellLocked() // a shared lock may be free now
		return nlm4.Granted
	}
	if !a.Block {
		return nlm4.Denied
	}
	if !slices.ContainsFunc(s.queue, func(b nlm4.LockArgs) bool { return sameLock(&a.Lock, &b.Lock) }) {
		keep := *a
		keep.Lock.Caller, keep.Lock.Handle, keep.Lock.Owner = slices.Clone(a.Lock.Caller), slices.Clone(a.Lock.Handle), slices.Clone(a.Lock.Owner)
		s.queue = append(s.queue, keep)
	}
	return nlm4.Blocked
}

// tellLocked gives free locks to the first waiters, as servers do, and calls
// freed.
func (s *fakeServer) tellLocked() {
	for i := 0; i < len(s.queue); {
		a := s.queue[i]
		o, p := s.part(&a.Lock)
		if _, held := o.Conflict(p.Owner(), rangeOf(&a.Lock), a.Exclusive); held {
			i++
			continue
		}
		p.Lock(rangeOf(&a.Lock), a.Exclusive)
		s.queue = slices.Delete(s.queue, i, i+1)
		if s.freed != nil {
			s.told.Go(func() { s.freed(a) })
		}
	}
}

// take has another client lock a range, and returns what unlocks it.
func (s *fakeServer) take(handle string, r locks.Range, exclusive bool) (free func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := nlm4.Lock{Handle: []byte(handle), SVID: -7, Owner: []byte("other")}
	o, p := s.part(&l)
	_, held := o.Conflict(p.Owner(), r, exclusive)
	require.False(s.t, held)
	p.Lock(r, exclusive)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, p := s.part(&l)
		p.Owner().Unlock(r)
		s.tellLocked()
	}
}

// held returns the union of the locks of a file.
func (s *fakeServer) held(handle string) (list []piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.object[handle]; o != nil {
		o.Union(whole, func(part locks.Range, exclusive bool) bool {
			list = append(list, piece{part, locks.KindOf(exclusive)})
			return true
		})
	}
	return list
}

func (s *fakeServer) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

var quick = times{first: time.Millisecond, last: 4 * time.Millisecond, alone: 4 * time.Millisecond, grace: time.Millisecond, probe: 2 * time.Millisecond}

// client returns a Client of s that polls.
func (s *fakeServer) client(change func(*Config)) *Client {
	s.t.Helper()
	cfg := Config{
		Server: Server{NFS: s, Conn: s.conn, Host: "127.0.0.1"}, Name: "h1", NoCallback: true, Log: discard, times: quick,
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(s.t.Context(), cfg)
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		c.Close()
		assert.Empty(s.t, c.files)
		assert.Empty(s.t, c.ids)
		assert.Empty(s.t, c.numbers)
	})
	return c
}

func at(start, end uint64) locks.Range { return locks.Range{Start: start, End: end} }

func request(owner uint64, r locks.Range, exclusive, wait bool) *Request {
	return &Request{
		Handle: []byte("f"), Owner: Owner{ID: owner}, PID: uint32(owner), Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys},
		Range: r, Exclusive: exclusive, Wait: wait,
	}
}

func (c *Client) must(t testing.TB, r *Request) {
	t.Helper()
	require.NoError(t, c.Lock(t.Context(), r))
}

// later locks in the background.
func (c *Client) later(ctx context.Context, r *Request) chan error {
	done := make(chan error, 1)
	go func() { done <- c.Lock(ctx, r) }()
	return done
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Microsecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

// A fakeBind is the rpcbind of a host.
type fakeBind struct {
	rpcbind.Host

	mu   sync.Mutex
	list map[string]rpcbind.RPCB // by netid
}

// newBind starts an rpcbind. If taken, another lock manager is registered.
func newBind(t testing.TB, taken bool) *fakeBind {
	b := &fakeBind{list: make(map[string]rpcbind.RPCB)}
	b.Socket = filepath.Join(t.TempDir(), "rpcbind.sock")
	if taken {
		for _, netid := range []string{rpcbind.NetidTCP, rpcbind.NetidTCP6} {
			b.list[netid] = rpcbind.RPCB{Prog: nlm4.Program, Vers: nlm4.Version, Netid: netid, Addr: "0.0.0.0.0.1", Owner: "superuser"}
		}
		// An address at which something answers.
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

// port returns the registered address of the lock manager.
func (b *fakeBind) port(t testing.TB) netip.AddrPort {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, err := rpcbind.ParseUaddr(b.list[rpcbind.NetidTCP].Addr)
	require.NoError(t, err)
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), a.Port())
}

// caller connects to the callback from an address of this host.
func (b *fakeBind) caller(t testing.TB, from string) oncrpc.Caller {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.DialContext(t.Context(), "tcp", b.port(t).String())
	require.NoError(t, err)
	c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{})
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// callBack calls back, and returns the Status.
func callBack(t testing.TB, c oncrpc.Caller, proc uint32, a *nlm4.TestArgs) (nlm4.Status, error) {
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

// grantCookie is a cookie of the server.
var grantCookie = binary.BigEndian.AppendUint64(nil, 99)

// grantOf returns the GRANTED of a LOCK.
func grantOf(a *nlm4.LockArgs) *nlm4.TestArgs {
	return &nlm4.TestArgs{Cookie: grantCookie, Exclusive: a.Exclusive, Lock: a.Lock}
}
