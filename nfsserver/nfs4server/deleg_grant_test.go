package nfs4server

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

const recallLease = 40 * time.Second

// A fakeBackchannel is the client's end for reverse calls.
type fakeBackchannel struct {
	t *testing.T

	mu       sync.Mutex
	calls    []nfs4.CBRecallArgs
	seqs     []nfs4.CBSequenceArgs
	last     oncrpc.Exchange
	any      func(a nfs4.CBRecallAnyArgs)
	notify   func(a nfs4.CBNotifyLockArgs)
	offload  func(a nfs4.CBOffloadArgs)
	slots    func(a nfs4.CBRecallSlotArgs)
	getattr  func(ctx context.Context, a nfs4.CBGetAttrArgs) (nfs4.GetAttrRes, error)
	sequence map[uint32]uint32                                 // by slot
	answer   func(n int) (seq, op nfs4.Status, err error)      // for the n-th call; nil: OK
	recalled func(a *nfs4.CBRecallArgs, s nfs4.CBSequenceArgs) // may be nil
}

// Call receives a call from the server (oncrpc.Caller).
func (b *fakeBackchannel) Call(ctx context.Context, x *oncrpc.Exchange) error {
	r := xdr.NewReader(x.Args)
	var head nfs4.CBCompoundArgs
	var seq nfs4.CBSequenceArgs
	var a nfs4.CBRecallArgs
	var attrs nfs4.GetAttrRes
	var lost error
	head.Decode(&r)
	assert.Equal(b.t, nfs4.CBOpSequence, nfs4.CBOp(r.Uint32()))
	seq.Decode(&r)
	op := nfs4.CBOp(r.Uint32())
	switch op {
	case nfs4.CBOpRecall:
		a.Decode(&r)
	case nfs4.CBOpGetAttr:
		var asked nfs4.CBGetAttrArgs
		asked.Decode(&r)
		asked.Object = append(nfs4.FH(nil), asked.Object...)
		attrs, lost = b.getattr(ctx, asked)
	case nfs4.CBOpRecallAny:
		var any nfs4.CBRecallAnyArgs
		any.Decode(&r)
		b.any(any)
	case nfs4.CBOpNotifyLock:
		var notice nfs4.CBNotifyLockArgs
		notice.Decode(&r)
		b.notify(notice)
	case nfs4.CBOpRecallSlot:
		var slots nfs4.CBRecallSlotArgs
		slots.Decode(&r)
		if b.slots != nil {
			b.slots(slots)
		}
	case nfs4.CBOpOffload:
		var end nfs4.CBOffloadArgs
		end.Decode(&r)
		end.Object = append(nfs4.FH(nil), end.Object...)
		b.offload(end)
	default:
		b.t.Errorf("%v", op)
	}
	assert.NoError(b.t, r.Done())
	a.Object = append(nfs4.FH(nil), a.Object...)
	b.mu.Lock()
	n := len(b.calls)
	if op != nfs4.CBOpGetAttr {
		b.calls, b.seqs, b.last = append(b.calls, a), append(b.seqs, seq), *x
	}
	want := b.sequence[seq.Slot] + 1
	b.mu.Unlock()
	assert.Equal(b.t, want, seq.Sequence)
	assert.EqualValues(b.t, 2, head.Minor)
	sequenced, status, err := nfs4.OK, attrs.Status, lost
	if b.answer != nil && op != nfs4.CBOpGetAttr {
		sequenced, status, err = b.answer(n)
	}
	if err != nil {
		return err
	}
	res := nfs4.CompoundRes{Status: max(sequenced, status), N: 2}
	sres := nfs4.CBSequenceRes{
		Status: sequenced, Session: seq.Session, Sequence: seq.Sequence, Slot: seq.Slot, HighestSlotID: seq.HighestSlotID, TargetHighestSlotID: seq.HighestSlotID,
	}
	if sequenced != nfs4.OK {
		res.N = 1
	}
	out := sres.AppendTo(xdr.AppendUint32(res.AppendTo(nil), uint32(nfs4.CBOpSequence)))
	if sequenced == nfs4.OK {
		b.mu.Lock()
		b.sequence[seq.Slot]++
		b.mu.Unlock()
		out = xdr.AppendUint32(xdr.AppendUint32(out, uint32(op)), uint32(status))
		if op == nfs4.CBOpGetAttr && status == nfs4.OK {
			out = attrs.Attrs.AppendTo(out)
		}
	}
	x.Results = xdr.NewReader(out)
	if op == nfs4.CBOpRecall && b.recalled != nil && status == nfs4.OK && sequenced == nfs4.OK {
		go b.recalled(&a, seq)
	}
	return nil
}

