package nfs4state

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// callable makes a client that can be called back.
func (w *world) callable(owner string) *Session {
	w.t.Helper()
	id, sequence, _ := w.exchange(exchange(owner, 1, 0))
	a := create(id, sequence, 0)
	a.Flags, a.Conn, a.Back = nfs4.SessionConnBackChan, owner, nfs4.ChannelAttrs{MaxRequests: 2}
	a.SecParms.None = true
	s := w.create(a)
	want(w.t, "RECLAIM_COMPLETE", w.ReclaimComplete(s), nfs4.OK)
	return s
}

// A fakeContext has some time left.
type fakeContext time.Duration

func (c *fakeContext) Left() time.Duration { return time.Duration(*c) }

// TestBackContexts checks which of a client's contexts is used for callbacks, how many it
// can have, and by which flags the client learns of their end
// (R8881-2.10.13.2.5-1).
//
// R8881-2.10.8.2-1, R8881-18.33.3-1.
func TestBackContexts(t *testing.T) {
	w := newWorld(t)
	lasting := func(left time.Duration) BackContext { return (*fakeContext)(&left) }
	id, sequence, _ := w.exchange(exchange("c", 1, 0))
	a := create(id, sequence, 0)
	a.Flags, a.Conn = nfs4.SessionConnBackChan, "conn"
	first := lasting(testLease + 1)
	a.Contexts = []BackContext{lasting(-1), first, lasting(0)}
	s := w.create(a)
	by := func() BackContext {
		paths := w.BackPaths(id)
		if len(paths) == 0 {
			return nil
		}
		return paths[0].Context
	}
	set := func(c BackContext, left time.Duration) { *c.(*fakeContext) = fakeContext(left) }
	assert.Same(t, first, by())
	want(t, "all is well", w.Flags(s), 0)
	set(first, testLease)
	want(t, "within a lease", w.Flags(s), nfs4.SeqCBGSSContextsExpiring)
	set(first, 0)
	want(t, "the end", w.Flags(s), nfs4.SeqCBGSSContextsExpired)
	assert.Nil(t, by())
	assert.False(t, w.MayCallBack(s))
	var all []BackContext
	for range maxContexts + 1 {
		all = append(all, lasting(2*testLease))
	}
	s.SetCallback(5, nfs4.SecParms{}, all[:1])
	assert.Same(t, all[0], by())
	assert.True(t, w.MayCallBack(s))
	assert.Len(t, s.Contexts(), 1, "those that have ended")
	for _, c := range all[1:] {
		s.SetCallback(5, nfs4.SecParms{}, []BackContext{c})
	}
	assert.Equal(t, all[1:], s.Contexts())
	set(all[9], 3*testLease)
	s.SetCallback(5, nfs4.SecParms{None: true}, nil)
	assert.Same(t, all[9], by(), "that with the most time left")
}

// delegate grants a delegation, which must succeed.
func (w *world) delegate(s *Session, key string, file any) *Delegation {
	w.t.Helper()
	d, status := w.Delegate(s, &Delegate{Key: key, Handle: "fh " + key}, file)
	want(w.t, "a delegation", status, nfs4.OK)
	return d
}

// TestDelegate checks who gets a delegation, how its stateid reads, and that it
// outlasts the opens of its object.
func TestDelegate(t *testing.T) {
	w := newWorld(t)
	s, deaf := w.callable("a"), w.client("deaf")
	_, id := w.open(s, "o", "x", nfs4.ShareRead, 0, "open")
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(s, "y", false), "nobody has it open")
	assert.Equal(t, nfs4.OK, w.MayDelegate(s, "x", false))
	w.open(deaf, "o", "x", nfs4.ShareRead, 0, "other")
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(deaf, "x", false), "the client cannot be called")
	d := w.delegate(s, "x", "delegated")
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
	assert.Zero(t, w.releases("delegated"))
	want(t, "DELEGRETURN", w.ReturnDelegation(s, &did), nfs4.OK)
	assert.Equal(t, 1, w.releases("delegated"))
	assert.False(t, w.Outstanding(d))
	want(t, "DELEGRETURN again", w.ReturnDelegation(s, &did), nfs4.ErrBadStateID)

	w.open(s, "o", "w", nfs4.ShareBoth, 0, nil)
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(s, "w", false), "it is open for writing")
	_, status = w.Delegate(s, &Delegate{Key: "w"}, "refused")
	want(t, "a delegation of a file open for writing", status, nfs4.ErrShareDenied)
	assert.Equal(t, 1, w.releases("refused"))
	w.open(s, "o", "d", nfs4.ShareRead, nfs4.ShareRead, nil)
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(s, "d", false), "others are denied to read")
	s.Unbind("a")
	w.open(s, "o", "z", nfs4.ShareRead, 0, nil)
	assert.NotEqual(t, nfs4.OK, w.MayDelegate(s, "z", false), "the backchannel is gone")
}

