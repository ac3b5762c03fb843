package nfs4test

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// bindConn sends BIND_CONN_TO_SESSION.
func (c *conn) bindConn(id nfs4.SessionID, dir uint32) (uint32, nfs4.Status) {
	var res nfs4.BindConnRes
	rep := c.callCompound(op{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: id, Dir: dir}, &res})
	if rep.status == nfs4.OK {
		assert.Equal(c.t, id, res.Session)
	}
	return res.Dir, rep.status
}

// awaitFlags polls SEQUENCE until are accepts the status flags: a server may notice
// a lost connection late.
func (s *session) awaitFlags(are func(flags uint32) bool) {
	deadline := time.Now().Add(callLimit)
	for {
		o := s.sequenceOp(0)
		s.callCompound(o).checkStatus(s.t, 1, nfs4.OK)
		s.seq[0]++
		switch flags := o.res.(*nfs4.SequenceRes).Flags; {
		case are(flags):
			return
		case time.Now().After(deadline):
			require.Fail(s.t, "status flags", "%#x", flags)
		}
		time.Sleep(time.Millisecond)
	}
}

// bindings are scenarios for BIND_CONN_TO_SESSION and BACKCHANNEL_CTL.
var bindings = []Scenario{
	{Name: "BIND_CONN_TO_SESSION in each direction", By: "RFC 8881, 18.34.3", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Flags = nfs4.SessionConnBackChan })
		for dir, want := range map[uint32][]uint32{
			nfs4.BindFore: {nfs4.BindFore}, nfs4.BindBack: {nfs4.BindBack},
			nfs4.BindForeOrBoth: {nfs4.BindFore, nfs4.BindBoth}, nfs4.BindBackOrBoth: {nfs4.BindBack, nfs4.BindBoth},
		} {
			got, st := t.dial().bindConn(s.id, dir)
			if st == nfs4.ErrInval && dir != nfs4.BindFore && dir != nfs4.BindForeOrBoth {
				continue // a transport without a backchannel
			}
			assert.Equal(t, nfs4.OK, st, dir)
			assert.Contains(t, want, got, dir)
		}
	}},
	{Name: "BIND_CONN_TO_SESSION again", By: "RFC 8881, 18.34.3: it has no effect, and MUST be NFS4_OK", run: func(t *T) {
		s := t.ownSession()
		c := t.dial()
		for range 2 {
			dir, st := c.bindConn(s.id, nfs4.BindFore)
			assert.Equal(t, nfs4.OK, st)
			assert.Equal(t, nfs4.BindFore, dir)
		}
		s.overConn(c).expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "BIND_CONN_TO_SESSION to an unknown session", By: "RFC 8881, 15.1.11.1: NFS4ERR_BADSESSION", run: func(t *T) {
		id := t.ownSession().id
		id[9] ^= 1
		_, st := t.dial().bindConn(id, nfs4.BindFore)
		assert.Equal(t, nfs4.ErrBadSession, st)
	}},
	{Name: "BIND_CONN_TO_SESSION before other operations", By: "RFC 8881, 18.34.3: it MUST be the only one", Linux: "it succeeds after SEQUENCE", run: func(t *T) {
		s := t.ownSession()
		o := op{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: s.id, Dir: nfs4.BindFore}, new(nfs4.BindConnRes)}
		t.dial().callCompound(o, putRootFH()).checkStatus(t, 1, nfs4.ErrNotOnlyOp)
		s.expectStatus(nfs4.ErrNotOnlyOp, o)
		s.callWithSequence(putRootFH(), o, putRootFH()).checkStatus(t, 3, nfs4.ErrNotOnlyOp)
	}},
	{Name: "BIND_CONN_TO_SESSION in an undefined direction", By: "RFC 5662: channel_dir_from_client4", Linux: "NFS4ERR_INVAL", run: func(t *T) {
		s := t.ownSession()
		for _, dir := range []uint32{0, 4, 8, 1 << 31} {
			t.checkMalformed(op{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: s.id, Dir: dir}, new(nfs4.BindConnRes)})
		}
	}},
	{Name: "BIND_CONN_TO_SESSION by another user", By: "RFC 8881, 18.34.3: with SP4_NONE any principal MAY", run: func(t *T) {
		s := t.ownSession()
		_, st := t.dial().withUID(7).bindConn(s.id, nfs4.BindFore)
		assert.Equal(t, nfs4.OK, st)
	}},
	{Name: "a backchannel is lost and bound again", By: "RFC 8881, 18.46.3: SEQ4_STATUS_CB_PATH_DOWN", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Flags = nfs4.SessionConnBackChan }).completeReclaim()
		s.nc.Close()
		s = s.overConn(t.dial())
		const down = nfs4.SeqCBPathDown
		s.awaitFlags(func(flags uint32) bool { return flags&down == down })
		_, st := s.bindConn(s.id, nfs4.BindForeOrBoth)
		require.Equal(t, nfs4.OK, st)
		s.awaitFlags(func(flags uint32) bool { return flags&down == 0 })
	}},
	{Name: "BACKCHANNEL_CTL", By: "RFC 8881, 18.33.3", run: func(t *T) {
		s := t.newClient().newSession(func(a *nfs4.CreateSessionArgs) { a.Flags = nfs4.SessionConnBackChan }).completeReclaim()
		for _, parms := range []nfs4.SecParms{{None: true}, {Sys: true}} {
			s.expectStatus(nfs4.OK, op{nfs4.OpBackchannelCtl, &nfs4.BackchannelCtlArgs{CBProgram: 0x40000001, SecParms: parms}, statusRes()})
		}
	}},
	{Name: "BACKCHANNEL_CTL with an undefined flavour", By: "RFC 5662: callback_sec_parms4", Linux: "NFS4ERR_INVAL", run: func(t *T) {
		b := raw{0x40, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 99}
		t.expectStatus(nfs4.ErrBadXDR, op{nfs4.OpBackchannelCtl, &b, statusRes()})
		t.expectStatus(nfs4.OK, putRootFH())
	}},
	{Name: "SET_SSV without SP4_SSV", By: "RFC 8881, 18.47.3: NFS4ERR_INVAL", Linux: "NFS4ERR_NOTSUPP", run: func(t *T) {
		b := raw(make([]byte, 8))
		t.expectStatus(nfs4.ErrInval, op{nfs4.OpSetSSV, &b, statusRes()})
	}},
}

