package nfs4test

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// records are more scenarios for client records and CREATE_SESSION's arguments.
var records = []Scenario{
	{Name: "EXCHANGE_ID by another principal after the lease", By: exchangeCases + "3: the lease has expired", Linux: "NFS4ERR_CLID_INUSE", Slow: true, run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		t.openNew(s, "f")
		t.waitForLease(t.Lease + t.Lease/2)
		res := t.dial().withUID(7).registerOwner(c.owner, 2, 0)
		assert.NotEqual(t, c.id, res.ClientID)
		assert.Zero(t, res.Flags&nfs4.ExchangeConfirmed)
		s.overConn(t.dial()).callCompound(s.sequenceOp(0)).checkStatus(t, 1, nfs4.ErrBadSession)
	}},
	{Name: "EXCHANGE_ID by another principal with another verifier", By: exchangeCases + "3: without state the record is deleted", run: func(t *T) {
		c := t.newClient()
		s := c.newSession()
		c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		other := t.dial().withUID(7)
		res := other.registerOwner(c.owner, 2, 0)
		assert.NotEqual(t, c.id, res.ClientID)
		_, st := c.createSession(c.createSessionArgs())
		assert.Equal(t, nfs4.ErrStaleClientID, st)
		(&client{conn: other, id: res.ClientID, seq: res.SequenceID}).newSession().completeReclaim()
	}},
	{Name: "EXCHANGE_ID of owners of any bytes", By: "RFC 8881, 18.35.3: co_ownerid is opaque", run: func(t *T) {
		seen := map[uint64]string{}
		for _, suffix := range []string{"", "\x00", "\x00\x00", "\xff", "\n", "a", "A", strings.Repeat("\x00", 900)} {
			owner := t.Name + "owner" + suffix
			id := t.dial().registerOwner(owner, 1, 0).ClientID
			assert.NotContains(t, seen, id, "%q", owner)
			seen[id] = owner
		}
	}},
	{Name: "EXCHANGE_ID over other connections", By: "RFC 8881, 2.10.5: one server has one owner and one scope", run: func(t *T) {
		c := t.newClient()
		c.newSession()
		first := c.registerOwner(c.owner, 1, 0)
		for range 3 {
			res := t.dial().registerOwner(c.owner, 1, 0)
			assert.Equal(t, c.id, res.ClientID)
			assert.Equal(t, first.MajorID, res.MajorID)
			assert.Equal(t, first.MinorID, res.MinorID)
			assert.Equal(t, first.Scope, res.Scope)
		}
	}},
	{Name: "EXCHANGE_ID of a confirmed owner by a call in its session", By: exchangeCases + "2", run: func(t *T) {
		c := t.newClient()
		s := c.newSession()
		var res nfs4.ExchangeIDRes
		s.expectStatus(nfs4.OK, op{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte(c.owner), Verifier: c.verifier}, &res})
		assert.Equal(t, c.id, res.ClientID)
		assert.NotZero(t, res.Flags&nfs4.ExchangeConfirmed)
		s.completeReclaim()
	}},
	{Name: "EXCHANGE_ID with SP4_SSV without algorithms", By: "RFC 8881, 18.35.3: an empty list is NFS4ERR_INVAL", Linux: "NFS4ERR_ENCR_ALG_UNSUPP, before it looks", run: func(t *T) {
		a := nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName())}
		b := raw(a.AppendTo(nil))
		b = b[:len(b)-8]
		for _, v := range []byte{2, 0, 0, 0, 0, 4, 1, 0} { // as SP4_SSV, with empty lists
			b = append(b, 0, 0, 0, v)
		}
		rep := t.dial().callCompound(op{nfs4.OpExchangeID, &b, new(nfs4.ExchangeIDRes)})
		assert.Equal(t, nfs4.ErrInval, rep.status)
	}},
	{Name: "CREATE_SESSION of a confirmed client ID by another principal", By: createPhase + "3: the phase is skipped", run: func(t *T) {
		c := t.newClient()
		c.newSession()
		other := t.dial().withUID(7)
		res, st := other.createSession(c.createSessionArgs())
		require.Equal(t, nfs4.OK, st, "SP4_NONE")
		s := &session{conn: other, client: c, id: res.Session, fore: res.Fore, seq: make([]uint32, res.Fore.MaxRequests)}
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "CREATE_SESSION of a client ID that was replaced", By: createPhase + "1: NFS4ERR_STALE_CLIENTID", run: func(t *T) {
		c := t.newClient()
		old := *c
		c.newSession()
		res := c.registerOwner(c.owner, 2, 0)
		c.id, c.seq = res.ClientID, res.SequenceID
		c.newSession()
		for _, seq := range []uint32{old.seq - 1, old.seq, old.seq + 1} {
			old.seq = seq
			_, st := old.createSession(old.createSessionArgs())
			assert.Equal(t, nfs4.ErrStaleClientID, st)
		}
	}},
	{Name: "CREATE_SESSION with credentials of RPCSEC_GSS for callbacks", By: "RFC 8881, 18.36.3: NFS4ERR_NOENT for a handle that does not exist", Linux: "NFS4ERR_ENCR_ALG_UNSUPP, which 15.2 does not list", run: func(t *T) {
		c := t.newClient()
		a := c.createSessionArgs()
		b := raw(a.AppendTo(nil))
		b = append(b[:len(b)-8], gssParms...)
		rep := c.callCompound(op{nfs4.OpCreateSession, &b, new(nfs4.CreateSessionRes)})
		assert.Equal(t, nfs4.ErrNoEnt, rep.status)
	}},
	{Name: "BACKCHANNEL_CTL with credentials of RPCSEC_GSS", By: "RFC 8881, 18.33.3: MUST return NFS4ERR_NOENT", Linux: "NFS4ERR_ENCR_ALG_UNSUPP, which 15.2 does not list", run: func(t *T) {
		b := append(raw{0x40, 0, 0, 1}, gssParms...)
		t.expectStatus(nfs4.ErrNoEnt, op{nfs4.OpBackchannelCtl, &b, statusRes()})
	}},
	{Name: "CREATE_SESSION with an undefined flavour for callbacks", By: "RFC 5662: callback_sec_parms4", Linux: "NFS4ERR_INVAL", run: func(t *T) {
		c := t.newClient()
		a := c.createSessionArgs()
		b := raw(a.AppendTo(nil))
		b[len(b)-1] = 99
		t.checkMalformed(op{nfs4.OpCreateSession, &b, new(nfs4.CreateSessionRes)})
		c.newSession()
	}},
	{Name: "CREATE_SESSION with lists of ca_rdma_ird", By: "RFC 8881, 18.36.3: a value is never raised", run: func(t *T) {
		c := t.newClient()
		for _, ird := range []nfs4.ChannelAttrs{{}, {HasIRD: true}, {HasIRD: true, RDMAIRD: 5}} {
			a := c.createSessionArgs()
			a.Fore.HasIRD, a.Fore.RDMAIRD = ird.HasIRD, ird.RDMAIRD
			a.Back.HasIRD, a.Back.RDMAIRD = ird.HasIRD, ird.RDMAIRD
			res, st := c.createSession(a)
			require.Equal(t, nfs4.OK, st)
			assert.LessOrEqual(t, res.Fore.RDMAIRD, ird.RDMAIRD)
			c.seq++
		}
	}},
	{Name: "many sessions of one client", By: "RFC 8881, 2.10.3: each has slots of its own", run: func(t *T) {
		c := t.newClient()
		var all []*session
		for range 12 {
			all = append(all, c.newSession())
		}
		all[0].completeReclaim()
		for _, s := range all {
			s.callCompound(s.sequenceOpWith(0, s.seq[0]+1, 0)).checkStatus(t, 1, nfs4.OK)
		}
		for _, s := range all[1:] {
			c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		}
		all[0].seq[0]++
		all[0].expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "DESTROY_CLIENTID of the new incarnation", By: "RFC 8881, 18.50.3: the old one is another client ID", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		res := c.registerOwner(c.owner, 2, 0)
		c.callWithoutSequence(nfs4.OK, destroyClientIDOp(res.ClientID))
		s.expectStatus(nfs4.OK, putRootFH())
		assert.Equal(t, c.id, c.registerOwner(c.owner, 1, 0).ClientID)
	}},
	{Name: "a client ID is never given again", By: "RFC 8881, 2.4: it must not conflict with one that was given before", run: func(t *T) {
		owner := t.uniqueName()
		seen := map[uint64]bool{}
		for range 5 {
			c := t.dial().newClientID(owner)
			assert.NotContains(t, seen, c.id)
			seen[c.id] = true
			c.callWithoutSequence(nfs4.OK, destroyClientIDOp(c.id))
		}
	}},
	{Name: "an owner after DESTROY_CLIENTID is new", By: exchangeCases + "1", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		c.callWithoutSequence(nfs4.OK, destroyClientIDOp(c.id))
		again := t.dial().withUID(7).newClientID(c.owner) // another principal may have the name
		assert.NotEqual(t, c.id, again.id)
		again.newSession().completeReclaim()
	}},
}

// gssParms is a list of callback_sec_parms4 with RPCSEC_GSS: its service and
// two handles.
var gssParms = raw{0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 4, 'f', 'o', 'r', 'e', 0, 0, 0, 4, 'b', 'a', 'c', 'k'}
