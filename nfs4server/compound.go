package nfs4server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A compound is one running COMPOUND. Compounds are reused, so that passing
// parts of them by pointer costs no allocation.
type compound struct {
	server *Server
	call   *oncrpc.Call
	reply  *oncrpc.Reply
	args   *xdr.Reader

	minor uint32
	n     uint32 // operations
	i     uint32 // the current one
	op    nfs4.Op
	tag   []byte
	start int // of the results in the reply's head

	session    *nfs4state.Session // after SEQUENCE, or the client of version 4.0
	turn       nfs4state.Turn     // of version 4.0
	word       [4]byte            // memory for inTurn
	after      xdr.Reader         // behind the arguments of an operation in its turn
	slot       uint32
	sequenceID uint32 // of the slot
	begun      bool   // the slot executes this call
	keep       bool   // sa_cachethis
	room       int    // bytes of the longest results
	keptRoom   int    // of the longest results that the slot keeps
	restRoom   int    // of the longest results without the items that have a room of their own
	apart      int    // bytes of these items so far, with their padding
	items      int    // data items so far

	current, saved object
	special        nfs4state.SpecialUse // of the operation
	specialSource  nfs4state.SpecialUse // of its saved filehandle
	uses           []*use               // of exports, with which the COMPOUND has begun
	spare          []*use

	out      []byte // results so far: the head, or after the data item the tail
	split    bool   // out follows a data item
	replayed bool   // the reply is one that a slot kept
	readable bool   // others can read the call, and it must touch no file: see begins

	entry   nfs4.DirEntry // memory for results, which keeps its last contents
	owner   [2][16]byte   // memory for owner and owner_group
	handle  [realm.MaxHandle]byte
	keyOf   []byte // see key
	parts   [][]byte
	unnamed bool          // no further name of an owner is waited for; see ownerString
	naming  time.Duration // of waits for names of owners
	hurried bool          // no name of an owner may be waited for
	unknown bool          // a name of an owner would have been waited for
	results results
}

// results is memory for results that would otherwise escape. The memory keeps
// its last contents: each operation sets the fields that the operation returns.
type results struct {
	getattr nfs4.GetAttrRes
	seq     nfs4.SequenceRes
	read    nfs4.ReadRes
	write   nfs4.WriteRes
	open    nfs4.OpenRes
}

// A use is the use of one export by a COMPOUND.
type use struct {
	realm.Request
	id uint32
}

// An object is a filehandle of a COMPOUND: the current or the saved one.
type object struct {
	use     *use // nil: a pseudo node, or nothing
	h       vfs.Handle
	node    *node        // of the pseudo file system
	refused bool         // the export takes other security flavours: see judge
	stateid nfs4.StateID // the current stateid; seqid 0 and other 0: none
	stated  bool
}

func (o *object) set() bool { return o.use != nil || o.node != nil }

// An operation executes one operation: it decodes the arguments from x.args,
// and appends the results to x.out, status included. The error is for the RPC
// layer.
type operation struct {
	do    func(ctx context.Context, x *compound) nfs4.Status
	flags opFlags

	// longest is the length in bytes of the longest results, with number and
	// status. Operations with variable results shrink to the room instead.
	longest int
}

type opFlags uint16

const (
	needsCurrent opFlags = 1 << iota // a current filehandle
	needsSaved
	firstAlone // may come without SEQUENCE, but then must be the only one
	changes    // changes something: runs to its end even if the connection ends
	makes      // makes an object, for which GETFH follows
	ofPlaces   // has a meaning in an absent file system
	sequenced  // has sequence numbers of owners in version 4.0
	judges     // judges by itself, or leaves to others, whether objects take the call's flavour
)

// serve executes a COMPOUND.
func (x *compound) serve(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) (err error) {
	var head nfs4.CompoundArgs
	head.Decode(&c.Args)
	if err := c.Args.Err(); err != nil {
		return err
	}
	x.begin(c, r, &head)
	defer x.end()
	status := nfs4.OK
	switch {
	case head.Minor > nfs4.MaxMinor || !x.server.minors[head.Minor]:
		status, x.n = nfs4.ErrMinorVersMismatch, 0
	case x.n > maxOps:
		return x.refuse(x.noRoom(nfs4.ErrTooManyOps))
	}
	for x.i = 0; x.i < x.n && status == nfs4.OK; x.i++ {
		if status, err = x.next(ctx); err != nil {
			return err
		}
		if x.replayed {
			return nil
		}
		x.server.counts.Count(uint32(x.op), uint32(status))
	}
	x.finish(status)
	return nil
}

