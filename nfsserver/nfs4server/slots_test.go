package nfs4server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// sequenceStep returns SEQUENCE with a sequence ID that the test chooses.
func (g *testServer) sequenceStep(id uint32, keep bool) step {
	return step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: id, CacheThis: keep}, new(nfs4.SequenceRes)}
}

func mkdirStep(name string) step {
	return step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte(name)}, new(nfs4.CreateRes)}
}

func getFHStep() step { return step{nfs4.OpGetFH, &void, new(nfs4.HandleRes)} }

// statusOfReply returns a COMPOUND's status and the number of its results.
func statusOfReply(t testing.TB, reply []byte) (nfs4.Status, int) {
	t.Helper()
	r := xdr.NewReader(reply)
	var res nfs4.CompoundRes
	res.Decode(&r)
	require.NoError(t, r.Err())
	return res.Status, int(res.N)
}

// TestOrder checks that operations run one after another, and that the results
// end with the first that fails (R8881-2.3-1).
func TestOrder(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	st, n := g.sendSteps(putRootStep(), lookupStep("x"), mkdirStep("before"), putRootStep(), lookupStep("none"), getFHStep(), putRootStep(), lookupStep("x"), mkdirStep("after"))
	assert.Equal(t, nfs4.ErrNoEnt, st)
	assert.Equal(t, 5, n)
	assert.Equal(t, []string{"before"}, g.listNames("x"))
	st, _ = g.sendSteps(putRootStep(), lookupStep("x"), lookupStep("before"))
	assert.Equal(t, nfs4.OK, st, "R8881-2.10.6.1.3-4: a call that fails advances its slot too")
}

// TestProcedures checks that there are two procedures (R8881-2.3-2), that XIDs come back and
// have no other use (R8881-2.10.6.1-5, R8881-2.10.6.1-6).
//
// R8881-16.1-1.
func TestProcedures(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	var mux oncrpc.Mux
	g.s.Register(&mux)
	call := func(xid, proc uint32, steps ...step) []byte {
		t.Helper()
		b := oncrpc.AppendCall(nil, xid, &oncrpc.Exchange{Prog: nfs4.Program, Vers: nfs4.Version, Proc: proc, Cred: g.cred}, "host")
		if proc == nfs4.ProcCompound {
			b = append(b, g.encodeCompound(steps...)...)
		}
		var rep oncrpc.Reply
		require.True(t, mux.Serve(t.Context(), &oncrpc.Request{Msg: b, Peer: g.peer, MaxReply: 8192}, &rep))
		r := xdr.NewReader(rep.Head)
		assert.Equal(t, xid, r.Uint32())
		return rep.Head[4:]
	}
	stat := func(stat uint32) []byte { return rpcmsg.AppendAccepted(nil, 0, stat)[4:] }
	assert.Equal(t, stat(rpcmsg.Success), call(1, 0))
	for _, proc := range []uint32{2, 3, ^uint32(0)} {
		assert.Equal(t, stat(rpcmsg.ProcUnavail), call(2, proc))
	}
	made := call(7, nfs4.ProcCompound, g.sequenceStep(g.seq+1, false), putRootStep(), lookupStep("x"), mkdirStep("d"))
	st, _ := statusOfReply(t, made[rpcmsg.AcceptedLen-4:])
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, made, call(8, nfs4.ProcCompound, g.sequenceStep(g.seq+1, false), putRootStep(), lookupStep("x"), mkdirStep("d")), "a retry with another XID")
	call(7, nfs4.ProcCompound, g.sequenceStep(g.seq+2, false), putRootStep(), lookupStep("x"), mkdirStep("e"))
	g.seq += 2
	assert.ElementsMatch(t, []string{"d", "e"}, g.listNames("x"), "another call with the same XID")
}

