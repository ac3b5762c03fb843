package exportset

import (
	"context"
	"math"
	"net/netip"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A Request is one running call's use of one export. A program reuses Requests, so that passing
// pointers to their fields to a file system allocates no memory: it embeds a Request, and calls
// Begin and End for each call.
type Request struct {
	// Export and Options are set once the call's first handle is open. Cred is then the
	// identity for the call.
	Export  *Exported
	Options *exports.Options // for the client
	Cred    vfs.Cred

	// Client is the NFSv4 client that makes the call, or 0: its own changes need not be
	// reported to it. It may be set late, by a stateid in the call.
	Client uint64

	set    *Set
	peer   *oncrpc.Peer
	caller *rpcmsg.Cred
	reply  *oncrpc.Reply

	snapshot *Snapshot
	counter  *partyCounts // the counter of the peer's permits for Export; nil: not set yet
	permit   *partyCounts // counter while the call has a permit, otherwise nil
	period   uint32       // see overloadGuard

	groups      []uint32 // memory for Cred's groups, initially few
	groupsBuf   [maxGroups]uint32
	handleBuf   [MaxHandle]byte // see AppendHandle
	mac         macBuffer
	change      recall.Change
	writersGone uint64 // Holders.WritersEnded before the call looks at any object
	locked      heldNames
	keyBuf      []byte // see Key
}

// Addr returns the address from which the call comes.
func (q *Request) Addr() netip.Addr { return addrOf(q.peer) }

// Begin begins a peer's call with a credential, whose reply is r.
func (q *Request) Begin(set *Set, p *oncrpc.Peer, c *rpcmsg.Cred, r *oncrpc.Reply) {
	if q.groups == nil {
		q.groups = q.groupsBuf[:0]
	}
	q.set, q.peer, q.caller, q.reply, q.Client = set, p, c, r, 0
	q.writersGone = set.holders.WritersEnded()
}

// End ends the call. The Request can then begin another.
func (q *Request) End() {
	q.EndChange()
	q.ReleasePermit()
	if q.Export != nil {
		q.Export.leaveCall()
	}
	q.set, q.peer, q.caller, q.reply, q.snapshot, q.Export, q.Options, q.counter = nil, nil, nil, nil, nil, nil, nil, nil
	q.Cred = vfs.Cred{}
}

// CountData counts bytes of file data that the call has read from the export and written to it.
func (q *Request) CountData(read, written int) {
	q.Export.Usage.CountData(q.peer, uint64(read), uint64(written))
	q.reply.Work.Read += uint64(read)
	q.reply.Work.Written += uint64(written)
}

// EndChange ends the changes that the call has announced, and unlocks its names.
func (q *Request) EndChange() {
	q.set.holders.Done(&q.change)
	q.set.nameLocks.unlockNames(&q.locked)
}

// IsCurrent reports whether SetExports has not been called since the call's first handle was
// opened.
func (q *Request) IsCurrent() bool { return q.set.snapshot.Load() == q.snapshot }

// findObject finds the export and the object for a file handle, without checking whether the
// client may use them.
func (q *Request) findObject(fh []byte) (h vfs.Handle, err error) {
	id, h, err := q.set.seal.parseHandle(&q.mac, fh)
	if err == nil {
		err = q.EnterExport(id)
	}
	if err == nil {
		h, err = q.Export.resolveHandle(id, h)
	}
	return h, err
}

// EnterExport finds an export in the snapshot with which the call began, and holds the export
// until the call ends.
func (q *Request) EnterExport(id uint32) error {
	for q.Export == nil {
		q.snapshot = q.set.snapshot.Load()
		e := q.snapshot.byID[id]
		if e == nil {
			return q.set.unknownIDError(q.snapshot, id)
		}
		if e.enterCall() {
			q.Export = e
			q.reply.Work.Subject = e.Usage
		} // otherwise another snapshot is current already
	}
	switch {
	case q.Export.HasID(id):
		return nil
	case q.snapshot.byID[id] == nil:
		return q.set.unknownIDError(q.snapshot, id)
	default:
		return XDev // RENAME and LINK stay in one file system
	}
}

// Open finds the object for a file handle, and the identity for the call. With the error
// WrongSec or WrongTransport, it still returns the object.
func (q *Request) Open(ctx context.Context, fh []byte) (h vfs.Handle, err error) {
	if h, err = q.findObject(fh); err != nil {
		return h, err
	}
	if err = q.admitCaller(ctx); err == nil && q.Options.SubtreeCheck {
		err = q.checkWithin(ctx, h)
	}
	return h, err
}

// OpenToMount is like Open, but for the calls with which clients mount. At the root of an
// export that accepts Kerberos, calls whose caller has no credentials yet are served as
// nobody (RFC 2623, Section 2.3.2).
func (q *Request) OpenToMount(ctx context.Context, fh []byte) (h vfs.Handle, err error) {
	h, err = q.Open(ctx, fh)
	if err == WrongSec && h == q.Export.FS.Root() {
		err = q.admitAsNobody(ctx, func(o *exports.Options) bool {
			_, ok := o.Kerberos()
			return ok
		})
	}
	return h, err
}

// OpenToLock is like Open, but for an NLM lock. If free is set, the export accepts locks from
// unverified callers, and the call is executed as nobody.
func (q *Request) OpenToLock(ctx context.Context, fh []byte) (h vfs.Handle, free bool, err error) {
	if h, err = q.Open(ctx, fh); err != WrongSec {
		return h, false, err
	}
	if err = q.admitAsNobody(ctx, allowsInsecureLocks); err == nil && q.Options.SubtreeCheck {
		err = q.checkWithin(ctx, h)
	}
	return h, err == nil, err
}

// CheckUnlock returns the reason why a file handle's export denies a call that releases an NLM
// lock, or nil. It calls no file system.
func (q *Request) CheckUnlock(ctx context.Context, fh []byte) error {
	if _, err := q.findObject(fh); err != nil {
		return err
	}
	v := q.set.accessFor(ctx, q.peer, q.snapshot, q.Export)
	_, err := v.forFlavor(q.caller.Flavor)
	if err == WrongSec {
		_, err = q.nobodyOptions(v, allowsInsecureLocks)
	}
	return err
}

func allowsInsecureLocks(o *exports.Options) bool { return o.InsecureLocks }

// isUnverified reports whether a credential's caller is unverified.
func isUnverified(c *rpcmsg.Cred) bool {
	return c.Flavor == rpcmsg.AuthNone || c.Flavor == rpcmsg.AuthSys
}

// admitAsNobody admits a call with the wrong flavor, as nobody, if its caller is unverified and
// the client's options allow that.
func (q *Request) admitAsNobody(ctx context.Context, allow func(*exports.Options) bool) error {
	o, err := q.nobodyOptions(q.set.accessFor(ctx, q.peer, q.snapshot, q.Export), allow)
	if err != nil {
		return err
	}
	q.Options, q.Cred = o, vfs.Cred{UID: o.AnonUID.Number(), GID: o.AnonGID.Number()}
	return q.AcquirePermit(ctx)
}

// nobodyOptions returns the options for such a call, or the reason why it is rejected. Its port
// is checked, as for every unverified call.
func (q *Request) nobodyOptions(v *peerAccess, allow func(*exports.Options) bool) (*exports.Options, error) {
	switch o := v.clientOptions; {
	case !isUnverified(q.caller) || o == nil || !allow(o):
		return nil, WrongSec
	case !o.Insecure && !hasSecurePort(q.peer):
		return nil, Perm
	default:
		return o, nil
	}
}

// Flavors returns the flavors with which the client may use the entered export, the preferred
// one first.
func (q *Request) Flavors(ctx context.Context) []exports.Flavor {
	return q.set.Flavors(ctx, q.peer, q.snapshot, q.Export)
}

// LogDenial logs which flavors or transports the export accepts, for a call that was rejected
// with WrongSec or WrongTransport.
func (q *Request) LogDenial(ctx context.Context) {
	if o := q.set.accessFor(ctx, q.peer, q.snapshot, q.Export).clientOptions; o != nil && !o.Xprtsec.Take(peerTransport(q.peer)) {
		words := "rejecting calls: the export requires an encrypted connection; mount it over TCP with one of these (over RDMA, only mountrdma can)"
		if peerTransport(q.peer) == exports.TransportTLS {
			words = "rejecting calls: the export requires a client certificate (mutual TLS); mount it with xprtsec=mtls, and the files of nfsrdmad cert client"
		}
		q.set.log.Warn(words, "export", q.Export.Path, "client", addrOf(q.peer), "over", q.peer.Network, "xprtsec", peerTransport(q.peer).String(), "takes", o.Xprtsec.String())
		return
	}
	var words []string
	for _, f := range q.Flavors(ctx) {
		words = append(words, f.String())
	}
	q.set.log.Warn("rejecting calls: the export accepts only other security flavors; mount it with one of these",
		"export", q.Export.Path, "client", addrOf(q.peer), "sec", exports.Flavor(q.caller.Flavor), "takes", strings.Join(words, ":"))
}

// CheckObject checks whether the client may use an object in the entered export, and determines
// the identity for the call.
func (q *Request) CheckObject(ctx context.Context, h vfs.Handle) error {
	if err := q.admitCaller(ctx); err != nil || !q.Options.SubtreeCheck {
		return err
	}
	return q.checkWithin(ctx, h)
}

// admitCaller checks whether the client may use the entered export, and determines the identity
// for the call.
func (q *Request) admitCaller(ctx context.Context) error {
	if q.Options == nil {
		o, err := q.set.accessFor(ctx, q.peer, q.snapshot, q.Export).forFlavor(q.caller.Flavor)
		if err != nil {
			q.set.LogRejection(q.peer, q.Export, err)
			return err
		}
		if err := q.identifyCaller(ctx, o); err != nil {
			return Later // until the permitted identity is known
		}
		q.Options = o
	}
	return q.AcquirePermit(ctx)
}

// AcquirePermit waits for a permit to use the export's file system. The caller must not wait
// for anything else until ReleasePermit.
func (q *Request) AcquirePermit(ctx context.Context) error {
	if q.permit != nil {
		return nil
	}
	if q.counter == nil {
		q.counter = q.set.permits.counterFor(&q.Export.source.work, q.peer)
	}
	period, ok := q.set.beginWork(ctx, q.counter, q.Export.source)
	if !ok {
		if !q.Export.isUnavailable && ctx.Err() == nil && !q.set.tenure.Over() {
			q.LogFault(errHung)
		}
		return Later
	}
	q.permit, q.period = q.counter, period
	if q.reply.Trace != nil {
		q.reply.Trace.Begin(oncrpc.StageFiles)
	}
	return nil
}

// beginWork acquires a permit and begins a file system's work for a call that w counts. It
// returns false if the client must try again later. endWork ends the work.
func (s *Set) beginWork(ctx context.Context, w *partyCounts, e *source) (period uint32, ok bool) {
	if e.isUnavailable || e.overload.isStuck(&e.work, w) {
		return 0, false
	}
	if !s.permits.acquirePermit(ctx, &e.work, w, func() bool { return !e.overload.isStarved(&e.work) }) {
		return 0, false
	}
	if s.tenure.Over() { // it may have ended while the call waited, for the permit or before
		s.permits.releasePermit(&e.work, w)
		return 0, false
	}
	return e.overload.beginCall(w), true
}

// ReleasePermit releases the call's permit, if it has one. The call may acquire it again.
func (q *Request) ReleasePermit() {
	if q.permit != nil {
		if q.reply.Trace != nil {
			q.reply.Trace.End(oncrpc.StageFiles, q.Export.Path, "")
		}
		q.set.endWork(q.Export.source, q.permit, q.period)
		q.permit = nil
	}
}

func (s *Set) endWork(e *source, w *partyCounts, period uint32) {
	e.overload.endCall(w, period)
	s.permits.releasePermit(&e.work, w)
}

// checkWithin rejects objects outside the export's directory. A file system that is not a
// Container has no such objects.
func (q *Request) checkWithin(ctx context.Context, h vfs.Handle) error {
	c, ok := q.Export.FS.(vfs.Container)
	if !ok {
		return nil
	}
	return c.Within(ctx, &q.Cred, h)
}

// Handle returns h's file handle, which is valid until the next call.
func (q *Request) Handle(h *vfs.Handle) []byte {
	return q.Export.appendHandle(q.set.seal, &q.mac, q.handleBuf[:0], h)
}

// ReadCount returns the number of bytes to read: at most the requested count, the maximum
// payload, the space in the reply with padding, and the bytes before the maximum file size.
func (s *Set) ReadCount(offset uint64, count uint32, limit int) int {
	if offset > MaxFileSize {
		return 0
	}
	n := min(uint64(count), uint64(s.payload), uint64(max(0, limit)&^3))
	return int(min(n, MaxFileSize-offset))
}

// MaxFileSize is the maximum size of a file in bytes.
const MaxFileSize = math.MaxInt64
