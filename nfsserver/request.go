package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/delegation"
	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A request is one running NFS call. Requests are reused, so that passing parts
// of them to a file system by pointer costs no allocation.
type request struct {
	server *Server
	call   *oncrpc.Call
	reply  *oncrpc.Reply

	// Set once the call's first handle is open.
	set     *exportSet
	export  *export
	options *exports.Options // the client's options
	worker  *partyWork       // the counter of the call's permit, or nil
	period  uint32           // see overload
	cred    vfs.Cred

	groups   []uint32 // memory for the groups of cred, initially few
	few      [maxGroups]uint32
	fh       [nfs3.FHSize]byte // see handle
	mac      mac
	change   delegserver.Change
	locked   heldNames
	key      []byte     // see keyOf
	dirEntry nfs3.Entry // see entry
}

func (s *Server) begin(c *oncrpc.Call, r *oncrpc.Reply) *request {
	q, _ := s.requests.Get().(*request)
	if q == nil {
		q = &request{server: s}
		q.groups = q.few[:0]
	}
	q.call, q.reply = c, r
	return q
}

func (s *Server) end(q *request) {
	s.grants.Done(&q.change)
	s.changing.unlock(&q.locked)
	q.rest()
	if q.export != nil {
		q.export.leave()
	}
	q.call, q.reply, q.set, q.export, q.options = nil, nil, nil, nil, nil
	q.cred, q.dirEntry = vfs.Cred{}, nfs3.Entry{}
	s.requests.Put(q)
}

// args returns the error in the arguments, after decoding.
func (q *request) args() error { return q.call.Args.Done() }

// find finds the export and object of a file handle, without checking whether
// the client may use them.
func (q *request) find(fh nfs3.FH) (vfs.Handle, nfs3.Status) {
	id, h, status := q.server.seal.parseHandle(&q.mac, fh)
	if status != nfs3.OK {
		return vfs.Handle{}, status
	}
	return h, q.enter(id)
}

// enter finds an export in the set with which the call began, and holds the
// export until the call ends.
func (q *request) enter(id uint32) nfs3.Status {
	for q.export == nil {
		q.set = q.server.set.Load()
		e := q.set.byID[id]
		if e == nil {
			return nfs3.ErrStale // an earlier export
		}
		if e.enter() {
			q.export = e
		} // otherwise another set is current already
	}
	switch {
	case q.export.id == id:
		return nfs3.OK
	case q.set.byID[id] == nil:
		return nfs3.ErrStale
	default:
		return nfs3.ErrXDev // RENAME and LINK stay in one file system
	}
}

// open finds the object of a file handle, and the identity for the call.
func (q *request) open(ctx context.Context, fh nfs3.FH) (vfs.Handle, nfs3.Status) {
	h, status := q.find(fh)
	if status != nfs3.OK {
		return vfs.Handle{}, status
	}
	if q.options == nil {
		v := q.server.verdict(ctx, q.call.Peer, q.set, q.export)
		if v.status != nfs3.OK {
			return vfs.Handle{}, v.status
		}
		if err := q.identify(ctx, v.options); err != nil {
			return vfs.Handle{}, nfs3.ErrJukebox // until the permitted identity is known
		}
		q.options = v.options
	}
	if status := q.work(ctx); status != nfs3.OK {
		return vfs.Handle{}, status
	}
	if status := q.within(ctx, h); status != nfs3.OK {
		return vfs.Handle{}, status
	}
	return h, nfs3.OK
}

// work begins the use of the file system: from here on the call has a permit,
// and waits for nothing else. work may wait for the permit.
func (q *request) work(ctx context.Context) nfs3.Status {
	if q.worker != nil {
		return nfs3.OK
	}
	e := q.export.source
	q.worker, q.period = q.server.work(ctx, q.call.Peer, e)
	if q.worker == nil {
		return nfs3.ErrJukebox
	}
	return nfs3.OK
}

