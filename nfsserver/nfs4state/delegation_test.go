package nfs4state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// newCallableClient creates a client that can be called back.
func (w *testState) newCallableClient(owner string) *Session {
	w.t.Helper()
	id, sequence, _ := w.mustExchange(exchangeArgs(owner, 1, 0))
	a := createArgs(id, sequence, 0)
	a.Flags, a.Conn, a.Back = nfs4.SessionConnBackChan, owner, nfs4.ChannelAttrs{MaxRequests: 2}
	a.SecParms.None = true
	s := w.mustCreateSession(a)
	want(w.t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
	return s
}

// A fakeContext is the time until a context expires.
type fakeContext time.Duration

func (c *fakeContext) Left() time.Duration { return time.Duration(*c) }

// TestBackContexts checks which of a client's contexts is used for callbacks, how many it
// can have, and by which flags the client learns of their end
// (R8881-2.10.13.2.5-1).
//
// R8881-2.10.8.2-1, R8881-18.33.3-1.
func TestBackContexts(t *testing.T) {
	w := newTestState(t)
	lasting := func(left time.Duration) BackContext { return (*fakeContext)(&left) }
	id, sequence, _ := w.mustExchange(exchangeArgs("c", 1, 0))
	a := createArgs(id, sequence, 0)
	a.Flags, a.Conn = nfs4.SessionConnBackChan, "conn"
	first := lasting(testLease + 1)
	a.Contexts = []BackContext{lasting(-1), first, lasting(0)}
	s := w.mustCreateSession(a)
	by := func() BackContext {
		paths := w.BackPaths(id)
		if len(paths) == 0 {
			return nil
		}
		return paths[0].Context
	}
	set := func(c BackContext, left time.Duration) { *c.(*fakeContext) = fakeContext(left) }
	assert.Same(t, first, by())
	want(t, "all is well", w.SequenceFlags(s), 0)
	set(first, testLease)
	want(t, "within a lease", w.SequenceFlags(s), nfs4.SeqCBGSSContextsExpiring)
	set(first, 0)
	want(t, "the end", w.SequenceFlags(s), nfs4.SeqCBGSSContextsExpired)
	assert.Nil(t, by())
	assert.False(t, w.MayCallBack(s))
	var all []BackContext
	for range maxContexts + 1 {
		all = append(all, lasting(2*testLease))
	}
	s.SetCallback(5, nfs4.SecParms{}, all[:1])
	assert.Same(t, all[0], by())
	assert.True(t, w.MayCallBack(s))
	assert.Len(t, s.Contexts(), 1, "those that were removed")
	for _, c := range all[1:] {
		s.SetCallback(5, nfs4.SecParms{}, []BackContext{c})
	}
	assert.Equal(t, all[1:], s.Contexts())
	set(all[9], 3*testLease)
	s.SetCallback(5, nfs4.SecParms{None: true}, nil)
	assert.Same(t, all[9], by(), "that with the most time left")
}

// mustDelegate grants a delegation, which must succeed.
func (w *testState) mustDelegate(s *Session, key string, file any) *Delegation {
	w.t.Helper()
	d, status := w.Delegate(s, &Delegate{Key: key, Handle: "fh " + key}, file)
	want(w.t, "a delegation", status, nfs4.OK)
	return d
}

// TestDelegate checks who gets a delegation, how its stateid reads, and that it
// outlasts the opens of its object.
func TestDelegate(t *testing.T) {
	w := newTestState(t)
	s, deaf := w.newCallableClient("a"), w.newTestClient("deaf")
	_, id := w.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(s, "y", false), "nobody has it open")
	assert.Equal(t, nfs4.OK, w.MayDelegate(s, "x", false))
	w.mustOpen(deaf, "o", "x", nfs4.ShareRead, 0, "other")
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(deaf, "x", false), "the client cannot be called")
	d := w.mustDelegate(s, "x", "delegated")
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(s, "x", false), "the client has one")
	assert.Equal(t, "fh x", string(d.Handle()))
	want(t, "CLOSE", w.Close(s, &id), nfs4.OK)

	did := d.StateID()
	o, status := w.Open(s, &did)
	want(t, "the open of the delegation", status, nfs4.OK)
	assert.Equal(t, "delegated", o.File)
	assert.Equal(t, "x", o.Key)
	assert.Equal(t, nfs4.ShareRead, o.Access())
	want(t, "TEST_STATEID", w.TestStateID(s, &did), nfs4.OK)
	want(t, "CLOSE of a delegation", w.Close(s, &did), nfs4.ErrBadStateID)
	_, status = w.Downgrade(s, &did, nfs4.ShareRead, 0)
	want(t, "OPEN_DOWNGRADE of a delegation", status, nfs4.ErrBadStateID)
	want(t, "FREE_STATEID of a delegation", w.FreeStateID(s, &did), nfs4.ErrLocksHeld)
	_, _, status = w.Lock(s, &Lock{StateID: did, New: true, Owner: []byte("l"), Key: "x"})
	want(t, "LOCK by a delegation", status, nfs4.ErrBadStateID)
	want(t, "DELEGRETURN of another client", w.ReturnDelegation(deaf, &did), nfs4.ErrBadStateID)
	want(t, "DELEGRETURN of an open", w.ReturnDelegation(s, &id), nfs4.ErrBadStateID)
	late := did
	late.SeqID = 9
	want(t, "DELEGRETURN of a later seqid", w.ReturnDelegation(s, &late), nfs4.ErrBadStateID)
	assert.Zero(t, w.releaseCount("delegated"))
	want(t, "DELEGRETURN", w.ReturnDelegation(s, &did), nfs4.OK)
	assert.Equal(t, 1, w.releaseCount("delegated"))
	assert.False(t, w.IsOutstanding(d))
	want(t, "DELEGRETURN again", w.ReturnDelegation(s, &did), nfs4.ErrBadStateID)

	w.mustOpen(s, "o", "w", nfs4.ShareBoth, 0, nil)
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(s, "w", false), "it is open for writing")
	_, status = w.Delegate(s, &Delegate{Key: "w"}, "refused")
	want(t, "a delegation of a file open for writing", status, nfs4.ErrShareDenied)
	assert.Equal(t, 1, w.releaseCount("refused"))
	w.mustOpen(s, "o", "d", nfs4.ShareRead, nfs4.ShareRead, nil)
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(s, "d", false), "others are denied to read")
	s.Unbind("a")
	w.mustOpen(s, "o", "z", nfs4.ShareRead, 0, nil)
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(s, "z", false), "the backchannel is gone")
}

