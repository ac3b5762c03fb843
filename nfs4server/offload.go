package nfs4server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
)

const (
	// maxOffloads is how many copies of a client go on at once after their COPY was
	// answered, or have yet to be reported. maxAllOffloads is the same for all
	// clients. Further copies are synchronous.
	maxOffloads    = 4
	maxAllOffloads = 256

	// offloadRetry is how long a copy waits that is put off, as by a recall.
	offloadRetry = 100 * time.Millisecond

	// maxRefusals is how often a client may refuse the report of a copy that it does
	// not know, or does not know yet.
	maxRefusals = 60
)

// offloads are the copies that go on after their COPY was answered, and those whose
// end has yet to be reported (RFC 7862, Section 4.8).
type offloads struct {
	mu   sync.Mutex
	byID map[[nfs4.OtherSize]byte]*offload
}

// An offload is one such copy: rounds like those of a client that repeats COPY, each of
// which checks all that COPY checks. Between two rounds it holds nothing.
type offload struct {
	server    *Server
	id        nfs4.StateID
	client    uint64
	maker     nfs4state.Principal // of COPY
	session   *nfs4state.Session
	referring nfs4.ReferringCalls // COPY
	call      oncrpc.Call         // its caller
	src, dst  nfs4.FH
	minor     uint32
	cancel    context.CancelFunc
	ended     chan struct{} // no more bytes are copied

	mu       sync.Mutex
	args     nfs4.CopyArgs // what is left; Count is not 0
	response nfs4.WriteResponse
	done     bool
	status   nfs4.Status
}

// offload makes what is left of a copy go on after the answer, or reports that it
// cannot. done is the first part's results.
func (x *compound) offload(a *nfs4.CopyArgs, c *copying, done *nfs4.WriteResponse) bool {
	s := x.server
	if !s.state.MayCallBack(x.session) {
		return false
	}
	o := &offload{
		server: s, client: x.session.ClientID(), maker: x.principal(), session: x.session, src: bytes.Clone(x.fh(&x.saved)), dst: bytes.Clone(x.fh(&x.current)),
		referring: nfs4.ReferringCalls{Session: x.session.ID, Calls: []nfs4.ReferringCall{{Sequence: x.sequenceID, Slot: x.slot}}},
		call:      oncrpc.Call{Prog: x.call.Prog, Vers: x.call.Vers, Peer: x.call.Peer, Cred: x.call.Cred, MaxReply: minRoom},
		minor:     x.minor, ended: make(chan struct{}), args: *a, response: *done,
	}
	o.call.Cred.GIDs = append([]uint32(nil), x.call.Cred.GIDs...)
	o.args.SrcStateID, o.args.DstStateID = x.named(&x.saved, a.SrcStateID), x.named(&x.current, a.DstStateID)
	o.args.SrcOffset, o.args.DstOffset, o.args.Count = c.src, c.dst, c.n
	o.id.SeqID = 1
	rand.Read(o.id.Other[:]) // never fails
	ctx, cancel := context.WithCancel(s.callbacks.ctx)
	o.cancel = cancel
	leave, ok := x.session.Work(cancel)
	if !ok || !s.offloads.add(o) {
		if ok {
			leave()
		}
		cancel()
		return false
	}
	if !s.callbacks.begin(func() { o.run(ctx, leave) }) {
		s.offloads.remove(o)
		leave()
		cancel()
		return false
	}
	done.HasCallback, done.Callback = true, o.id
	return true
}

// minRoom is room for the results of an operation that nobody sees.
const minRoom = 4096

// named returns the stateid of an argument for later use: the client may go on to open
// and to lock the file meanwhile, so no seqid counts.
func (x *compound) named(of *object, id nfs4.StateID) nfs4.StateID {
	switch {
	case id == nfs4.CurrentStateID:
		return nfs4.StateID{Other: of.stateid.Other}
	case id.Special():
		return id
	}
	return nfs4.StateID{Other: id.Other}
}

func (t *offloads) add(o *offload) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := 0
	for _, other := range t.byID {
		if other.client == o.client {
			own++
		}
	}
	if own >= maxOffloads || len(t.byID) >= maxAllOffloads {
		return false
	}
	if t.byID == nil {
		t.byID = make(map[[nfs4.OtherSize]byte]*offload)
	}
	t.byID[o.id.Other] = o
	return true
}

func (t *offloads) remove(o *offload) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, o.id.Other)
}

func (t *offloads) has(o *offload) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[o.id.Other] == o
}

// run copies until all is copied, and reports the end to the client.
func (o *offload) run(ctx context.Context, leave func()) {
	status := nfs4.OK
	for {
		var more bool
		if more, status = o.round(ctx); !more || ctx.Err() != nil {
			break
		}
		if status == nfs4.ErrDelay || status == nfs4.ErrGrace {
			select {
			case <-time.After(offloadRetry):
			case <-ctx.Done():
			}
		}
	}
	leave()
	o.mu.Lock()
	o.done, o.status = true, status
	o.mu.Unlock()
	close(o.ended)
	if ctx.Err() != nil { // the client has cancelled it, or ends, or the daemon does
		o.server.offloads.remove(o)
		return
	}
	o.cancel()
	o.report()
}