// TestRevokeDelegation checks that a delegation that is not returned is revoked,
// and that the client finds out and frees it.
//
// R8881-10.4.5-1, R8881-18.6.3-1.
func TestRevokeDelegation(t *testing.T) {
	w := newWorld(t)
	s := w.callable("a")
	w.open(s, "o", "x", nfs4.ShareRead, 0, "open")
	d := w.delegate(s, "x", "delegated")
	id := d.StateID()
	assert.Equal(t, testLease, w.Recall(d))
	w.sleep(testLease / 2)
	w.call(s)
	assert.Equal(t, testLease/2, w.Recall(d), "the time runs on")
	assert.Zero(t, w.Flags(s))
	w.RevokeDelegation(d)
	assert.Equal(t, 1, w.releases("delegated"))
	assert.Equal(t, nfs4.SeqRecallableStateRevoked, w.Flags(s))
	want(t, "TEST_STATEID", w.TestStateID(s, &id), nfs4.ErrDelegRevoked)
	want(t, "DELEGRETURN", w.ReturnDelegation(s, &id), nfs4.ErrDelegRevoked)
	_, status := w.Open(s, &id)
	want(t, "READ", status, nfs4.ErrDelegRevoked)
	want(t, "FREE_STATEID", w.FreeStateID(s, &id), nfs4.OK)
	assert.Zero(t, w.Flags(s))
	assert.Zero(t, w.Recall(d))
	w.RevokeDelegation(d)
	assert.Equal(t, 1, w.releases("delegated"))

	// The export goes.
	d = w.delegate(s, "x", "again")
	id = d.StateID()
	w.Revoke(func(file any) bool { return file == "again" })
	assert.Equal(t, nfs4.SeqAdminStateRevoked, w.Flags(s))
	want(t, "TEST_STATEID", w.TestStateID(s, &id), nfs4.ErrAdminRevoked)
	assert.Equal(t, 1, w.releases("again"))
}

// TestRecallSilent checks that the recall from a client whose lease has expired
// ends that client.
//
// R7530-9.6.3.1-3.
func TestRecallSilent(t *testing.T) {
	w := newWorld(t)
	s := w.callable("a")
	w.open(s, "o", "x", nfs4.ShareRead, 0, "open")
	d := w.delegate(s, "x", "delegated")
	w.sleep(testLease + 1)
	assert.Zero(t, w.Recall(d))
	assert.Equal(t, 1, w.releases("delegated"))
	assert.True(t, s.Ended())
}

// TestDelegationsOfClient checks that a client with a delegation has state, and
// that its end releases the delegation.
func TestDelegationsOfClient(t *testing.T) {
	w := newWorld(t)
	s := w.callable("a")
	_, id := w.open(s, "o", "x", nfs4.ShareRead, 0, "open")
	w.delegate(s, "x", "delegated")
	want(t, "CLOSE", w.Close(s, &id), nfs4.OK)
	want(t, "DESTROY_SESSION", w.DestroySession(s.ID, nil), nfs4.OK)
	want(t, "DESTROY_CLIENTID", w.DestroyClientID(s.ClientID()), nfs4.ErrClientIDBusy)
	want(t, "--expire", w.Expire(s.ClientID()), nfs4.OK)
	assert.Equal(t, 1, w.releases("delegated"))
	w.empty()
}