// lastCall returns the last call.
func (b *fakeBackchannel) lastCall() oncrpc.Exchange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

func (b *fakeBackchannel) callCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

// newDelegServer returns a testServer whose export grants delegations, and whose client can be
// called back.
func newDelegServer(t *testing.T) (*testServer, *fakeBackchannel) {
	return newDelegServerFor(t, mem.New(mem.Options{Size: 1 << 30}), true)
}

func newDelegServerFor(t *testing.T, fs vfs.FS, exclusive bool) (*testServer, *fakeBackchannel) {
	start := time.Now()
	now := func() time.Duration { return time.Since(start) }
	state := nfs4state.New(WithFiles(nfs4state.Config{Now: now, Epoch: 7, Lease: recallLease}))
	g := &testServer{t: t}
	r, err := exportset.New(exportset.Config{
		Exports: []exportset.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{
			NoRootSquash: true, Insecure: true, Exclusive: exclusive,
		})}},
		Holders: recall.New(recall.Config{Now: now, Pause: 30 * time.Second}), DefersChange: func(byState bool) bool { return g.s.state.DefersChange(byState) },
	})
	require.NoError(t, err)
	*g = testServer{t: t, s: New(Config{Exports: r, State: state, Lease: recallLease}), minor: 2, cached: 7584, tag: "tag"}
	g.cred.Flavor = 1
	g.s.writeBackPause = 0
	back := g.newCallableClient("client", "192.0.2.1:700")
	t.Cleanup(func() { g.s.Close() })
	return g, back
}

// newCallableClient makes g a new client that can be called back.
func (g *testServer) newCallableClient(owner, addr string) *fakeBackchannel {
	b := &fakeBackchannel{t: g.t.(*testing.T), sequence: make(map[uint32]uint32)}
	g.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort(addr), Network: "tcp", Reverse: b}
	g.flags = nfs4.SessionConnBackChan
	if g.noReclaims {
		g.sessionAs(owner)
	} else {
		g.connectAs(owner)
	}
	return b
}

// newClientAt returns another client at the same server.
func (g *testServer) newClientAt(owner, addr string) (*testServer, *fakeBackchannel) {
	o := *g
	return &o, o.newCallableClient(owner, addr)
}

// makeFileStep makes a file with content, and returns its handle.
func (g *testServer) makeFileStep(name string) step {
	g.t.Helper()
	access := nfs4.ShareBoth
	if g.minor > nfs4.Minor0 {
		access |= nfs4.WantNoDeleg
	}
	opened, put := g.openFile(name, access, 0)
	st, _ := g.sendSteps(put, step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: opened.StateID, Stable: nfs4.FileSync, Data: []byte("hello")}, new(nfs4.WriteRes)},
		step{nfs4.OpClose, &nfs4.CloseArgs{StateID: opened.StateID}, new(nfs4.StateIDRes)})
	require.Equal(g.t, nfs4.OK, st)
	return put
}

// openFile opens a name, and makes it if it is opened for writing.
func (g *testServer) openFile(name string, access uint32, deny uint32) (opened nfs4.OpenRes, put step) {
	g.t.Helper()
	var fh nfs4.HandleRes
	a := nfs4.OpenArgs{ShareAccess: access, ShareDeny: deny, Owner: nfs4.StateOwner{Owner: []byte("o")}, How: nfs4.NoCreate, Claim: nfs4.ClaimNull, Name: []byte(name)}
	if access&nfs4.ShareWrite != 0 {
		a.How, a.Attrs.Mask, a.Attrs.Mode = nfs4.Unchecked, nfs4.BitmapOf(nfs4.AttrMode), 0o644
	}
	st, n := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, &a, &opened}, step{nfs4.OpGetFH, &void, &fh})
	require.Equal(g.t, nfs4.OK, st, n)
	return opened, step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: append([]byte(nil), fh.Object...)}, newStatusRes()}
}

