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
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// callbacks are the calls that clients have yet to get, in a queue for each client:
// one that does not answer holds up no other.
type callbacks struct {
	server  *Server
	mu      sync.Mutex
	clients map[uint64]*callbackQueue
	probes  map[uint64]*probe // of version 4.0
	running sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
}

type callbackQueue struct {
	waiting []*callback
	hints   []*callback
	workers int
	hinting int         // workers that deliver hints
	plain   plainCaller // of version 4.0

	// doubtful is the connection by which a callback failed last; see doubtLast.
	doubtful any
}

// next returns the next callback, or nil. Hints wait for all others, and do not take
// all workers: a client that is slow with hints must not hold up its recalls.
func (q *callbackQueue) next() (c *callback) {
	switch {
	case len(q.waiting) > 0:
		c, q.waiting = q.waiting[0], q.waiting[1:]
	case len(q.hints) > 0 && q.hinting < maxHints:
		c, q.hints = q.hints[0], q.hints[1:]
		q.hinting++
	}
	return c
}

// A callback is a call of one operation to a client, made again by any of the
// client's connections until the client has taken it.
type callback struct {
	client    uint64    // its ID
	op        nfs4.CBOp // 0: CB_NULL, of version 4.0 alone
	args      nfs4.Message
	referring *nfs4.ReferringCalls // may be nil
	hint      bool                 // recalls go first, and one that is too long is given up

	// wanted reports whether the call is of any use yet.
	wanted func() bool

	// pause is the time before the next attempt; 0 means callbackRetry.
	pause time.Duration

	// taken, if not nil, is called when the client has taken the call, or the call is
	// given up.
	taken func()

	// answered, if not nil, is called with each answer of the client: the status of the
	// operation, and the results behind it.
	answered func(status nfs4.Status, results *xdr.Reader)

	refused atomic.Int32 // answers of the client that were errors
}

// maxCallers is how many callbacks of a client are under way at a time.
const maxCallers = 8

// maxHints is how many of these may be hints.
const maxHints = 4

const (
	// callbackTime is how long a callback may take before another connection is
	// tried.
	callbackTime = 5 * time.Second

	// callbackRetry is how long the server waits at first for a connection, or for a
	// client that cannot take a callback yet, and maxRetry the longest such pause.
	callbackRetry = 100 * time.Millisecond
	maxRetry      = time.Second
)

// recall tells the client to return a delegation, unless OPEN's results do, and
// revokes it if the client has not done so within a lease (recall.Holder). It does not
// wait.
func (f *delegated) recall() {
	s, d := f.server, f.delegation
	left := s.state.Recall(d)
	if left == 0 {
		return
	}
	f.late.Store(time.AfterFunc(left, func() {
		if s.state.Outstanding(d) {
			s.log.Warn("a client has not returned a delegation that was recalled, and loses it", "client", d.ClientID())
			s.state.RevokeDelegation(d)
		}
	}))
	if !s.state.Outstanding(d) { // release may have come before
		f.late.Load().Stop()
		return
	}
	if f.told {
		return
	}
	args := nfs4.CBRecallArgs{StateID: d.StateID(), Object: d.Handle()}
	if f.minor > nfs4.Minor0 {
		args.StateID.SeqID = 0 // RFC 8881, Section 8.2.2
	}
	s.callbacks.add(&callback{
		client: d.ClientID(), op: nfs4.CBOpRecall, args: &args, referring: &d.Referring,
		wanted: func() bool { return s.state.Outstanding(d) },
	})
}

// relieve asks a client to return some of its delegations, because there is no room
// for more (RFC 8881, Section 20.6). own is the session of a client that could get
// none. The client chooses; one that keeps all of them is in the way of its own
// party alone.
func (s *Server) relieve(own *nfs4state.Session) {
	id, keep, types := s.state.Relieve(own)
	if id == 0 {
		return
	}
	args := nfs4.CBRecallAnyArgs{Keep: keep, Types: nfs4.Bitmap{Words: [3]uint32{types}}}
	end := time.Now().Add(s.lease)
	s.callbacks.add(&callback{
		client: id, op: nfs4.CBOpRecallAny, args: &args, wanted: func() bool { return time.Now().Before(end) },
	})
}

// add queues a callback.
func (r *callbacks) add(c *callback) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	q := r.clients[c.client]
	if q == nil {
		q = new(callbackQueue)
		r.clients[c.client] = q
	}
	if c.hint {
		q.hints = append(q.hints, c)
	} else {
		q.waiting = append(q.waiting, c)
	}
	if q.workers < maxCallers {
		q.workers++
		r.running.Go(func() { r.work(c.client, q) })
	}
}

// work makes the callbacks of a queue until it is empty.
func (r *callbacks) work(id uint64, q *callbackQueue) {
	var c *callback
	for {
		r.mu.Lock()
		if c != nil && c.hint {
			q.hinting--
		}
		if c = q.next(); c == nil || r.ctx.Err() != nil {
			q.workers--
			last := q.workers == 0
			if last {
				delete(r.clients, id)
			}
			r.mu.Unlock()
			if last {
				q.plain.close()
			}
			return
		}
		r.mu.Unlock()
		if !r.deliver(q, c) { // meanwhile the others go on
			pause := cmp.Or(c.pause, callbackRetry)
			c.pause = min(2*pause, max(pause, maxRetry))
			again := c
			time.AfterFunc(pause, func() { r.add(again) })
		}
	}
}