// TestRevokeDelegation checks that a delegation that is not returned is revoked,
// and that the client finds out and frees it.
//
// R8881-10.4.5-1, R8881-18.6.3-1.
func TestRevokeDelegation(t *testing.T) {
	w := newTestState(t)
	s := w.newCallableClient("a")
	w.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
	d := w.mustDelegate(s, "x", "delegated")
	id := d.StateID()
	assert.Equal(t, testLease, w.Recall(d))
	w.advanceClock(testLease / 2)
	w.renewByCall(s)
	assert.Equal(t, testLease/2, w.Recall(d), "the time runs on")
	assert.Zero(t, w.SequenceFlags(s))
	w.RevokeDelegation(d)
	assert.Equal(t, 1, w.releaseCount("delegated"))
	assert.Equal(t, nfs4.SeqRecallableStateRevoked, w.SequenceFlags(s))
	want(t, "TEST_STATEID", w.TestStateID(s, &id), nfs4.ErrDelegRevoked)
	want(t, "DELEGRETURN", w.ReturnDelegation(s, &id), nfs4.ErrDelegRevoked)
	_, status := w.Open(s, &id)
	want(t, "READ", status, nfs4.ErrDelegRevoked)
	want(t, "FREE_STATEID", w.FreeStateID(s, &id), nfs4.OK)
	assert.Zero(t, w.SequenceFlags(s))
	assert.Zero(t, w.Recall(d))
	w.RevokeDelegation(d)
	assert.Equal(t, 1, w.releaseCount("delegated"))

	// The export is removed.
	d = w.mustDelegate(s, "x", "again")
	id = d.StateID()
	w.Revoke(func(file any) bool { return file == "again" })
	assert.Equal(t, nfs4.SeqAdminStateRevoked, w.SequenceFlags(s))
	want(t, "TEST_STATEID", w.TestStateID(s, &id), nfs4.ErrAdminRevoked)
	assert.Equal(t, 1, w.releaseCount("again"))
}

// TestRecallSilent checks that the recall from a client whose lease has expired
// ends that client.
//
// R7530-9.6.3.1-3.
func TestRecallSilent(t *testing.T) {
	w := newTestState(t)
	s := w.newCallableClient("a")
	w.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
	d := w.mustDelegate(s, "x", "delegated")
	w.advanceClock(testLease + 1)
	assert.Zero(t, w.Recall(d))
	assert.Equal(t, 1, w.releaseCount("delegated"))
	assert.True(t, s.Ended())
}