// TestUncached checks the retry of a call whose reply was not cached (R8881-2.10.6.1.1-1,
// R8881-2.10.6.1.3-1, R8881-2.10.6.1.3-2), and of one whose second operation is rejected
// (R8881-2.7-3, R8881-2.10.6.1.3-3).
func TestUncached(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	g.seq++
	first, again := g.sequenceStep(g.seq, false), g.sequenceStep(g.seq, false)
	read := step{nfs4.OpRead, &nfs4.ReadArgs{Count: 10}, new(nfs4.ReadRes)}
	st, n := g.sendRaw(first, putStep(fh), read)
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, 3, n)
	st, n = g.sendRaw(again, putStep(fh), read)
	assert.Equal(t, nfs4.ErrRetryUncachedRep, st)
	assert.Equal(t, 2, n, "SEQUENCE succeeds")
	assert.Equal(t, first.res, again.res)
	for _, g.tag = range []string{"tag", strings.Repeat("t", 700)} { // which makes the reply too long to be kept
		for op, want := range map[nfs4.Op]nfs4.Status{
			nfs4.OpRenew: nfs4.ErrNotSupp, nfs4.OpSetClientID: nfs4.ErrNotSupp, 2: nfs4.ErrOpIllegal, nfs4.OpPutRootFH: nfs4.OK,
		} {
			g.seq++
			for range 2 {
				st, n := g.sendRaw(g.sequenceStep(g.seq, false), step{op, &void, newStatusRes()})
				assert.Equal(t, want, st, op)
				assert.Equal(t, 2, n)
				if want == nfs4.OK && len(g.tag) > 512 {
					want = nfs4.ErrRetryUncachedRep
				}
			}
		}
	}
}

// TestCached checks that with sa_cachethis a retry gets the whole reply, data
// included, for a call with any final status (R8881-2.10.6.4-4), also that a
// reply was too long to keep (R8881-2.10.6.4-3).
func TestCached(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	other := *g
	other.connectAs("other")
	read := func(count uint32) step {
		return step{nfs4.OpRead, &nfs4.ReadArgs{Count: count}, new(nfs4.ReadRes)}
	}
	for _, tt := range []struct {
		steps []step
		want  nfs4.Status
		n     int
	}{
		{[]step{putStep(fh), read(10)}, nfs4.OK, 3},
		{[]step{putStep(fh), read(10), lookupStep("name")}, nfs4.ErrNotDir, 4},
		{[]step{putRootStep(), lookupStep("x"), mkdirStep("d"), putStep(fh), read(10), putRootStep(), lookupStep("none")}, nfs4.ErrNoEnt, 8},
	} {
		g.seq++
		message := append([]step{g.sequenceStep(g.seq, true)}, tt.steps...)
		first := g.sendCompound(message...)
		st, n := statusOfReply(t, first)
		assert.Equal(t, tt.want, st)
		assert.Equal(t, tt.n, n)
		res, fh, st := other.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
		require.Equal(t, nfs4.OK, st)
		require.Equal(t, nfs4.OK, other.writeFile(fh, res.StateID, "changed since"+string(first[:1])))
		assert.Equal(t, first, g.sendCompound(message...))
	}

	small := channel
	small.MaxResponseSizeCached = 640
	g.connectWith("small", small)
	all := step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.Known.Without(writeOnlyAttrs)}, new(nfs4.GetAttrRes)}
	message := []step{g.sequenceStep(1, true), putRootStep(), lookupStep("x"), mkdirStep("e"), all, all}
	whole := g.sendCompound(message...)
	st, n := statusOfReply(t, whole)
	assert.Equal(t, nfs4.ErrRepTooBigToCache, st)
	assert.Equal(t, 6, n)
	assert.Equal(t, whole, g.sendCompound(message...), "the directory is made once")
}

