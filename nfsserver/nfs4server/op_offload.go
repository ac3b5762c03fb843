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

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

const (
	// maxOffloads is the maximum number of a client's copies that continue after the reply to
	// their COPY, or that are yet to be reported. maxAllOffloads is the same for all clients.
	// The clients at one address share half of these, or half of those that others leave.
	// Further copies are synchronous.
	maxOffloads    = 4
	maxAllOffloads = 256

	// offloadRetry is the delay before a deferred copy is tried again, such as after a recall.
	offloadRetry = 100 * time.Millisecond

	// cancelTime is the time that OFFLOAD_CANCEL waits for the file system.
	cancelTime = 2 * time.Second

	// maxRefusals is the number of times that a client may reject the report of a copy that it
	// does not know, or does not know yet.
	maxRefusals = 60
)

// An offloadTable holds the copies that continue after the reply to their COPY, and those whose
// end is yet to be reported (RFC 7862, Section 4.8).
type offloadTable struct {
	places *fairshare.Places

	mu   sync.Mutex
	byID map[[nfs4.OtherSize]byte]*offload
}

func newOffloads() *offloadTable {
	return &offloadTable{places: fairshare.NewPlaces(maxAllOffloads), byID: make(map[[nfs4.OtherSize]byte]*offload)}
}

// An offload is one such copy: rounds like those of a client that repeats COPY, each of which
// checks everything that COPY checks. Between rounds it holds no permit or file.
type offload struct {
	server    *Server
	id        nfs4.StateID
	client    uint64
	party     fairshare.Name
	creator   nfs4state.Principal // COPY's principal
	session   *nfs4state.Session
	referring nfs4.ReferringCalls // COPY
	call      oncrpc.Call         // COPY's caller
	src, dst  nfs4.FH
	minor     uint32
	cancel    context.CancelFunc
	ended     chan struct{} // closed when no more bytes are copied

	mu       sync.Mutex
	args     nfs4.CopyArgs // the rest; Count is not 0
	response nfs4.WriteResponse
	done     bool
	status   nfs4.Status
}

// startOffload continues a copy after the reply, or returns false if it cannot. done holds the
// first part's results.
func (x *compound) startOffload(a *nfs4.CopyArgs, c *copyJob, done *nfs4.WriteResponse) bool {
	s := x.server
	if !s.state.MayCallBack(x.session) {
		return false
	}
	o := &offload{
		server: s, client: x.session.ClientID(), party: x.clientParty(), creator: x.callPrincipal(), session: x.session, src: bytes.Clone(x.fileHandle(&x.saved)), dst: bytes.Clone(x.fileHandle(&x.current)),
		referring: nfs4.ReferringCalls{Session: x.session.ID, Calls: []nfs4.ReferringCall{{Sequence: x.sequenceID, Slot: x.slot}}},
		call:      oncrpc.Call{Prog: x.call.Prog, Vers: x.call.Vers, Peer: x.call.Peer, Cred: x.call.Cred, MaxReply: offloadReplyLimit},
		minor:     x.minor, ended: make(chan struct{}), args: *a, response: *done,
	}
	o.call.Cred.GIDs = append([]uint32(nil), x.call.Cred.GIDs...)
	o.args.SrcStateID, o.args.DstStateID = x.durableStateID(&x.saved, a.SrcStateID), x.durableStateID(&x.current, a.DstStateID)
	o.args.SrcOffset, o.args.DstOffset, o.args.Count = c.src, c.dst, c.left
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
	if !s.callbacks.startGoroutine(func() { o.run(ctx, leave) }) {
		s.offloads.remove(o)
		leave()
		cancel()
		return false
	}
	done.HasCallback, done.Callback = true, o.id
	return true
}

// offloadReplyLimit is the reply limit for operations whose results are discarded.
const offloadReplyLimit = 4096

// durableStateID returns an argument's stateid for later use: the client may open or lock the
// file in the meantime, so seqids must be ignored.
func (x *compound) durableStateID(obj *object, id nfs4.StateID) nfs4.StateID {
	switch {
	case id == nfs4.CurrentStateID:
		return nfs4.StateID{Other: obj.stateid.Other}
	case id.Special():
		return id
	}
	return nfs4.StateID{Other: id.Other}
}

func (t *offloadTable) add(o *offload) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := 0
	for _, other := range t.byID {
		if other.client == o.client {
			count++
		}
	}
	if count >= maxOffloads || !t.places.Take(o.party) {
		return false
	}
	t.byID[o.id.Other] = o
	return true
}

func (t *offloadTable) remove(o *offload) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[o.id.Other] == o {
		delete(t.byID, o.id.Other)
		t.places.Give(o.party)
	}
}

func (t *offloadTable) has(o *offload) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[o.id.Other] == o
}

