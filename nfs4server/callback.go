package nfs4server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// recalls are the recalls that clients have yet to be told of, in a queue for each
// client: one that does not answer holds up no other.
type recalls struct {
	mu      sync.Mutex
	clients map[uint64]*recallQueue
	running sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
}

type recallQueue struct {
	waiting []*delegated
	workers int
}

// maxRecallers is how many recalls of a client are under way at a time.
const maxRecallers = 8

const (
	// callbackTime is how long a callback may take before another connection is
	// tried.
	callbackTime = 5 * time.Second

	// callbackRetry is how long the server waits for a connection, or for a client
	// that cannot take a callback yet.
	callbackRetry = 100 * time.Millisecond
)

// recall tells the client to return a delegation, and revokes it if the client has
// not done so within a lease (recall.Holder). It does not wait.
func (f *delegated) recall() {
	left := f.server.state.Recall(f.delegation)
	if left == 0 {
		return
	}
	d := f.delegation
	time.AfterFunc(left, func() {
		if f.server.state.Outstanding(d) {
			f.server.log.Warn("a client has not returned a delegation that was recalled, and loses it", "client", d.ClientID())
			f.server.state.RevokeDelegation(d)
		}
	})
	f.server.recalls.add(f)
}

// add queues a recall.
func (r *recalls) add(f *delegated) {
	id := f.delegation.ClientID()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	q := r.clients[id]
	if q == nil {
		q = new(recallQueue)
		r.clients[id] = q
	}
	q.waiting = append(q.waiting, f)
	if q.workers < maxRecallers {
		q.workers++
		r.running.Go(func() { r.work(id, q) })
	}
}

// work delivers the recalls of a queue until it is empty.
func (r *recalls) work(id uint64, q *recallQueue) {
	for {
		r.mu.Lock()
		if len(q.waiting) == 0 || r.ctx.Err() != nil {
			if q.workers--; q.workers == 0 {
				delete(r.clients, id)
			}
			r.mu.Unlock()
			return
		}
		f := q.waiting[0]
		q.waiting = q.waiting[1:]
		r.mu.Unlock()
		f.deliver(r.ctx)
	}
}

// close ends all recalls.
func (r *recalls) close() {
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.running.Wait()
}

// deliver tells the client of a recall by any of its connections, until it has
// answered, or has returned the delegation, or has lost it.
func (f *delegated) deliver(ctx context.Context) {
	for f.server.state.Outstanding(f.delegation) {
		for _, p := range f.server.state.BackPaths(f.delegation) {
			if f.server.callRecall(ctx, f.delegation, &p) {
				return
			}
			if !f.server.state.Outstanding(f.delegation) {
				return
			}
		}
		select {
		case <-time.After(callbackRetry):
		case <-ctx.Done():
			return
		}
	}
}

// callRecall makes one CB_RECALL, and reports whether the client has taken it.
func (s *Server) callRecall(ctx context.Context, d *nfs4state.Delegation, p *nfs4state.BackPath) (told bool) {
	peer, _ := p.Conn.(*oncrpc.Peer)
	if peer == nil || peer.Reverse == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, callbackTime)
	defer cancel()
	slot, err := p.Session.TakeBack(ctx)
	if err != nil {
		return false
	}
	args := nfs4.CBRecallArgs{StateID: d.StateID(), Object: d.Handle()}
	args.StateID.SeqID = 0 // RFC 8881, Section 8.2.2
	b := appendCallback(nil, p, slot, &d.Referring, nfs4.CBOpRecall, &args)
	x := oncrpc.Exchange{
		Prog: p.Program, Vers: nfs4.CBVersion, Proc: nfs4.CBProcCompound, Cred: callbackCred(&p.Parms), Args: b, MaxResults: maxCallbackRes,
	}
	err = peer.Reverse.Call(ctx, &x)
	var o callbackOutcome
	if err == nil {
		o = readCallback(&x.Results, slot, nfs4.CBOpRecall)
		x.Release()
	}
	if o.used {
		p.Session.Renew()
	}
	p.Session.GiveBack(slot, o.used, o.target)
	switch {
	case o.fault:
		s.log.Warn("a client answers callbacks wrongly, and must make another session", "client", d.ClientID(), "peer", peer, "err", o.err)
		p.Session.BackFault()
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		s.log.Debug("callback failed", "peer", peer, "err", err)
	}
	return o.status == nfs4.OK && o.used
}

