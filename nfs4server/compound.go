package nfs4server

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
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
		trace := x.reply.Trace
		if trace != nil {
			trace.Begin(oncrpc.StageOperation)
		}
		status, err = x.next(ctx)
		if trace != nil {
			trace.End(oncrpc.StageOperation, x.op.String(), status.String())
		}
		if err != nil {
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