// run copies until everything is copied, and reports the end to the client.
func (o *offload) run(ctx context.Context, leave func()) {
	status := nfs4.OK
	for {
		var more bool
		if more, status = o.copyRound(ctx); !more || ctx.Err() != nil {
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
	if ctx.Err() != nil { // the client has canceled it or has ended, or the server is closing
		o.server.offloads.remove(o)
		return
	}
	o.cancel()
	o.reportEnd()
}

// copyRound copies some bytes, and reports whether there are more to copy.
func (o *offload) copyRound(ctx context.Context) (more bool, status nfs4.Status) {
	s := o.server
	defer func() {
		if v := recover(); v != nil { // a bug that one copy revealed, as in a call: everything else continues
			s.log.Error("a copy panicked", "err", fmt.Errorf("%v\n%s", v, debug.Stack()))
			more, status = o.recordRound(0, nfs4.ErrServerFault, 0)
		}
	}()
	x, _ := s.compounds.Get().(*compound)
	if x == nil {
		x = &compound{server: s}
	}
	defer s.compounds.Put(x)
	x.beginCall(&o.call, new(oncrpc.Reply), &nfs4.CompoundArgs{Minor: o.minor})
	x.op, x.session = nfs4.OpCopy, o.session
	defer x.releaseCall()
	args := o.args // only this goroutine changes it
	err := x.setCurrentFH(ctx, o.src)
	if err == nil {
		x.saved = x.current
		err = x.setCurrentFH(ctx, o.dst)
	}
	if exportset.IsSecurityDenial(err) { // the exports have changed
		err = exportset.Access
	}
	if err != nil {
		return o.recordRound(0, x.toStatus(err), 0)
	}
	if x.saved.isAbsent() || x.current.isAbsent() {
		return o.recordRound(0, nfs4.ErrMoved, 0)
	}
	c := copyJob{x: x, src: args.SrcOffset, dst: args.DstOffset, mustDiffer: true, isContinued: true}
	if status := c.prepare(ctx, &args.SrcStateID, &args.DstStateID, args.Count); status != nfs4.OK {
		return o.recordRound(0, status, 0)
	}
	defer c.releaseFiles()
	n, err := c.run(ctx)
	if err != nil {
		status = x.fileStatus(ctx, err)
	} else if n == 0 { // the source has become shorter: its end has been reached
		return false, nfs4.OK
	}
	return o.recordRound(n, status, nfs4.Stable(c.committed))
}

// recordRound records a round's results.
func (o *offload) recordRound(n uint64, status nfs4.Status, committed nfs4.Stable) (more bool, _ nfs4.Status) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.args.SrcOffset, o.args.DstOffset, o.args.Count = o.args.SrcOffset+n, o.args.DstOffset+n, o.args.Count-n
	o.response.Count += n
	if n > 0 {
		o.response.Committed = min(o.response.Committed, committed)
	}
	mayRetry := status == nfs4.ErrDelay || status == nfs4.ErrGrace
	return o.args.Count > 0 && (status == nfs4.OK || mayRetry), status
}

// reportEnd reports the end to the client until the client acknowledges it (RFC 7862, Section
// 16.1).
func (o *offload) reportEnd() {
	s := o.server
	args := nfs4.CBOffloadArgs{Object: o.dst, StateID: o.id, Status: o.status, Response: o.response, Copied: o.response.Count}
	args.Response.HasCallback = false
	c := &callback{client: o.client, op: nfs4.CBOpOffload, args: &args, referring: &o.referring}
	c.isWanted = func() bool {
		wanted := c.errorReplies.Load() < maxRefusals && s.offloads.has(o) && s.state.HasClient(o.client)
		if !wanted {
			s.offloads.remove(o)
		}
		return wanted
	}
	c.onAccepted = func() { s.offloads.remove(o) }
	s.callbacks.enqueue(c)
}

// findOffload returns this client's and user's copy to the current object with the given
// stateid.
func (x *compound) findOffload(id *nfs4.StateID) *offload {
	t := x.server.offloads
	t.mu.Lock()
	o := t.byID[id.Other]
	t.mu.Unlock()
	if o == nil || o.id != *id || o.client != x.session.ClientID() || o.creator != x.callPrincipal() ||
		!x.current.isSet() || !bytes.Equal(o.dst, x.fileHandle(&x.current)) {
		return nil
	}
	return o
}

// serveOffloadStatus implements OFFLOAD_STATUS (RFC 7862, Section 15.9).
func serveOffloadStatus(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.StateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	o := x.findOffload(&a.StateID)
	if o == nil {
		return nfs4.ErrBadStateID
	}
	o.mu.Lock()
	res := nfs4.OffloadStatusRes{Count: o.response.Count, Done: o.done, Complete: o.status}
	o.mu.Unlock()
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// serveOffloadCancel implements OFFLOAD_CANCEL (RFC 7862, Section 15.8). After NFS4_OK, the
// copy writes no more. If the file system does not respond, the status is NFS4ERR_DELAY, and
// NFS4ERR_BAD_STATEID once the copy has ended.
func serveOffloadCancel(_ context.Context, x *compound) nfs4.Status {
	var a nfs4.StateIDArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	o := x.findOffload(&a.StateID)
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
	x.StepAside()
	timeout := time.NewTimer(cancelTime)
	defer timeout.Stop()
	select {
	case <-o.ended:
	case <-timeout.C:
		return nfs4.ErrDelay
	}
	x.server.offloads.remove(o)
	return x.appendStatus(nfs4.OK)
}

// toVerifier returns a file system's verifier in the form that WRITE uses.
func toVerifier(verf uint64) (v nfs4.Verifier) {
	binary.BigEndian.PutUint64(v[:], verf)
	return v
}
