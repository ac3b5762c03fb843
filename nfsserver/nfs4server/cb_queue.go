package nfs4server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// callbackQueues hold the calls to be sent to clients, in one queue for each client: a client
// that does not reply delays no other client.
type callbackQueues struct {
	server     *Server
	mu         sync.Mutex
	byClient   map[uint64]*callbackQueue
	probes     map[uint64]*callbackProbe // for NFSv4.0 clients
	goroutines sync.WaitGroup
	ctx        context.Context
	stop       context.CancelFunc
}

type callbackQueue struct {
	pending     []*callback
	hints       []*callback
	workers     int
	hintWorkers int        // workers that deliver hints
	minor0Conn  minor0Conn // for NFSv4.0

	// failedConn is the connection on which a callback failed last; see tryFailedPathLast.
	failedConn any
}

// dequeue returns the next callback, or nil. Hints wait for all other callbacks and do not
// occupy all workers: a client that is slow with hints must not delay its recalls.
func (q *callbackQueue) dequeue() (c *callback) {
	switch {
	case len(q.pending) > 0:
		c, q.pending = q.pending[0], q.pending[1:]
	case len(q.hints) > 0 && q.hintWorkers < maxHintWorkers:
		c, q.hints = q.hints[0], q.hints[1:]
		q.hintWorkers++
	}
	return c
}

// A callback is a call with one operation to a client. It is sent again on any of the client's
// connections until the client has accepted it.
type callback struct {
	client    uint64             // client ID
	session   *nfs4state.Session // if not nil, only its connections are used
	op        nfs4.CBOp          // 0: CB_NULL, only for NFSv4.0
	args      nfs4.Message
	referring *nfs4.ReferringCalls // may be nil
	isHint    bool                 // recalls go first, and a hint that is too long is dropped

	// isWanted reports whether the call is still useful.
	isWanted func() bool

	// retryDelay is the time before the next attempt; 0 means callbackRetry.
	retryDelay time.Duration

	// onAccepted, if not nil, is called when the client has accepted the call, or when the call
	// is dropped.
	onAccepted func()

	// onReply, if not nil, is called for each reply of the client, with the operation's status
	// and the results after it.
	onReply func(status nfs4.Status, results *xdr.Reader)

	errorReplies atomic.Int32 // replies with an error status
}

// maxCallbackWorkers is the maximum number of callbacks in flight to one client.
const maxCallbackWorkers = 8

// maxHintWorkers is the maximum number of hints among these.
const maxHintWorkers = 4

const (
	// callbackTimeout is the time that a callback may take before another connection is tried.
	callbackTimeout = 5 * time.Second

	// callbackRetry is the first delay before the server tries again to find a connection, or
	// to reach a client that cannot accept a callback yet. maxCallbackRetry is the maximum
	// delay.
	callbackRetry    = 100 * time.Millisecond
	maxCallbackRetry = time.Second
)

// sendRecall tells the client to return a delegation, unless OPEN's results do, and revokes it
// if the client has not returned it within a lease (recall.Holder). It does not wait.
func (f *delegatedFile) sendRecall(recall.Changer) {
	s, d := f.server, f.delegation
	left := s.state.Recall(d)
	if left == 0 {
		return
	}
	f.revokeTimer.Store(time.AfterFunc(left, func() {
		if s.state.IsOutstanding(d) {
			s.log.Warn("client did not return a recalled delegation; revoking it", "client", d.ClientID())
			s.state.RevokeDelegation(d)
		}
	}))
	if !s.state.IsOutstanding(d) { // release may have come before
		f.revokeTimer.Load().Stop()
		return
	}
	if f.recallInReply {
		return
	}
	args := nfs4.CBRecallArgs{StateID: d.StateID(), Object: d.Handle()}
	if f.minor > nfs4.Minor0 {
		args.StateID.SeqID = 0 // RFC 8881, Section 8.2.2
	}
	s.callbacks.enqueue(&callback{
		client: d.ClientID(), op: nfs4.CBOpRecall, args: &args, referring: &d.Referring,
		isWanted: func() bool { return s.state.IsOutstanding(d) },
	})
}

// sendRecallAny asks a client to return some of its delegations, because the limit is reached
// (RFC 8881, Section 20.6). own is the session of a client that was denied a delegation. The
// client chooses which to return; a client that keeps all of them affects only clients at its
// own address.
func (s *Server) sendRecallAny(session *nfs4state.Session) {
	id, keep, types := s.state.ChooseForRecall(session)
	if id == 0 {
		return
	}
	args := nfs4.CBRecallAnyArgs{Keep: keep, Types: nfs4.Bitmap{Words: [3]uint32{types}}}
	end := time.Now().Add(s.lease)
	s.callbacks.enqueue(&callback{
		client: id, op: nfs4.CBOpRecallAny, args: &args, isWanted: func() bool { return time.Now().Before(end) },
	})
}