// begin runs f in a goroutine for which close waits, unless close was called.
func (r *callbacks) begin(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.running.Go(f)
	return true
}

// close ends all callbacks.
func (r *callbacks) close() {
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.running.Wait()
}

// deliver makes a callback by each of the client's connections in turn, until the
// client has taken it. A hint that is too long for all of them is given up. It returns
// false if the call must be made again.
func (r *callbacks) deliver(q *callbackQueue, c *callback) (done bool) {
	if !c.wanted() {
		return true
	}
	paths := r.server.state.BackPaths(c.client)
	r.doubtLast(q, paths)
	tooLong := c.hint && len(paths) > 0
	for _, p := range paths {
		if p.Session != nil && c.length(&p, nil) > int(p.Session.Back.MaxRequestSize) {
			continue
		}
		tooLong = false
		var taken bool
		if p.Session == nil {
			taken = r.server.callPlain(r.ctx, &q.plain, c, &p)
		} else {
			taken = r.server.callBack(r.ctx, c, &p)
		}
		if taken && c.taken != nil {
			c.taken()
		}
		if taken || !c.wanted() {
			return true
		}
		r.mu.Lock()
		q.doubtful = p.Conn
		r.mu.Unlock()
	}
	if tooLong && c.taken != nil {
		c.taken()
	}
	return tooLong
}

// doubtLast moves the path by which the client did not take the last callback that
// failed behind the others: a dead connection costs callbackTime each time.
func (r *callbacks) doubtLast(q *callbackQueue, paths []nfs4state.BackPath) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range paths {
		if last := len(paths) - 1; paths[i].Conn == q.doubtful {
			paths[i], paths[last] = paths[last], paths[i]
			return
		}
	}
}

// callBack makes a callback once, and reports whether the client has taken it, or
// does not know the operation.
func (s *Server) callBack(ctx context.Context, c *callback, p *nfs4state.BackPath) (taken bool) {
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
	x := exchangeBy(p)
	x.MaxResults = maxCallbackRes
	referring := c.referring
	if c.length(p, referring) > int(p.Session.Back.MaxRequestSize) {
		referring = nil // so the client may refuse a callback that overtakes the call's reply, and gets another one
	}
	x.Args = c.appendTo(nil, p, slot, referring)
	if p.Context != nil {
		err = p.Context.(BackContext).Call(ctx, peer.Reverse, &x)
	} else {
		err = peer.Reverse.Call(ctx, &x)
	}
	var o callbackOutcome
	if err == nil {
		o = readCallback(&x.Results, slot, c.op)
		if o.used && c.answered != nil {
			c.answered(o.status, &x.Results)
		}
		x.Release()
	}
	if o.used {
		p.Session.Renew()
	}
	p.Session.GiveBack(slot, o.used, o.target)
	switch {
	case o.fault:
		s.log.Warn("a client answers callbacks wrongly, and must make another session", "client", c.client, "peer", peer, "err", o.err)
		p.Session.BackFault()
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		s.log.Debug("callback failed", "peer", peer, "err", err)
	}
	taken = o.used && (o.status == nfs4.OK || o.status == nfs4.ErrNotSupp || o.status == nfs4.ErrOpIllegal)
	if o.used && !taken {
		c.refused.Add(1)
	}
	return taken
}

// maxCallbackRes is the length in bytes of the longest results of a CB_COMPOUND: with a
// tag, CB_SEQUENCE, and the attributes of CB_GETATTR, of which a client may return more
// than it was asked for.
const maxCallbackRes = 12 + 1024 + minResult + nfs4.SessionIDSize + 16 + minResult + 128

// exchangeBy returns a CB_COMPOUND by a path, without arguments.
func exchangeBy(p *nfs4state.BackPath) oncrpc.Exchange {
	return oncrpc.Exchange{Prog: p.Program, Vers: nfs4.CBVersion, Proc: nfs4.CBProcCompound, Cred: callbackCred(&p.Parms)}
}

// length returns the length in bytes of the callback's message, as the backchannel's
// ca_maxrequestsize counts it: with the header of RPC (RFC 8881, Section 18.36.3).
func (c *callback) length(p *nfs4state.BackPath, referring *nfs4.ReferringCalls) int {
	args := len(c.appendTo(nil, p, nfs4state.BackSlot{}, referring))
	if p.Context != nil {
		call, _ := p.Context.(BackContext).Room()
		return call + args
	}
	x := exchangeBy(p)
	return len(oncrpc.AppendCall(nil, 0, &x, machine())) + args
}

// machine is the name in credentials of AUTH_SYS over RDMA. Over TCP they have none.
var machine = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})

// appendTo appends the CB_COMPOUND of CB_SEQUENCE and the operation.
func (c *callback) appendTo(b []byte, p *nfs4state.BackPath, slot nfs4state.BackSlot, referring *nfs4.ReferringCalls) []byte {
	head := nfs4.CBCompoundArgs{Minor: p.Minor, N: 2}
	seq := nfs4.CBSequenceArgs{Session: p.Session.ID, Sequence: slot.Sequence, Slot: slot.Slot, HighestSlotID: slot.Highest}
	if referring != nil {
		seq.Referring = []nfs4.ReferringCalls{*referring}
	}
	return nfs4.AppendCBOp(nfs4.AppendCBOp(head.AppendTo(b), nfs4.CBOpSequence, &seq), c.op, c.args)
}

// callbackCred returns the credential that the client asked for (csa_sec_parms), if the
// call is not made in a context.
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