// destroySession are scenarios for DESTROY_SESSION.
var destroySession = []Scenario{
	{Name: "DESTROY_SESSION alone", By: "RFC 8881, 18.37.3", run: func(t *T) {
		c := t.newClient()
		s, other := c.newSession(), c.newSession()
		c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		c.callWithoutSequence(nfs4.ErrBadSession, destroySessionOp(s.id))
		s.callCompound(s.sequenceOp(0)).checkStatus(t, 1, nfs4.ErrBadSession)
		other.completeReclaim()
	}},
	{Name: "DESTROY_SESSION over another connection", By: "RFC 8881, 18.37.3: the connection MUST be associated", run: func(t *T) {
		s := t.newClient().newSession()
		rep := t.dial().callCompound(destroySessionOp(s.id))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrConnNotBoundToSession}, rep.status)
	}},
	{Name: "DESTROY_SESSION after SEQUENCE in it", By: "RFC 8881, 18.37.3: it MUST be the last", run: func(t *T) {
		s := t.newClient().newSession()
		s.callWithSequence(putRootFH(), destroySessionOp(s.id), putRootFH()).checkStatus(t, 3, nfs4.ErrNotOnlyOp)
		s.expectStatus(nfs4.OK, putRootFH(), destroySessionOp(s.id))
		s.callCompound(s.sequenceOp(0)).checkStatus(t, 1, nfs4.ErrBadSession)
	}},
	{Name: "DESTROY_SESSION after SEQUENCE in another", By: "RFC 8881, 18.37.3: any position but the first", run: func(t *T) {
		s, other := t.newClient().newSession(), t.newClient().newSession()
		s.overConn(other.conn).expectStatus(nfs4.OK, putRootFH())
		other.expectStatus(nfs4.OK, putRootFH(), destroySessionOp(s.id), putRootFH())
		s.callCompound(s.sequenceOp(0)).checkStatus(t, 1, nfs4.ErrBadSession)
	}},
	{Name: "DESTROY_SESSION before other operations", By: "RFC 8881, 18.37.3: NFS4ERR_NOT_ONLY_OP", run: func(t *T) {
		s := t.newClient().newSession()
		s.callCompound(destroySessionOp(s.id), putRootFH()).checkStatus(t, 1, nfs4.ErrNotOnlyOp)
		s.completeReclaim()
	}},
	{Name: "DESTROY_SESSION of an unknown session", By: "RFC 8881, 15.1.11.1: NFS4ERR_BADSESSION", run: func(t *T) {
		t.dial().callWithoutSequence(nfs4.ErrBadSession, destroySessionOp(nfs4.SessionID{1}))
		t.expectStatus(nfs4.ErrBadSession, destroySessionOp(nfs4.SessionID{1}))
	}},
	{Name: "DESTROY_SESSION keeps opens", By: "RFC 8881, 18.37.3: state is tied to the client ID", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		fh, id := t.openNew(s, "f")
		c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		next := c.newSession()
		next.expectStatus(nfs4.OK, putFH(fh), closeFile(id))
		require.Equal(t, nfs4.ErrCompleteAlready, next.callWithSequence(reclaimCompleteOp(false)).status)
	}},
}