// begin sets x up for a call.
func (x *compound) begin(c *oncrpc.Call, r *oncrpc.Reply, head *nfs4.CompoundArgs) {
	x.call, x.reply, x.args = c, r, &c.Args
	x.minor, x.n, x.tag = head.Minor, head.N, head.Tag
	x.start, x.split, x.replayed = len(r.Head), false, false
	x.room = oncrpc.MaxReplies(c.MaxReply, c.ItemRooms)
	x.keptRoom = x.room
	x.restRoom = c.MaxReply
	if len(c.ItemRooms) > 0 {
		x.restRoom -= c.ItemRooms[0]
	}
	x.apart, x.items, x.unnamed, x.naming = 0, 0, false, 0
	res := nfs4.CompoundRes{Tag: x.tag}
	x.out = res.AppendTo(r.Head)
}

// end releases the call's resources. A call without an answer leaves no reply
// in its slot.
func (x *compound) end() {
	if x.begun {
		x.begun = false
		x.session.End(x.slot, nil, false, true)
	}
	x.leave()
	x.special.End() // if the operation has panicked
	x.specialSource.End()
	for _, u := range x.uses {
		u.End()
		x.spare = append(x.spare, u)
	}
	x.uses = x.uses[:0]
	x.call, x.reply, x.args, x.session, x.out, x.tag = nil, nil, nil, nil, nil, nil
	x.current, x.saved, x.keep, x.hurried = object{}, object{}, false, false
	x.results.getattr.Attrs.ACL, x.entry.Attrs.ACL = nil, nil
}

// finish sets status and count, hands the results to the reply, and lets the
// slot keep them.
func (x *compound) finish(status nfs4.Status) {
	r := x.reply
	x.flush()
	res := nfs4.CompoundRes{Status: status, Tag: x.tag, N: x.i}
	res.Patch(r.Head[x.start:])
	if x.begun {
		x.begun = false
		x.session.End(x.slot, x.whole(), x.keep, r.Item != nil && !x.keep)
	}
}

// whole returns the results with a data item that the slot must keep.
func (x *compound) whole() []byte {
	r := x.reply
	if !x.split || !x.keep {
		return r.Head[x.start:]
	}
	b := append([]byte(nil), r.Head[x.start:]...)
	x.parts = r.AppendBody(x.parts[:0])
	for _, part := range x.parts {
		b = append(b, part...)
	}
	clear(x.parts)
	return b
}

// flush puts the results so far into the reply: into its head, or behind the
// last data item.
func (x *compound) flush() {
	switch r := x.reply; x.items {
	case 0:
		r.Head = x.out
	case 1:
		r.Tail = x.out
	default:
		r.More[x.items-2].Tail = x.out
	}
	x.out = nil
}

// used returns the length in bytes of the results so far.
func (x *compound) used() int {
	if x.split {
		return x.reply.Len() - x.start + len(x.out)
	}
	return len(x.out) - x.start
}

// left returns how many bytes of results still fit beside the data items with a
// room of their own.
func (x *compound) left() int {
	return min(x.wholeLeft(), x.restRoom-x.used()+x.apart-x.reserved())
}

// wholeLeft returns how many bytes of results still fit in any room, also into
// the reply that the slot must keep.
func (x *compound) wholeLeft() int {
	room := x.room
	if x.keep {
		room = x.keptRoom
	}
	return room - x.used() - x.reserved()
}

// reserved returns how many bytes must be left behind an operation's results: the
// next operation may have no room, and then must be able to say so.
func (x *compound) reserved() int {
	if x.i+1 < x.n {
		return longestFailure
	}
	return 0
}

