package nlmserver

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A request is an NLM call in progress. Requests are reused.
type request struct {
	exportset.Request
	server   *Server
	call     *oncrpc.Call
	machine  *nfs4state.MachineRecord // the client's
	reply    *oncrpc.Reply
	weakAuth bool // the call is denied, whatever its results are
}

// beginCall begins the call of a client, which name (caller_name) identifies. It returns nil and
// the call's status if a limit is reached, or if the client has restarted while an earlier call is
// running.
func (s *Server) beginCall(c *oncrpc.Call, r *oncrpc.Reply, name []byte) (*request, nlm4.Status) {
	machine, status := s.enterClient(c.Peer, name)
	if status != nfs4.OK {
		return nil, statusOf(status)
	}
	q, _ := s.requests.Get().(*request)
	if q == nil {
		q = &request{server: s}
	}
	q.call, q.machine, q.reply = c, machine, r
	q.Begin(s.exports, c.Peer, &c.Cred, r)
	return q, nlm4.Granted
}

func (q *request) endCall() {
	q.machine.Leave()
	q.End()
	q.call, q.machine, q.reply, q.weakAuth = nil, nil, nil, false
	q.server.requests.Put(q)
}

// denialError returns an RPC error for a call whose export requires other security
// flavors. The request is nil if the call has not begun.
func (q *request) denialError(ctx context.Context) error {
	if q == nil || !q.weakAuth {
		return nil
	}
	q.LogDenial(ctx)
	return rpcmsg.AuthTooWeak
}

// wholeFile is the maximum offset of a lock (RFC 1813, Section 6.3.1): that of a file on the
// host.
const wholeFile = math.MaxInt64

// rangeOf returns a lock's range. A lock that includes the last possible byte of a file extends
// to the end.
func rangeOf(l *nlm4.Lock) (locks.Range, nlm4.Status) {
	switch {
	case l.Offset > wholeFile, l.Length > 0 && l.Length-1 > wholeFile-l.Offset:
		return locks.Range{}, nlm4.TooBig
	case l.Length == 0 || l.Length-1 == wholeFile-l.Offset:
		return locks.Range{Start: l.Offset, End: locks.ToEnd}, nlm4.Granted
	}
	return locks.Range{Start: l.Offset, End: l.Offset + l.Length - 1}, nlm4.Granted
}

// ownerOf returns a lock-owner's name within its client: svid and oh.
func ownerOf(l *nlm4.Lock) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(l.SVID)), l.Owner...)
}

// holderOf returns a conflicting lock. NFSv4 owners and host processes have svid 0.
func holderOf(d *nfs4state.Denied) nlm4.Holder {
	h := nlm4.Holder{Exclusive: d.Exclusive, Owner: []byte(d.Owner), Offset: d.Range.Start}
	if d.Machine && len(d.Owner) >= 4 {
		h.SVID, h.Owner = int32(binary.BigEndian.Uint32(h.Owner)), h.Owner[4:]
	}
	if d.Range.End != locks.ToEnd {
		h.Length = d.Range.End - d.Range.Start + 1
	}
	return h
}

// lockArgs returns the arguments for a lock, if the caller may lock the file: a shared lock needs
// read permission, and an exclusive lock write permission, as opening the file does. The file's
// owner needs none, because it may have opened a file with any mode.
func (q *request) lockArgs(ctx context.Context, l *nlm4.Lock, exclusive bool) (*nfs4state.Lock, vfs.Handle, nlm4.Status) {
	h, status := q.openFile(ctx, l.Handle, exclusive)
	if status != nlm4.Granted {
		return nil, h, status
	}
	r, status := rangeOf(l)
	if status != nlm4.Granted {
		return nil, h, status
	}
	key, err := q.AppendObject(nil, h)
	if err != nil {
		return nil, h, q.statusOfError(err)
	}
	a := &nfs4state.Lock{
		Owner: ownerOf(l), Key: string(key), Range: r, Exclusive: exclusive, Mark: q.OpenMarker(), Handle: l.Handle,
	}
	q.useHostLocks(ctx, a, h)
	return a, h, nlm4.Granted
}

// openFile finds a regular file that the caller may read or, if change is set, write. The export
// may disable the permission check.
func (q *request) openFile(ctx context.Context, fh []byte, change bool) (vfs.Handle, nlm4.Status) {
	h, free, err := q.OpenToLock(ctx, fh)
	if err != nil {
		q.weakAuth = exportset.IsSecurityDenial(err)
		return h, q.statusOfError(err)
	}
	if q.Options.Refer.Set() {
		return h, nlm4.StaleFH
	}
	want := vfs.AccessRead
	if change {
		want = vfs.AccessModify
	}
	rights, attr, err := q.Export.FS.Access(ctx, &q.Cred, h, want)
	switch {
	case err != nil:
		return h, q.statusOfError(err)
	case attr.OK && attr.Type != vfs.TypeReg:
		return h, nlm4.Failed
	case change && q.Options.ReadOnly:
		return h, nlm4.ReadOnly
	case !free && rights&want == 0 && !(attr.OK && attr.UID == q.Cred.UID):
		return h, nlm4.Failed
	}
	return h, nlm4.Granted
}

// statusOfError returns the status for a rejection or a file system error.
func (q *request) statusOfError(err error) nlm4.Status {
	switch {
	case err == nil:
		return nlm4.Granted
	case errors.Is(err, exportset.BadHandle), errors.Is(err, exportset.Stale), errors.Is(err, syscall.ESTALE), errors.Is(err, vfs.ErrBadHandle):
		return nlm4.StaleFH
	case errors.Is(err, exportset.ReadOnly), errors.Is(err, syscall.EROFS):
		return nlm4.ReadOnly
	case errors.Is(err, exportset.Later), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ETIMEDOUT):
		return nlm4.DeniedGrace // the only status after which a client tries again
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOLCK):
		return nlm4.DeniedNoLocks
	}
	return nlm4.Failed
}

// statusOf returns the NLM status for a State's status.
func statusOf(s nfs4.Status) nlm4.Status {
	switch s {
	case nfs4.OK:
		return nlm4.Granted
	case nfs4.ErrDenied, nfs4.ErrShareDenied, nfs4.ErrReclaimConflict, nfs4.ErrReclaimBad:
		return nlm4.Denied
	case nfs4.ErrGrace, nfs4.ErrNoGrace:
		return nlm4.DeniedGrace // a reclaim that comes too late, as in Linux
	case nfs4.ErrDeadlock:
		return nlm4.Deadlock
	case nfs4.ErrStale:
		return nlm4.StaleFH
	case nfs4.ErrROFS:
		return nlm4.ReadOnly
	}
	return nlm4.DeniedNoLocks
}

// useHostLocks makes a lock also apply to host processes, if the file system supports that.
func (q *request) useHostLocks(ctx context.Context, a *nfs4state.Lock, h vfs.Handle) {
	if open := q.HostLocks(ctx, h); open != nil {
		a.Storage = q.Export
		a.Host = func() (nfs4state.HostLocks, nfs4.Status) { return open() }
	}
}