// destroyClientID are scenarios for DESTROY_CLIENTID.
var destroyClientID = []Scenario{
	{Name: "DESTROY_CLIENTID of an unconfirmed client ID", By: "RFC 8881, 18.50.3", run: func(t *T) {
		c := t.newClient()
		c.callWithoutSequence(nfs4.OK, destroyClientIDOp(c.id))
		c.callWithoutSequence(nfs4.ErrStaleClientID, destroyClientIDOp(c.id))
		_, st := c.createSession(c.createSessionArgs())
		assert.Equal(t, nfs4.ErrStaleClientID, st)
	}},
	{Name: "DESTROY_CLIENTID of a confirmed client ID", By: "RFC 8881, 18.50.3", run: func(t *T) {
		c := t.newClient()
		s := c.newSession()
		c.callWithoutSequence(nfs4.ErrClientIDBusy, destroyClientIDOp(c.id))
		c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		c.callWithoutSequence(nfs4.OK, destroyClientIDOp(c.id))
		c.callWithoutSequence(nfs4.ErrStaleClientID, destroyClientIDOp(c.id))
	}},
	{Name: "DESTROY_CLIENTID after SEQUENCE", By: "RFC 8881, 18.50.3: NFS4ERR_CLIENTID_BUSY if it is the session's", run: func(t *T) {
		c := t.newClient()
		c.newSession().expectStatus(nfs4.ErrClientIDBusy, destroyClientIDOp(c.id))
		other := t.newClient()
		t.expectStatus(nfs4.OK, putRootFH(), destroyClientIDOp(other.id), putRootFH())
		t.expectStatus(nfs4.ErrStaleClientID, destroyClientIDOp(other.id))
	}},
	{Name: "DESTROY_CLIENTID with opens", By: "RFC 8881, 18.50.3: NFS4ERR_CLIENTID_BUSY", run: func(t *T) {
		c := t.newClient()
		s := c.newSession().completeReclaim()
		fh, id := t.openNew(s, "f")
		c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		c.callWithoutSequence(nfs4.ErrClientIDBusy, destroyClientIDOp(c.id))
		s = c.newSession()
		s.expectStatus(nfs4.OK, putFH(fh), closeFile(id))
		c.callWithoutSequence(nfs4.OK, destroySessionOp(s.id))
		c.callWithoutSequence(nfs4.OK, destroyClientIDOp(c.id))
	}},
	{Name: "DESTROY_CLIENTID before other operations", By: "RFC 8881, 18.50.3: NFS4ERR_NOT_ONLY_OP", run: func(t *T) {
		c := t.newClient()
		c.callCompound(destroyClientIDOp(c.id), putRootFH()).checkStatus(t, 1, nfs4.ErrNotOnlyOp)
		c.newSession()
	}},
	{Name: "DESTROY_CLIENTID of an unknown client ID", By: "RFC 8881, 15.1.5.9: NFS4ERR_STALE_CLIENTID", run: func(t *T) {
		for _, id := range []uint64{0, 1, t.ownSession().client.id + 1<<20} {
			t.dial().callWithoutSequence(nfs4.ErrStaleClientID, destroyClientIDOp(id))
			t.expectStatus(nfs4.ErrStaleClientID, destroyClientIDOp(id))
		}
	}},
}

