package nfs4test

import (
	"math"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

const createPhase = "RFC 8881, 18.36.4, phase "

// createSession are scenarios for CREATE_SESSION.
var createSession = []Scenario{
	{Name: "CREATE_SESSION confirms a client ID", By: createPhase + "3", run: func(t *T) {
		c := t.newClient()
		res, st := c.createSession(c.createSessionArgs())
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, c.seq, res.Sequence, "18.36.3: csr_sequence equals csa_sequence")
		assert.NotZero(t, c.registerOwner(c.owner, 1, 0).Flags&nfs4.ExchangeConfirmed)
	}},
	{Name: "CREATE_SESSION of a confirmed client ID", By: createPhase + "3", run: func(t *T) {
		c := t.newClient()
		one, two := c.newSession().completeReclaim(), c.newSession()
		assert.NotEqual(t, one.id, two.id)
		for _, s := range []*session{one, two} {
			s.expectStatus(nfs4.OK, putRootFH())
		}
	}},
	{Name: "CREATE_SESSION after SEQUENCE", By: "RFC 8881, 18.36.3: with or without a preceding SEQUENCE", run: func(t *T) {
		c := t.newClient()
		a := c.createSessionArgs()
		var res, again nfs4.CreateSessionRes
		t.expectStatus(nfs4.OK, op{nfs4.OpCreateSession, &a, &res})
		t.expectStatus(nfs4.OK, op{nfs4.OpCreateSession, &a, &again})
		assert.Equal(t, res, again, "18.36.4: the reply cache of CREATE_SESSION is another one")
	}},
	{Name: "CREATE_SESSION before other operations", By: "RFC 8881, 18.36.3: NFS4ERR_NOT_ONLY_OP", run: func(t *T) {
		c := t.newClient()
		a := c.createSessionArgs()
		c.callCompound(op{nfs4.OpCreateSession, &a, new(nfs4.CreateSessionRes)}, putRootFH()).checkStatus(t, 1, nfs4.ErrNotOnlyOp)
	}},
	{Name: "CREATE_SESSION of an unknown client ID", By: createPhase + "1", run: func(t *T) {
		c := t.newClient()
		for _, id := range []uint64{0, math.MaxUint64, c.id ^ 1<<31, c.id ^ 1<<63} {
			a := c.createSessionArgs()
			a.ClientID = id
			_, st := c.conn.createSession(a)
			assert.Equal(t, nfs4.ErrStaleClientID, st, "%#x", id)
		}
	}},
	{Name: "CREATE_SESSION out of sequence", By: createPhase + "2", run: func(t *T) {
		c := t.newClient()
		for _, d := range []uint32{1, 2, math.MaxUint32, 1 << 31} {
			a := c.createSessionArgs()
			a.Sequence += d
			_, st := c.createSession(a)
			assert.Equal(t, nfs4.ErrSeqMisordered, st, "%d too high", int32(d))
		}
		c.newSession() // the slot has not changed
		for _, d := range []uint32{1, 2, math.MaxUint32 - 1} {
			a := c.createSessionArgs()
			a.Sequence += d
			_, st := c.createSession(a)
			assert.Equal(t, nfs4.ErrSeqMisordered, st, "%d too high", int32(d))
		}
		c.newSession()
	}},
	{Name: "CREATE_SESSION again", By: createPhase + "2: the cached result", run: func(t *T) {
		c := t.newClient()
		a := c.createSessionArgs()
		res, st := c.createSession(a)
		require.Equal(t, nfs4.OK, st)
		for _, conn := range []*conn{c.conn, t.dial()} {
			again, st := conn.createSession(a)
			assert.Equal(t, nfs4.OK, st)
			assert.Equal(t, res, again)
		}
		c.seq++
		c.newSession()
		_, st = c.createSession(a)
		assert.Equal(t, nfs4.ErrSeqMisordered, st, "a later call has used the slot")
	}},
	{Name: "CREATE_SESSION again with other limits", By: createPhase + "2: csa_sequence alone makes a replay, which gets the cached result", run: func(t *T) {
		c := t.newClient()
		a := c.createSessionArgs()
		res, st := c.createSession(a)
		require.Equal(t, nfs4.OK, st)
		a.Fore.MaxRequests, a.Fore.MaxResponseSize, a.CBProgram = 1, 4096, a.CBProgram+1
		again, st := c.createSession(a)
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, res, again)
		a.Sequence++
		next, st := c.createSession(a)
		assert.Equal(t, nfs4.OK, st)
		assert.NotEqual(t, res.Session, next.Session, "a non-retry makes another session")
		assert.EqualValues(t, 1, next.Fore.MaxRequests)
	}},
	{Name: "CREATE_SESSION again after an error", By: createPhase + "2", run: func(t *T) {
		c := t.newClient()
		a := c.createSessionArgs()
		a.Fore.MaxResponseSize = 0
		for range 2 {
			_, st := c.createSession(a)
			assert.Equal(t, nfs4.ErrTooSmall, st)
		}
	}},
	{Name: "CREATE_SESSION by another principal", By: createPhase + "3: unsuccessful confirmation", run: func(t *T) {
		c := t.newClient()
		_, st := t.dial().withUID(7).createSession(c.createSessionArgs())
		assert.Equal(t, nfs4.ErrClidInUse, st)
		res := c.registerOwner(c.owner, 1, 0) // and the record may still be replaced
		(&client{conn: c.conn, id: res.ClientID, seq: res.SequenceID}).newSession()
	}},
	{Name: "CREATE_SESSION by another principal does not end the old incarnation", By: createPhase + "3: no changes are made", run: func(t *T) {
		c := t.newClient()
		s := c.newSession()
		res := c.registerOwner(c.owner, 2, 0)
		a := c.createSessionArgs()
		a.ClientID, a.Sequence = res.ClientID, res.SequenceID
		_, st := t.dial().withUID(7).createSession(a)
		assert.Equal(t, nfs4.ErrClidInUse, st)
		s.completeReclaim()
	}},
	{Name: "CREATE_SESSION that fails does not end the old incarnation", By: createPhase + "3: if the session is not created, no changes are made", run: func(t *T) {
		c := t.newClient()
		s := c.newSession()
		res := c.registerOwner(c.owner, 2, 0)
		a := c.createSessionArgs()
		a.ClientID, a.Sequence, a.Fore.MaxRequestSize = res.ClientID, res.SequenceID, 8
		_, st := c.createSession(a)
		assert.Equal(t, nfs4.ErrTooSmall, st)
		s.completeReclaim()
	}},
	{Name: "CREATE_SESSION with undefined flags", By: "RFC 8881, 15.1.1.4: NFS4ERR_INVAL", run: func(t *T) {
		for _, flags := range []uint32{8, 0xf, 1 << 31} {
			c := t.newClient()
			a := c.createSessionArgs()
			a.Flags = flags
			_, st := c.createSession(a)
			assert.Equal(t, nfs4.ErrInval, st, "%#x", flags)
		}
	}},
	{Name: "CREATE_SESSION grants no flags that were not asked for", By: "RFC 8881, 18.36.3: csa_flags", run: func(t *T) {
		for _, flags := range []uint32{0, nfs4.SessionPersist, nfs4.SessionConnBackChan, nfs4.SessionConnRDMA} {
			c := t.newClient()
			a := c.createSessionArgs()
			a.Flags = flags
			res, st := c.createSession(a)
			assert.Equal(t, nfs4.OK, st)
			assert.Zero(t, res.Flags&^flags, "%#x", flags)
		}
	}},
	{Name: "CREATE_SESSION with many kinds of credentials for callbacks", By: "RFC 8881, 18.36.1: callback_sec_parms4", run: func(t *T) {
		for _, parms := range []nfs4.SecParms{{None: true}, {Sys: true, UID: 1, GID: 2}, {None: true, Sys: true}} {
			c := t.newClient()
			c.newSession(func(a *nfs4.CreateSessionArgs) { a.SecParms, a.Flags = parms, nfs4.SessionConnBackChan })
		}
	}},
}

