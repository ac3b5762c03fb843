package nfs4test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A client is a client ID, and the connection that created it.
type client struct {
	*conn
	owner    string
	verifier nfs4.Verifier
	callback string // its universal address, in NFSv4.0
	id       uint64
	seq      uint32 // csa_sequence for the next CREATE_SESSION
}

// exchangeID sends EXCHANGE_ID.
func (c *conn) exchangeID(a nfs4.ExchangeIDArgs) (res nfs4.ExchangeIDRes, st nfs4.Status) {
	rep := c.callCompound(op{nfs4.OpExchangeID, &a, &res})
	return res, rep.status
}

// registerLimit bounds the time in which a server with too many clients must
// expire some.
const registerLimit = 40 * time.Second

// registerOwner sends an EXCHANGE_ID that must succeed. It retries after
// NFS4ERR_DELAY, with which a server gains time to expire silent clients.
func (c *conn) registerOwner(owner string, verifier byte, flags uint32) nfs4.ExchangeIDRes {
	a := nfs4.ExchangeIDArgs{Owner: []byte(owner), Verifier: nfs4.Verifier{verifier}, Flags: flags}
	res, st := c.exchangeID(a)
	for deadline := time.Now().Add(registerLimit); st == nfs4.ErrDelay && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		res, st = c.exchangeID(a)
	}
	require.Equal(c.t, nfs4.OK, st, "EXCHANGE_ID")
	return res
}

// newClient creates a client ID for a new owner, over a new connection.
func (t *T) newClient() *client { return t.dial().newClientID(t.uniqueName()) }

// newClientID creates a client ID for an owner.
func (c *conn) newClientID(owner string) *client {
	if c.t.Minor == nfs4.Minor0 {
		return c.newClientID40(owner, 1)
	}
	res := c.registerOwner(owner, 1, 0)
	return &client{conn: c, owner: owner, verifier: nfs4.Verifier{1}, id: res.ClientID, seq: res.SequenceID}
}

// smallChannel requests a channel with small limits.
var smallChannel = nfs4.ChannelAttrs{
	MaxRequestSize: 64 << 10, MaxResponseSize: 64 << 10, MaxResponseSizeCached: 4096, MaxOperations: 16, MaxRequests: 8,
}

// createSessionArgs returns the arguments for the client's next CREATE_SESSION.
func (c *client) createSessionArgs() nfs4.CreateSessionArgs {
	return nfs4.CreateSessionArgs{
		ClientID: c.id, Sequence: c.seq, Fore: smallChannel, Back: smallChannel, CBProgram: 0x40000000, SecParms: nfs4.SecParms{None: true},
	}
}

// createSession sends CREATE_SESSION.
func (c *conn) createSession(a nfs4.CreateSessionArgs) (res nfs4.CreateSessionRes, st nfs4.Status) {
	rep := c.callCompound(op{nfs4.OpCreateSession, &a, &res})
	return res, rep.status
}

// A session is a session, and a connection to use it over.
type session struct {
	*conn
	client *client
	id     nfs4.SessionID
	fore   nfs4.ChannelAttrs
	seq    []uint32 // the last sequence ID of each slot

	seqIDs *ownerSeqIDs // NFSv4.0 only, which has neither id nor slots
}

// newSession creates a session after change has modified its arguments.
func (c *client) newSession(change ...func(a *nfs4.CreateSessionArgs)) *session {
	if c.t.Minor == nfs4.Minor0 {
		return &session{conn: c.conn, client: c, seqIDs: newOwnerSeqIDs()}
	}
	a := c.createSessionArgs()
	for _, f := range change {
		f(&a)
	}
	res, st := c.createSession(a)
	require.Equal(c.t, nfs4.OK, st, "CREATE_SESSION")
	c.seq++
	return &session{
		conn: c.conn, client: c, id: res.Session, fore: res.Fore, seq: make([]uint32, res.Fore.MaxRequests),
	}
}

// completeReclaim sends RECLAIM_COMPLETE.
func (s *session) completeReclaim() *session {
	if s.seqIDs != nil {
		return s
	}
	s.expectStatus(nfs4.OK, reclaimCompleteOp(false))
	return s
}

// overConn returns the same session and slots for use over another connection.
func (s *session) overConn(c *conn) *session {
	other := *s
	other.conn = c
	return &other
}

// ownSession returns the scenario's default session. Its client has nothing to
// reclaim.
func (t *T) ownSession() *session {
	if t.own == nil {
		t.own = t.newClient().newSession().completeReclaim()
	}
	return t.own
}

// sequenceOp returns SEQUENCE for the next call of a slot.
func (s *session) sequenceOp(slot uint32) op {
	return op{nfs4.OpSequence, &nfs4.SequenceArgs{Session: s.id, Sequence: s.seq[slot] + 1, Slot: slot}, new(nfs4.SequenceRes)}
}

// callWithSequence sends a COMPOUND in slot 0.
func (s *session) callWithSequence(ops ...op) *reply {
	if s.seqIDs != nil {
		return s.callMinor0(ops)
	}
	rep := s.callCompound(slices.Concat([]op{s.sequenceOp(0)}, ops)...)
	if rep.resultCount > 1 || rep.status == nfs4.OK {
		s.seq[0]++
	}
	return rep
}

// expectStatus sends a COMPOUND, whose last operation must return the status.
func (s *session) expectStatus(st nfs4.Status, ops ...op) *reply {
	return s.expectOneOf([]nfs4.Status{st}, ops...)
}

// expectOneOf sends a COMPOUND, whose last operation must return one of the
// statuses.
func (s *session) expectOneOf(st []nfs4.Status, ops ...op) *reply {
	return s.callWithSequence(ops...).checkStatus(s.t, len(ops)+1, st...)
}

// expectStatus calls session.expectStatus on the scenario's default session.
func (t *T) expectStatus(st nfs4.Status, ops ...op) *reply {
	return t.ownSession().expectStatus(st, ops...)
}

// expectOneOf calls session.expectOneOf on the scenario's default session.
func (t *T) expectOneOf(st []nfs4.Status, ops ...op) *reply {
	return t.ownSession().expectOneOf(st, ops...)
}

// callWithoutSequence sends a COMPOUND that holds one operation and no
// SEQUENCE.
func (c *conn) callWithoutSequence(want nfs4.Status, o op) *reply {
	rep := c.callCompound(o)
	assert.Equal(c.t, want, rep.status, "%s alone", o.num)
	return rep
}