// enqueue queues a callback.
func (r *callbackQueues) enqueue(c *callback) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	q := r.byClient[c.client]
	if q == nil {
		q = new(callbackQueue)
		r.byClient[c.client] = q
	}
	if c.isHint {
		q.hints = append(q.hints, c)
	} else {
		q.pending = append(q.pending, c)
	}
	if q.workers < maxCallbackWorkers {
		q.workers++
		r.goroutines.Go(func() { r.runWorker(c.client, q) })
	}
}

// runWorker sends a queue's callbacks until it is empty.
func (r *callbackQueues) runWorker(id uint64, q *callbackQueue) {
	var c *callback
	for {
		r.mu.Lock()
		if c != nil && c.isHint {
			q.hintWorkers--
		}
		if c = q.dequeue(); c == nil || r.ctx.Err() != nil {
			q.workers--
			last := q.workers == 0
			if last {
				delete(r.byClient, id)
			}
			r.mu.Unlock()
			if last {
				q.minor0Conn.closeClient()
			}
			return
		}
		r.mu.Unlock()
		if !r.deliverCallback(q, c) { // other workers go on concurrently
			pause := cmp.Or(c.retryDelay, callbackRetry)
			c.retryDelay = min(2*pause, max(pause, maxCallbackRetry))
			again := c
			time.AfterFunc(pause, func() { r.enqueue(again) })
		}
	}
}

// startGoroutine runs f in a goroutine that shutDown waits for. It returns false after
// shutDown.
func (r *callbackQueues) startGoroutine(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.goroutines.Go(f)
	return true
}

// shutDown cancels all callbacks and waits for their goroutines.
func (r *callbackQueues) shutDown() {
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.goroutines.Wait()
}

// deliverCallback sends a callback on each of the client's connections in turn until the client
// has accepted it. A hint that is too long for all of them is dropped. It returns false if the
// call must be sent again.
func (r *callbackQueues) deliverCallback(q *callbackQueue, c *callback) (done bool) {
	if !c.isWanted() {
		return true
	}
	paths := r.server.state.BackPaths(c.client)
	r.tryFailedPathLast(q, paths)
	tooLong := c.isHint && len(paths) > 0
	for _, p := range paths {
		if c.session != nil && p.Session != c.session {
			continue
		}
		if p.Session != nil && c.messageLen(&p, nil) > int(p.Session.Back.MaxRequestSize) {
			continue
		}
		tooLong = false
		var taken bool
		if p.Session == nil {
			taken = r.server.sendMinor0Callback(r.ctx, &q.minor0Conn, c, &p)
		} else {
			taken = r.server.sendCallback(r.ctx, c, &p)
		}
		if taken && c.onAccepted != nil {
			c.onAccepted()
		}
		if taken || !c.isWanted() {
			return true
		}
		r.mu.Lock()
		q.failedConn = p.Conn
		r.mu.Unlock()
	}
	if tooLong && c.onAccepted != nil {
		c.onAccepted()
	}
	return tooLong
}

// tryFailedPathLast moves the path on which the last callback failed to the end: each attempt
// on a dead connection takes callbackTimeout.
func (r *callbackQueues) tryFailedPathLast(q *callbackQueue, paths []nfs4state.BackPath) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range paths {
		if last := len(paths) - 1; paths[i].Conn == q.failedConn {
			paths[i], paths[last] = paths[last], paths[i]
			return
		}
	}
}

// sendCallback sends a callback once. It reports whether the client has accepted it, or does
// not know the operation.
func (s *Server) sendCallback(ctx context.Context, c *callback, p *nfs4state.BackPath) (taken bool) {
	peer, _ := p.Conn.(*oncrpc.Peer)
	if peer == nil || peer.Reverse == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, callbackTimeout)
	defer cancel()
	slot, err := p.Session.AcquireBackSlot(ctx)
	if err != nil {
		return false
	}
	x := newCBCompound(p)
	x.MaxResults = maxCallbackResLen
	referring := c.referring
	if c.messageLen(p, referring) > int(p.Session.Back.MaxRequestSize) {
		referring = nil // the client may then reject a callback that overtakes the call's reply, and gets another one
	}
	x.Args = c.appendCompound(nil, p, slot, referring)
	if err = s.tenure.Check(); err != nil {
		// the next host calls
	} else if p.Context != nil {
		err = p.Context.(BackContext).Call(ctx, peer.Reverse, &x)
	} else {
		err = peer.Reverse.Call(ctx, &x)
	}
	var o callbackOutcome
	if err == nil {
		o = parseCallbackReply(&x.Results, slot, c.op)
		if o.slotUsed && c.onReply != nil {
			c.onReply(o.status, &x.Results)
		}
		x.Release()
	}
	if o.slotUsed {
		p.Session.Renew()
	}
	p.Session.ReleaseBackSlot(slot, o.slotUsed, o.target)
	switch {
	case o.isFault:
		s.log.Warn("client sent an invalid callback reply; its session is marked faulty", "client", c.client, "peer", peer, "err", o.err)
		p.Session.MarkBackFault()
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		s.log.Debug("callback failed", "peer", peer, "err", err)
	}
	taken = o.slotUsed && (o.status == nfs4.OK || o.status == nfs4.ErrNotSupp || o.status == nfs4.ErrOpIllegal)
	if o.slotUsed && !taken {
		c.errorReplies.Add(1)
	}
	return taken
}