// returnDelegation is DELEGRETURN.
func (g *testServer) returnDelegation(put step, id nfs4.StateID) nfs4.Status {
	g.t.Helper()
	st, _ := g.sendSteps(put.withNewResults(), step{nfs4.OpDelegReturn, &nfs4.StateIDArgs{StateID: id}, newStatusRes()})
	return st
}

// openDelegated opens a file for reading, and requires a delegation.
func (g *testServer) openDelegated(name string) (nfs4.OpenDelegation, step) {
	g.t.Helper()
	opened, put := g.openFile(name, nfs4.ShareRead, 0)
	require.Equal(g.t, nfs4.DelegateRead, opened.Delegation.Type)
	return opened.Delegation, put
}

// TestDelegation checks what comes with a delegation, and what its stateid is good
// for (R8881-10.4-1).
//
// R8881-10.4-4, R8881-10.4-6, R8881-18.16.3-18, R8881-18.6.3-1.
func TestDelegation(t *testing.T) {
	g, _ := newDelegServer(t)
	g.makeFileStep("f")
	opened, put := g.openFile("f", nfs4.ShareRead, 0)
	d := opened.Delegation
	require.Equal(t, nfs4.DelegateRead, d.Type)
	assert.False(t, d.Recall)
	assert.Equal(t, nfs4.ACE{Who: []byte{}}, d.Permissions)
	assert.NotEqual(t, opened.StateID.Other, d.StateID.Other)
	assert.EqualValues(t, 1, d.StateID.SeqID)
	st, _ := g.sendSteps(put, step{nfs4.OpClose, &nfs4.CloseArgs{StateID: opened.StateID}, new(nfs4.StateIDRes)})
	require.Equal(t, nfs4.OK, st)
	var read nfs4.ReadRes
	st, _ = g.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: d.StateID, Count: 100}, &read})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "hello", string(read.Data))
	st, _ = g.sendSteps(put, step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: d.StateID, Data: []byte("x")}, new(nfs4.WriteRes)})
	assert.Equal(t, nfs4.ErrOpenMode, st)

	// By the delegation the client opens again.
	var again nfs4.OpenRes
	claim := nfs4.OpenArgs{ShareAccess: nfs4.ShareRead, Owner: nfs4.StateOwner{Owner: []byte("p")}, How: nfs4.NoCreate, Claim: nfs4.ClaimDelegCurFH, StateID: d.StateID}
	st, _ = g.sendSteps(put, step{nfs4.OpOpen, &claim, &again})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.DelegateNone, again.Delegation.Type)
	claim.Claim, claim.Name = nfs4.ClaimDelegateCur, []byte("f")
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, &claim, &again})
	require.Equal(t, nfs4.OK, st)
	g.makeFileStep("g")
	claim.Name = []byte("g")
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, &claim, &again})
	assert.Equal(t, nfs4.ErrBadStateID, st, "the delegation is of another file")
	claim.Name, claim.StateID = []byte("f"), again.StateID
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpOpen, &claim, &again})
	assert.Equal(t, nfs4.ErrBadStateID, st, "the stateid is of an open")

	_, other := g.openFile("g", nfs4.ShareRead, 0)
	assert.Equal(t, nfs4.ErrBadStateID, g.returnDelegation(other, d.StateID))
	assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
	assert.Equal(t, nfs4.ErrBadStateID, g.returnDelegation(put, d.StateID))
	assert.Equal(t, 1, g.s.exports.Holders().Len(), "that of g")
}

