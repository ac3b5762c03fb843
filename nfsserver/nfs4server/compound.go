package nfs4server

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A compound is one executing COMPOUND. Compounds are reused, so that passing pointers to their
// fields allocates no memory.
type compound struct {
	server *Server
	call   *oncrpc.Call
	reply  *oncrpc.Reply
	args   *xdr.Reader

	minor     uint32
	opCount   uint32 // number of operations
	opIndex   uint32 // index of the current operation
	op        nfs4.Op
	tag       []byte
	headStart int // where the results start in the reply's head

	session     *nfs4state.Session // after SEQUENCE, or the NFSv4.0 client's
	turn        nfs4state.Turn     // for NFSv4.0
	statusBuf   [4]byte            // memory for executeInTurn
	afterArgs   xdr.Reader         // follows the arguments of an operation with an owner's seqid
	slot        uint32
	sequenceID  uint32 // the slot's
	holdsSlot   bool   // the slot is executing this call
	cacheReply  bool   // sa_cachethis
	replyLimit  int    // maximum length in bytes of the results
	cachedLimit int    // maximum length of results that the slot can cache
	inlineLimit int    // maximum length of results outside data items with their own chunk
	itemBytes   int    // length of these items so far, with their padding
	itemCount   int    // number of data items so far

	current, saved   object
	specialUse       nfs4state.SpecialUse // begun by the operation
	sourceSpecialUse nfs4state.SpecialUse // the same for its saved filehandle
	uses             []*exportUse         // exports that the COMPOUND has used
	spareUses        []*exportUse

	counted countedOperations

	out             []byte // results so far: the head, or the tail after the last data item
	afterItem       bool   // out follows a data item
	isReplay        bool   // the reply comes from a slot's cache
	lacksEncryption bool   // the call must not access a file without encryption: see setsFirstHandle

	entry           nfs4.DirEntry // memory for results, which keeps its last contents
	ownerBufs       [2][16]byte   // memory for owner and owner_group
	handleBuf       [exportset.MaxHandle]byte
	keyBuf          []byte // see objectKey
	parts           [][]byte
	skipNameWait    bool          // do not wait for further owner names; see ownerString
	nameWait        time.Duration // time waited for owner names
	cachedNamesOnly bool          // do not wait for owner names
	nameMissing     bool          // an owner name was not in the cache
	results         results
}

// results is memory for results that would otherwise escape. It keeps its last contents: each
// operation must set the fields that it returns.
type results struct {
	getattr nfs4.GetAttrRes
	seq     nfs4.SequenceRes
	read    nfs4.ReadRes
	write   nfs4.WriteRes
	open    nfs4.OpenRes
}

// countedOperations are the last executed operations on one export.
type countedOperations struct {
	use        *exportUse // nil: a pseudo node, or none
	operations uint64
}

// An exportUse is a COMPOUND's use of one export.
type exportUse struct {
	exportset.Request
}

// An object is a COMPOUND's current or saved filehandle.
type object struct {
	use        *exportUse // nil: a pseudo node, or no object
	h          vfs.Handle
	node       *node        // in the pseudo file system
	wrongSec   bool         // the export requires another security flavor: see deferWrongSec
	stateid    nfs4.StateID // the current stateid; seqid 0 and other 0: none
	hasStateID bool
}

func (o *object) isSet() bool { return o.use != nil || o.node != nil }

// serve executes a COMPOUND.
func (x *compound) serve(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) (err error) {
	var head nfs4.CompoundArgs
	head.Decode(&c.Args)
	if err := c.Args.Err(); err != nil {
		return err
	}
	x.beginCall(c, r, &head)
	defer x.releaseCall()
	status := nfs4.OK
	switch {
	case head.Minor > nfs4.MaxMinor || !x.server.minors[head.Minor]:
		status, x.opCount = nfs4.ErrMinorVersMismatch, 0
	case x.opCount > maxOps:
		return x.rejectCall(x.convertTooBig(nfs4.ErrTooManyOps))
	}
	for x.opIndex = 0; x.opIndex < x.opCount && status == nfs4.OK; x.opIndex++ {
		trace := x.reply.Trace
		if trace != nil {
			trace.Begin(oncrpc.StageOperation)
		}
		status, err = x.executeNext(ctx)
		if trace != nil {
			trace.End(oncrpc.StageOperation, x.op.String(), status.String())
		}
		if err != nil {
			return err
		}
		if x.isReplay {
			return nil
		}
		x.server.counts.Count(uint32(x.op), uint32(status))
		x.countOperation()
	}
	x.countOperations()
	x.finishReply(status)
	return nil
}

