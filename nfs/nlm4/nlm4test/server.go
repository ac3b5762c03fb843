package nlm4test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// Whole is a whole file.
var Whole = locks.Range{End: locks.ToEnd}

// A Piece is a range of a file, and how the range is locked.
type Piece struct {
	locks.Range
	Kind locks.Kind
}

// A Server is an in-memory lock manager. It implements oncrpc.Caller for
// clients, and oncrpc.Handler for those that need a connection.
type Server struct {
	t testing.TB

	mu     sync.Mutex
	epoch  int // counts restarts
	grace  bool
	object map[string]*locks.Object
	owners map[fakeOwner]*locks.Part
	queue  []nlm4.LockArgs // waiting requests
	calls  [nlm4.NumProc]int
	log    []nlm4.LockArgs // each LOCK
	before func(x *oncrpc.Exchange) (err error, lose bool)
	refuse func(proc uint32) (nlm4.Status, bool)
	given  func(a nlm4.LockArgs)
	told   sync.WaitGroup // running calls of the OnGiven function
}

type fakeOwner struct {
	handle string
	svid   int32
	oh     string
}

// New returns a lock manager without locks.
func New(t testing.TB) *Server {
	s := &Server{t: t}
	s.Restart(false)
	return s
}

// Restart drops all locks, and closes the clients' connection. A grace period
// may follow, until EndGrace.
func (s *Server) Restart(grace bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.grace = grace
	s.object, s.owners, s.queue = make(map[string]*locks.Object), make(map[fakeOwner]*locks.Part), nil
}

// Reconnect only closes the clients' connection.
func (s *Server) Reconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
}

// SetGrace begins a grace period without a restart.
func (s *Server) SetGrace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grace = true
}

// EndGrace ends the grace period.
func (s *Server) EndGrace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grace = false
}