// TestBackSlots checks that the sequence ID of a back slot advances exactly if the
// client has used it.
//
// R8881-2.10.3-1, R8881-20.9.3-4.
func TestBackSlots(t *testing.T) {
	w := newWorld(t)
	s := w.callable("a")
	a, err := s.TakeBack(t.Context())
	require.NoError(t, err)
	b, err := s.TakeBack(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []BackSlot{{0, 1, 1}, {1, 1, 1}}, []BackSlot{a, b})
	s.GiveBack(b, false, 0)
	b, err = s.TakeBack(t.Context())
	require.NoError(t, err)
	assert.Equal(t, BackSlot{1, 1, 1}, b)
	s.GiveBack(b, true, 1)
	b, err = s.TakeBack(t.Context())
	require.NoError(t, err)
	assert.Equal(t, BackSlot{1, 2, 1}, b)

	// The client has a slot less for a while.
	s.GiveBack(a, true, 0)
	a, err = s.TakeBack(t.Context())
	require.NoError(t, err)
	assert.Equal(t, BackSlot{0, 2, 1}, a)
	s.GiveBack(b, false, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.TakeBack(ended)
	assert.Error(t, err)
	s.GiveBack(a, true, 1)
	a, err = s.TakeBack(t.Context())
	require.NoError(t, err)
	b, err = s.TakeBack(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, []BackSlot{{0, 3, 1}, {1, 2, 1}}, []BackSlot{a, b})

	w.open(s, "o", "x", nfs4.ShareRead, 0, "open")
	d := w.delegate(s, "x", "delegated")
	paths := w.BackPaths(d.ClientID())
	require.Len(t, paths, 1)
	assert.Equal(t, "a", paths[0].Conn)
	s.BackFault()
	assert.Empty(t, w.BackPaths(d.ClientID()))
	assert.Equal(t, nfs4.SeqBackchannelFault, w.Flags(s))
}

// TestDelegateUnrecorded checks that a client whose record cannot be written, because
// the disk is full, gets no delegation, and holds up no change: after a crash nobody
// would wait for that client. It gets one when the disk has room again.
func TestDelegateUnrecorded(t *testing.T) {
	g := newSaga(t)
	s := g.callable("a")
	g.open(s, "o", "x", nfs4.ShareRead, 0, "open")
	g.shelf.failing = true
	_, status := g.Delegate(s, &Delegate{Key: "x"}, "refused")
	want(t, "a delegation without a record", status, nfs4.ErrDelay)
	assert.Equal(t, 1, g.releases("refused"))
	assert.Zero(t, g.Counts().Granted)
	g.shelf.failing = false
	g.sleep(retryEvery)
	d := g.delegate(s, "x", "delegated")
	assert.True(t, g.Outstanding(d))
	g.crash()
	assert.True(t, g.Trusted())
}

// TestReclaimDelegation checks that changes wait after a restart until clients that
// had delegations have reclaimed these, or can no longer, and that only such a
// client may reclaim one.
func TestReclaimDelegation(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(g *saga)
	}{
		{"reclaimed", func(g *saga) {
			s := g.back("a")
			_, status := g.reclaim(s, "x", nfs4.ShareRead, 0)
			want(g.t, "a reclaim of an open", status, nfs4.OK)
			d, status := g.Delegate(s, &Delegate{Key: "x", Reclaim: true}, "again")
			want(g.t, "a reclaim", status, nfs4.OK)
			assert.True(g.t, g.Trusted())
			want(g.t, "RECLAIM_COMPLETE", g.ReclaimComplete(s), nfs4.OK)
			assert.True(g.t, g.Outstanding(d))
		}},
		{"not reclaimed", func(g *saga) { want(g.t, "RECLAIM_COMPLETE", g.ReclaimComplete(g.back("a")), nfs4.OK) }},
		{"never", func(g *saga) { g.sleep(testLease + graceSlack); g.Sweep() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newSaga(t)
			s := g.callable("a")
			g.open(s, "o", "x", nfs4.ShareRead, 0, "open")
			g.delegate(s, "x", "delegated")
			g.open(g.callable("b"), "o", "y", nfs4.ShareRead, 0, "open")
			assert.False(t, g.Trusted())
			g.crash()
			assert.True(t, g.Trusted())
			assert.Equal(t, 1, g.Grace().Reads)
			b := g.back("b")
			id, status := g.reclaim(b, "y", nfs4.ShareRead, 0)
			want(t, "a reclaim of an open", status, nfs4.OK)
			_, status = g.Delegate(b, &Delegate{Key: "y", Reclaim: true}, "none")
			want(t, "a reclaim of a delegation that the client did not have", status, nfs4.ErrReclaimBad)
			want(t, "RECLAIM_COMPLETE", g.ReclaimComplete(b), nfs4.OK)
			assert.True(t, g.Trusted())
			_, _, status = g.Lock(b, &Lock{StateID: id, New: true, Owner: []byte("l"), Key: "y", Range: locks.Range{Start: 0, End: 1}})
			want(t, "LOCK", status, nfs4.ErrGrace)
			assert.NotEqual(t, nfs4.OK, g.MayDelegate(b, "y", false))
			tt.end(g)
			assert.False(t, g.Trusted())
		})
	}
}

// back is the session of a client that has come back after a restart.
func (g *saga) back(owner string) *Session {
	g.t.Helper()
	id, sequence, _ := g.exchange(exchange(owner, 1, 0))
	a := create(id, sequence, 0)
	a.Flags, a.Back = nfs4.SessionConnBackChan, nfs4.ChannelAttrs{MaxRequests: 2}
	a.SecParms.None = true
	return g.create(a)
}

// written waits for the end of a write of the journal, if one runs.
func (g *saga) written() {
	g.ledger.mu.Lock()
	done := g.ledger.writing
	g.ledger.mu.Unlock()
	if done != nil {
		<-done
	}
}