// round copies some bytes, and reports whether more are to be copied.
func (o *offload) round(ctx context.Context) (more bool, status nfs4.Status) {
	s := o.server
	defer func() {
		if v := recover(); v != nil { // a bug that one copy revealed, as in a call: all else goes on
			s.log.Error("a copy panicked", "err", fmt.Errorf("%v\n%s", v, debug.Stack()))
			more, status = o.after(0, nfs4.ErrServerFault, 0)
		}
	}()
	x, _ := s.compounds.Get().(*compound)
	if x == nil {
		x = &compound{server: s}
	}
	defer s.compounds.Put(x)
	x.begin(&o.call, new(oncrpc.Reply), &nfs4.CompoundArgs{Minor: o.minor})
	x.op, x.session = nfs4.OpCopy, o.session
	defer x.end()
	args := o.args // only this goroutine changes it
	err := x.put(ctx, o.src)
	if err == nil {
		x.saved = x.current
		err = x.put(ctx, o.dst)
	}
	if realm.BySecurity(err) { // of exports that have changed
		err = realm.Access
	}
	if err != nil {
		return o.after(0, x.status(err), 0)
	}
	if x.saved.absent() || x.current.absent() {
		return o.after(0, nfs4.ErrMoved, 0)
	}
	c := copying{x: x, src: args.SrcOffset, dst: args.DstOffset, apart: true, later: true}
	if status := c.begin(ctx, &args.SrcStateID, &args.DstStateID, args.Count); status != nfs4.OK {
		return o.after(0, status, 0)
	}
	defer c.end()
	n, err := c.run(ctx)
	if err != nil {
		status = x.dataStatus(ctx, err)
	} else if n == 0 { // the source is shorter now: its end has been reached
		return false, nfs4.OK
	}
	return o.after(n, status, nfs4.Stable(c.committed))
}

// after notes the results of a round.
func (o *offload) after(n uint64, status nfs4.Status, committed nfs4.Stable) (more bool, _ nfs4.Status) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.args.SrcOffset, o.args.DstOffset, o.args.Count = o.args.SrcOffset+n, o.args.DstOffset+n, o.args.Count-n
	o.response.Count += n
	if n > 0 {
		o.response.Committed = min(o.response.Committed, committed)
	}
	again := status == nfs4.ErrDelay || status == nfs4.ErrGrace
	return o.args.Count > 0 && (status == nfs4.OK || again), status
}

// report tells the client of the end, until it has heard (RFC 7862, Section 16.1).
func (o *offload) report() {
	s := o.server
	args := nfs4.CBOffloadArgs{Object: o.dst, StateID: o.id, Status: o.status, Response: o.response, Copied: o.response.Count}
	args.Response.HasCallback = false
	c := &callback{client: o.client, op: nfs4.CBOpOffload, args: &args, referring: &o.referring}
	c.wanted = func() bool {
		wanted := c.refused.Load() < maxRefusals && s.offloads.has(o) && s.state.Known(o.client)
		if !wanted {
			s.offloads.remove(o)
		}
		return wanted
	}
	c.taken = func() { s.offloads.remove(o) }
	s.callbacks.add(c)
}

// ofStateID returns the copy to the current object with a stateid, of this client and
// user.
func (x *compound) ofStateID(id *nfs4.StateID) *offload {
	t := &x.server.offloads
	t.mu.Lock()
	o := t.byID[id.Other]
	t.mu.Unlock()
	if o == nil || o.id != *id || o.client != x.session.ClientID() || o.maker != x.principal() ||
		!x.current.set() || !bytes.Equal(o.dst, x.fh(&x.current)) {
		return nil
	}
	return o
}

// offloadStatus is OFFLOAD_STATUS (RFC 7862, Section 15.9).
func offloadStatus(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.StateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	o := x.ofStateID(&a.StateID)
	if o == nil {
		return nfs4.ErrBadStateID
	}
	o.mu.Lock()
	res := nfs4.OffloadStatusRes{Count: o.response.Count, Done: o.done, Complete: o.status}
	o.mu.Unlock()
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// offloadCancel is OFFLOAD_CANCEL (RFC 7862, Section 15.8). When it is answered, the
// copy writes no more.
func offloadCancel(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.StateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	o := x.ofStateID(&a.StateID)
	if o == nil {
		return nfs4.ErrBadStateID
	}
	o.mu.Lock()
	done := o.done
	o.mu.Unlock()
	if done {
		return nfs4.ErrCompleteAlready
	}
	o.cancel()
	x.rest()
	<-o.ended
	x.server.offloads.remove(o)
	return x.done(nfs4.OK)
}

// verifierOf returns a file system's verifier as WRITE has it.
func verifierOf(verf uint64) (v nfs4.Verifier) {
	binary.BigEndian.PutUint64(v[:], verf)
	return v
}