// Conn returns a value that distinguishes the current connection from earlier
// ones.
func (s *Server) Conn() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// SetBefore makes the server call f before each call. f may block, or return an
// error instead of the call or, with lose, instead of its reply.
func (s *Server) SetBefore(f func(x *oncrpc.Exchange) (error, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// SetRefuse makes the server return f's status for each call for which f
// returns true.
func (s *Server) SetRefuse(f func(proc uint32) (nlm4.Status, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

// OnGiven makes the server call f in a goroutine for each waiter that gets its
// lock.
func (s *Server) OnGiven(f func(a nlm4.LockArgs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = f
}

// Wait waits until all calls of the OnGiven function have returned.
func (s *Server) Wait() { s.told.Wait() }

// Log returns the arguments of all LOCK calls.
func (s *Server) Log() []nlm4.LockArgs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Count returns the number of calls of a procedure.
func (s *Server) Count(proc uint32) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[proc]
}

// ErrLost is a connection error.
var ErrLost = errors.New("the connection is lost")

// Call implements oncrpc.Caller.
func (s *Server) Call(ctx context.Context, x *oncrpc.Exchange) error {
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
	res := s.replyToCall(x.Proc, &r, x.Cred)
	assert.NoError(s.t, r.Done(), "arguments of %s", nlm4.ProcName(x.Proc))
	assert.EqualValues(s.t, nlm4.Program, x.Prog)
	assert.EqualValues(s.t, nlm4.Version, x.Vers)
	if lose {
		return ErrLost
	}
	x.Results = xdr.NewReader(res)
	return nil
}

// ServeRPC implements oncrpc.Handler.
func (s *Server) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	r.Head = append(r.Head, s.replyToCall(c.Proc, &c.Args, c.Cred)...)
	return c.Args.Done()
}

func (s *Server) lockPart(l *nlm4.Lock) (*locks.Object, *locks.Part) {
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

func (s *Server) replyToCall(proc uint32, r *xdr.Reader, cred rpcmsg.Cred) []byte {
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
		s.log = append(s.log, cloneLockArgs(&a))
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
			_, p := s.lockPart(&a.Lock)
			p.Owner().Unlock(rangeOf(&a.Lock))
			s.grantWaitersLocked()
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
		o, p := s.lockPart(&a.Lock)
		if l, held := o.Conflict(p.Owner(), rangeOf(&a.Lock), a.Exclusive); held {
			res.Status, res.Holder = nlm4.Denied, nlm4.Holder{Exclusive: l.Exclusive, Offset: l.Start, Length: l.End - l.Start + 1}
		}
		return res.AppendTo(nil, nlm4.Version)
	case nlm4.ProcGrantedRes:
		var res nlm4.Res
		res.Decode(r, nlm4.Version)
		assert.Equal(s.t, nlm4.Granted, res.Status)
	}
	return nil
}

// cloneLockArgs returns a copy of a that does not alias the message.
func cloneLockArgs(a *nlm4.LockArgs) nlm4.LockArgs {
	b := *a
	b.Cookie, b.Lock.Caller = slices.Clone(a.Cookie), slices.Clone(a.Lock.Caller)
	b.Lock.Handle, b.Lock.Owner = slices.Clone(a.Lock.Handle), slices.Clone(a.Lock.Owner)
	return b
}

func sameLock(a, b *nlm4.Lock) bool {
	return a.SVID == b.SVID && string(a.Handle) == string(b.Handle) && a.Offset == b.Offset && a.Length == b.Length
}

func (s *Server) lockLocked(a *nlm4.LockArgs) nlm4.Status {
	if s.grace != a.Reclaim {
		return nlm4.DeniedGrace
	}
	o, p := s.lockPart(&a.Lock)
	if _, held := o.Conflict(p.Owner(), rangeOf(&a.Lock), a.Exclusive); !held {
		p.Lock(rangeOf(&a.Lock), a.Exclusive)
		s.queue = slices.DeleteFunc(s.queue, func(b nlm4.LockArgs) bool { return sameLock(&a.Lock, &b.Lock) })
		s.grantWaitersLocked() // a shared lock may now be free
		return nlm4.Granted
	}
	if !a.Block {
		return nlm4.Denied
	}
	if !slices.ContainsFunc(s.queue, func(b nlm4.LockArgs) bool { return sameLock(&a.Lock, &b.Lock) }) {
		s.queue = append(s.queue, cloneLockArgs(a))
	}
	return nlm4.Blocked
}

// grantWaitersLocked grants free locks to the first waiters, as servers do, and calls
// the OnGiven function.
func (s *Server) grantWaitersLocked() {
	for i := 0; i < len(s.queue); {
		a := s.queue[i]
		o, p := s.lockPart(&a.Lock)
		if _, held := o.Conflict(p.Owner(), rangeOf(&a.Lock), a.Exclusive); held {
			i++
			continue
		}
		p.Lock(rangeOf(&a.Lock), a.Exclusive)
		s.queue = slices.Delete(s.queue, i, i+1)
		if s.given != nil {
			s.told.Go(func() { s.given(a) })
		}
	}
}

// Take locks a range for another client, and returns the function that unlocks
// it.
func (s *Server) Take(handle string, r locks.Range, exclusive bool) (free func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := nlm4.Lock{Handle: []byte(handle), SVID: -7, Owner: []byte("other")}
	o, p := s.lockPart(&l)
	_, held := o.Conflict(p.Owner(), r, exclusive)
	require.False(s.t, held)
	p.Lock(r, exclusive)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, p := s.lockPart(&l)
		p.Owner().Unlock(r)
		s.grantWaitersLocked()
	}
}

// Held returns the union of a file's locks.
func (s *Server) Held(handle string) (list []Piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.object[handle]; o != nil {
		o.Union(Whole, func(part locks.Range, exclusive bool) bool {
			list = append(list, Piece{part, locks.KindOf(exclusive)})
			return true
		})
	}
	return list
}

// Waiting returns the number of waiting requests.
func (s *Server) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}