// TestTagTooLong checks that SEQUENCE fails, and leaves the slot alone, if the
// tag alone makes the reply longer than the session's limits: the slot would
// keep more than is counted for it (R8881-2.10.6.4-3).
func TestTagTooLong(t *testing.T) {
	g := newTestServer(t).becomeRoot()
	small := channel
	small.MaxResponseSizeCached = 600
	g.connectWith("c", small)
	g.tag = strings.Repeat("t", 1000)
	st, n := g.sendRaw(g.sequenceStep(1, true))
	assert.Equal(t, nfs4.ErrRepTooBigToCache, st)
	assert.Equal(t, 1, n)
	st, _ = g.sendRaw(g.sequenceStep(1, false))
	assert.Equal(t, nfs4.OK, st, "the slot is where it was")

	small.MaxResponseSize = 800
	g.tag = "tag"
	g.connectWith("d", small)
	g.tag = strings.Repeat("t", 1000)
	st, _ = g.sendRaw(g.sequenceStep(1, false))
	assert.Equal(t, nfs4.ErrRepTooBig, st)
}

// slotStep returns SEQUENCE in a slot, which is the highest one in use.
func (g *testServer) slotStep(slot, id uint32) step {
	return step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Slot: slot, Sequence: id, HighestSlotID: slot, CacheThis: true}, new(nfs4.SequenceRes)}
}

// TestLimitsInReplay checks that the reply to a retry has the slot limits of now: Linux would forget
// the sequence IDs of slots above old limits.
//
// R8881-2.10.6.1.1-1.
func TestLimitsInReplay(t *testing.T) {
	g := newTestServer(t).becomeRoot()
	many := channel
	many.MaxRequests = 256
	g.connectWith("c", many)
	limits := func(slot, id uint32, more ...step) [2]uint32 {
		t.Helper()
		seq := g.slotStep(slot, id)
		st, n := g.sendRaw(append([]step{seq}, more...)...)
		require.Equal(t, nfs4.OK, st)
		require.Equal(t, 1+len(more), n)
		res := seq.res.(*nfs4.SequenceRes)
		return [2]uint32{res.HighestSlotID, res.TargetHighestSlotID}
	}
	assert.Equal(t, [2]uint32{63, 63}, limits(0, 1, putRootStep(), lookupStep("x"), mkdirStep("d")))
	assert.Equal(t, [2]uint32{127, 127}, limits(63, 1))
	assert.Equal(t, [2]uint32{127, 127}, limits(0, 1, putRootStep(), lookupStep("x"), mkdirStep("d")), "a retry")
}

// TestRecallSlots checks that a client whose slots others want is sent CB_RECALL_SLOT for each
// session, over a connection of that session, and once, even if it rejects that.
func TestRecallSlots(t *testing.T) {
	for _, status := range []nfs4.Status{nfs4.OK, nfs4.ErrBadHighSlot} {
		synctest.Test(t, func(t *testing.T) {
			g, back := newDelegServer(t)
			other := *g
			other.noReclaims = true
			otherBack := other.newCallableClient("client", "192.0.2.1:701")
			var mu sync.Mutex // sessions are called concurrently
			targets := make(map[*fakeBackchannel][]uint32)
			for _, b := range []*fakeBackchannel{back, otherBack} {
				b.answer = func(int) (nfs4.Status, nfs4.Status, error) { return nfs4.OK, status, nil }
				b.slots = func(a nfs4.CBRecallSlotArgs) {
					mu.Lock()
					defer mu.Unlock()
					targets[b] = append(targets[b], a.TargetHighestSlotID)
				}
			}
			trim := func() {
				g.s.recallSlots()
				synctest.Wait()
				time.Sleep(recallLease)
			}
			trim()
			for client := range 16 {
				g.openSessions(fmt.Sprint("c", client), 64)
			}
			before := g.s.state.Session(g.session).SlotLimits()
			for range 4 {
				trim()
			}
			for b, id := range map[*fakeBackchannel]nfs4.SessionID{back: g.session, otherBack: other.session} {
				after := g.s.state.Session(id).SlotLimits()
				assert.Equal(t, before.Highest, after.Highest)
				assert.Less(t, after.Target, before.Target)
				assert.Equal(t, []uint32{after.Target}, targets[b])
				for _, seq := range b.seqs {
					assert.Equal(t, id, seq.Session)
				}
			}
		})
	}
}