// TestNoDelegation checks who gets none, and the reason that the client gets.
//
// R8167-3.2-1.
func TestNoDelegation(t *testing.T) {
	g, _ := newDelegServer(t)
	g.makeFileStep("f")
	for _, tt := range []struct {
		access uint32
		want   nfs4.OpenDelegation
	}{
		{nfs4.ShareRead | nfs4.WantNoDeleg, nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: nfs4.WhyNotWanted}},
		{nfs4.ShareRead | nfs4.WantCancel, nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: nfs4.WhyCancelled}},
		{nfs4.ShareBoth | nfs4.WantReadDeleg, nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: nfs4.WhyResource}},
		{nfs4.ShareBoth, nfs4.OpenDelegation{}},
		{nfs4.ShareRead | nfs4.WantReadDeleg, nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, Why: nfs4.WhyContention}},
	} {
		opened, _ := g.openFile("f", tt.access, 0)
		assert.Equal(t, tt.want, opened.Delegation, "share_access %#x", tt.access)
	}
	deaf := *g
	deaf.peer, deaf.flags = &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.9:700"), Network: "tcp"}, 0
	deaf.connectAs("deaf")
	g.makeFileStep("h")
	opened, _ := deaf.openFile("h", nfs4.ShareRead, 0)
	assert.Equal(t, nfs4.DelegateNone, opened.Delegation.Type)
	assert.Zero(t, g.s.exports.Holders().Len())
}

// TestRecall checks that each change by another client recalls the delegation, once,
// and continues as soon as the client has returned it.
//
// R8267-6.5.2-2, R8267-6.5.2-3, R8881-10.2-3, R8881-10.4-2, R8881-10.4.1-1,
// R8881-10.4.4-1, R8881-18.16.4-5, R8881-18.25.4-2, R8881-18.26.4-1, R8881-18.32.4-3,
// R8881-18.9.4-1, R8881-2.10.6.3-1, R8881-20.2.3-1, R8881-20.9.3-6, R8881-8.2.2-4.
//
// R7530-10.4.4-1.
func TestRecall(t *testing.T) {
	remove := step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)}
	rename := step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("f"), New: []byte("other")}, new(nfs4.RenameRes)}
	over := step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("g"), New: []byte("f")}, new(nfs4.RenameRes)}
	link := step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte("second")}, new(nfs4.ChangeRes)}
	save := step{nfs4.OpSaveFH, &void, newStatusRes()}
	chmod := nfs4.SetAttrArgs{}
	chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
	for name, change := range map[string]func(g *testServer, put step) []step{
		"WRITE": func(_ *testServer, put step) []step {
			return []step{put, {nfs4.OpWrite, &nfs4.WriteArgs{StateID: nfs4.AnonymousStateID, Data: []byte("x")}, new(nfs4.WriteRes)}}
		},
		"SETATTR": func(_ *testServer, put step) []step {
			return []step{put, {nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)}}
		},
		"REMOVE":      func(*testServer, step) []step { return []step{putRootStep(), lookupStep("x"), remove} },
		"RENAME":      func(*testServer, step) []step { return []step{putRootStep(), lookupStep("x"), save, rename} },
		"RENAME over": func(*testServer, step) []step { return []step{putRootStep(), lookupStep("x"), save, over} },
		"LINK":        func(_ *testServer, put step) []step { return []step{put, save, putRootStep(), lookupStep("x"), link} },
		"OPEN to write": func(*testServer, step) []step {
			a := nfs4.OpenArgs{ShareAccess: nfs4.ShareWrite, Owner: nfs4.StateOwner{Owner: []byte("w")}, How: nfs4.NoCreate, Claim: nfs4.ClaimNull, Name: []byte("f")}
			return []step{putRootStep(), lookupStep("x"), {nfs4.OpOpen, &a, new(nfs4.OpenRes)}}
		},
		"OPEN that denies reading": func(g *testServer, _ step) []step {
			a := nfs4.OpenArgs{ShareAccess: nfs4.ShareRead, ShareDeny: nfs4.ShareRead, Owner: nfs4.StateOwner{Owner: []byte("w")}, How: nfs4.NoCreate, Claim: nfs4.ClaimNull, Name: []byte("f")}
			return []step{putRootStep(), lookupStep("x"), {nfs4.OpOpen, &a, new(nfs4.OpenRes)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := newDelegServer(t)
				put := g.makeFileStep("f")
				g.makeFileStep("g")
				opened, _ := g.openFile("f", nfs4.ShareRead, 0)
				d := opened.Delegation
				require.Equal(t, nfs4.DelegateRead, d.Type)
				st, _ := g.sendSteps(put, step{nfs4.OpClose, &nfs4.CloseArgs{StateID: opened.StateID}, new(nfs4.StateIDRes)})
				require.Equal(t, nfs4.OK, st)
				granted := g.seq - 1
				back.recalled = func(a *nfs4.CBRecallArgs, seq nfs4.CBSequenceArgs) {
					assert.Equal(t, nfs4.StateID{Other: d.StateID.Other}, a.StateID)
					assert.Equal(t, put.args.(*nfs4.HandleArgs).Object, a.Object)
					assert.Equal(t, []nfs4.ReferringCalls{{Session: g.session, Calls: []nfs4.ReferringCall{{Sequence: granted}}}}, seq.Referring)
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
				}
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				start := time.Now()
				st, _ = o.sendSteps(change(o, put)...)
				assert.Equal(t, nfs4.OK, st)
				assert.Equal(t, 300*time.Millisecond, time.Since(start))
				assert.Equal(t, 1, back.callCount())
				assert.Zero(t, g.s.exports.Holders().Len())
			})
		})
	}
}