// next reads, executes and answers one operation.
func (x *compound) next(ctx context.Context) (nfs4.Status, error) {
	x.op = nfs4.Op(x.args.Uint32())
	if x.args.Err() != nil {
		x.op = nfs4.OpIllegal
		return x.fail(nfs4.ErrBadXDR), nil
	}
	o, status := x.lookup()
	if status != nfs4.OK {
		return x.fail(status), nil
	}
	if status := x.position(o); status != nfs4.OK {
		return x.fail(status), nil
	}
	if x.readable && begins(x.op) {
		x.turnAway()
		return x.fail(nfs4.ErrWrongSec), nil
	}
	if x.op == nfs4.OpSequence {
		return x.sequence(ctx)
	}
	if status := x.fits(o); status != nfs4.OK {
		return x.fail(x.noRoom(status)), nil
	}
	switch {
	case o.flags&needsSaved != 0 && !x.saved.set() && x.minor == nfs4.Minor0 && x.op == nfs4.OpRestoreFH:
		return x.fail(nfs4.ErrRestoreFH), nil
	case o.flags&needsCurrent != 0 && !x.current.set(), o.flags&needsSaved != 0 && !x.saved.set(),
		o.flags&(needsCurrent|judges) == needsCurrent && x.current.refused:
		return x.fail(nfs4.ErrNoFileHandle), nil
	case o.flags&(needsSaved|judges) == needsSaved && x.saved.refused:
		return x.fail(x.refusedSource()), nil
	case o.flags&(needsCurrent|ofPlaces) == needsCurrent && x.current.absent():
		return x.fail(nfs4.ErrMoved), nil
	}
	conn := ctx
	if o.flags&changes != 0 {
		ctx = context.Background() // the connection may end
	}
	before := len(x.out)
	x.out = xdr.AppendUint32(x.out, uint32(x.op))
	mark := len(x.out)
	switch {
	case x.minor > nfs4.Minor0:
		status = o.do(ctx, x)
	case o.flags&sequenced != 0:
		status = x.inTurn(conn, ctx, o)
	default:
		status = x.plain(o.do(ctx, x), mark)
	}
	x.special.End()
	x.specialSource.End()
	if x.args.Err() != nil && status == nfs4.OK {
		status = nfs4.ErrBadXDR
	}
	if status != nfs4.OK && len(x.out) == mark {
		x.out = x.out[:before]
		return x.fail(o.sayable(status)), nil
	}
	if x.minor == nfs4.Minor0 {
		x.current.stated = false // there is no current stateid
	}
	if o.flags&changes != 0 {
		for _, u := range x.uses {
			u.EndChange()
		}
	}
	return status, nil
}

// lookup returns the operation's row, or the status of one that the minor
// version does not have (RFC 8881, Sections 2.7, 15.1.3.4 and 18.52).
func (x *compound) lookup() (*operation, nfs4.Status) {
	first, last, ok := x.op.Minors()
	switch {
	case !ok || x.minor < first:
		x.op = nfs4.OpIllegal
		return nil, nfs4.ErrOpIllegal
	case x.minor > last:
		return nil, nfs4.ErrNotSupp
	}
	o := &operations[x.op]
	if o.do == nil && x.op != nfs4.OpSequence {
		return nil, nfs4.ErrNotSupp
	}
	return o, nfs4.OK
}

// position checks the position of an operation in its COMPOUND (RFC 8881,
// Sections 2.10.2.1 and 15.1.3).
func (x *compound) position(o *operation) nfs4.Status {
	switch {
	case x.minor == nfs4.Minor0:
		return nfs4.OK
	case x.op == nfs4.OpSequence && x.i > 0:
		return nfs4.ErrSequencePos
	case x.op == nfs4.OpSequence || x.i > 0 && x.op != nfs4.OpBindConnToSession:
		return nfs4.OK
	case o.flags&firstAlone == 0:
		return nfs4.ErrOpNotInSession
	case x.n > 1:
		return nfs4.ErrNotOnlyOp
	}
	return nfs4.OK
}

// fits reports whether an operation's longest results fit into the reply, and
// into the slot's copy. An object is made only if the results of GETFH fit
// too: the client could not learn its filehandle otherwise (RFC 8881, Section
// 2.10.6.4).
func (x *compound) fits(o *operation) nfs4.Status {
	longest := max(o.longest, minResult)
	if o.flags&makes != 0 && x.i+1 < x.n {
		longest += operations[nfs4.OpGetFH].longest
	}
	return x.fit(longest)
}