// reclaimComplete are scenarios for RECLAIM_COMPLETE.
var reclaimComplete = []Scenario{
	{Name: "RECLAIM_COMPLETE twice", By: "RFC 8881, 18.51.4: NFS4ERR_COMPLETE_ALREADY", run: func(t *T) {
		c := t.newClient()
		s, other := c.newSession(), c.newSession()
		s.expectStatus(nfs4.OK, reclaimCompleteOp(false))
		s.expectStatus(nfs4.ErrCompleteAlready, reclaimCompleteOp(false))
		other.expectStatus(nfs4.ErrCompleteAlready, reclaimCompleteOp(false))
	}},
	{Name: "RECLAIM_COMPLETE of a file system", By: "RFC 8881, 18.51.3", run: func(t *T) {
		s := t.newClient().newSession()
		s.expectStatus(nfs4.ErrNoFileHandle, reclaimCompleteOp(true))
		s.expectStatus(nfs4.OK, putRootFH(), reclaimCompleteOp(true))
		s.expectStatus(nfs4.OK, reclaimCompleteOp(false)) // the global one has not been done
	}},
	{Name: "OPEN before RECLAIM_COMPLETE", By: "RFC 8881, 18.51.3: NFS4ERR_GRACE", run: func(t *T) {
		s := t.newClient().newSession()
		a := withCreate(openName("f", "owner", nfs4.ShareBoth, 0), nfs4.Unchecked, modeAttrs(0o666))
		s.expectStatus(nfs4.ErrGrace, putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes)))
		s.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
		s.completeReclaim().expectStatus(nfs4.OK, putFH(t.ownDir()), openOp(a, new(nfs4.OpenRes)))
	}},
	{Name: "OPEN reclaims after RECLAIM_COMPLETE", By: "RFC 8881, 18.51.3: NFS4ERR_NO_GRACE", run: func(t *T) {
		f := t.newFile("f", "")
		a := openName("", "owner", nfs4.ShareRead, 0)
		a.Claim = nfs4.ClaimPrevious
		t.expectStatus(nfs4.ErrNoGrace, putFH(f.fh), openOp(a, new(nfs4.OpenRes)))
	}},
	{Name: "OPEN reclaims what a new client never had", By: "RFC 8881, 8.4.2.1: NFS4ERR_NO_GRACE", run: func(t *T) {
		f := t.newFile("f", "")
		a := openName("", "owner", nfs4.ShareRead, 0)
		a.Claim = nfs4.ClaimPrevious
		s := t.newClient().newSession()
		s.expectOneOf([]nfs4.Status{nfs4.ErrNoGrace, nfs4.ErrReclaimBad}, putFH(f.fh), openOp(a, new(nfs4.OpenRes)))
	}},
}
