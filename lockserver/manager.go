package lockserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A manager is a version of NLM.
type manager struct {
	*Server
	vers uint32
}

// A result is results of NLM, whose form depends on the version.
type result interface {
	AppendTo(b []byte, vers uint32) []byte
}

// A procedure decodes its arguments, and returns the name that the client gives itself and the results.
type procedure func(ctx context.Context, m manager, c *oncrpc.Call, r *oncrpc.Reply) (name []byte, res result, err error)

var procedures = map[uint32]procedure{
	nlm4.ProcTest: test, nlm4.ProcLock: lock, nlm4.ProcCancel: cancel, nlm4.ProcUnlock: unlock, nlm4.ProcGranted: granted,
	nlm4.ProcShare: share, nlm4.ProcUnshare: unshare, nlm4.ProcNMLock: lock, nlm4.ProcFreeAll: freeAll,
	nlm4.ProcGrantedRes: grantedRes,
}

// The procedures with a void reply are as far from those with the results, and those that carry the
// results as far from these.
const (
	msgStep = nlm4.ProcTestMsg - nlm4.ProcTest
	resStep = nlm4.ProcTestRes - nlm4.ProcTestMsg
)

// ServeRPC handles one call. Only callbacks may come without a credential (RFC 1813, Section
// 6.1.1).
func (m manager) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	proc, byMsg := c.Proc, c.Proc >= nlm4.ProcTestMsg && c.Proc <= nlm4.ProcGrantedMsg
	if byMsg {
		proc -= msgStep
	}
	switch do := procedures[proc]; {
	case !nlm4.Defined(m.vers, c.Proc):
		return oncrpc.ErrProcUnavail
	case byMsg && !m.callable(c.Peer): // the results would be a call
		return oncrpc.ErrProcUnavail
	case do == nil: // results for which nobody waits
		return nil
	case c.Cred.Flavor == rpcmsg.AuthNone && proc != nlm4.ProcGranted && proc != nlm4.ProcGrantedRes:
		return rpcmsg.AuthTooWeak
	default:
		name, res, err := do(ctx, m, c, r)
		switch {
		case err != nil || res == nil:
			return err
		case byMsg:
			m.answer(machine(c.Peer, name), m.vers, c.Proc+resStep, res.AppendTo(nil, m.vers))
		default:
			r.Head = res.AppendTo(r.Head, m.vers)
		}
		return nil
	}
}

// test is TEST.
func test(ctx context.Context, m manager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.TestArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	q, status := m.beginCall(c, r, a.Lock.Caller)
	res := &nlm4.TestRes{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.end()
		res.Status, res.Holder = q.test(ctx, &a)
	}
	return a.Lock.Caller, res, q.denied(ctx)
}

func (q *request) test(ctx context.Context, a *nlm4.TestArgs) (nlm4.Status, nlm4.Holder) {
	if q.server.state.InGrace(q.session) {
		return nlm4.DeniedGrace, nlm4.Holder{}
	}
	args, h, status := q.lockArgs(ctx, &a.Lock, a.Exclusive)
	if status != nlm4.Granted {
		return status, nlm4.Holder{}
	}
	if err := q.BeforeRead(ctx, h); err != nil {
		return q.status(err), nlm4.Holder{}
	}
	d, s := q.server.state.TestLock(q.session, args)
	return statusOf(s), holderOf(&d)
}

// lock is LOCK and NM_LOCK, which does not wait. Both make the server tell the client of a restart.
func lock(ctx context.Context, m manager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.LockArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	a.Block = a.Block && c.Proc != nlm4.ProcNMLock
	q, status := m.beginCall(c, r, a.Lock.Caller)
	res := &nlm4.Res{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.end()
		res.Status = q.lock(ctx, m.vers, &a)
	}
	return a.Lock.Caller, res, q.denied(ctx)
}