// TestOwnChange checks that a client's own change leaves its delegation alone on an
// exclusive export.
//
// R8881-10.4.1-1, R8881-8.2.5-2.
//
// R7530-9.1.4.5-2.
func TestOwnChange(t *testing.T) {
	g, back := newDelegServer(t)
	put := g.makeFileStep("f")
	d, _ := g.openDelegated("f")
	chmod := nfs4.SetAttrArgs{}
	chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
	st, _ := g.sendSteps(put, step{nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)})
	assert.Equal(t, nfs4.OK, st)
	assert.Zero(t, back.callCount())
	assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
}

// TestRecallUnanswered checks that a client that does not return a delegation loses
// it after a lease, whatever it answers, and that changes are deferred until then
// and no longer.
//
// R8881-10.2-3, R8881-10.2-5, R8881-10.4.5-1, R8881-20.2.4-2.
//
// R7530-10.4.6-1.
func TestRecallUnanswered(t *testing.T) {
	gone := errors.New("connection reset")
	for name, answer := range map[string]func(n int) (seq, op nfs4.Status, err error){
		"taken":              nil,
		"no path":            func(int) (seq, op nfs4.Status, err error) { return 0, 0, gone },
		"busy":               func(int) (seq, op nfs4.Status, err error) { return 0, nfs4.ErrDelay, nil },
		"slot is busy":       func(int) (seq, op nfs4.Status, err error) { return nfs4.ErrDelay, 0, nil },
		"unknown delegation": func(int) (seq, op nfs4.Status, err error) { return 0, nfs4.ErrBadStateID, nil },
		"misordered":         func(int) (seq, op nfs4.Status, err error) { return nfs4.ErrSeqMisordered, 0, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := newDelegServer(t)
				put := g.makeFileStep("f")
				d, _ := g.openDelegated("f")
				back.answer = answer
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				start := time.Now()
				tries := 0
				for {
					st, _ := o.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
					if st == nfs4.OK {
						break
					}
					require.Equal(t, nfs4.ErrDelay, st)
					tries++
					time.Sleep(time.Second)
					st, _ = g.sendSteps() // the client is alive
					require.Equal(t, nfs4.OK, st)
				}
				assert.InDelta(t, recallLease.Seconds(), time.Since(start).Seconds(), 2)
				assert.InDelta(t, 20, tries, 2)
				var seq nfs4.SequenceRes
				g.seq++
				st, _ := g.sendRaw(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq}, &seq})
				require.Equal(t, nfs4.OK, st)
				want := nfs4.SeqRecallableStateRevoked
				if name == "misordered" {
					want |= nfs4.SeqBackchannelFault
				}
				assert.Equal(t, want, seq.Flags)
				st, _ = g.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: d.StateID, Count: 1}, new(nfs4.ReadRes)})
				assert.Contains(t, []nfs4.Status{nfs4.ErrStale, nfs4.ErrDelegRevoked}, st)
				st, _ = g.sendSteps(step{nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: d.StateID}, newStatusRes()})
				assert.Equal(t, nfs4.OK, st)
			})
		})
	}
}