// countOperation counts an executed operation for the export of the current filehandle. The
// operations of one export are counted together.
func (x *compound) countOperation() {
	if x.current.use != x.counted.use {
		x.countOperations()
		x.counted.use = x.current.use
	}
	x.counted.operations++
}

// countOperations adds the operations that countOperation has counted to their export's, and
// makes it the call's.
func (x *compound) countOperations() {
	if u := x.counted.use; u != nil {
		u.Export.Usage.CountOperations(x.call.Peer, x.counted.operations)
		x.reply.Work.Subject = u.Export.Usage
	}
	x.counted = countedOperations{}
}

// beginCall prepares x for a call.
func (x *compound) beginCall(c *oncrpc.Call, r *oncrpc.Reply, head *nfs4.CompoundArgs) {
	x.call, x.reply, x.args = c, r, &c.Args
	x.minor, x.opCount, x.tag = head.Minor, head.N, head.Tag
	x.headStart, x.afterItem, x.isReplay = len(r.Head), false, false
	x.replyLimit = oncrpc.MaxReplies(c.MaxReply, c.ItemLimits)
	x.cachedLimit = x.replyLimit
	x.inlineLimit = c.MaxReply
	if len(c.ItemLimits) > 0 {
		x.inlineLimit -= c.ItemLimits[0]
	}
	x.itemBytes, x.itemCount, x.skipNameWait, x.nameWait = 0, 0, false, 0
	res := nfs4.CompoundRes{Tag: x.tag}
	x.out = res.AppendTo(r.Head)
}

// releaseCall releases the call's resources. If the call has no reply, the slot caches none.
func (x *compound) releaseCall() {
	if x.holdsSlot {
		x.holdsSlot = false
		x.session.End(x.slot, nil, false, true)
	}
	x.leaveClient()
	x.specialUse.End() // if the operation has panicked
	x.sourceSpecialUse.End()
	for _, u := range x.uses {
		u.End()
		x.spareUses = append(x.spareUses, u)
	}
	x.uses = x.uses[:0]
	x.counted = countedOperations{}
	x.call, x.reply, x.args, x.session, x.out, x.tag = nil, nil, nil, nil, nil, nil
	x.current, x.saved, x.cacheReply, x.cachedNamesOnly = object{}, object{}, false, false
	x.results.getattr.Attrs.ACL, x.entry.Attrs.ACL = nil, nil
}

// finishReply sets the status and count, hands the results to the reply, and lets the slot
// cache them.
func (x *compound) finishReply(status nfs4.Status) {
	r := x.reply
	x.flushResults()
	res := nfs4.CompoundRes{Status: status, Tag: x.tag, N: x.opIndex}
	res.Patch(r.Head[x.headStart:])
	if x.holdsSlot {
		x.holdsSlot = false
		x.session.End(x.slot, x.resultsToCache(), x.cacheReply, r.Item != nil && !x.cacheReply)
	}
}

// resultsToCache returns the results for the slot to cache, including any data item.
func (x *compound) resultsToCache() []byte {
	r := x.reply
	if !x.afterItem || !x.cacheReply {
		return r.Head[x.headStart:]
	}
	b := append([]byte(nil), r.Head[x.headStart:]...)
	x.parts = r.AppendBody(x.parts[:0])
	for _, part := range x.parts {
		b = append(b, part...)
	}
	clear(x.parts)
	return b
}

// flushResults moves the results so far into the reply: into its head, or after the last data
// item.
func (x *compound) flushResults() {
	switch r := x.reply; x.itemCount {
	case 0:
		r.Head = x.out
	case 1:
		r.Tail = x.out
	default:
		r.More[x.itemCount-2].Tail = x.out
	}
	x.out = nil
}

