package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

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