// TestRecallRetried checks that a recall is made again over another connection, in
// the same slot with the same sequence ID if its outcome is unknown, that a
// client may ask for time, and that it may not know the delegation yet: neither
// the file (BADHANDLE) nor the stateid.
//
// R8881-2.10.3-1, R8881-20.2.4-2.
//
// R7530-10.4.5-1, R7530-18.2-1.
func TestRecallRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		put := g.makeFileStep("f")
		d, _ := g.openDelegated("f")
		gone := errors.New("connection reset")
		answers := []struct {
			seq, op nfs4.Status
			err     error
		}{{err: gone}, {seq: nfs4.ErrDelay}, {op: nfs4.ErrDelay}, {op: nfs4.ErrBadHandle}, {op: nfs4.ErrBadStateID}, {}}
		back.answer = func(n int) (seq, op nfs4.Status, err error) { return answers[n].seq, answers[n].op, answers[n].err }
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
		}
		second := *g
		second.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:701"), Network: "tcp", Reverse: back}
		var bound nfs4.BindConnRes
		st, _ := second.sendRaw(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindForeOrBoth}, &bound})
		require.Equal(t, nfs4.OK, st)
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		st, _ = o.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, len(answers), back.callCount())
	})
}

// TestRecallMany checks that a client is notified about all of its delegations even if it does
// not return one of them.
//
// R8881-10.2-6.
func TestRecallMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		const files = 400
		var mu sync.Mutex
		puts := make(map[string]step)
		for i := range files {
			g.makeFileStep(string(rune('a'+i%26)) + string(rune('a'+i/26)))
		}
		for i := range files {
			d, put := g.openDelegated(string(rune('a'+i%26)) + string(rune('a'+i/26)))
			puts[string(d.StateID.Other[:])] = put
		}
		kept := false
		back.recalled = func(a *nfs4.CBRecallArgs, _ nfs4.CBSequenceArgs) {
			mu.Lock()
			defer mu.Unlock()
			if !kept {
				kept = true
				return
			}
			assert.Equal(t, nfs4.OK, g.returnDelegation(puts[string(a.StateID.Other[:])], a.StateID))
		}
		assert.Equal(t, files, g.s.exports.Holders().Len())
		g.s.exports.Holders().RecallAll()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, files, back.callCount())
		assert.Equal(t, 1, g.s.exports.Holders().Len())
		time.Sleep(recallLease)
		synctest.Wait()
		assert.Zero(t, g.s.exports.Holders().Len())
	})
}

// TestReclaimDelegation: after a restart a client reclaims its delegation, and opens
// by it before it has reclaimed all (R8881-10.2.1-2, R8881-10.2.1-4). Until then no
// other client changes anything, by any version. On a directory that processes of the
// host may change, the delegation is recalled at once.
//
// R7530-10.2.1-2, R7530-10.2.1-3.
func TestReclaimDelegation(t *testing.T) {
	vfstest.NeedRoot(t)
	for _, name := range []string{"exclusive", "shared"} {
		t.Run(name, func(t *testing.T) {
			host := t.TempDir()
			fs, err := posix.Open(host, posix.Options{StateDir: t.TempDir()})
			require.NoError(t, err)
			defer fs.Close()
			g, _ := newDelegServerFor(t, fs, name == "exclusive")
			state := t.TempDir()
			g.restartServer(state, 8)
			g.newCallableClient("client", "192.0.2.1:700")
			put := g.makeFileStep("f")
			fh := put.args.(*nfs4.HandleArgs).Object
			g.openDelegated("f")

			g.restartServer(state, 9)
			g.noReclaims = true
			back := g.newCallableClient("client", "192.0.2.1:700")
			g.noReclaims = false
			o, _ := g.newClientAt("other", "192.0.2.2:700")
			chmod := nfs4.SetAttrArgs{}
			chmod.Attrs.Mask, chmod.Attrs.Mode = nfs4.BitmapOf(nfs4.AttrMode), 0o600
			change := func() nfs4.Status {
				st, _ := o.sendSteps(put, step{nfs4.OpSetAttr, &chmod, new(nfs4.SetAttrRes)})
				return st
			}
			assert.Equal(t, nfs4.ErrDelay, change())
			a := nfs4.OpenArgs{ShareAccess: nfs4.ShareWrite, Owner: nfs4.StateOwner{Owner: []byte("w")}, How: nfs4.NoCreate, Claim: nfs4.ClaimFH}
			st, _ := o.sendSteps(put, step{nfs4.OpOpen, &a, new(nfs4.OpenRes)})
			assert.Equal(t, nfs4.ErrGrace, st)
			a.ShareAccess = nfs4.ShareRead
			st, _ = o.sendSteps(put, step{nfs4.OpOpen, &a, new(nfs4.OpenRes)})
			assert.Equal(t, nfs4.OK, st)

			opened, st := g.reclaimOpen(fh, nfs4.ShareRead, 0, nfs4.DelegateRead)
			require.Equal(t, nfs4.OK, st)
			d := opened.Delegation
			require.Equal(t, nfs4.DelegateRead, d.Type)
			assert.Equal(t, name == "shared", d.Recall)
			assert.Equal(t, d.Recall, g.s.state.Counts().Recalled == 1)
			g.s.callbacks.goroutines.Wait()
			assert.Zero(t, back.callCount(), "the results tell of the recall")
			claim := nfs4.OpenArgs{ShareAccess: nfs4.ShareRead, Owner: nfs4.StateOwner{Owner: []byte("p")}, How: nfs4.NoCreate, Claim: nfs4.ClaimDelegCurFH, StateID: d.StateID}
			st, _ = g.sendSteps(put, step{nfs4.OpOpen, &claim, new(nfs4.OpenRes)})
			assert.Equal(t, nfs4.OK, st)
			assert.Equal(t, nfs4.ErrDelay, change())
			st, _ = g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
			require.Equal(t, nfs4.OK, st)
			back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
				assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
			}
			if d.Recall {
				assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
			}
			assert.Equal(t, nfs4.OK, change())
		})
	}
}

