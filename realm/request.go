package realm

import (
	"context"
	"math"
	"strings"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A Request is the use of one export by one running call. A program reuses
// Requests, so that passing parts of them to a file system by pointer costs no
// allocation: it embeds a Request, and calls Begin and End for each call.
type Request struct {
	// Export and Options are set once the call's first handle is open. Cred is
	// then the identity for the call.
	Export  *Exported
	Options *exports.Options // the client's
	Cred    vfs.Cred

	// Client is the client of version 4 that makes the call, or 0: that client
	// knows of its own changes. It may be set late, by a stateid in the call.
	Client uint64

	realm  *Realm
	peer   *oncrpc.Peer
	caller *rpcmsg.Cred
	reply  *oncrpc.Reply

	set    *Set
	party  *partyWork // the counter of the peer's permits of Export; nil: not looked for
	worker *partyWork // party while the call has a permit, otherwise nil
	period uint32     // see overload

	groups []uint32 // memory for the groups of Cred, initially few
	few    [maxGroups]uint32
	fh     [MaxHandle]byte // see AppendHandle
	mac    mac
	change change
	gone   uint64 // holders' writers that have ended, before the call looks at any object
	locked heldNames
	key    []byte // see Key
}

// Begin begins a call of a peer with a credential, whose reply is r.
func (q *Request) Begin(realm *Realm, p *oncrpc.Peer, c *rpcmsg.Cred, r *oncrpc.Reply) {
	if q.groups == nil {
		q.groups = q.few[:0]
	}
	q.realm, q.peer, q.caller, q.reply, q.Client = realm, p, c, r, 0
	q.gone = realm.holders.WritersGone()
}

// End ends the call. The Request can then begin another.
func (q *Request) End() {
	q.EndChange()
	q.Rest()
	if q.Export != nil {
		q.Export.leave()
	}
	q.realm, q.peer, q.caller, q.reply, q.set, q.Export, q.Options, q.party = nil, nil, nil, nil, nil, nil, nil, nil
	q.Cred = vfs.Cred{}
}

// EndChange ends the changes that the call has announced, and unlocks its
// names.
func (q *Request) EndChange() {
	q.realm.grants.Done(&q.change.grants)
	q.realm.holders.Done(&q.change.holders)
	q.realm.changing.unlock(&q.locked)
}

// Current reports whether SetExports has not been called since the call's first
// handle was opened.
func (q *Request) Current() bool { return q.realm.set.Load() == q.set }

// find finds the export and the object of a file handle, without checking
// whether the client may use them.
func (q *Request) find(fh []byte) (h vfs.Handle, err error) {
	id, h, err := q.realm.seal.parseHandle(&q.mac, fh)
	if err == nil {
		err = q.Enter(id)
	}
	return h, err
}

// Enter finds an export in the set with which the call began, and holds the
// export until the call ends.
func (q *Request) Enter(id uint32) error {
	for q.Export == nil {
		q.set = q.realm.set.Load()
		e := q.set.byID[id]
		if e == nil {
			return Stale // an earlier export
		}
		if e.enter() {
			q.Export = e
		} // otherwise another set is current already
	}
	switch {
	case q.Export.ID == id:
		return nil
	case q.set.byID[id] == nil:
		return Stale
	default:
		return XDev // RENAME and LINK stay in one file system
	}
}

// Open finds the object of a file handle, and the identity for the call. The
// error WrongSec, or WrongTransport, comes with the object.
func (q *Request) Open(ctx context.Context, fh []byte) (h vfs.Handle, err error) {
	if h, err = q.find(fh); err != nil {
		return h, err
	}
	if err = q.admit(ctx); err == nil && q.Options.SubtreeCheck {
		err = q.within(ctx, h)
	}
	return h, err
}

// OpenToMount is Open for the calls with which clients mount. At the root of an
// export that takes Kerberos, calls whose caller has no credentials yet are served
// as nobody (RFC 2623, Section 2.3.2).
func (q *Request) OpenToMount(ctx context.Context, fh []byte) (h vfs.Handle, err error) {
	h, err = q.Open(ctx, fh)
	if err == WrongSec && h == q.Export.FS.Root() {
		err = q.asNobody(ctx, func(o *exports.Options) bool {
			_, ok := o.Kerberos()
			return ok
		})
	}
	return h, err
}

// OpenToLock is Open for a lock of version 3. If free is set, the export takes
// locks whose caller nobody has verified, and the call is done as nobody.
func (q *Request) OpenToLock(ctx context.Context, fh []byte) (h vfs.Handle, free bool, err error) {
	if h, err = q.Open(ctx, fh); err != WrongSec {
		return h, false, err
	}
	if err = q.asNobody(ctx, insecureLocks); err == nil && q.Options.SubtreeCheck {
		err = q.within(ctx, h)
	}
	return h, err == nil, err
}

// DeniedUnlock returns why the export of a file handle denies a call that gives up
// a lock of version 3, or nil. It asks no file system.
func (q *Request) DeniedUnlock(ctx context.Context, fh []byte) error {
	if _, err := q.find(fh); err != nil {
		return err
	}
	v := q.realm.verdict(ctx, q.peer, q.set, q.Export)
	_, err := v.of(q.caller.Flavor)
	if err == WrongSec {
		_, err = q.ofNobody(v, insecureLocks)
	}
	return err
}

func insecureLocks(o *exports.Options) bool { return o.InsecureLocks }

// unverified reports whether nobody has verified the caller.
func (q *Request) unverified() bool {
	return q.caller.Flavor == rpcmsg.AuthNone || q.caller.Flavor == rpcmsg.AuthSys
}

// asNobody admits a call of the wrong flavour, as nobody, if nobody has verified
// its caller, and the client's options allow that.
func (q *Request) asNobody(ctx context.Context, allow func(*exports.Options) bool) error {
	o, err := q.ofNobody(q.realm.verdict(ctx, q.peer, q.set, q.Export), allow)
	if err != nil {
		return err
	}
	q.Options, q.Cred = o, vfs.Cred{UID: o.AnonUID.Number(), GID: o.AnonGID.Number()}
	return q.Work(ctx)
}

// ofNobody returns the options for such a call, or why it is refused. Its port counts,
// as that of every call that nobody has verified.
func (q *Request) ofNobody(v *verdict, allow func(*exports.Options) bool) (*exports.Options, error) {
	switch o := v.client; {
	case !q.unverified() || o == nil || !allow(o):
		return nil, WrongSec
	case !o.Insecure && !secure(q.peer):
		return nil, Perm
	default:
		return o, nil
	}
}

// Flavors returns the flavours with which the client may use the entered export,
// the preferred one first.
func (q *Request) Flavors(ctx context.Context) []exports.Flavor {
	return q.realm.Flavors(ctx, q.peer, q.set, q.Export)
}

// TurnAway writes to the log which flavours or transports the export of a call takes
// that WrongSec or WrongTransport refuses.
func (q *Request) TurnAway(ctx context.Context) {
	if o := q.realm.verdict(ctx, q.peer, q.set, q.Export).client; o != nil && !o.Xprtsec.Take(transportOf(q.peer)) {
		words := "calls are refused, because the export takes encrypted connections only; mount it over TCP with one of these (over RDMA, only mountrdma can)"
		q.realm.log.Warn(words, "export", q.Export.Path, "client", addrOf(q.peer), "over", q.peer.Network, "xprtsec", transportOf(q.peer).String(), "takes", o.Xprtsec.String())
		return
	}
	var words []string
	for _, f := range q.Flavors(ctx) {
		words = append(words, f.String())
	}
	q.realm.log.Warn("calls are refused, because the export takes other security flavours; mount it with one of these",
		"export", q.Export.Path, "client", addrOf(q.peer), "sec", exports.Flavor(q.caller.Flavor), "takes", strings.Join(words, ":"))
}

// Use checks whether the client may use an object of the entered export, and
// determines the identity for the call.
func (q *Request) Use(ctx context.Context, h vfs.Handle) error {
	if err := q.admit(ctx); err != nil || !q.Options.SubtreeCheck {
		return err
	}
	return q.within(ctx, h)
}

// admit is Use without the object.
func (q *Request) admit(ctx context.Context) error {
	if q.Options == nil {
		o, err := q.realm.verdict(ctx, q.peer, q.set, q.Export).of(q.caller.Flavor)
		if err != nil {
			return err
		}
		if err := q.identify(ctx, o); err != nil {
			return Later // until the permitted identity is known
		}
		q.Options = o
	}
	return q.Work(ctx)
}

// Work begins the use of the file system: from here on the call has a permit,
// and waits for nothing else. Work may wait for the permit.
func (q *Request) Work(ctx context.Context) error {
	if q.worker != nil {
		return nil
	}
	if q.party == nil {
		q.party = q.realm.permits.of(&q.Export.source.work, q.peer)
	}
	period, ok := q.realm.work(ctx, q.party, q.Export.source)
	if !ok {
		return Later
	}
	q.worker, q.period = q.party, period
	if q.reply.Trace != nil {
		q.reply.Trace.Begin(oncrpc.StageFiles)
	}
	return nil
}

// work begins a file system's work for a call of the party w. It returns false
// if the client must try again later. rest ends the work.
func (s *Realm) work(ctx context.Context, w *partyWork, e *source) (period uint32, ok bool) {
	if e.overload.stuck(&e.work, w) {
		return 0, false
	}
	if !s.permits.acquire(ctx, &e.work, w, func() bool { return !e.overload.starved(&e.work) }) {
		return 0, false
	}
	return e.overload.begin(w), true
}

// Rest ends the use of the file system, perhaps only for a while.
func (q *Request) Rest() {
	if q.worker != nil {
		if q.reply.Trace != nil {
			q.reply.Trace.End(oncrpc.StageFiles, q.Export.Path, "")
		}
		q.realm.rest(q.Export.source, q.worker, q.period)
		q.worker = nil
	}
}

func (s *Realm) rest(e *source, w *partyWork, period uint32) {
	e.overload.end(w, period)
	s.permits.give(&e.work, w)
}

// within refuses objects outside the export's directory. A file system that is
// not a Container has no such objects.
func (q *Request) within(ctx context.Context, h vfs.Handle) error {
	c, ok := q.Export.FS.(vfs.Container)
	if !ok {
		return nil
	}
	return c.Within(ctx, &q.Cred, h)
}

// Handle returns the file handle of h, which is valid until the next call.
func (q *Request) Handle(h *vfs.Handle) []byte {
	return q.realm.seal.appendHandle(&q.mac, q.fh[:0], q.Export.ID, h)
}

// ReadCount returns how many bytes to read: at most the requested count, the
// greatest payload, the room in the reply with padding, and the bytes before
// the greatest file size.
func (s *Realm) ReadCount(offset uint64, count uint32, room int) int {
	if offset > MaxFileSize {
		return 0
	}
	n := min(uint64(count), uint64(s.payload), uint64(max(0, room)&^3))
	return int(min(n, MaxFileSize-offset))
}

// MaxFileSize is the greatest size of a file in bytes.
const MaxFileSize = math.MaxInt64
