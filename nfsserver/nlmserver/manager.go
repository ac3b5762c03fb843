package nlmserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A lockManager serves one NLM version.
type lockManager struct {
	*Server
	vers uint32
}

// A result holds NLM results, whose encoding depends on the version.
type result interface {
	AppendTo(b []byte, vers uint32) []byte
}

// A procedure decodes its arguments, executes the call, and returns the caller_name and the
// results.
type procedure func(ctx context.Context, m lockManager, c *oncrpc.Call, r *oncrpc.Reply) (name []byte, res result, err error)

var procedureByNumber = map[uint32]procedure{
	nlm4.ProcTest: testProc, nlm4.ProcLock: lockProc, nlm4.ProcCancel: cancelProc, nlm4.ProcUnlock: unlockProc, nlm4.ProcGranted: grantedProc,
	nlm4.ProcShare: shareProc, nlm4.ProcUnshare: unshareProc, nlm4.ProcNMLock: lockProc, nlm4.ProcFreeAll: freeAllProc,
	nlm4.ProcGrantedRes: grantedResProc,
}

// The distances in procedure numbers: from a procedure to its _MSG form, and from that to its _RES
// form.
const (
	msgStep = nlm4.ProcTestMsg - nlm4.ProcTest
	resStep = nlm4.ProcTestRes - nlm4.ProcTestMsg
)

// ServeRPC handles one call. Only callbacks may lack a credential (RFC 1813, Section 6.1.1).
func (m lockManager) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	proc, byMsg := c.Proc, c.Proc >= nlm4.ProcTestMsg && c.Proc <= nlm4.ProcGrantedMsg
	if byMsg {
		proc -= msgStep
	}
	switch do := procedureByNumber[proc]; {
	case !nlm4.Defined(m.vers, c.Proc):
		return oncrpc.ErrProcUnavail
	case byMsg && !m.mayCallBack(c.Peer): // the results would have to be sent in a call
		return oncrpc.ErrProcUnavail
	case do == nil: // unexpected results
		return nil
	case c.Cred.Flavor == rpcmsg.AuthNone && proc != nlm4.ProcGranted && proc != nlm4.ProcGrantedRes:
		return rpcmsg.AuthTooWeak
	default:
		name, res, err := do(ctx, m, c, r)
		switch {
		case err != nil || res == nil:
			return err
		case byMsg:
			m.sendResults(machineOf(c.Peer, name), m.vers, c.Proc+resStep, res.AppendTo(nil, m.vers))
		default:
			r.Head = res.AppendTo(r.Head, m.vers)
		}
		return nil
	}
}

// testProc handles TEST.
func testProc(ctx context.Context, m lockManager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.TestArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	q, status := m.beginCall(c, r, a.Lock.Caller)
	res := &nlm4.TestRes{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.endCall()
		res.Status, res.Holder = q.testLock(ctx, &a)
	}
	return a.Lock.Caller, res, q.denialError(ctx)
}

func (q *request) testLock(ctx context.Context, a *nlm4.TestArgs) (nlm4.Status, nlm4.Holder) {
	if q.machine.InGrace() {
		return nlm4.DeniedGrace, nlm4.Holder{}
	}
	args, h, status := q.lockArgs(ctx, &a.Lock, a.Exclusive)
	if status != nlm4.Granted {
		return status, nlm4.Holder{}
	}
	if err := q.BeforeRead(ctx, h); err != nil {
		return q.statusOfError(err), nlm4.Holder{}
	}
	d, s := q.machine.TestLock(args)
	return statusOf(s), holderOf(&d)
}

// lockProc handles LOCK and NM_LOCK, which does not wait. After either, the server notifies the
// client of a restart.
func lockProc(ctx context.Context, m lockManager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.LockArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	a.Block = a.Block && c.Proc != nlm4.ProcNMLock
	q, status := m.beginCall(c, r, a.Lock.Caller)
	res := &nlm4.Res{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.endCall()
		res.Status = q.lockRange(ctx, m.vers, &a)
	}
	return a.Lock.Caller, res, q.denialError(ctx)
}

// recallDelegations recalls NFSv4 delegations that conflict with a lock or a SHARE, and waits for
// them.
func (q *request) recallDelegations(ctx context.Context, h vfs.Handle, change bool) error {
	if change {
		return q.BeforeOpenWrite(ctx, h)
	}
	return q.BeforeRead(ctx, h)
}