// fit returns OK if results of n bytes fit into the reply, and into the
// slot's copy.
func (x *compound) fit(n int) nfs4.Status {
	n += x.reserved()
	switch {
	case x.used()+n > x.room, x.used()-x.apart+n > x.restRoom:
		return nfs4.ErrRepTooBig
	case x.keep && x.used()+n > x.keptRoom:
		return nfs4.ErrRepTooBigToCache
	}
	return nfs4.OK
}

// tooBig returns the status of variable results that do not fit.
func (x *compound) tooBig() nfs4.Status {
	if x.keep && x.used() <= x.room && x.used()-x.apart <= x.restRoom {
		return nfs4.ErrRepTooBigToCache
	}
	return nfs4.ErrRepTooBig
}

// noRoom returns the status of an operation whose results have no room, by the
// minor version (RFC 7530, Section 13.1.3.4).
func (x *compound) noRoom(status nfs4.Status) nfs4.Status {
	if x.minor == nfs4.Minor0 {
		return nfs4.ErrResource
	}
	return status
}

// minResult is the length in bytes of an operation's number and status.
const minResult = 8

// longestFailure is the length in bytes of the longest results of an operation
// that failed for want of room: those of SETATTR have a bitmap.
const longestFailure = minResult + 4

// fail appends the results of an operation that failed.
func (x *compound) fail(status nfs4.Status) nfs4.Status {
	x.out = xdr.AppendUint32(xdr.AppendUint32(x.out, uint32(x.op)), uint32(status))
	if x.op == nfs4.OpSetAttr {
		x.out = xdr.AppendUint32(x.out, 0) // attrsset, in every arm
	}
	return status
}

// done appends the results of an operation that has nothing but a status.
func (x *compound) done(status nfs4.Status) nfs4.Status {
	x.out = xdr.AppendUint32(x.out, uint32(status))
	return status
}

// refuse ends a COMPOUND that is too long to be looked at: the first operation
// gets the status.
func (x *compound) refuse(status nfs4.Status) error {
	x.op = nfs4.Op(x.args.Uint32())
	if err := x.args.Err(); err != nil {
		return err
	}
	x.i = 1
	x.finish(x.fail(status))
	return nil
}

// principal returns the maker of the call: that of a verified call by name, because all
// machines, and all other principals without a user here, have one UID.
func (x *compound) principal() nfs4state.Principal {
	switch c := &x.call.Cred; c.Flavor {
	case rpcmsg.AuthNone:
		return nfs4state.Principal{Flavor: rpcmsg.AuthNone}
	case rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p: // whichever service a call has
		return nfs4state.Principal{Flavor: rpcmsg.AuthGSS, Name: nameOf(c.Principal)}
	default:
		return nfs4state.Principal{Flavor: c.Flavor, UID: c.UID}
	}
}

// host returns the Host of a caller whose principal nobody has verified.
func (x *compound) host() (h nfs4state.Host) {
	if x.call.Cred.Principal == "" {
		h = x.machine()
	}
	return h
}

// machine returns the Host from which a call comes, whoever the caller is.
func (x *compound) machine() (h nfs4state.Host) {
	if p := x.call.Peer; p != nil && p.Security != nil {
		h = p.Security.Owner
	}
	return h
}

// nameOf returns the name of a principal, or its hash if it is long. Names have an @, and so
// no name is a hash.
func nameOf(principal string) string {
	if len(principal) <= nfs4state.MaxName {
		return principal
	}
	sum := sha256.Sum256([]byte(principal))
	return "sha256 " + hex.EncodeToString(sum[:])
}

