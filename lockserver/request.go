package lockserver

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"syscall"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A request is one running call of NLM. Requests are reused.
type request struct {
	realm.Request
	server  *Server
	call    *oncrpc.Call
	session *nfs4state.Session // of the client
	reply   *oncrpc.Reply
	tooWeak bool // the call is denied, whatever its results are
}

// beginCall begins a call of a client, by the name that it gives itself. It returns nil and the status
// of the call if there is no room for another client, or if the client has restarted while an earlier call runs.
func (s *Server) beginCall(c *oncrpc.Call, r *oncrpc.Reply, name []byte) (*request, nlm4.Status) {
	session, status := s.enter(c.Peer, name)
	if status != nfs4.OK {
		return nil, statusOf(status)
	}
	q, _ := s.requests.Get().(*request)
	if q == nil {
		q = &request{server: s}
	}
	q.call, q.session, q.reply = c, session, r
	q.Begin(s.realm, c.Peer, &c.Cred, r)
	return q, nlm4.Granted
}

func (q *request) end() {
	q.session.Leave()
	q.End()
	q.call, q.session, q.reply, q.tooWeak = nil, nil, nil, false
	q.server.requests.Put(q)
}

// denied returns the denial of a call whose export takes other security flavours.
// The request is nil if the call has not begun.
func (q *request) denied(ctx context.Context) error {
	if q == nil || !q.tooWeak {
		return nil
	}
	q.TurnAway(ctx)
	return rpcmsg.AuthTooWeak
}

// wholeFile is the greatest offset that a lock can have here (RFC 1813, Section 6.3.1): that of
// a file of the host.
const wholeFile = math.MaxInt64

// rangeOf returns the range of a lock. A lock that ends with the last byte that a file can have
// is one without an end.
func rangeOf(l *nlm4.Lock) (locks.Range, nlm4.Status) {
	switch {
	case l.Offset > wholeFile, l.Length > 0 && l.Length-1 > wholeFile-l.Offset:
		return locks.Range{}, nlm4.TooBig
	case l.Length == 0 || l.Length-1 == wholeFile-l.Offset:
		return locks.Range{Start: l.Offset, End: locks.ToEnd}, nlm4.Granted
	}
	return locks.Range{Start: l.Offset, End: l.Offset + l.Length - 1}, nlm4.Granted
}

// ownerOf returns the name of a lock-owner within its client: svid, and oh.
func ownerOf(l *nlm4.Lock) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(l.SVID)), l.Owner...)
}

// holderOf returns a lock that is in the way. An owner of version 4, or a process of the host,
// has svid 0.
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

// lockArgs returns the arguments of a lock of a file, which the caller may lock: a shared lock needs
// permission to read, and an exclusive one to write, as opening the file does. The file's owner
// needs none, because it may have opened a file of any mode.
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
		return nil, h, q.status(err)
	}
	a := &nfs4state.Lock{
		Owner: ownerOf(l), Key: string(key), Range: r, Exclusive: exclusive, File: q.Mark(), Handle: l.Handle,
	}
	q.onHost(ctx, a, h)
	return a, h, nlm4.Granted
}

// openFile finds a regular file that the caller may read or, to change it, write, unless the export asks for
// nobody's rights.
func (q *request) openFile(ctx context.Context, fh []byte, change bool) (vfs.Handle, nlm4.Status) {
	h, free, err := q.OpenToLock(ctx, fh)
	if err != nil {
		q.tooWeak = realm.BySecurity(err)
		return h, q.status(err)
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
		return h, q.status(err)
	case attr.OK && attr.Type != vfs.TypeReg:
		return h, nlm4.Failed
	case change && q.Options.ReadOnly:
		return h, nlm4.ReadOnly
	case !free && rights&want == 0 && !(attr.OK && attr.UID == q.Cred.UID):
		return h, nlm4.Failed
	}
	return h, nlm4.Granted
}

// status returns the status for a refusal or a file system's error.
func (q *request) status(err error) nlm4.Status {
	switch {
	case err == nil:
		return nlm4.Granted
	case errors.Is(err, realm.BadHandle), errors.Is(err, realm.Stale), errors.Is(err, syscall.ESTALE), errors.Is(err, vfs.ErrBadHandle):
		return nlm4.StaleFH
	case errors.Is(err, realm.ReadOnly), errors.Is(err, syscall.EROFS):
		return nlm4.ReadOnly
	case errors.Is(err, realm.Later), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ETIMEDOUT):
		return nlm4.DeniedGrace // the only status by which a client asks again
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOLCK):
		return nlm4.DeniedNoLocks
	}
	return nlm4.Failed
}

// statusOf returns the status for a status of the State.
func statusOf(s nfs4.Status) nlm4.Status {
	switch s {
	case nfs4.OK:
		return nlm4.Granted
	case nfs4.ErrDenied, nfs4.ErrShareDenied, nfs4.ErrReclaimConflict, nfs4.ErrReclaimBad:
		return nlm4.Denied
	case nfs4.ErrGrace, nfs4.ErrNoGrace:
		return nlm4.DeniedGrace // of a reclaim that comes too late, as Linux has it
	case nfs4.ErrDeadlock:
		return nlm4.Deadlock
	case nfs4.ErrStale:
		return nlm4.StaleFH
	case nfs4.ErrROFS:
		return nlm4.ReadOnly
	}
	return nlm4.DeniedNoLocks
}

// onHost makes a lock of a file ask processes of the host too, if the file system can.
func (q *request) onHost(ctx context.Context, a *nfs4state.Lock, h vfs.Handle) {
	e, s := q.Export, q.server
	if e.Locker == nil {
		return
	}
	ctx = context.WithoutCancel(ctx) // an owner that waits is granted the lock after its call
	a.Storage = e
	a.Host = func() (nfs4state.HostLocks, nfs4.Status) {
		if !e.Enter() {
			return nil, nfs4.ErrStale
		}
		defer e.Leave()
		l, err := e.Locker.OpenLocks(ctx, h)
		if err != nil {
			return nil, s.hostStatus(err)
		}
		return &hostLocks{l, s}, nfs4.OK
	}
}

// hostLocks are the locks of a file on the host, with statuses for errors.
type hostLocks struct {
	vfs.FileLocks
	server *Server
}

func (l *hostLocks) SetLock(r locks.Range, kind locks.Kind) nfs4.Status {
	done, err := l.FileLocks.SetLock(r, kind)
	if !done && err == nil {
		return nfs4.ErrDenied
	}
	return l.server.hostStatus(err)
}

func (l *hostLocks) TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, nfs4.Status) {
	at, found, err := l.FileLocks.TestLock(r, kind)
	return at, found, l.server.hostStatus(err)
}

// hostStatus returns the status of the State for an error of a vfs.Locker.
func (s *Server) hostStatus(err error) nfs4.Status {
	switch {
	case err == nil:
		return nfs4.OK
	case errors.Is(err, syscall.EOPNOTSUPP):
		return nfs4.ErrNotSupp
	case errors.Is(err, syscall.ESTALE):
		return nfs4.ErrStale
	case errors.Is(err, syscall.EROFS):
		return nfs4.ErrROFS
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return nfs4.ErrDelay
	}
	s.log.Warn("the host fails to lock a file for clients of version 3, or to look for locks of this host's processes", "err", err)
	return nfs4.ErrServerFault
}