// before waits for clients of version 4 that use a file without calls, in the way of a
// lock or of a SHARE.
func (q *request) before(ctx context.Context, h vfs.Handle, change bool) error {
	if change {
		return q.BeforeOpenWrite(ctx, h)
	}
	return q.BeforeRead(ctx, h)
}

func (q *request) lock(ctx context.Context, vers uint32, a *nlm4.LockArgs) nlm4.Status {
	s := q.server
	args, h, status := q.lockArgs(ctx, &a.Lock, a.Exclusive)
	if status != nlm4.Granted {
		return status
	}
	args.Reclaim = a.Reclaim
	if !a.Reclaim { // clients of version 4 lock a file that is delegated to them without a call
		if err := q.before(ctx, h, a.Exclusive); err != nil {
			return q.status(err)
		}
	}
	if a.Block && !a.Reclaim && s.callable(q.call.Peer) {
		s.willing(q, vers, a, args)
	}
	_, _, got := s.state.Lock(q.session, args)
	status = statusOf(got)
	switch {
	case status == nlm4.Denied && a.Block && !a.Reclaim && !s.callable(q.call.Peer):
		return nlm4.Blocked // it asks again, as clients do whose GRANTED is lost
	case status == nlm4.Granted:
		s.endGrants(q, args, confirmed)
	case status == nlm4.Denied && args.Tell != nil:
		s.look()
		return nlm4.Blocked
	}
	return status
}

// cancel is CANCEL. A lock that is being granted is taken back: the client that cancels has not
// heard of it, or will unlock it.
func cancel(ctx context.Context, m manager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.CancelArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	q, status := m.beginCall(c, r, a.Lock.Caller)
	res := &nlm4.Res{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.end()
		res.Status = q.cancel(ctx, &a)
	}
	return a.Lock.Caller, res, q.denied(ctx)
}

func (q *request) cancel(ctx context.Context, a *nlm4.CancelArgs) nlm4.Status {
	s := q.server
	if s.state.InGrace(q.session) {
		return nlm4.DeniedGrace
	}
	r, status := rangeOf(&a.Lock)
	key, ok := s.state.KeyOf(q.session, a.Lock.Handle)
	if status != nlm4.Granted || !ok || q.byUser(ctx, a.Lock.Handle) {
		return nlm4.Denied
	}
	args := &nfs4state.Lock{Owner: ownerOf(&a.Lock), Key: key, Range: r, Exclusive: a.Exclusive}
	waited := s.state.StopWaiting(q.session, args)
	if s.endGrants(q, args, cancelled) || waited {
		return nlm4.Granted
	}
	return nlm4.Denied
}

// unlock is UNLOCK, which succeeds whatever is locked: a client that hears anything else believes
// that it has the lock.
func unlock(ctx context.Context, m manager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.UnlockArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	q, status := m.beginCall(c, r, a.Lock.Caller)
	res := &nlm4.Res{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.end()
		res.Status = q.unlock(ctx, &a)
	}
	return a.Lock.Caller, res, q.denied(ctx)
}

func (q *request) unlock(ctx context.Context, a *nlm4.UnlockArgs) nlm4.Status {
	s := q.server
	if s.state.InGrace(q.session) {
		return nlm4.DeniedGrace
	}
	key, ok := s.state.KeyOf(q.session, a.Lock.Handle)
	if !ok || a.Lock.Offset > wholeFile {
		return nlm4.Granted
	}
	if q.byUser(ctx, a.Lock.Handle) {
		return nlm4.Failed
	}
	r, status := rangeOf(&a.Lock)
	if status != nlm4.Granted {
		a.Lock.Length = 0 // to the end
		r, _ = rangeOf(&a.Lock)
	}
	args := &nfs4state.Lock{Owner: ownerOf(&a.Lock), Key: key, Range: r}
	s.endParted(q, args)
	status = statusOf(s.state.Release(q.session, args))
	s.endGrants(q, args, unlocked)
	return status
}