// maxCallbackRes is the length in bytes of the longest results of a CB_COMPOUND
// that recalls: with a tag, and CB_SEQUENCE.
const maxCallbackRes = 12 + 1024 + minResult + nfs4.SessionIDSize + 16 + minResult

// appendCallback appends a CB_COMPOUND of CB_SEQUENCE and another operation.
func appendCallback(b []byte, p *nfs4state.BackPath, slot nfs4state.BackSlot, referring *nfs4.ReferringCalls, op nfs4.CBOp, m nfs4.Message) []byte {
	head := nfs4.CBCompoundArgs{Minor: p.Minor, N: 2}
	seq := nfs4.CBSequenceArgs{
		Session: p.Session.ID, Sequence: slot.Sequence, Slot: slot.Slot, HighestSlotID: slot.Highest,
		Referring: []nfs4.ReferringCalls{*referring},
	}
	return nfs4.AppendCBOp(nfs4.AppendCBOp(head.AppendTo(b), nfs4.CBOpSequence, &seq), op, m)
}

// callbackCred returns the credential that the client asked for (csa_sec_parms).
func callbackCred(p *nfs4.SecParms) rpcmsg.Cred {
	if !p.Sys {
		return rpcmsg.Cred{Flavor: rpcmsg.AuthNone}
	}
	return rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: p.UID, GID: p.GID}
}

// A callbackOutcome is what a client has answered to a callback.
type callbackOutcome struct {
	used   bool        // the slot's sequence ID is used up, and target is set
	target uint32      // the highest slot that the client wants to be used
	status nfs4.Status // of the operation behind CB_SEQUENCE
	fault  bool        // the backchannel is beyond repair
	err    error
}

// readCallback reads the results of a CB_COMPOUND.
func readCallback(r *xdr.Reader, slot nfs4state.BackSlot, op nfs4.CBOp) (o callbackOutcome) {
	var head nfs4.CompoundRes
	head.Decode(r)
	if r.Err() != nil || head.N == 0 {
		return callbackOutcome{fault: true, err: fmt.Errorf("CB_COMPOUND: %v with no results", head.Status)}
	}
	if got := nfs4.CBOp(r.Uint32()); got != nfs4.CBOpSequence {
		return callbackOutcome{fault: true, err: fmt.Errorf("results of %v in place of CB_SEQUENCE", got)}
	}
	var seq nfs4.CBSequenceRes
	seq.Decode(r)
	switch {
	case r.Err() != nil:
		return callbackOutcome{fault: true, err: r.Err()}
	case seq.Status == nfs4.ErrDelay:
		return callbackOutcome{status: seq.Status}
	case seq.Status == nfs4.ErrRetryUncachedRep, seq.Status == nfs4.ErrSeqFalseRetry:
		return callbackOutcome{used: true, target: slot.Highest, status: seq.Status} // an earlier callback, whose reply was lost
	case seq.Status != nfs4.OK:
		return callbackOutcome{fault: true, err: fmt.Errorf("CB_SEQUENCE: %v", seq.Status)}
	case seq.Slot != slot.Slot, seq.Sequence != slot.Sequence:
		return callbackOutcome{fault: true, err: errors.New("CB_SEQUENCE: results of another slot")}
	case head.N < 2:
		return callbackOutcome{used: true, target: seq.TargetHighestSlotID, status: head.Status}
	}
	if got := nfs4.CBOp(r.Uint32()); got != op && got != nfs4.CBOpIllegal {
		return callbackOutcome{fault: true, err: fmt.Errorf("results of %v in place of %v", got, op)}
	}
	o = callbackOutcome{used: true, target: seq.TargetHighestSlotID, status: nfs4.Status(r.Uint32())}
	if r.Err() != nil {
		return callbackOutcome{fault: true, err: r.Err()}
	}
	return o
}
