package nfs4test

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// bind sends BIND_CONN_TO_SESSION.
func (c *conn) bind(id nfs4.SessionID, dir uint32) (uint32, nfs4.Status) {
	var res nfs4.BindConnRes
	rep := c.compound(op{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: id, Dir: dir}, &res})
	if rep.status == nfs4.OK {
		assert.Equal(c.t, id, res.Session)
	}
	return res.Dir, rep.status
}

// flags waits until the status flags of SEQUENCE are as they must be: a server
// learns of a lost connection in its own time.
func (s *session) flags(are func(flags uint32) bool) {
	deadline := time.Now().Add(callLimit)
	for {
		o := s.sequenceOp(0)
		s.compound(o).is(s.t, 1, nfs4.OK)
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

// bindings are scenarios of BIND_CONN_TO_SESSION and BACKCHANNEL_CTL.
var bindings = []Scenario{
	{Name: "BIND_CONN_TO_SESSION in each direction", By: "RFC 8881, 18.34.3", run: func(t *T) {
		s := t.client().session(func(a *nfs4.CreateSessionArgs) { a.Flags = nfs4.SessionConnBackChan })
		for dir, want := range map[uint32][]uint32{
			nfs4.BindFore: {nfs4.BindFore}, nfs4.BindBack: {nfs4.BindBack},
			nfs4.BindForeOrBoth: {nfs4.BindFore, nfs4.BindBoth}, nfs4.BindBackOrBoth: {nfs4.BindBack, nfs4.BindBoth},
		} {
			got, st := t.dial().bind(s.id, dir)
			if st == nfs4.ErrInval && dir != nfs4.BindFore && dir != nfs4.BindForeOrBoth {
				continue // a transport without a way back
			}
			assert.Equal(t, nfs4.OK, st, dir)
			assert.Contains(t, want, got, dir)
		}
	}},
	{Name: "BIND_CONN_TO_SESSION again", By: "RFC 8881, 18.34.3: it has no effect, and MUST be NFS4_OK", run: func(t *T) {
		s := t.session()
		c := t.dial()
		for range 2 {
			dir, st := c.bind(s.id, nfs4.BindFore)
			assert.Equal(t, nfs4.OK, st)
			assert.Equal(t, nfs4.BindFore, dir)
		}
		s.over(c).want(nfs4.OK, putRootFH())
	}},
	{Name: "BIND_CONN_TO_SESSION to an unknown session", By: "RFC 8881, 15.1.11.1: NFS4ERR_BADSESSION", run: func(t *T) {
		id := t.session().id
		id[9] ^= 1
		_, st := t.dial().bind(id, nfs4.BindFore)
		assert.Equal(t, nfs4.ErrBadSession, st)
	}},
	{Name: "BIND_CONN_TO_SESSION before other operations", By: "RFC 8881, 18.34.3: it MUST be the only one", Linux: "it succeeds after SEQUENCE", run: func(t *T) {
		s := t.session()
		o := op{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: s.id, Dir: nfs4.BindFore}, new(nfs4.BindConnRes)}
		t.dial().compound(o, putRootFH()).is(t, 1, nfs4.ErrNotOnlyOp)
		s.want(nfs4.ErrNotOnlyOp, o)
		s.do(putRootFH(), o, putRootFH()).is(t, 3, nfs4.ErrNotOnlyOp)
	}},
	{Name: "BIND_CONN_TO_SESSION in an undefined direction", By: "RFC 5662: channel_dir_from_client4", Linux: "NFS4ERR_INVAL", run: func(t *T) {
		s := t.session()
		for _, dir := range []uint32{0, 4, 8, 1 << 31} {
			t.malformed(op{nfs4.OpBindConnToSession, &nfs4.BindConnArgs{Session: s.id, Dir: dir}, new(nfs4.BindConnRes)})
		}
	}},
	{Name: "BIND_CONN_TO_SESSION by another user", By: "RFC 8881, 18.34.3: with SP4_NONE any principal MAY", run: func(t *T) {
		s := t.session()
		_, st := t.dial().as(7).bind(s.id, nfs4.BindFore)
		assert.Equal(t, nfs4.OK, st)
	}},
	{Name: "a backchannel is lost and bound again", By: "RFC 8881, 18.46.3: SEQ4_STATUS_CB_PATH_DOWN", run: func(t *T) {
		s := t.client().session(func(a *nfs4.CreateSessionArgs) { a.Flags = nfs4.SessionConnBackChan }).ready()
		s.nc.Close()
		s = s.over(t.dial())
		const down = nfs4.SeqCBPathDown
		s.flags(func(flags uint32) bool { return flags&down == down })
		_, st := s.bind(s.id, nfs4.BindForeOrBoth)
		require.Equal(t, nfs4.OK, st)
		s.flags(func(flags uint32) bool { return flags&down == 0 })
	}},
	{Name: "BACKCHANNEL_CTL", By: "RFC 8881, 18.33.3", run: func(t *T) {
		s := t.client().session(func(a *nfs4.CreateSessionArgs) { a.Flags = nfs4.SessionConnBackChan }).ready()
		for _, parms := range []nfs4.SecParms{{None: true}, {Sys: true}} {
			s.want(nfs4.OK, op{nfs4.OpBackchannelCtl, &nfs4.BackchannelCtlArgs{CBProgram: 0x40000001, SecParms: parms}, status()})
		}
	}},
	{Name: "BACKCHANNEL_CTL with an undefined flavour", By: "RFC 5662: callback_sec_parms4", Linux: "NFS4ERR_INVAL", run: func(t *T) {
		b := raw{0x40, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 99}
		t.want(nfs4.ErrBadXDR, op{nfs4.OpBackchannelCtl, &b, status()})
		t.want(nfs4.OK, putRootFH())
	}},
	{Name: "SET_SSV without SP4_SSV", By: "RFC 8881, 18.47.3: NFS4ERR_INVAL", Linux: "NFS4ERR_NOTSUPP", run: func(t *T) {
		b := raw(make([]byte, 8))
		t.want(nfs4.ErrInval, op{nfs4.OpSetSSV, &b, status()})
	}},
}

// destroySession are scenarios of DESTROY_SESSION.
var destroySession = []Scenario{
	{Name: "DESTROY_SESSION alone", By: "RFC 8881, 18.37.3", run: func(t *T) {
		c := t.client()
		s, other := c.session(), c.session()
		c.alone(nfs4.OK, destroySessionOp(s.id))
		c.alone(nfs4.ErrBadSession, destroySessionOp(s.id))
		s.compound(s.sequenceOp(0)).is(t, 1, nfs4.ErrBadSession)
		other.ready()
	}},
	{Name: "DESTROY_SESSION over another connection", By: "RFC 8881, 18.37.3: the connection MUST be associated", run: func(t *T) {
		s := t.client().session()
		rep := t.dial().compound(destroySessionOp(s.id))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrConnNotBoundToSession}, rep.status)
	}},
	{Name: "DESTROY_SESSION after SEQUENCE in it", By: "RFC 8881, 18.37.3: it MUST be the last", run: func(t *T) {
		s := t.client().session()
		s.do(putRootFH(), destroySessionOp(s.id), putRootFH()).is(t, 3, nfs4.ErrNotOnlyOp)
		s.want(nfs4.OK, putRootFH(), destroySessionOp(s.id))
		s.compound(s.sequenceOp(0)).is(t, 1, nfs4.ErrBadSession)
	}},
	{Name: "DESTROY_SESSION after SEQUENCE in another", By: "RFC 8881, 18.37.3: any position but the first", run: func(t *T) {
		s, other := t.client().session(), t.client().session()
		s.over(other.conn).want(nfs4.OK, putRootFH())
		other.want(nfs4.OK, putRootFH(), destroySessionOp(s.id), putRootFH())
		s.compound(s.sequenceOp(0)).is(t, 1, nfs4.ErrBadSession)
	}},
	{Name: "DESTROY_SESSION before other operations", By: "RFC 8881, 18.37.3: NFS4ERR_NOT_ONLY_OP", run: func(t *T) {
		s := t.client().session()
		s.compound(destroySessionOp(s.id), putRootFH()).is(t, 1, nfs4.ErrNotOnlyOp)
		s.ready()
	}},
	{Name: "DESTROY_SESSION of an unknown session", By: "RFC 8881, 15.1.11.1: NFS4ERR_BADSESSION", run: func(t *T) {
		t.dial().alone(nfs4.ErrBadSession, destroySessionOp(nfs4.SessionID{1}))
		t.want(nfs4.ErrBadSession, destroySessionOp(nfs4.SessionID{1}))
	}},
	{Name: "DESTROY_SESSION keeps opens", By: "RFC 8881, 18.37.3: state is tied to the client ID", run: func(t *T) {
		c := t.client()
		s := c.session().ready()
		fh, id := t.openNew(s, "f")
		c.alone(nfs4.OK, destroySessionOp(s.id))
		next := c.session()
		next.want(nfs4.OK, putFH(fh), closeFile(id))
		require.Equal(t, nfs4.ErrCompleteAlready, next.do(reclaimCompleteOp(false)).status)
	}},
}