// openSessions makes a client ID with n sessions of as many slots as Linux requests.
func (g *testServer) openSessions(owner string, n uint32) {
	own := *g
	id, st := own.exchangeID(owner, 1, 0)
	require.Equal(g.t, nfs4.OK, st)
	fore := nfs4.ChannelAttrs{MaxRequestSize: 1 << 20, MaxResponseSize: 1 << 20, MaxResponseSizeCached: 7584, MaxOperations: 8, MaxRequests: 64}
	for i := range n {
		st, _ := own.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID + i, Fore: fore, Back: channel}, new(nfs4.CreateSessionRes)})
		require.Equal(g.t, nfs4.OK, st)
	}
}

// connectWith makes a client ID and a session with its own fore channel.
func (g *testServer) connectWith(owner string, fore nfs4.ChannelAttrs) {
	g.t.Helper()
	id, st := g.exchangeID(owner, 1, 0)
	require.Equal(g.t, nfs4.OK, st)
	var cs nfs4.CreateSessionRes
	st, _ = g.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: fore, Back: channel}, &cs})
	require.Equal(g.t, nfs4.OK, st)
	g.session, g.seq = cs.Session, 0
}

// TestRequestTooBig checks that a call longer than ca_maxrequestsize is refused
// and leaves the slot alone (R8881-2.10.6.4-1).
//
// R8881-18.36.3-7.
func TestRequestTooBig(t *testing.T) {
	g := newTestServer(t).becomeRoot()
	small := channel
	small.MaxRequestSize = 1000
	g.connectWith("c", small)
	long := func(n int) []step {
		return []step{g.sequenceStep(1, false), putRootStep(), lookupStep(string(make([]byte, n)))}
	}
	front := callHeaderLen + len(g.encodeCompound(long(0)...))
	st, n := g.sendRaw(long(1000 - front + 1)...)
	assert.Equal(t, nfs4.ErrReqTooBig, st)
	assert.Equal(t, 1, n)
	st, _ = g.sendRaw(long(1000 - front)...)
	assert.Equal(t, nfs4.ErrNameTooLong, st, "the slot is where it was")
}

// TestRoomForGetFH checks that nothing is made whose handle would not fit into
// the reply (R8881-2.10.6.4-6), and that an object whose handle fits is made.
func TestRoomForGetFH(t *testing.T) {
	makers := map[string]func() step{
		"CREATE": func() step { return mkdirStep("new") },
		"OPEN": func() step {
			return step{nfs4.OpOpen, openArgs("o", "new", nfs4.ShareBoth, 0, nfs4.Unchecked), new(nfs4.OpenRes)}
		},
	}
	for name, make := range makers {
		made := map[nfs4.Status]int{}
		for limit := uint32(200); limit < 500; limit += 4 {
			g := newTestServer(t).becomeRoot()
			small := channel
			small.MaxResponseSizeCached = limit
			g.connectWith("c", small)
			st, _ := g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
			require.Equal(t, nfs4.OK, st)
			st, n := g.sendRaw(g.sequenceStep(2, true), putRootStep(), lookupStep("x"), make(), getFHStep())
			made[st]++
			g.seq = 2
			if st == nfs4.OK {
				assert.Equal(t, []string{"new"}, g.listNames("x"))
			} else if st == nfs4.ErrRepTooBigToCache {
				assert.LessOrEqual(t, n, 4, "the failure must come before GETFH")
				assert.Empty(t, g.listNames("x"), "%s with room for %d bytes", name, limit)
			}
		}
		assert.Len(t, made, 2, "%s: %v", name, made)
	}
}