// TestRevokedOpens checks that opens outlast a delegation's revocation (R8881-10.4.6-1), and
// that when its session ends, another session carries the recall (R8881-18.37.3-5).
func TestRevokedOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		put := g.makeFileStep("f")
		opened, _ := g.openFile("f", nfs4.ShareRead, 0)
		gone := errors.New("connection reset")
		back.answer = func(int) (seq, op nfs4.Status, err error) { return 0, 0, gone }
		g.s.exports.Holders().RecallAll()
		for range 5 {
			time.Sleep(recallLease / 4)
			synctest.Wait()
			st, _ := g.sendSteps()
			require.Equal(t, nfs4.OK, st)
		}
		assert.NotZero(t, back.callCount())
		assert.Zero(t, g.s.exports.Holders().Len())
		var read nfs4.ReadRes
		st, _ := g.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: opened.StateID, Count: 100}, &read})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, nfs4.ErrDelegRevoked, g.returnDelegation(put, opened.Delegation.StateID))

		// Another file, whose recall is in flight when its session ends.
		second := g.makeFileStep("g")
		d, _ := g.openDelegated("g")
		old := g.session
		g.s.exports.Holders().RecallAll()
		time.Sleep(time.Second)
		synctest.Wait()
		back.answer = nil
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, g.returnDelegation(second, d.StateID))
		}
		clear(back.sequence)
		g.noReclaims = true
		g.sessionAs("client")
		st, _ = g.sendRaw(step{nfs4.OpDestroySession, &nfs4.SessionArgs{Session: old}, newStatusRes()})
		require.Equal(t, nfs4.OK, st)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Zero(t, g.s.exports.Holders().Len())
	})
}