// sequence is SEQUENCE (RFC 8881, Section 18.46).
func (x *compound) sequence(ctx context.Context) (nfs4.Status, error) {
	var a nfs4.SequenceArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return x.fail(nfs4.ErrBadXDR), nil
	}
	s := x.server.state.Session(a.Session)
	switch {
	case s == nil:
		return x.fail(nfs4.ErrBadSession), nil
	case x.n > s.Fore.MaxOperations:
		return x.fail(nfs4.ErrTooManyOps), nil
	case uint32(requestLen(x.call)) > s.Fore.MaxRequestSize:
		return x.fail(nfs4.ErrReqTooBig), nil
	case x.used()+sequenceLen+x.reserved() > min(x.room, int(s.Fore.MaxResponseSize)-x.replyHeader()): // the tag is long
		return x.fail(nfs4.ErrRepTooBig), nil
	case a.CacheThis && x.used()+sequenceLen+x.reserved() > int(s.Fore.MaxResponseSizeCached)-x.replyHeader():
		return x.fail(nfs4.ErrRepTooBigToCache), nil
	}
	o := x.server.state.Begin(s, &nfs4state.Sequenced{
		Slot: a.Slot, Sequence: a.Sequence, Highest: a.HighestSlotID, Digest: x.digest(x.args.Rest()), Conn: x.call.Peer,
	})
	if o.Joined { // Wait returns another Outcome, or none
		x.follow(ctx, s)
	}
	if o.Retry != nil {
		x.reply.StepAside()
		var err error
		if o, err = o.Retry.Wait(ctx); err != nil {
			return 0, oncrpc.ErrNoAnswer
		}
	}
	switch {
	case o.Status != nfs4.OK:
		return x.fail(o.Status), nil
	case o.Replay != nil:
		x.reply.Head = append(x.reply.Head, o.Replay...)
		x.replayed = true
		return nfs4.OK, nil
	}
	highest := s.Fore.MaxRequests - 1
	x.results.seq = nfs4.SequenceRes{
		Session: a.Session, Sequence: a.Sequence, Slot: a.Slot, HighestSlotID: highest, TargetHighestSlotID: highest,
		Flags: x.server.state.Flags(s),
	}
	x.out = xdr.AppendUint32(x.out, uint32(nfs4.OpSequence))
	x.out = x.results.seq.AppendTo(x.out)
	if o.Uncached {
		return x.uncached(), nil
	}
	x.session, x.slot, x.sequenceID, x.keep, x.begun = s, a.Slot, a.Sequence, a.CacheThis, true
	x.room = min(x.room, int(s.Fore.MaxResponseSize)-x.replyHeader())
	x.keptRoom = min(x.room, int(s.Fore.MaxResponseSizeCached)-x.replyHeader())
	return nfs4.OK, nil
}

// uncached answers a retry whose reply was not kept: the second operation gets
// the status, unless it is illegal (RFC 8881, Section 2.10.6.1.3).
func (x *compound) uncached() nfs4.Status {
	if x.n == 1 {
		return nfs4.OK
	}
	x.i++
	if x.op = nfs4.Op(x.args.Uint32()); x.args.Err() != nil {
		x.op = nfs4.OpIllegal
		return x.fail(nfs4.ErrBadXDR)
	}
	if _, status := x.lookup(); status != nfs4.OK {
		return x.fail(status)
	}
	return x.fail(nfs4.ErrRetryUncachedRep)
}

// sequenceLen is the length in bytes of SEQUENCE's number and results.
const sequenceLen = minResult + nfs4.SessionIDSize + 5*4

// replyHeader is the length in bytes of an RPC reply before its results.
const replyHeader = 24

// replyHeader returns the length in bytes of the call's reply without its results, as
// session limits count it: with a signature, and with all that encryption adds (RFC 8881,
// Section 18.36.3).
func (x *compound) replyHeader() int { return replyHeader + x.call.Growth }

// requestLen returns the length in bytes of a call as session limits count it.
func requestLen(c *oncrpc.Call) int { return c.Args.Offset() + c.Args.Left() + callHeader }

// callHeader is a lower bound of the length in bytes of an RPC call before its
// arguments.
const callHeader = 40

// status returns the status of a refusal or of a file system's error.
func (x *compound) status(err error) nfs4.Status {
	if err == nil {
		return nfs4.OK
	}
	return x.failure(err)
}

// failure is status of an error.
func (x *compound) failure(err error) nfs4.Status {
	status, known := statusOf(err)
	if !known {
		x.server.log.Warn("NFS has no status for the error of a file system, so the client sees NFS4ERR_IO",
			"op", x.op, "err", err)
	}
	if status == nfs4.ErrPerm && x.op != nfs4.OpCreate && x.op != nfs4.OpOpen && x.op != nfs4.OpSetAttr {
		return nfs4.ErrAccess // no other operation has that status (RFC 8881, Section 15.4)
	}
	return status
}