// destroyClientID are scenarios of DESTROY_CLIENTID.
var destroyClientID = []Scenario{
	{Name: "DESTROY_CLIENTID of an unconfirmed client ID", By: "RFC 8881, 18.50.3", run: func(t *T) {
		c := t.client()
		c.alone(nfs4.OK, destroyClientIDOp(c.id))
		c.alone(nfs4.ErrStaleClientID, destroyClientIDOp(c.id))
		_, st := c.create(c.args())
		assert.Equal(t, nfs4.ErrStaleClientID, st)
	}},
	{Name: "DESTROY_CLIENTID of a confirmed client ID", By: "RFC 8881, 18.50.3", run: func(t *T) {
		c := t.client()
		s := c.session()
		c.alone(nfs4.ErrClientIDBusy, destroyClientIDOp(c.id))
		c.alone(nfs4.OK, destroySessionOp(s.id))
		c.alone(nfs4.OK, destroyClientIDOp(c.id))
		c.alone(nfs4.ErrStaleClientID, destroyClientIDOp(c.id))
	}},
	{Name: "DESTROY_CLIENTID after SEQUENCE", By: "RFC 8881, 18.50.3: NFS4ERR_CLIENTID_BUSY if it is the session's", run: func(t *T) {
		c := t.client()
		c.session().want(nfs4.ErrClientIDBusy, destroyClientIDOp(c.id))
		other := t.client()
		t.want(nfs4.OK, putRootFH(), destroyClientIDOp(other.id), putRootFH())
		t.want(nfs4.ErrStaleClientID, destroyClientIDOp(other.id))
	}},
	{Name: "DESTROY_CLIENTID with opens", By: "RFC 8881, 18.50.3: NFS4ERR_CLIENTID_BUSY", run: func(t *T) {
		c := t.client()
		s := c.session().ready()
		fh, id := t.openNew(s, "f")
		c.alone(nfs4.OK, destroySessionOp(s.id))
		c.alone(nfs4.ErrClientIDBusy, destroyClientIDOp(c.id))
		s = c.session()
		s.want(nfs4.OK, putFH(fh), closeFile(id))
		c.alone(nfs4.OK, destroySessionOp(s.id))
		c.alone(nfs4.OK, destroyClientIDOp(c.id))
	}},
	{Name: "DESTROY_CLIENTID before other operations", By: "RFC 8881, 18.50.3: NFS4ERR_NOT_ONLY_OP", run: func(t *T) {
		c := t.client()
		c.compound(destroyClientIDOp(c.id), putRootFH()).is(t, 1, nfs4.ErrNotOnlyOp)
		c.session()
	}},
	{Name: "DESTROY_CLIENTID of an unknown client ID", By: "RFC 8881, 15.1.5.9: NFS4ERR_STALE_CLIENTID", run: func(t *T) {
		for _, id := range []uint64{0, 1, t.session().client.id + 1<<20} {
			t.dial().alone(nfs4.ErrStaleClientID, destroyClientIDOp(id))
			t.want(nfs4.ErrStaleClientID, destroyClientIDOp(id))
		}
	}},
}

