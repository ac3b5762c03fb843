package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// executeSequence implements SEQUENCE (RFC 8881, Section 18.46).
func (x *compound) executeSequence(ctx context.Context) (nfs4.Status, error) {
	var a nfs4.SequenceArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return x.appendFailure(nfs4.ErrBadXDR), nil
	}
	s := x.server.state.Session(a.Session)
	switch {
	case s == nil:
		return x.appendFailure(nfs4.ErrBadSession), nil
	case x.opCount > s.Fore.MaxOperations:
		return x.appendFailure(nfs4.ErrTooManyOps), nil
	case uint32(requestLen(x.call)) > s.Fore.MaxRequestSize:
		return x.appendFailure(nfs4.ErrReqTooBig), nil
	case x.resultLen()+sequenceLen+x.reservedLen() > min(x.replyLimit, int(s.Fore.MaxResponseSize)-x.fullHeaderLen()): // the tag is long
		return x.appendFailure(nfs4.ErrRepTooBig), nil
	case a.CacheThis && x.resultLen()+sequenceLen+x.reservedLen() > int(s.Fore.MaxResponseSizeCached)-x.fullHeaderLen():
		return x.appendFailure(nfs4.ErrRepTooBigToCache), nil
	}
	o := x.server.state.Begin(s, &nfs4state.Sequenced{
		Slot: a.Slot, Sequence: a.Sequence, Highest: a.HighestSlotID, Digest: x.digestCall(x.args.Rest()), Conn: x.call.Peer,
	})
	if o.Joined { // Wait returns another outcome, or none
		x.unbindOnClose(ctx, s)
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
		return x.appendFailure(o.Status), nil
	case o.Replay != nil:
		updateSlotLimits(o.Replay, s.SlotLimits())
		x.reply.Head = append(x.reply.Head, o.Replay...)
		x.isReplay = true
		return nfs4.OK, nil
	case o.Uncached:
		o.Limits = s.SlotLimits()
	}
	x.results.seq = nfs4.SequenceRes{
		Session: a.Session, Sequence: a.Sequence, Slot: a.Slot, HighestSlotID: o.Limits.Highest, TargetHighestSlotID: o.Limits.Target,
		Flags: x.server.state.SequenceFlags(s),
	}
	x.out = xdr.AppendUint32(x.out, uint32(nfs4.OpSequence))
	x.out = x.results.seq.AppendTo(x.out)
	if o.Uncached {
		return x.replyUncached(), nil
	}
	x.session, x.slot, x.sequenceID, x.cacheReply, x.holdsSlot = s, a.Slot, a.Sequence, a.CacheThis, true
	x.replyLimit = min(x.replyLimit, int(s.Fore.MaxResponseSize)-x.fullHeaderLen())
	x.cachedLimit = min(x.replyLimit, int(s.Fore.MaxResponseSizeCached)-x.fullHeaderLen())
	return nfs4.OK, nil
}

// updateSlotLimits replaces SEQUENCE's slot limits in a cached reply. If the number of slots has
// grown since, Linux would take the old limits for the new ones, and forget the sequence IDs of the
// slots above them.
func updateSlotLimits(reply []byte, limits nfs4state.SlotLimits) {
	r := xdr.NewReader(reply)
	var head nfs4.CompoundRes
	head.Decode(&r)
	at := r.Offset() + minResultLen + nfs4.SessionIDSize + 2*4
	xdr.AppendUint32(xdr.AppendUint32(reply[:at], limits.Highest), limits.Target)
}

// replyUncached replies to a retry whose reply was not cached: the second operation gets the
// status, unless it is illegal (RFC 8881, Section 2.10.6.1.3).
func (x *compound) replyUncached() nfs4.Status {
	if x.opCount == 1 {
		return nfs4.OK
	}
	x.opIndex++
	if x.op = nfs4.Op(x.args.Uint32()); x.args.Err() != nil {
		x.op = nfs4.OpIllegal
		return x.appendFailure(nfs4.ErrBadXDR)
	}
	if _, status := x.findOperation(); status != nfs4.OK {
		return x.appendFailure(status)
	}
	return x.appendFailure(nfs4.ErrRetryUncachedRep)
}

// sequenceLen is the length in bytes of SEQUENCE's operation number and results.
const sequenceLen = minResultLen + nfs4.SessionIDSize + 5*4

// replyHeaderLen is the length in bytes of an RPC reply before its results.
const replyHeaderLen = 24

// fullHeaderLen returns the length in bytes of the call's reply without its results, as session
// limits count it: including a signature, and everything that encryption adds (RFC 8881,
// Section 18.36.3).
func (x *compound) fullHeaderLen() int { return replyHeaderLen + x.call.Growth }

// requestLen returns a call's length in bytes as session limits count it.
func requestLen(c *oncrpc.Call) int { return c.Args.Offset() + c.Args.Left() + callHeaderLen }

// callHeaderLen is a lower bound for the length in bytes of an RPC call before its arguments.
const callHeaderLen = 40