// channels are scenarios for channel limits.
var channels = []Scenario{
	{Name: "CREATE_SESSION raises no size", By: "RFC 8881, 18.36.3: MUST NOT increase", run: func(t *T) {
		for _, size := range []uint32{1024, 4096, 100_000, math.MaxUint32} {
			c := t.newClient()
			a := c.createSessionArgs()
			a.Fore = nfs4.ChannelAttrs{
				HeaderPadSize: 8, MaxRequestSize: size, MaxResponseSize: size, MaxResponseSizeCached: size, MaxOperations: 8, MaxRequests: 4,
			}
			res, st := c.createSession(a)
			require.Equal(t, nfs4.OK, st)
			assert.LessOrEqual(t, res.Fore.HeaderPadSize, uint32(8))
			assert.LessOrEqual(t, res.Fore.MaxRequestSize, size)
			assert.LessOrEqual(t, res.Fore.MaxResponseSize, size)
			assert.LessOrEqual(t, res.Fore.MaxResponseSizeCached, size)
		}
	}},
	{Name: "CREATE_SESSION keeps the operations and slots of the backchannel", By: "RFC 8881, 18.36.3: MUST NOT change", run: func(t *T) {
		for _, n := range []uint32{2, 5, 30} {
			c := t.newClient()
			a := c.createSessionArgs()
			a.Flags = nfs4.SessionConnBackChan
			a.Back.MaxOperations, a.Back.MaxRequests = n, n
			res, st := c.createSession(a)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, n, res.Back.MaxOperations)
			assert.Equal(t, n, res.Back.MaxRequests)
			assert.LessOrEqual(t, res.Back.MaxRequestSize, a.Back.MaxRequestSize)
			assert.LessOrEqual(t, res.Back.MaxResponseSize, a.Back.MaxResponseSize)
		}
	}},
	{Name: "CREATE_SESSION of channels too small for a reply", By: "RFC 8881, 18.36.3: NFS4ERR_TOOSMALL", run: func(t *T) {
		for what, change := range map[string]func(a *nfs4.ChannelAttrs){
			"responses of 0": func(a *nfs4.ChannelAttrs) { a.MaxResponseSize = 0 }, "responses of 20": func(a *nfs4.ChannelAttrs) { a.MaxResponseSize = 20 },
			"requests of 0": func(a *nfs4.ChannelAttrs) { a.MaxRequestSize = 0 }, "requests of 20": func(a *nfs4.ChannelAttrs) { a.MaxRequestSize = 20 },
		} {
			c := t.newClient()
			a := c.createSessionArgs()
			change(&a.Fore)
			_, st := c.createSession(a)
			assert.Equal(t, nfs4.ErrTooSmall, st, what)
		}
	}},
	{Name: "CREATE_SESSION of a backchannel too small for a callback", By: "RFC 8881, 18.36.3: NFS4ERR_TOOSMALL, on either channel", run: func(t *T) {
		for what, change := range map[string]func(a *nfs4.ChannelAttrs){
			"responses of 20": func(a *nfs4.ChannelAttrs) { a.MaxResponseSize = 20 }, "requests of 20": func(a *nfs4.ChannelAttrs) { a.MaxRequestSize = 20 },
			"one operation, which is CB_SEQUENCE": func(a *nfs4.ChannelAttrs) { a.MaxOperations = 1 },
			"requests of 10 and one operation":    func(a *nfs4.ChannelAttrs) { a.MaxRequestSize, a.MaxOperations = 10, 1 },
		} {
			for _, flags := range []uint32{0, nfs4.SessionConnBackChan} { // without it, a connection may be bound later
				c := t.newClient()
				a := c.createSessionArgs()
				a.Flags = flags
				change(&a.Back)
				_, st := c.createSession(a)
				assert.Equal(t, nfs4.ErrTooSmall, st, "%s, flags %d", what, flags)
			}
		}
	}},
	{Name: "CREATE_SESSION of small channels", By: "RFC 8881, 18.36.3: a response of this size can be sent", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxRequestSize, a.Fore.MaxResponseSize = 400, 300 })
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "SEQUENCE of too long a request", By: "RFC 8881, 2.10.6.4: NFS4ERR_REQ_TOO_BIG", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxRequestSize = 512 })
		rep := s.callWithSequence(putRootFH(), lookupOp(string(make([]byte, 600))))
		assert.Equal(t, nfs4.ErrReqTooBig, rep.status)
		assert.Equal(t, nfs4.OpSequence, rep.lastOp, "no operation is executed")
		s.expectStatus(nfs4.OK, putRootFH()) // the slot has not changed
	}},
	{Name: "COMPOUND of too many operations", By: "RFC 8881, 18.36.3: NFS4ERR_TOO_MANY_OPS", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxOperations = 4 })
		var ops []op
		for range s.fore.MaxOperations {
			ops = append(ops, putRootFH())
		}
		assert.Equal(t, nfs4.ErrTooManyOps, s.callWithSequence(ops...).status)
		s.expectStatus(nfs4.OK, ops[1:]...)
	}},
	{Name: "COMPOUND with too long a reply", By: "RFC 8881, 2.10.6.4: NFS4ERR_REP_TOO_BIG", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxResponseSize, a.Fore.MaxOperations = 400, 32 })
		rep := s.callWithSequence(longResultOps()...)
		assert.Equal(t, nfs4.ErrRepTooBig, rep.status)
		assert.LessOrEqual(t, len(rep.raw)+24, 400)
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "COMPOUND with too long a reply for the cache", By: "RFC 8881, 2.10.6.4: NFS4ERR_REP_TOO_BIG_TO_CACHE, and the reply is cached", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxResponseSizeCached, a.Fore.MaxOperations = 400, 32 })
		ops := append([]op{withCacheThis(s.sequenceOp(0))}, longResultOps()...)
		rep := s.callCompound(ops...)
		assert.Equal(t, nfs4.ErrRepTooBigToCache, rep.status)
		again := s.callCompound(ops...)
		assert.Equal(t, rep.replayable(), again.replayable())
	}},
	{Name: "READ is as long as the reply may be", By: "RFC 8881, 18.22.3: fewer bytes may be returned; 2.10.6.4", run: func(t *T) {
		f := t.newFile("f", string(make([]byte, 4000)))
		var res nfs4.ReadRes
		c := f.s.client
		s := c.newSession(func(a *nfs4.CreateSessionArgs) { a.Fore.MaxResponseSize = 1024 })
		rep := s.callWithSequence(putFH(f.fh), readOp(f.id, 0, 4000, &res))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrRepTooBig}, rep.status)
		assert.LessOrEqual(t, len(rep.raw)+24, 1024)
	}},
	{Name: "CREATE_SESSION of channels with one operation", By: "RFC 8881, 18.36.3", run: func(t *T) {
		c := t.newClient()
		a := c.createSessionArgs()
		a.Fore.MaxOperations = 1
		res, st := c.createSession(a)
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrTooSmall}, st)
		assert.True(t, st != nfs4.OK || res.Fore.MaxOperations >= 1)
	}},
	{Name: "CREATE_SESSION with two elements of ca_rdma_ird", By: "RFC 8881, 18.36.1: ca_rdma_ird<1>", run: func(t *T) {
		c := t.newClient()
		a := c.createSessionArgs()
		b := raw(a.AppendTo(nil))
		at := 8 + 4 + 4 + 6*4 // the length of ca_rdma_ird
		b[at+3] = 2
		b = append(b[:at+4:at+4], append(make([]byte, 8), b[at+4:]...)...)
		t.checkMalformed(op{nfs4.OpCreateSession, &b, new(nfs4.CreateSessionRes)})
	}},
}

// longResultOps returns operations with long results.
func longResultOps() []op {
	ops := []op{putRootFH()}
	for range 10 {
		ops = append(ops, getAttr(new(nfs4.GetAttrRes), nfs4.AttrSupportedAttrs, nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFSID))
	}
	return ops
}

// withCacheThis sets sa_cachethis.
func withCacheThis(o op) op {
	o.args.(*nfs4.SequenceArgs).CacheThis = true
	return o
}