// maxCallbackResLen is the maximum length in bytes of CB_COMPOUND results: a tag, CB_SEQUENCE,
// and CB_GETATTR attributes. A client may return more attributes than requested.
const maxCallbackResLen = 12 + 1024 + minResultLen + nfs4.SessionIDSize + 16 + minResultLen + 128

// newCBCompound returns a CB_COMPOUND exchange for a path, without arguments.
func newCBCompound(p *nfs4state.BackPath) oncrpc.Exchange {
	return oncrpc.Exchange{Prog: p.Program, Vers: nfs4.CBVersion, Proc: nfs4.CBProcCompound, Cred: callbackCred(&p.Parms)}
}

// messageLen returns the callback's message length in bytes, as the backchannel's
// ca_maxrequestsize counts it: including the RPC header (RFC 8881, Section 18.36.3).
func (c *callback) messageLen(p *nfs4state.BackPath, referring *nfs4.ReferringCalls) int {
	args := len(c.appendCompound(nil, p, nfs4state.BackSlot{}, referring))
	if p.Context != nil {
		call, _ := p.Context.(BackContext).Overhead()
		return call + args
	}
	x := newCBCompound(p)
	return len(oncrpc.AppendCall(nil, 0, &x, hostName())) + args
}

// hostName returns the machine name for AUTH_SYS credentials over RDMA. Over TCP they have
// none.
var hostName = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})

// appendCompound appends a CB_COMPOUND with CB_SEQUENCE and the operation.
func (c *callback) appendCompound(b []byte, p *nfs4state.BackPath, slot nfs4state.BackSlot, referring *nfs4.ReferringCalls) []byte {
	head := nfs4.CBCompoundArgs{Minor: p.Minor, N: 2}
	seq := nfs4.CBSequenceArgs{Session: p.Session.ID, Sequence: slot.Sequence, Slot: slot.Slot, HighestSlotID: slot.Highest}
	if referring != nil {
		seq.Referring = []nfs4.ReferringCalls{*referring}
	}
	return nfs4.AppendCBOp(nfs4.AppendCBOp(head.AppendTo(b), nfs4.CBOpSequence, &seq), c.op, c.args)
}

// callbackCred returns the credential that the client requested (csa_sec_parms), for calls
// without a security context.
func callbackCred(p *nfs4.SecParms) rpcmsg.Cred {
	if !p.Sys {
		return rpcmsg.Cred{Flavor: rpcmsg.AuthNone}
	}
	return rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: p.UID, GID: p.GID}
}

// A callbackOutcome is the result of a callback.
type callbackOutcome struct {
	slotUsed bool        // the slot's sequence ID is used up, and target is set
	target   uint32      // the highest slot that the client wants the server to use
	status   nfs4.Status // status of the operation after CB_SEQUENCE
	isFault  bool        // the backchannel is unusable
	err      error
}

// parseCallbackReply parses CB_COMPOUND results.
func parseCallbackReply(r *xdr.Reader, slot nfs4state.BackSlot, op nfs4.CBOp) (o callbackOutcome) {
	var head nfs4.CompoundRes
	head.Decode(r)
	if r.Err() != nil || head.N == 0 {
		return callbackOutcome{isFault: true, err: fmt.Errorf("CB_COMPOUND: %v with no results", head.Status)}
	}
	if got := nfs4.CBOp(r.Uint32()); got != nfs4.CBOpSequence {
		return callbackOutcome{isFault: true, err: fmt.Errorf("results of %v instead of CB_SEQUENCE", got)}
	}
	var seq nfs4.CBSequenceRes
	seq.Decode(r)
	switch {
	case r.Err() != nil:
		return callbackOutcome{isFault: true, err: r.Err()}
	case seq.Status == nfs4.ErrDelay:
		return callbackOutcome{status: seq.Status}
	case seq.Status == nfs4.ErrRetryUncachedRep, seq.Status == nfs4.ErrSeqFalseRetry:
		return callbackOutcome{slotUsed: true, target: slot.Highest, status: seq.Status} // this slot's reply to an earlier callback was lost
	case seq.Status != nfs4.OK:
		return callbackOutcome{isFault: true, err: fmt.Errorf("CB_SEQUENCE: %v", seq.Status)}
	case seq.Slot != slot.Slot, seq.Sequence != slot.Sequence:
		return callbackOutcome{isFault: true, err: errors.New("CB_SEQUENCE: results for another slot")}
	case head.N < 2:
		return callbackOutcome{slotUsed: true, target: seq.TargetHighestSlotID, status: head.Status}
	}
	if got := nfs4.CBOp(r.Uint32()); got != op && got != nfs4.CBOpIllegal {
		return callbackOutcome{isFault: true, err: fmt.Errorf("results of %v instead of %v", got, op)}
	}
	o = callbackOutcome{slotUsed: true, target: seq.TargetHighestSlotID, status: nfs4.Status(r.Uint32())}
	if r.Err() != nil {
		return callbackOutcome{isFault: true, err: r.Err()}
	}
	return o
}