func (q *request) lockRange(ctx context.Context, vers uint32, a *nlm4.LockArgs) nlm4.Status {
	s := q.server
	args, h, status := q.lockArgs(ctx, &a.Lock, a.Exclusive)
	if status != nlm4.Granted {
		return status
	}
	q.noteVouched()
	q.machine.NoteState(a.State)
	args.Reclaim = a.Reclaim
	if !a.Reclaim { // NFSv4 clients lock files delegated to them without a call
		if err := q.recallDelegations(ctx, h, a.Exclusive); err != nil {
			return q.statusOfError(err)
		}
	}
	if a.Block && !a.Reclaim && s.mayCallBack(q.call.Peer) {
		s.setGrantCallback(q, vers, a, args)
	}
	_, got := q.machine.Lock(args)
	status = statusOf(got)
	switch {
	case status == nlm4.Denied && a.Block && !a.Reclaim && !s.mayCallBack(q.call.Peer):
		return nlm4.Blocked // the client polls, as it does when GRANTED is lost
	case status == nlm4.Granted:
		s.endGrants(q, args, grantConfirmed)
	case status == nlm4.Denied && args.Tell != nil:
		return nlm4.Blocked
	}
	return status
}

// noteVouched records that the client locks files by calls from a privileged
// port.
func (q *request) noteVouched() {
	if isPrivilegedPort(q.call.Peer) {
		q.machine.MarkVouched()
	}
}

// cancelProc handles CANCEL. A lock that is being granted is released: the client has not been
// notified of it, or will unlock it.
func cancelProc(ctx context.Context, m lockManager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.CancelArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	q, status := m.beginCall(c, r, a.Lock.Caller)
	res := &nlm4.Res{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.endCall()
		res.Status = q.cancelLock(ctx, &a)
	}
	return a.Lock.Caller, res, q.denialError(ctx)
}

func (q *request) cancelLock(ctx context.Context, a *nlm4.CancelArgs) nlm4.Status {
	s := q.server
	if q.machine.InGrace() {
		return nlm4.DeniedGrace
	}
	r, status := rangeOf(&a.Lock)
	key, ok := q.machine.FindKey(a.Lock.Handle)
	if status != nlm4.Granted || !ok || q.rejectsUnlock(ctx, a.Lock.Handle) {
		return nlm4.Denied
	}
	args := &nfs4state.Lock{Owner: ownerOf(&a.Lock), Key: key, Range: r, Exclusive: a.Exclusive}
	waited := q.machine.StopWaiting(args)
	if s.endGrants(q, args, grantCancelled) || waited {
		return nlm4.Granted
	}
	return nlm4.Denied
}

// unlockProc handles UNLOCK, which succeeds whatever is locked: with any other status a client
// assumes that it still has the lock.
func unlockProc(ctx context.Context, m lockManager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.UnlockArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	q, status := m.beginCall(c, r, a.Lock.Caller)
	res := &nlm4.Res{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.endCall()
		res.Status = q.unlockRange(ctx, &a)
	}
	return a.Lock.Caller, res, q.denialError(ctx)
}

func (q *request) unlockRange(ctx context.Context, a *nlm4.UnlockArgs) nlm4.Status {
	s := q.server
	if q.machine.InGrace() {
		return nlm4.DeniedGrace
	}
	key, ok := q.machine.FindKey(a.Lock.Handle)
	if !ok || a.Lock.Offset > wholeFile {
		return nlm4.Granted
	}
	if q.rejectsUnlock(ctx, a.Lock.Handle) {
		return nlm4.Failed
	}
	r, status := rangeOf(&a.Lock)
	if status != nlm4.Granted {
		a.Lock.Length = 0 // to the end
		r, _ = rangeOf(&a.Lock)
	}
	args := &nfs4state.Lock{Owner: ownerOf(&a.Lock), Key: key, Range: r}
	s.endSplitGrants(q, args)
	status = statusOf(q.machine.Unlock(args))
	s.endGrants(q, args, grantUnlocked)
	return status
}

// rejectsUnlock reports whether the export rejects a call that releases a lock: the export accepts
// only the host's superuser, or only verified users, and the call may come from any user. A client
// that the export no longer serves may still release its locks.
func (q *request) rejectsUnlock(ctx context.Context, fh []byte) bool {
	err := q.CheckUnlock(ctx, fh)
	q.weakAuth = exportset.IsSecurityDenial(err)
	return q.weakAuth || errors.Is(err, exportset.Perm)
}