// TestDelegationsOfClient checks that a client with a delegation has state, and
// that its end releases the delegation.
func TestDelegationsOfClient(t *testing.T) {
	w := newTestState(t)
	s := w.newCallableClient("a")
	_, id := w.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
	w.mustDelegate(s, "x", "delegated")
	want(t, "CLOSE", w.Close(s, &id), nfs4.OK)
	want(t, "DESTROY_SESSION", w.DestroySession(s.ID, nil), nfs4.OK)
	want(t, "DESTROY_CLIENTID", w.DestroyClientID(s.ClientID()), nfs4.ErrClientIDBusy)
	want(t, "--expire", w.Expire(s.ClientID()), nfs4.OK)
	assert.Equal(t, 1, w.releaseCount("delegated"))
	w.checkEmpty()
}

// TestBackSlots checks that the sequence ID of a back slot advances exactly if the
// client has used it.
//
// R8881-2.10.3-1, R8881-20.9.3-4.
func TestBackSlots(t *testing.T) {
	w := newTestState(t)
	s := w.newCallableClient("a")
	a, err := s.AcquireBackSlot(t.Context())
	require.NoError(t, err)
	b, err := s.AcquireBackSlot(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []BackSlot{{0, 1, 1}, {1, 1, 1}}, []BackSlot{a, b})
	s.ReleaseBackSlot(b, false, 0)
	b, err = s.AcquireBackSlot(t.Context())
	require.NoError(t, err)
	assert.Equal(t, BackSlot{1, 1, 1}, b)
	s.ReleaseBackSlot(b, true, 1)
	b, err = s.AcquireBackSlot(t.Context())
	require.NoError(t, err)
	assert.Equal(t, BackSlot{1, 2, 1}, b)

	// The client has a slot less for a while.
	s.ReleaseBackSlot(a, true, 0)
	a, err = s.AcquireBackSlot(t.Context())
	require.NoError(t, err)
	assert.Equal(t, BackSlot{0, 2, 1}, a)
	s.ReleaseBackSlot(b, false, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.AcquireBackSlot(ended)
	assert.Error(t, err)
	s.ReleaseBackSlot(a, true, 1)
	a, err = s.AcquireBackSlot(t.Context())
	require.NoError(t, err)
	b, err = s.AcquireBackSlot(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, []BackSlot{{0, 3, 1}, {1, 2, 1}}, []BackSlot{a, b})

	w.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
	d := w.mustDelegate(s, "x", "delegated")
	paths := w.BackPaths(d.ClientID())
	require.Len(t, paths, 1)
	assert.Equal(t, "a", paths[0].Conn)
	s.MarkBackFault()
	assert.Empty(t, w.BackPaths(d.ClientID()))
	assert.Equal(t, nfs4.SeqBackchannelFault, w.SequenceFlags(s))
}

// TestDelegateUnrecorded checks that a client whose record cannot be written, because
// the disk is full, gets no delegation, and delays no change: after a crash no other
// client would wait for it. It gets one when the disk has space again.
func TestDelegateUnrecorded(t *testing.T) {
	g := newRestartingState(t)
	s := g.newCallableClient("a")
	g.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
	g.store.failing = true
	_, status := g.Delegate(s, &Delegate{Key: "x"}, "refused")
	want(t, "a delegation without a record", status, nfs4.ErrDelay)
	assert.Equal(t, 1, g.releaseCount("refused"))
	assert.Zero(t, g.Counts().Granted)
	g.store.failing = false
	g.advanceClock(retryEvery)
	d := g.mustDelegate(s, "x", "delegated")
	assert.True(t, g.IsOutstanding(d))
	g.crashState()
	assert.True(t, g.HasEarlierDelegations())
}

// TestReclaimDelegation checks that changes wait after a restart until clients that
// had delegations have reclaimed these, or can no longer, and that only such a
// client may reclaim one.
func TestReclaimDelegation(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(g *restartingState)
	}{
		{"reclaimed", func(g *restartingState) {
			s := g.reconnect("a")
			_, status := g.reclaimOpen(s, "x", nfs4.ShareRead, 0)
			want(g.t, "a reclaim of an open", status, nfs4.OK)
			d, status := g.Delegate(s, &Delegate{Key: "x", Reclaim: true}, "again")
			want(g.t, "a reclaim", status, nfs4.OK)
			assert.True(g.t, g.HasEarlierDelegations())
			want(g.t, "RECLAIM_COMPLETE", g.ReclaimComplete(s), nfs4.OK)
			assert.True(g.t, g.IsOutstanding(d))
		}},
		{"not reclaimed", func(g *restartingState) { want(g.t, "RECLAIM_COMPLETE", g.ReclaimComplete(g.reconnect("a")), nfs4.OK) }},
		{"never", func(g *restartingState) { g.advanceClock(testLease + graceSlack); g.Sweep() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRestartingState(t)
			s := g.newCallableClient("a")
			g.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
			g.mustDelegate(s, "x", "delegated")
			g.mustOpen(g.newCallableClient("b"), "o", "y", nfs4.ShareRead, 0, "open")
			assert.False(t, g.HasEarlierDelegations())
			g.crashState()
			assert.True(t, g.HasEarlierDelegations())
			assert.Equal(t, 1, g.Grace().Reads)
			b := g.reconnect("b")
			id, status := g.reclaimOpen(b, "y", nfs4.ShareRead, 0)
			want(t, "a reclaim of an open", status, nfs4.OK)
			_, status = g.Delegate(b, &Delegate{Key: "y", Reclaim: true}, "none")
			want(t, "a reclaim of a delegation that the client did not have", status, nfs4.ErrReclaimBad)
			want(t, "RECLAIM_COMPLETE", g.ReclaimComplete(b), nfs4.OK)
			assert.True(t, g.HasEarlierDelegations())
			_, _, status = g.Lock(b, &Lock{StateID: id, New: true, Owner: []byte("l"), Key: "y", Range: locks.Range{Start: 0, End: 1}})
			want(t, "LOCK", status, nfs4.ErrGrace)
			assert.NotEqual(t, nfs4.OK, g.MayDelegate(b, "y", false))
			tt.end(g)
			assert.False(t, g.HasEarlierDelegations())
		})
	}
}

