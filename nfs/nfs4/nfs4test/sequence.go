package nfs4test

import (
	"math"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// sequenceOpWith returns SEQUENCE with the given arguments.
func (s *session) sequenceOpWith(slot, seq, highest uint32) op {
	a := &nfs4.SequenceArgs{Session: s.id, Sequence: seq, Slot: slot, HighestSlotID: highest}
	return op{nfs4.OpSequence, a, new(nfs4.SequenceRes)}
}

// sequence are scenarios for SEQUENCE.
var sequence = []Scenario{
	{Name: "SEQUENCE alone", By: "RFC 8881, 18.46.3", run: func(t *T) {
		s := t.ownSession()
		for slot := range s.fore.MaxRequests {
			o := s.sequenceOpWith(slot, s.seq[slot]+1, s.fore.MaxRequests-1)
			s.callCompound(o).checkStatus(t, 1, nfs4.OK)
			s.seq[slot]++
			res := o.res.(*nfs4.SequenceRes)
			assert.Equal(t, s.id, res.Session)
			assert.Equal(t, slot, res.Slot)
			assert.Equal(t, s.seq[slot], res.Sequence)
			assert.GreaterOrEqual(t, res.HighestSlotID, s.fore.MaxRequests-1, "SHOULD NOT be less than sa_highest_slotid")
		}
	}},
	{Name: "SEQUENCE with sequence ID 0 in a new slot", By: "RFC 8881, 18.36.4: NFS4ERR_SEQ_MISORDERED", run: func(t *T) {
		s := t.newClient().newSession()
		s.callCompound(s.sequenceOpWith(0, 0, 0)).checkStatus(t, 1, nfs4.ErrSeqMisordered)
		s.callCompound(s.sequenceOpWith(0, 1, 0)).checkStatus(t, 1, nfs4.OK)
	}},
	{Name: "SEQUENCE out of sequence", By: "RFC 8881, 18.46.3: NFS4ERR_SEQ_MISORDERED", run: func(t *T) {
		s := t.newClient().newSession()
		s.expectStatus(nfs4.OK, putRootFH())
		s.expectStatus(nfs4.OK, putRootFH())
		for _, seq := range []uint32{0, 1, 4, 5, 1 << 31, math.MaxUint32} {
			s.callCompound(s.sequenceOpWith(0, seq, 0), putRootFH()).checkStatus(t, 1, nfs4.ErrSeqMisordered)
		}
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "SEQUENCE in a slot that is not there", By: "RFC 8881, 15.1.11.3: NFS4ERR_BADSLOT", run: func(t *T) {
		s := t.ownSession()
		for _, slot := range []uint32{s.fore.MaxRequests, s.fore.MaxRequests + 1, math.MaxUint32} {
			rep := s.callCompound(s.sequenceOpWith(slot, 1, slot))
			assert.Contains(t, []nfs4.Status{nfs4.ErrBadSlot, nfs4.ErrBadHighSlot}, rep.status)
			s.callCompound(s.sequenceOpWith(slot, 1, 0)).checkStatus(t, 1, nfs4.ErrBadSlot)
		}
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "SEQUENCE in an unknown session", By: "RFC 8881, 15.1.11.1: NFS4ERR_BADSESSION", run: func(t *T) {
		s := t.ownSession()
		for _, at := range []int{0, 4, 8, 15} {
			other := *s
			other.id[at] ^= 0x80
			other.callCompound(other.sequenceOpWith(0, 1, 0), putRootFH()).checkStatus(t, 1, nfs4.ErrBadSession)
		}
		other := *s
		other.id = nfs4.SessionID{}
		other.callCompound(other.sequenceOpWith(0, 1, 0)).checkStatus(t, 1, nfs4.ErrBadSession)
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "SEQUENCE that is not the first", By: "RFC 8881, 18.46.3: NFS4ERR_SEQUENCE_POS", run: func(t *T) {
		s := t.ownSession()
		s.expectStatus(nfs4.ErrSequencePos, putRootFH(), s.sequenceOpWith(1, 1, 1))
		s.expectStatus(nfs4.OK, putRootFH())
		s.callCompound(s.sequenceOpWith(1, 1, 1)).checkStatus(t, 1, nfs4.OK)
	}},
	{Name: "operations without SEQUENCE", By: "RFC 8881, 18.46.3: NFS4ERR_OP_NOT_IN_SESSION", run: func(t *T) {
		c := t.dial()
		for _, o := range []op{
			putRootFH(), putFH(nfs4.FH{1, 2, 3}), getFH(new(nfs4.HandleRes)), lookupOp("x"), removeOp("x"), reclaimCompleteOp(false),
			freeStateID(nfs4.StateID{}), testStateID(new(testedStateIDs), nfs4.StateID{}), readOp(nfs4.StateID{}, 0, 1, new(nfs4.ReadRes)),
			{nfs4.OpBackchannelCtl, &nfs4.BackchannelCtlArgs{SecParms: nfs4.SecParms{None: true}}, statusRes()},
		} {
			c.callCompound(o).checkStatus(t, 1, nfs4.ErrOpNotInSession)
			c.callCompound(o, t.ownSession().sequenceOp(0)).checkStatus(t, 1, nfs4.ErrOpNotInSession)
		}
	}},
	{Name: "SEQUENCE over a connection that was not bound", By: "RFC 8881, 18.34.3: with SP4_NONE that binds the connection", run: func(t *T) {
		s := t.ownSession()
		for range 3 {
			s.overConn(t.dial()).expectStatus(nfs4.OK, putRootFH())
		}
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "SEQUENCE over a connection with another session", By: "RFC 8881, 2.10.3.1", run: func(t *T) {
		one, two := t.newClient().newSession(), t.newClient().newSession()
		one.overConn(two.conn).expectStatus(nfs4.OK, putRootFH())
		two.overConn(one.conn).expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "SEQUENCE after the connection ended", By: "RFC 8881, 2.10.10.1.2: a session outlives its connections", run: func(t *T) {
		s := t.ownSession()
		s.nc.Close()
		s.overConn(t.dial()).expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "slots at the same time", By: "RFC 8881, 2.10.6.1: each slot is for one request", run: func(t *T) {
		s := t.ownSession()
		var wg sync.WaitGroup
		for slot := range s.fore.MaxRequests {
			c := t.dial()
			wg.Go(func() {
				for range 20 {
					rep := c.callCompound(s.sequenceOp(slot), putRootFH(), getFH(new(nfs4.HandleRes)))
					assert.Equal(t, nfs4.OK, rep.status)
					s.seq[slot]++
				}
			})
		}
		wg.Wait()
	}},
	{Name: "sessions of one client share its state", By: "RFC 8881, 2.10.4: trunking", run: func(t *T) {
		s := t.ownSession()
		fh, id := t.openNew(s, "f")
		other := (&client{conn: t.dial(), id: s.client.id, seq: s.client.seq}).newSession()
		var res nfs4.WriteRes
		other.expectStatus(nfs4.OK, putFH(fh), writeOp(id, 0, nfs4.Unstable, "data", &res))
		other.expectStatus(nfs4.OK, putFH(fh), closeFile(id))
		s.expectStatus(nfs4.ErrBadStateID, putFH(fh), closeFile(id))
	}},
	{Name: "status flags without a backchannel", By: "RFC 8881, 18.46.3", run: func(t *T) {
		o := t.ownSession().sequenceOp(0)
		t.own.callCompound(o).checkStatus(t, 1, nfs4.OK)
		t.own.seq[0]++
		bad := nfs4.SeqExpiredAllStateRevoked | nfs4.SeqExpiredSomeStateRevoked | nfs4.SeqAdminStateRevoked |
			nfs4.SeqRecallableStateRevoked | nfs4.SeqLeaseMoved | nfs4.SeqRestartReclaimNeeded | nfs4.SeqBackchannelFault
		assert.Zero(t, o.res.(*nfs4.SequenceRes).Flags&bad)
	}},
}

// replays are scenarios for the reply cache.
var replays = []Scenario{
	{Name: "a retry of a call whose reply is kept", By: "RFC 8881, 18.46.3: the reply of the cache", run: func(t *T) {
		s := t.ownSession()
		for _, ops := range [][]op{
			{},
			{putRootFH(), getFH(new(nfs4.HandleRes))},
			{putFH(t.ownDir()), createOp(nfs4.TypeDir, "made once", modeAttrs(0o755))},
			{putFH(t.ownDir()), removeOp("made once")},
			{putFH(t.ownDir()), lookupOp("missing")},
			{putRootFH(), lookupOp("")},
			{putRootFH(), {nfs4.OpIllegal, &void, statusRes()}},
		} {
			ops = append([]op{withCacheThis(s.sequenceOp(0))}, ops...)
			first := s.callCompound(ops...)
			again := s.overConn(t.dial()).callCompound(ops...)
			assert.Equal(t, first.replayable(), again.replayable(), "of %d operations", len(ops))
			s.seq[0]++
		}
	}},
	{Name: "a retry of a call whose reply need not be kept", By: "RFC 8881, 2.10.6.1.3: the reply, or NFS4ERR_RETRY_UNCACHED_REP at the second operation", run: func(t *T) {
		s := t.ownSession()
		t.ownDir()
		ops := []op{s.sequenceOp(0), putFH(t.ownDir()), createOp(nfs4.TypeDir, "made once", modeAttrs(0o755))}
		first := s.callCompound(ops...).checkStatus(t, 3, nfs4.OK)
		for range 2 {
			again := s.callCompound(ops...)
			if again.status == nfs4.OK {
				assert.Equal(t, first.replayable(), again.replayable())
			} else {
				again.checkStatus(t, 2, nfs4.ErrRetryUncachedRep)
			}
		}
		s.seq[0]++
		s.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("made once"))
	}},
	{Name: "a retry of a long reply that need not be kept", By: "RFC 8881, 2.10.6.1.3", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxOperations = 32 })
		ops := append([]op{s.sequenceOp(0)}, longResultOps()...)
		first := s.callCompound(ops...).checkStatus(t, len(ops), nfs4.OK)
		again := s.callCompound(ops...)
		if again.status == nfs4.OK {
			assert.Equal(t, first.replayable(), again.replayable())
		} else {
			again.checkStatus(t, 2, nfs4.ErrRetryUncachedRep)
		}
		s.seq[0]++
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "a retry whose second operation is illegal", By: "RFC 8881, 2.10.6.1.3: never NFS4ERR_RETRY_UNCACHED_REP", Linux: "NFS4ERR_RETRY_UNCACHED_REP", run: func(t *T) {
		s := t.ownSession()
		ops := []op{s.sequenceOp(0), {nfs4.OpSetClientIDConfirm, &void, statusRes()}}
		for range 2 {
			s.callCompound(ops...).checkStatus(t, 2, nfs4.ErrNotSupp)
		}
	}},
	{Name: "a retry by another user", By: "RFC 8881, 2.10.6.1.3.1: MUST return NFS4ERR_SEQ_FALSE_RETRY", run: func(t *T) {
		s := t.ownSession()
		t.ownDir()
		ops := []op{withCacheThis(s.sequenceOp(0)), putFH(t.ownDir()), createOp(nfs4.TypeDir, "d", modeAttrs(0o755))}
		s.callCompound(ops...).checkStatus(t, 3, nfs4.OK)
		t.dial().withUID(7).callCompound(ops...).checkStatus(t, 1, nfs4.ErrSeqFalseRetry)
	}},
	{Name: "a sequence ID used again for another call", By: "RFC 8881, 2.10.6.1.3.1: it is not executed", run: func(t *T) {
		s := t.ownSession()
		t.ownDir()
		first := s.callCompound(withCacheThis(s.sequenceOp(0)), putFH(t.ownDir()), createOp(nfs4.TypeDir, "one", modeAttrs(0o755))).checkStatus(t, 3, nfs4.OK)
		seq := withCacheThis(s.sequenceOp(0))
		stat, results, err := s.callProc(nfs4.ProcCompound, (&compound{tag: "a tag", minor: t.Minor, ops: []op{
			seq, putFH(t.ownDir()), createOp(nfs4.TypeDir, "two", modeAttrs(0o755)), putRootFH(),
		}}).encodeArgs())
		require.NoError(t, err)
		require.Zero(t, stat)
		if string(results) != string(first.raw) {
			(&compound{ops: []op{seq, putFH(nil), putFH(nil)}}).decodeResults(t, results).checkFinalStatus(t, nfs4.ErrSeqFalseRetry, nfs4.ErrRetryUncachedRep)
		}
		s.seq[0]++
		s.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("two"))
	}},
	{Name: "errors of SEQUENCE leave the slot alone", By: "RFC 8881, 2.10.6.1.2", run: func(t *T) {
		s := t.ownSession()
		ops := []op{withCacheThis(s.sequenceOp(0)), putRootFH(), getFH(new(nfs4.HandleRes))}
		first := s.callCompound(ops...).checkStatus(t, 3, nfs4.OK)
		s.callCompound(s.sequenceOpWith(0, s.seq[0]+5, 0)).checkStatus(t, 1, nfs4.ErrSeqMisordered)
		assert.Equal(t, first.replayable(), s.callCompound(ops...).replayable())
		s.seq[0]++
		s.expectStatus(nfs4.OK, putRootFH())
	}},
}

// checkFinalStatus asserts that a COMPOUND returned one of the statuses, after
// any number of operations.
func (r *reply) checkFinalStatus(t *T, want ...nfs4.Status) { assert.Contains(t, want, r.status) }