// work begins a file system's work for a peer's call. It returns nil if the
// client must try again later. rest ends the work.
func (s *Server) work(ctx context.Context, p *oncrpc.Peer, e *source) (w *partyWork, period uint32) {
	w = s.permits.of(&e.work, p)
	if e.overload.stuck(&e.work, w) {
		return nil, 0
	}
	if !s.permits.acquire(ctx, &e.work, w, func() bool { return !e.overload.starved(&e.work) }) {
		return nil, 0
	}
	return w, e.overload.begin(w)
}

// rest ends the use of the file system, perhaps only for a while.
func (q *request) rest() {
	if q.worker != nil {
		q.server.rest(q.export.source, q.worker, q.period)
		q.worker = nil
	}
}

func (s *Server) rest(e *source, w *partyWork, period uint32) {
	e.overload.end(w, period)
	s.permits.give(&e.work, w)
}

// within refuses objects outside the export's directory, if the options ask for
// the check. A file system that is not a Container has no such objects.
func (q *request) within(ctx context.Context, h vfs.Handle) nfs3.Status {
	if !q.options.SubtreeCheck {
		return nfs3.OK
	}
	c, ok := q.export.fs.(vfs.Container)
	if !ok {
		return nfs3.OK
	}
	return q.status(c.Within(ctx, &q.cred, h))
}

// openToChange is open for an object that the call will change. If the call is
// refused, wcc holds the available attributes.
func (q *request) openToChange(ctx context.Context, fh nfs3.FH) (h vfs.Handle, wcc nfs3.WccData, status nfs3.Status) {
	h, status = q.open(ctx, fh)
	if status == nfs3.OK && q.options.ReadOnly {
		return h, q.unchanged(ctx, h), nfs3.ErrROFS
	}
	return h, nfs3.WccData{}, status
}

// openName is openToChange for a directory in which the call will change a
// name.
func (q *request) openName(ctx context.Context, a *nfs3.DirOpArgs, dots dotNames) (dir vfs.Handle, wcc nfs3.WccData, status nfs3.Status) {
	dir, wcc, status = q.openToChange(ctx, a.Dir)
	if status != nfs3.OK {
		return dir, wcc, status
	}
	if status = dots.check(a.Name); status != nfs3.OK {
		wcc = q.unchanged(ctx, dir)
	}
	return dir, wcc, status
}

// attr returns the attributes of h, if available, for the results of a
// procedure that fails before it calls the file system.
func (q *request) attr(ctx context.Context, h vfs.Handle) nfs3.PostOpAttr {
	a, err := q.export.fs.GetAttr(ctx, &q.cred, h)
	if err != nil {
		return nfs3.PostOpAttr{}
	}
	return nfs3.PostOpAttr{OK: true, Attr: wireAttr(&a)}
}

// unchanged is attr as wcc_data.
func (q *request) unchanged(ctx context.Context, h vfs.Handle) nfs3.WccData {
	return nfs3.WccData{After: q.attr(ctx, h)}
}

// handle returns the file handle of h, which is valid until the next call.
func (q *request) handle(h *vfs.Handle) nfs3.FH {
	return q.server.seal.appendHandle(&q.mac, q.fh[:0], q.export.id, h)
}

// status returns the status for a file system's error, and logs the error if
// NFS has no status for it.
func (q *request) status(err error) nfs3.Status {
	status, known := statusOf(err)
	if !known {
		q.server.log.Warn("a file system's error has no NFS status; the client gets NFS3ERR_IO",
			"export", q.export.path, "proc", q.procName(), "err", err)
	}
	return status
}

func (q *request) procName() string {
	switch q.call.Prog {
	case nfsacl.Program:
		return nfsacl.ProcName(q.call.Proc)
	case delegation.Program:
		return delegation.ProcName(q.call.Proc)
	}
	return nfs3.ProcName(q.call.Proc)
}