// reconnect returns the session of a client that has reconnected after a
// restart.
func (g *restartingState) reconnect(owner string) *Session {
	g.t.Helper()
	id, sequence, _ := g.mustExchange(exchangeArgs(owner, 1, 0))
	a := createArgs(id, sequence, 0)
	a.Flags, a.Back = nfs4.SessionConnBackChan, nfs4.ChannelAttrs{MaxRequests: 2}
	a.SecParms.None = true
	return g.mustCreateSession(a)
}

// awaitWrite waits until a running journal write ends.
func (g *restartingState) awaitWrite() {
	g.ledger.mu.Lock()
	done := g.ledger.writeDone
	g.ledger.mu.Unlock()
	if done != nil {
		<-done
	}
}

// TestTrustedStored checks that changes wait until the end of the right to reclaim
// delegations is on stable storage.
func TestTrustedStored(t *testing.T) {
	g := newRestartingState(t)
	s := g.newCallableClient("a")
	g.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
	g.mustDelegate(s, "x", "delegated")
	g.crashState()
	g.store.failing = true
	g.advanceClock(testLease + graceSlack)
	assert.True(t, g.HasEarlierDelegations())
	g.background.Wait()
	assert.Zero(t, g.Grace().Clients)
	assert.True(t, g.HasEarlierDelegations())
	g.awaitWrite()
	g.store.failing = false
	g.advanceClock(2 * retryEvery)
	g.Sweep()
	g.awaitWrite()
	assert.False(t, g.HasEarlierDelegations())
}

// TestWithheld checks that a revoked delegation keeps changes waiting until the
// journal knows of it.
func TestWithheld(t *testing.T) {
	g := newRestartingState(t)
	s := g.newCallableClient("a")
	g.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
	d := g.mustDelegate(s, "x", "delegated")
	g.store.failing = true
	g.RevokeDelegation(d)
	g.background.Wait()
	assert.Zero(t, g.releaseCount("delegated"))
	g.advanceClock(2 * retryEvery)
	g.Sweep()
	g.background.Wait()
	assert.Zero(t, g.releaseCount("delegated"))
	g.store.failing = false
	g.advanceClock(2 * retryEvery)
	g.Sweep()
	g.background.Wait()
	assert.Equal(t, 1, g.releaseCount("delegated"))
	g.crashState()
	_, status := g.reclaimOpen(g.reconnect("a"), "x", nfs4.ShareRead, 0)
	want(t, "a reclaim", status, nfs4.ErrNoGrace)
}