// TestCallback checks what callbacks look like: the program, the credential, and the
// minor version that the client has chosen, none without a credential that it offers
// (R8881-18.36.3-8, R8881-2.10.8.2-1), and a lease that their replies renew
// (R8881-20.9.3-5).
func TestCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		put := g.makeFileStep("f")
		d, _ := g.openDelegated("f")
		require.NotZero(t, d)
		time.Sleep(recallLease - time.Second)
		synctest.Wait()
		g.s.exports.Holders().RecallAll()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1, back.callCount())
		assert.EqualValues(t, 0x40000000, back.lastCall().Prog)
		assert.EqualValues(t, nfs4.CBVersion, back.lastCall().Vers)
		assert.EqualValues(t, nfs4.CBProcCompound, back.lastCall().Proc)
		assert.Equal(t, rpcmsg.AuthNone, back.lastCall().Cred.Flavor)
		list, _ := g.s.state.Clients(1)
		assert.Less(t, list[0].Silent, 3*time.Second)
		assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))

		g.makeFileStep("g")
		st, _ := g.sendSteps(step{nfs4.OpBackchannelCtl, &nfs4.BackchannelCtlArgs{CBProgram: 5}, newStatusRes()})
		require.Equal(t, nfs4.OK, st)
		opened, _ := g.openFile("g", nfs4.ShareRead, 0)
		assert.NotEqual(t, nfs4.DelegateRead, opened.Delegation.Type, "no credential is offered")
		st, _ = g.sendSteps(step{nfs4.OpBackchannelCtl, &nfs4.BackchannelCtlArgs{CBProgram: 5, SecParms: nfs4.SecParms{Sys: true, UID: 3, GID: 4}}, newStatusRes()})
		require.Equal(t, nfs4.OK, st)
		g.openDelegated("g")
		g.s.exports.Holders().RecallAll()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.EqualValues(t, 5, back.lastCall().Prog)
		assert.Equal(t, []uint32{rpcmsg.AuthSys, 3, 4}, []uint32{back.lastCall().Cred.Flavor, back.lastCall().Cred.UID, back.lastCall().Cred.GID})
	})
}

// TestDelegationShared checks that several clients have delegations of a file, and that a
// change recalls all of them.
//
// R8881-10.4-1.
func TestDelegationShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		put := g.makeFileStep("f")
		o, otherBack := g.newClientAt("other", "192.0.2.2:700")
		d, _ := g.openDelegated("f")
		e, _ := o.openDelegated("f")
		back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, g.returnDelegation(put, d.StateID))
		}
		otherBack.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
			assert.Equal(t, nfs4.OK, o.returnDelegation(put, e.StateID))
		}
		third, _ := g.newClientAt("third", "192.0.2.3:700")
		st, _ := third.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, 1, back.callCount())
		assert.Equal(t, 1, otherBack.callCount())
	})
}

// TestRecallAny checks that a client that has reached its delegation limit is asked to keep
// half of them (R8881-20.6.3-2).
func TestRecallAny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		for _, name := range []string{"a", "b", "c", "d"} {
			g.makeFileStep(name)
			g.openDelegated(name)
		}
		asked := make(chan nfs4.CBRecallAnyArgs, 1)
		back.any = func(a nfs4.CBRecallAnyArgs) { asked <- a }
		session := g.s.state.Session(g.session)
		g.s.sendRecallAny(session)
		g.s.sendRecallAny(session)
		a := <-asked
		assert.EqualValues(t, 2, a.Keep)
		assert.Equal(t, nfs4.RecallAnyRead, a.Types.Words[0])
		time.Sleep(recallLease / 2)
		assert.Empty(t, asked)
		assert.Equal(t, 4, g.s.exports.Holders().Len(), "the client chooses")
	})
}

// TestRecallDoubtful checks that a dead connection does not delay each recall: 400 of them use
// the connection that works. The connections' order is random, and some orders are rare, so
// fewer recalls could be quick by chance.
func TestRecallDoubtful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		const files = 400
		var mu sync.Mutex
		puts := make(map[string]step)
		for i := range files {
			name := "f" + strconv.Itoa(i)
			g.makeFileStep(name)
			d, put := g.openDelegated(name)
			puts[string(d.StateID.Other[:])] = put
		}
		back.recalled = func(a *nfs4.CBRecallArgs, _ nfs4.CBSequenceArgs) {
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, nfs4.OK, g.returnDelegation(puts[string(a.StateID.Other[:])], a.StateID))
		}
		dead := *g
		dead.peer = &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:701"), Network: "tcp", Reverse: fakeDeadPeer{}}
		var bound nfs4.BindConnRes
		st, _ := dead.sendRaw(step{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: g.session, Dir: nfs4.BindForeOrBoth}, &bound})
		require.Equal(t, nfs4.OK, st)
		start := time.Now()
		g.s.exports.Holders().RecallAll()
		for g.s.exports.Holders().Len() > 0 {
			require.Less(t, time.Since(start), callbackTimeout+2*time.Second)
			time.Sleep(time.Second)
		}
	})
}

// fakeDeadPeer is the client's end of a dead connection.
type fakeDeadPeer struct{}

func (fakeDeadPeer) Call(ctx context.Context, _ *oncrpc.Exchange) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