// TestTrustedStored checks that changes wait until the end of the right to reclaim
// delegations is on stable storage.
func TestTrustedStored(t *testing.T) {
	g := newSaga(t)
	s := g.callable("a")
	g.open(s, "o", "x", nfs4.ShareRead, 0, "open")
	g.delegate(s, "x", "delegated")
	g.crash()
	g.shelf.failing = true
	g.sleep(testLease + graceSlack)
	assert.True(t, g.Trusted())
	g.releasing.Wait()
	assert.Zero(t, g.Grace().Clients)
	assert.True(t, g.Trusted())
	g.written()
	g.shelf.failing = false
	g.sleep(2 * retryEvery)
	g.Sweep()
	g.written()
	assert.False(t, g.Trusted())
}

// TestWithheld checks that a revoked delegation keeps changes waiting until the
// journal knows of it.
func TestWithheld(t *testing.T) {
	g := newSaga(t)
	s := g.callable("a")
	g.open(s, "o", "x", nfs4.ShareRead, 0, "open")
	d := g.delegate(s, "x", "delegated")
	g.shelf.failing = true
	g.RevokeDelegation(d)
	g.releasing.Wait()
	assert.Zero(t, g.releases("delegated"))
	g.sleep(2 * retryEvery)
	g.Sweep()
	g.releasing.Wait()
	assert.Zero(t, g.releases("delegated"))
	g.shelf.failing = false
	g.sleep(2 * retryEvery)
	g.Sweep()
	g.releasing.Wait()
	assert.Equal(t, 1, g.releases("delegated"))
	g.crash()
	_, status := g.reclaim(g.back("a"), "x", nfs4.ShareRead, 0)
	want(t, "a reclaim", status, nfs4.ErrNoGrace)
}

// TestWithheldEnded checks that changes wait for the delegations of a client that has
// ended until the journal knows of the end.
func TestWithheldEnded(t *testing.T) {
	g := newSaga(t)
	s := g.callable("a")
	g.open(s, "o", "x", nfs4.ShareRead, 0, "open")
	g.delegate(s, "x", "delegated")
	g.shelf.failing = true
	want(t, "--expire", g.Expire(s.ClientID()), nfs4.ErrDelay)
	g.releasing.Wait()
	assert.Zero(t, g.releases("delegated"))
	g.shelf.failing = false
	g.sleep(2 * retryEvery)
	g.Sweep()
	g.releasing.Wait()
	assert.Equal(t, 1, g.releases("delegated"))
}

// TestWithheldRetired checks that the end of the State releases delegations whose
// revocation cannot be stored.
func TestWithheldRetired(t *testing.T) {
	g := newSaga(t)
	s := g.callable("a")
	for _, key := range []string{"x", "y"} {
		g.open(s, "o", key, nfs4.ShareRead, 0, nil)
	}
	d := g.delegate(s, "x", "x")
	g.delegate(s, "y", "y")
	g.shelf.failing = true
	g.RevokeDelegation(d)
	g.releasing.Wait()
	assert.Zero(t, g.releases("x"))
	g.Retire()
	g.Revoke(func(any) bool { return true })
	g.WaitHost()
	assert.Equal(t, 1, g.releases("x"))
	assert.Equal(t, 1, g.releases("y"))
}

// TestRelieve checks that the client with the most delegations is asked to return
// half, of the party that has no room, and not again within a lease.
func TestRelieve(t *testing.T) {
	w := newWorld(t)
	few, many := w.callable("few"), w.callable("many")
	id, _, _ := w.Relieve(nil)
	assert.Zero(t, id)
	for i, s := range []*Session{few, few, many, many, many, many} {
		key := string(rune('a' + i))
		w.open(s, "o", key, nfs4.ShareRead, 0, nil)
		w.delegate(s, key, nil)
	}
	id, keep, types := w.Relieve(few)
	assert.Equal(t, many.ClientID(), id)
	assert.EqualValues(t, 2, keep)
	assert.Equal(t, nfs4.RecallAnyRead, types)
	id, _, _ = w.Relieve(nil)
	assert.Zero(t, id)
	w.sleep(testLease)
	w.open(many, "o", "w", nfs4.ShareBoth, 0, nil)
	_, status := w.Delegate(many, &Delegate{Key: "w", Write: true}, nil)
	want(t, "a delegation for writing", status, nfs4.OK)
	id, _, types = w.Relieve(nil)
	assert.Equal(t, many.ClientID(), id)
	assert.Equal(t, nfs4.RecallAnyRead|nfs4.RecallAnyWrite, types)
	id, _, _ = w.Relieve(w.clientFrom(9, "elsewhere"))
	assert.Zero(t, id, "its party has no delegations")
}

// TestTrustedUnknown checks that changes wait for a lease if the records of clients
// are lost.
func TestTrustedUnknown(t *testing.T) {
	g := newSaga(t)
	c := g.config
	c.Journal, c.Past = new(shelf), Past{Unknown: true}
	s := New(c)
	assert.True(t, s.Trusted())
	g.sleep(testLease)
	assert.True(t, s.Trusted())
	g.sleep(graceSlack)
	assert.False(t, s.Trusted())
}