// executeNext reads and executes one operation and appends its results.
func (x *compound) executeNext(ctx context.Context) (nfs4.Status, error) {
	x.op = nfs4.Op(x.args.Uint32())
	if x.args.Err() != nil {
		x.op = nfs4.OpIllegal
		return x.appendFailure(nfs4.ErrBadXDR), nil
	}
	o, status := x.findOperation()
	if status != nfs4.OK {
		return x.appendFailure(status), nil
	}
	if status := x.checkPosition(o); status != nfs4.OK {
		return x.appendFailure(status), nil
	}
	if x.lacksEncryption && setsFirstHandle(x.op) {
		x.logUnencrypted()
		return x.appendFailure(nfs4.ErrWrongSec), nil
	}
	if x.op == nfs4.OpSequence {
		return x.executeSequence(ctx)
	}
	if status := x.checkReplySpace(o); status != nfs4.OK {
		return x.appendFailure(x.convertTooBig(status)), nil
	}
	switch {
	case o.flags&needsSaved != 0 && !x.saved.isSet() && x.minor == nfs4.Minor0 && x.op == nfs4.OpRestoreFH:
		return x.appendFailure(nfs4.ErrRestoreFH), nil
	case o.flags&needsCurrent != 0 && !x.current.isSet(), o.flags&needsSaved != 0 && !x.saved.isSet(),
		o.flags&(needsCurrent|checksSecurity) == needsCurrent && x.current.wrongSec:
		return x.appendFailure(nfs4.ErrNoFileHandle), nil
	case o.flags&(needsSaved|checksSecurity) == needsSaved && x.saved.wrongSec:
		return x.appendFailure(x.wrongSecSourceStatus()), nil
	case o.flags&(needsCurrent|allowedAbsent) == needsCurrent && x.current.isAbsent():
		return x.appendFailure(nfs4.ErrMoved), nil
	}
	conn := ctx
	if o.flags&changesState != 0 {
		ctx = context.Background() // the connection may end
	}
	before := len(x.out)
	x.out = xdr.AppendUint32(x.out, uint32(x.op))
	mark := len(x.out)
	switch {
	case x.minor > nfs4.Minor0:
		status = o.execute(ctx, x)
	case o.flags&hasOwnerSeqID != 0:
		status = x.executeInTurn(conn, ctx, o)
	default:
		status = x.minor0Status(o.execute(ctx, x), mark)
	}
	x.specialUse.End()
	x.sourceSpecialUse.End()
	if x.args.Err() != nil && status == nfs4.OK {
		status = nfs4.ErrBadXDR
	}
	if status != nfs4.OK && len(x.out) == mark {
		x.out = x.out[:before]
		return x.appendFailure(o.permittedStatus(status)), nil
	}
	if x.minor == nfs4.Minor0 {
		x.current.hasStateID = false // there is no current stateid
	}
	if o.flags&changesState != 0 {
		for _, u := range x.uses {
			u.EndChange()
		}
	}
	return status, nil
}

// appendFailure appends the results of a failed operation.
func (x *compound) appendFailure(status nfs4.Status) nfs4.Status {
	x.out = xdr.AppendUint32(xdr.AppendUint32(x.out, uint32(x.op)), uint32(status))
	if x.op == nfs4.OpSetAttr {
		x.out = xdr.AppendUint32(x.out, 0) // attrsset, which SETATTR returns with every status
	}
	return status
}

// appendStatus appends results that consist only of a status.
func (x *compound) appendStatus(status nfs4.Status) nfs4.Status {
	x.out = xdr.AppendUint32(x.out, uint32(status))
	return status
}

// rejectCall completes a COMPOUND that has too many operations: the first operation gets the
// status.
func (x *compound) rejectCall(status nfs4.Status) error {
	x.op = nfs4.Op(x.args.Uint32())
	if err := x.args.Err(); err != nil {
		return err
	}
	x.opIndex = 1
	x.finishReply(x.appendFailure(status))
	return nil
}