// reclaimComplete are scenarios of RECLAIM_COMPLETE.
var reclaimComplete = []Scenario{
	{Name: "RECLAIM_COMPLETE twice", By: "RFC 8881, 18.51.4: NFS4ERR_COMPLETE_ALREADY", run: func(t *T) {
		c := t.client()
		s, other := c.session(), c.session()
		s.want(nfs4.OK, reclaimCompleteOp(false))
		s.want(nfs4.ErrCompleteAlready, reclaimCompleteOp(false))
		other.want(nfs4.ErrCompleteAlready, reclaimCompleteOp(false))
	}},
	{Name: "RECLAIM_COMPLETE of a file system", By: "RFC 8881, 18.51.3", run: func(t *T) {
		s := t.client().session()
		s.want(nfs4.ErrNoFileHandle, reclaimCompleteOp(true))
		s.want(nfs4.OK, putRootFH(), reclaimCompleteOp(true))
		s.want(nfs4.OK, reclaimCompleteOp(false)) // the global one has not been done
	}},
	{Name: "OPEN before RECLAIM_COMPLETE", By: "RFC 8881, 18.51.3: NFS4ERR_GRACE", run: func(t *T) {
		s := t.client().session()
		a := creating(openName("f", "owner", nfs4.ShareBoth, 0), nfs4.Unchecked, mode(0o666))
		s.want(nfs4.ErrGrace, putFH(t.dir()), open(a, new(nfs4.OpenRes)))
		s.want(nfs4.ErrNoEnt, putFH(t.dir()), lookup("f"))
		s.ready().want(nfs4.OK, putFH(t.dir()), open(a, new(nfs4.OpenRes)))
	}},
	{Name: "OPEN reclaims after RECLAIM_COMPLETE", By: "RFC 8881, 18.51.3: NFS4ERR_NO_GRACE", run: func(t *T) {
		f := t.file("f", "")
		a := openName("", "owner", nfs4.ShareRead, 0)
		a.Claim = nfs4.ClaimPrevious
		t.want(nfs4.ErrNoGrace, putFH(f.fh), open(a, new(nfs4.OpenRes)))
	}},
	{Name: "OPEN reclaims what a new client never had", By: "RFC 8881, 8.4.2.1: NFS4ERR_NO_GRACE", run: func(t *T) {
		f := t.file("f", "")
		a := openName("", "owner", nfs4.ShareRead, 0)
		a.Claim = nfs4.ClaimPrevious
		s := t.client().session()
		s.oneOf([]nfs4.Status{nfs4.ErrNoGrace, nfs4.ErrReclaimBad}, putFH(f.fh), open(a, new(nfs4.OpenRes)))
	}},
}