// grantedProc handles GRANTED, which this server has never requested.
func grantedProc(_ context.Context, m lockManager, c *oncrpc.Call, _ *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.TestArgs
	a.Decode(&c.Args, m.vers)
	return a.Lock.Caller, &nlm4.Res{Cookie: a.Cookie, Status: nlm4.Denied}, c.Args.Done()
}

// grantedResProc handles GRANTED_RES, a client's reply to GRANTED_MSG.
func grantedResProc(_ context.Context, m lockManager, c *oncrpc.Call, _ *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.Res
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	if len(a.Cookie) == cookieLen {
		m.handleGrantedRes(addrOf(c.Peer), binary.BigEndian.Uint64(a.Cookie), a.Status)
	}
	return nil, nil, nil
}

// shareProc handles SHARE.
func shareProc(ctx context.Context, m lockManager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	return callShareProc(ctx, m, c, r, (*request).shareFile)
}

// unshareProc handles UNSHARE.
func unshareProc(ctx context.Context, m lockManager, c *oncrpc.Call, r *oncrpc.Reply) ([]byte, result, error) {
	return callShareProc(ctx, m, c, r, (*request).unshareFile)
}

func callShareProc(
	ctx context.Context, m lockManager, c *oncrpc.Call, r *oncrpc.Reply, do func(*request, context.Context, *nlm4.ShareArgs) nlm4.Status,
) ([]byte, result, error) {
	var a nlm4.ShareArgs
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	q, status := m.beginCall(c, r, a.Share.Caller)
	res := &nlm4.ShareRes{Cookie: a.Cookie, Status: status}
	if q != nil {
		defer q.endCall()
		res.Status = do(q, ctx, &a)
	}
	return a.Share.Caller, res, q.denialError(ctx)
}

func (q *request) shareFile(ctx context.Context, a *nlm4.ShareArgs) nlm4.Status {
	change := a.Share.Access&nlm4.Write != 0 || a.Share.Deny != 0
	h, status := q.openFile(ctx, a.Share.Handle, a.Share.Access&nlm4.Write != 0)
	if status != nlm4.Granted {
		return status
	}
	q.noteVouched()
	q.machine.NoteState(0)
	if !a.Reclaim {
		if err := q.recallDelegations(ctx, h, change); err != nil {
			return q.statusOfError(err)
		}
	}
	key, err := q.AppendObject(nil, h)
	if err != nil {
		return q.statusOfError(err)
	}
	return statusOf(q.machine.Share(&nfs4state.Share{
		Owner: a.Share.Owner, Key: string(key), Access: uint32(a.Share.Access), Deny: uint32(a.Share.Deny), Reclaim: a.Reclaim,
		Mark: q.OpenMarker(), Handle: a.Share.Handle,
	}))
}

func (q *request) unshareFile(ctx context.Context, a *nlm4.ShareArgs) nlm4.Status {
	if q.machine.InGrace() {
		return nlm4.DeniedGrace
	}
	if key, ok := q.machine.FindKey(a.Share.Handle); ok {
		if q.rejectsUnlock(ctx, a.Share.Handle) {
			return nlm4.Failed
		}
		q.machine.Unshare(&nfs4state.Share{Owner: a.Share.Owner, Key: key})
	}
	return nlm4.Granted
}

// freeAllProc handles FREE_ALL: a client without a status monitor has
// restarted.
func freeAllProc(_ context.Context, m lockManager, c *oncrpc.Call, _ *oncrpc.Reply) ([]byte, result, error) {
	var a nlm4.Notify
	a.Decode(&c.Args, m.vers)
	if err := c.Args.Done(); err != nil {
		return nil, nil, err
	}
	p, name := c.Peer, string(a.Name)
	match := func(other string, _ int32) bool { return other == name }
	switch {
	case !isPacket(p):
		m.freeLocks(p, "FREE_ALL", match)
	case m.hasClient(p, match):
		m.confirmRestart(p, notifyKey{addrOf(p), name, isPrivilegedPort(p)}, noState, func() { m.freeLocks(p, "FREE_ALL", match) })
	}
	return nil, nil, nil
}

// copyOf returns GRANTED arguments for LOCK arguments, in new memory.
func copyOf(a *nlm4.LockArgs) nlm4.TestArgs {
	l := a.Lock
	l.Caller, l.Handle, l.Owner = bytes.Clone(l.Caller), bytes.Clone(l.Handle), bytes.Clone(l.Owner)
	return nlm4.TestArgs{Exclusive: a.Exclusive, Lock: l}
}