// TestWithheldEnded checks that changes wait for the delegations of a client that has
// ended until the journal knows of the end.
func TestWithheldEnded(t *testing.T) {
	g := newRestartingState(t)
	s := g.newCallableClient("a")
	g.mustOpen(s, "o", "x", nfs4.ShareRead, 0, "open")
	g.mustDelegate(s, "x", "delegated")
	g.store.failing = true
	want(t, "--expire", g.Expire(s.ClientID()), nfs4.ErrDelay)
	g.background.Wait()
	assert.Zero(t, g.releaseCount("delegated"))
	g.store.failing = false
	g.advanceClock(2 * retryEvery)
	g.Sweep()
	g.background.Wait()
	assert.Equal(t, 1, g.releaseCount("delegated"))
}

// TestWithheldRetired checks that the end of the State releases delegations whose
// revocation cannot be stored.
func TestWithheldRetired(t *testing.T) {
	g := newRestartingState(t)
	s := g.newCallableClient("a")
	for _, key := range []string{"x", "y"} {
		g.mustOpen(s, "o", key, nfs4.ShareRead, 0, nil)
	}
	d := g.mustDelegate(s, "x", "x")
	g.mustDelegate(s, "y", "y")
	g.store.failing = true
	g.RevokeDelegation(d)
	g.background.Wait()
	assert.Zero(t, g.releaseCount("x"))
	g.StopRecording()
	g.Revoke(func(any) bool { return true })
	g.WaitForHostLocks()
	assert.Equal(t, 1, g.releaseCount("x"))
	assert.Equal(t, 1, g.releaseCount("y"))
}

// TestRelieve checks that the client with the most delegations must return half,
// in the group that has reached its limit, and not again within a lease. A client of
// NFSv4.0, which has no CB_RECALL_ANY, is never chosen (R7530-17-3).
func TestRelieve(t *testing.T) {
	w := newTestState(t)
	most := w.newClient40("most")
	defer most.Leave()
	w.CallbackAnswers(most.ClientID(), Callback{}, true)
	for i := range 6 {
		key := fmt.Sprint(i)
		w.mustTurn(most, &Turn{Op: nfs4.OpOpen, Owner: []byte(key)}, func() { w.mustOpen(most, key, key, nfs4.ShareRead, 0, nil) })
		w.confirmOwner(most, key)
		w.mustDelegate(most, key, nil)
	}
	few, many := w.newCallableClient("few"), w.newCallableClient("many")
	id, _, _ := w.ChooseForRecall(nil)
	assert.Zero(t, id)
	for i, s := range []*Session{few, few, many, many, many, many} {
		key := string(rune('a' + i))
		w.mustOpen(s, "o", key, nfs4.ShareRead, 0, nil)
		w.mustDelegate(s, key, nil)
	}
	id, keep, types := w.ChooseForRecall(few)
	assert.Equal(t, many.ClientID(), id)
	assert.EqualValues(t, 2, keep)
	assert.Equal(t, nfs4.RecallAnyRead, types)
	id, _, _ = w.ChooseForRecall(nil)
	assert.Zero(t, id)
	w.advanceClock(testLease)
	w.mustOpen(many, "o", "w", nfs4.ShareBoth, 0, nil)
	_, status := w.Delegate(many, &Delegate{Key: "w", Write: true}, nil)
	want(t, "a write delegation", status, nfs4.OK)
	id, _, types = w.ChooseForRecall(nil)
	assert.Equal(t, many.ClientID(), id)
	assert.Equal(t, nfs4.RecallAnyRead|nfs4.RecallAnyWrite, types)
	id, _, _ = w.ChooseForRecall(w.clientFrom(9, "elsewhere"))
	assert.Zero(t, id, "its party has no delegations")
}

// TestTrustedUnknown checks that changes wait for a lease if the records of clients
// are lost.
func TestTrustedUnknown(t *testing.T) {
	g := newRestartingState(t)
	c := g.config
	c.Journal, c.Past = new(fakeStore), Past{Unknown: true}
	s := New(c)
	assert.True(t, s.HasEarlierDelegations())
	g.advanceClock(testLease)
	assert.True(t, s.HasEarlierDelegations())
	g.advanceClock(graceSlack)
	assert.False(t, s.HasEarlierDelegations())
}