// byUser reports whether a call that gives up a lock may come from any user of the client's host, although
// the export takes calls of its superuser, or of verified users, alone. A client that the export has ceased to
// serve may give up what it has.
func (q *request) byUser(ctx context.Context, fh []byte) bool {
	err := q.DeniedUnlock(ctx, fh)
	q.tooWeak = realm.BySecurity(err)
	return q.tooWeak || errors.Is(err, realm.Perm)
}

// granted is GRANTED, which only a client of another server would have asked for.
func granted(_ context.Context, m manager, c *oncrpc.Call, _ *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.TestArgs
	a.Decode(&c.Args, m.vers)
	return a.Lock.Caller, &nlm4.Res{Cookie: a.Cookie, Status: nlm4.Denied}, c.Args.Done()
}

// grantedRes is GRANTED_RES: a client answers GRANTED_MSG.
func grantedRes(_ context.Context, m manager, c *oncrpc.Call, _ *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.Res
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	if len(a.Cookie) == cookieLen {
		m.answered(addrOf(c.Peer), binary.BigEndian.Uint64(a.Cookie), a.Status)
	}
	return nil, nil, nil
}

// share is SHARE.
func share(ctx context.Context, m manager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	return shares(ctx, m, c, r, (*request).share)
}

// unshare is UNSHARE.
func unshare(ctx context.Context, m manager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	return shares(ctx, m, c, r, (*request).unshare)
}

func shares(
	ctx context.Context, m manager, c *oncrpc.Call, r *oncrpc.Reply, do func(*request, context.Context, *nlm4.ShareArgs) nlm4.Status,
) ([]byte, result, error) {
	var a nlm4.ShareArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	q, status := m.beginCall(c, r, a.Share.Caller)
	res := &nlm4.ShareRes{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.end()
		res.Status = do(q, ctx, &a)
	}
	return a.Share.Caller, res, q.denied(ctx)
}

func (q *request) share(ctx context.Context, a *nlm4.ShareArgs) nlm4.Status {
	change := a.Share.Access&nlm4.Write != 0 || a.Share.Deny != 0
	h, status := q.openFile(ctx, a.Share.Handle, a.Share.Access&nlm4.Write != 0)
	if status != nlm4.Granted {
		return status
	}
	if !a.Reclaim {
		if err := q.before(ctx, h, change); err != nil {
			return q.status(err)
		}
	}
	key, err := q.AppendObject(nil, h)
	if err != nil {
		return q.status(err)
	}
	return statusOf(q.server.state.Share(q.session, &nfs4state.Share{
		Owner: a.Share.Owner, Key: string(key), Access: uint32(a.Share.Access), Deny: uint32(a.Share.Deny), Reclaim: a.Reclaim,
		File: q.Mark(), Handle: a.Share.Handle,
	}))
}

func (q *request) unshare(ctx context.Context, a *nlm4.ShareArgs) nlm4.Status {
	s := q.server.state
	if s.InGrace(q.session) {
		return nlm4.DeniedGrace
	}
	if key, ok := s.KeyOf(q.session, a.Share.Handle); ok {
		if q.byUser(ctx, a.Share.Handle) {
			return nlm4.Failed
		}
		s.Unshare(q.session, &nfs4state.Share{Owner: a.Share.Owner, Key: key})
	}
	return nlm4.Granted
}

// freeAll is FREE_ALL: a client without a status monitor has restarted.
func freeAll(_ context.Context, m manager, c *oncrpc.Call, _ *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.Notify
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	name := string(a.Name)
	m.state.EndMachines(addrOf(c.Peer), func(other string) bool { return other == name })
	return nil, nil, nil
}

// copyOf returns arguments of GRANTED for arguments of LOCK, in memory of their own.
func copyOf(a *nlm4.LockArgs) nlm4.TestArgs {
	l := a.Lock
	l.Caller, l.Handle, l.Owner = bytes.Clone(l.Caller), bytes.Clone(l.Handle), bytes.Clone(l.Owner)
	return nlm4.TestArgs{Exclusive: a.Exclusive, Lock: l}
}
