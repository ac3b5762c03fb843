package nfs4test

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

const exchangeCases = "RFC 8881, 18.35.4, case "

// exchangeID are scenarios for EXCHANGE_ID.
var exchangeID = []Scenario{
	{Name: "EXCHANGE_ID of a new owner", By: exchangeCases + "1", run: func(t *T) {
		res := t.dial().registerOwner(t.uniqueName(), 1, 0)
		assert.Zero(t, res.Flags&nfs4.ExchangeConfirmed, "the record is not confirmed")
		assert.Zero(t, res.Flags&nfs4.ExchangeUpdConfirmed, "18.35.3: it is always off in results")
		assert.NotZero(t, res.Flags&nfs4.ExchangeMaskPNFS, "18.35.3: one of the roles")
		assert.NotEmpty(t, res.MajorID)
		assert.NotEmpty(t, res.Scope)
		assert.Equal(t, nfs4.ProtectNone, res.Protect.How)
	}},
	{Name: "EXCHANGE_ID of a confirmed owner again", By: exchangeCases + "2", run: func(t *T) {
		c := t.newClient()
		s := c.newSession()
		res := c.registerOwner(c.owner, 1, 0)
		assert.Equal(t, c.id, res.ClientID)
		assert.NotZero(t, res.Flags&nfs4.ExchangeConfirmed)
		s.completeReclaim()
	}},
	{Name: "EXCHANGE_ID by another principal without state", By: exchangeCases + "3", run: func(t *T) {
		c := t.newClient()
		s := c.newSession()
		c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		res := t.dial().withUID(7).registerOwner(c.owner, 1, 0)
		assert.NotEqual(t, c.id, res.ClientID)
		assert.Zero(t, res.Flags&nfs4.ExchangeConfirmed)
		_, st := c.createSession(c.createSessionArgs())
		assert.Equal(t, nfs4.ErrStaleClientID, st, "the confirmed record is deleted")
	}},
	{Name: "EXCHANGE_ID by another principal with a lease and opens", By: exchangeCases + "3", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		t.openNew(s, "f")
		for _, verifier := range []byte{1, 2} {
			_, st := t.dial().withUID(7).exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(c.owner), Verifier: nfs4.Verifier{verifier}})
			assert.Equal(t, nfs4.ErrClidInUse, st)
		}
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "EXCHANGE_ID of an unconfirmed owner again", By: exchangeCases + "4", run: func(t *T) {
		c := t.newClient()
		for _, verifier := range []byte{1, 2} {
			res := c.registerOwner(c.owner, verifier, 0)
			assert.NotEqual(t, c.id, res.ClientID, "a new client ID")
			_, st := c.createSession(c.createSessionArgs())
			assert.Equal(t, nfs4.ErrStaleClientID, st, "the old record is deleted")
			c.id, c.seq = res.ClientID, res.SequenceID
		}
		c.newSession()
	}},
	{Name: "EXCHANGE_ID of an unconfirmed owner by another principal", By: exchangeCases + "4", run: func(t *T) {
		c := t.newClient()
		other := t.dial().withUID(7)
		res := other.registerOwner(c.owner, 1, 0)
		assert.NotEqual(t, c.id, res.ClientID)
		_, st := c.createSession(c.createSessionArgs())
		assert.Equal(t, nfs4.ErrStaleClientID, st)
		(&client{conn: other, id: res.ClientID, seq: res.SequenceID}).newSession()
	}},
	{Name: "EXCHANGE_ID after a restart of the client", By: exchangeCases + "5", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		res := c.registerOwner(c.owner, 2, 0)
		assert.NotEqual(t, c.id, res.ClientID)
		assert.Zero(t, res.Flags&nfs4.ExchangeConfirmed)
		s.expectStatus(nfs4.OK, putRootFH()) // both records exist until one is confirmed
		again := &client{conn: c.conn, owner: c.owner, id: res.ClientID, seq: res.SequenceID}
		again.newSession().completeReclaim()
		assert.Equal(t, nfs4.ErrBadSession, s.callWithSequence(putRootFH()).status)
		_, st := c.createSession(c.createSessionArgs())
		assert.Equal(t, nfs4.ErrStaleClientID, st)
	}},
	{Name: "EXCHANGE_ID after a restart releases share reservations when it is confirmed", By: exchangeCases + "5", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		f := t.openAs(s, "f", "owner", nfs4.ShareBoth, nfs4.ShareBoth)
		res := c.registerOwner(c.owner, 2, 0)
		other := t.ownSession()
		var o nfs4.OpenRes
		deny := openName("f", "owner", nfs4.ShareRead, 0)
		other.expectStatus(nfs4.ErrShareDenied, putFH(t.ownDir()), openOp(deny, &o))
		(&client{conn: c.conn, id: res.ClientID, seq: res.SequenceID}).newSession()
		other.expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(deny, &o), closeFile(o.StateID).withCurrentStateID())
		assert.NotNil(t, f)
	}},
	{Name: "EXCHANGE_ID with the old verifier after a restart", By: exchangeCases + "5, 2", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		next := c.registerOwner(c.owner, 2, 0)
		res := c.registerOwner(c.owner, 1, 0)
		assert.Equal(t, c.id, res.ClientID, "the confirmed record")
		assert.NotZero(t, res.Flags&nfs4.ExchangeConfirmed)
		assert.NotEqual(t, next.ClientID, res.ClientID)
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "EXCHANGE_ID updates a confirmed record", By: exchangeCases + "6", Linux: "EXCHGID4_FLAG_CONFIRMED_R is missing", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		res := c.registerOwner(c.owner, 1, nfs4.ExchangeUpdConfirmed|nfs4.ExchangeSuppMovedRefer)
		assert.Equal(t, c.id, res.ClientID)
		assert.NotZero(t, res.Flags&nfs4.ExchangeConfirmed, "18.35.3: MUST")
		assert.Zero(t, res.Flags&nfs4.ExchangeUpdConfirmed)
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "EXCHANGE_ID updates without a record", By: exchangeCases + "7", run: func(t *T) {
		_, st := t.dial().exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName()), Flags: nfs4.ExchangeUpdConfirmed})
		assert.Equal(t, nfs4.ErrNoEnt, st)
	}},
	{Name: "EXCHANGE_ID updates an unconfirmed record", By: exchangeCases + "7", run: func(t *T) {
		c := t.newClient()
		for _, uid := range []uint32{0, 7} {
			for _, verifier := range []byte{1, 2} {
				_, st := t.dial().withUID(uid).exchangeID(nfs4.ExchangeIDArgs{
					Owner: []byte(c.owner), Verifier: nfs4.Verifier{verifier}, Flags: nfs4.ExchangeUpdConfirmed,
				})
				assert.Equal(t, nfs4.ErrNoEnt, st)
			}
		}
		c.newSession() // the unconfirmed record is intact
	}},
	{Name: "EXCHANGE_ID updates with another verifier", By: exchangeCases + "8", Linux: "NFS4ERR_PERM if the principal differs too", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		for _, uid := range []uint32{0, 7} {
			_, st := t.dial().withUID(uid).exchangeID(nfs4.ExchangeIDArgs{
				Owner: []byte(c.owner), Verifier: nfs4.Verifier{2}, Flags: nfs4.ExchangeUpdConfirmed,
			})
			assert.Equal(t, nfs4.ErrNotSame, st)
		}
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "EXCHANGE_ID updates by another principal", By: exchangeCases + "9", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		_, st := t.dial().withUID(7).exchangeID(nfs4.ExchangeIDArgs{
			Owner: []byte(c.owner), Verifier: nfs4.Verifier{1}, Flags: nfs4.ExchangeUpdConfirmed,
		})
		assert.Equal(t, nfs4.ErrPerm, st)
		s.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "EXCHANGE_ID with undefined flags", By: "RFC 8881, 18.35.3: bits not defined are NFS4ERR_INVAL", run: func(t *T) {
		for _, flags := range []uint32{0x8, 0x200, 0x80000, 0x20000000, nfs4.ExchangeConfirmed} {
			_, st := t.dial().exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName()), Flags: flags})
			assert.Equal(t, nfs4.ErrInval, st, "%#x", flags)
		}
	}},
	{Name: "EXCHANGE_ID with each flag that arguments may have", By: "RFC 8881, 18.35.3", run: func(t *T) {
		for _, flags := range []uint32{
			nfs4.ExchangeSuppMovedRefer, nfs4.ExchangeSuppMovedMigr, nfs4.ExchangeBindPrincStateID,
			nfs4.ExchangeUseNonPNFS, nfs4.ExchangeUsePNFSMDS, nfs4.ExchangeUsePNFSDS, nfs4.ExchangeUsePNFSMDS | nfs4.ExchangeUsePNFSDS,
		} {
			res := t.dial().registerOwner(t.uniqueName(), 1, flags)
			assert.Zero(t, res.Flags&^(nfs4.ExchangeArgMask&^nfs4.ExchangeUpdConfirmed), "%#x", flags)
		}
	}},
	{Name: "EXCHANGE_ID after SEQUENCE", By: "RFC 8881, 18.35.3", run: func(t *T) {
		var res nfs4.ExchangeIDRes
		t.expectStatus(nfs4.OK, op{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName())}, &res})
		assert.NotZero(t, res.ClientID)
	}},
	{Name: "EXCHANGE_ID before other operations", By: "RFC 8881, 15.1.3.6: NFS4ERR_NOT_ONLY_OP", run: func(t *T) {
		rep := t.dial().callCompound(op{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName())}, new(nfs4.ExchangeIDRes)}, putRootFH())
		rep.checkStatus(t, 1, nfs4.ErrNotOnlyOp)
	}},
	{Name: "EXCHANGE_ID with an implementation ID", By: "RFC 8881, 18.35.1", Linux: "NFS4ERR_BADXDR for some names", run: func(t *T) {
		for _, name := range []string{"", "nfs4test", strings.Repeat("long", 200)} {
			_, st := t.dial().exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName()), Impl: nfs4.ImplID{
				Set: true, Domain: []byte("example.org"), Name: []byte(name), Date: nfs4.Time{Sec: 1, Nsec: 2},
			}})
			assert.Equal(t, nfs4.OK, st, "a name of %d bytes", len(name))
		}
	}},
	{Name: "EXCHANGE_ID with two implementation IDs", By: "RFC 8881, 18.35.1: nfs_impl_id4<1>", run: func(t *T) {
		a := nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName())}
		b := raw(a.AppendTo(nil))
		b[len(b)-1] = 2
		impl := nfs4.ImplID{Set: true, Name: []byte("x")}
		one := impl.AppendTo(nil)[4:]
		b = append(append(b, one...), one...)
		t.checkMalformed(op{nfs4.OpExchangeID, &b, new(nfs4.ExchangeIDRes)})
	}},
	{Name: "EXCHANGE_ID of too long an owner", By: "RFC 8881, 18.35.1: co_ownerid<NFS4_OPAQUE_LIMIT>", run: func(t *T) {
		_, st := t.dial().exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(strings.Repeat("o", nfs4.OpaqueLimit-60) + t.uniqueName())})
		assert.Equal(t, nfs4.OK, st)
		t.checkMalformed(op{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: make([]byte, nfs4.OpaqueLimit+1)}, new(nfs4.ExchangeIDRes)})
	}},
	{Name: "EXCHANGE_ID with an undefined state protection", By: "RFC 5662: state_protect_how4", run: func(t *T) {
		a := nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName()), Protect: nfs4.StateProtect{How: 9}}
		t.checkMalformed(op{nfs4.OpExchangeID, &a, new(nfs4.ExchangeIDRes)})
	}},
	{Name: "EXCHANGE_ID with SP4_MACH_CRED and AUTH_SYS", By: "RFC 8881, 18.35.3: RPCSEC_GSS MUST be used", run: func(t *T) {
		_, st := t.dial().exchangeID(nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName()), Protect: nfs4.StateProtect{How: nfs4.ProtectMachCred}})
		assert.Equal(t, nfs4.ErrInval, st)
	}},
	{Name: "EXCHANGE_ID with SP4_SSV", By: "RFC 8881, 18.35.3: unsupported algorithms", run: func(t *T) {
		a := nfs4.ExchangeIDArgs{Owner: []byte(t.uniqueName())}
		b := raw(a.AppendTo(nil))
		b = b[:len(b)-8]
		for _, v := range []byte{2, 0, 0, 0, 0, 4, 1} { // spa_how, two lists of operations, hashes, encryptions, window, handles
			b = append(b, 0, 0, 0, v)
		}
		b = append(b, 0, 0, 0, 0) // no implementation ID
		rep := t.dial().callCompound(op{nfs4.OpExchangeID, &b, new(nfs4.ExchangeIDRes)})
		assert.Contains(t, []nfs4.Status{nfs4.ErrInval, nfs4.ErrHashAlgUnsupp, nfs4.ErrEncrAlgUnsupp}, rep.status)
	}},
	{Name: "EXCHANGE_ID of two owners", By: exchangeCases + "1", run: func(t *T) {
		a, b := t.newClient(), t.newClient()
		assert.NotEqual(t, a.id, b.id)
		one, two := t.dial().registerOwner(t.uniqueName(), 1, 0), t.dial().registerOwner(t.uniqueName(), 1, 0)
		assert.Equal(t, one.MajorID, two.MajorID, "RFC 8881, 2.10.5: one server")
		assert.Equal(t, one.MinorID, two.MinorID)
		assert.Equal(t, one.Scope, two.Scope)
	}},
	{Name: "EXCHANGE_ID is not confirmed for a lease", By: "RFC 8881, 18.35.4: an unconfirmed record SHOULD be removed", Slow: true, run: func(t *T) {
		c := t.newClient()
		t.waitForLease(t.Lease + t.Lease/2)
		_, st := c.createSession(c.createSessionArgs())
		require.Equal(t, nfs4.ErrStaleClientID, st)
	}},
}

// checkMalformed asserts that the server rejects an operation without SEQUENCE,
// with GARBAGE_ARGS or NFS4ERR_BADXDR.
func (t *T) checkMalformed(o op) {
	c := t.dial()
	x := compound{tag: "malformed", minor: t.Minor, ops: []op{o}}
	stat, results, err := c.callProc(nfs4.ProcCompound, x.encodeArgs())
	require.NoError(t, err)
	if stat != garbageArgs {
		require.Zero(t, stat)
		x.decodeResults(t, results).checkStatus(t, 1, nfs4.ErrBadXDR)
	}
	t.expectStatus(nfs4.OK, putRootFH()) // the server still works
}
