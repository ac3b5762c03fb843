package nfs4test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A client is a client ID, and the connection by which it was made.
type client struct {
	*conn
	owner    string
	verifier nfs4.Verifier
	callback string // its universal address, of version 4.0
	id       uint64
	seq      uint32 // of the next CREATE_SESSION
}

// exchangeID sends EXCHANGE_ID.
func (c *conn) exchangeID(a nfs4.ExchangeIDArgs) (res nfs4.ExchangeIDRes, st nfs4.Status) {
	rep := c.compound(op{nfs4.OpExchangeID, &a, &res})
	return res, rep.status
}

// registerLimit bounds the time in which a server that has too many clients must
// have ended some.
const registerLimit = 40 * time.Second

// register is exchangeID for an owner without further wishes, which must
// succeed. With NFS4ERR_DELAY, a server ends silent clients for the new one.
func (c *conn) register(owner string, verifier byte, flags uint32) nfs4.ExchangeIDRes {
	a := nfs4.ExchangeIDArgs{Owner: []byte(owner), Verifier: nfs4.Verifier{verifier}, Flags: flags}
	res, st := c.exchangeID(a)
	for deadline := time.Now().Add(registerLimit); st == nfs4.ErrDelay && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		res, st = c.exchangeID(a)
	}
	require.Equal(c.t, nfs4.OK, st, "EXCHANGE_ID")
	return res
}

// client makes a client ID of a new owner, over a new connection.
func (t *T) client() *client { return t.dial().client(t.unique()) }

// client makes a client ID.
func (c *conn) client(owner string) *client {
	if c.t.Minor == nfs4.Minor0 {
		return c.client40(owner, 1)
	}
	res := c.register(owner, 1, 0)
	return &client{conn: c, owner: owner, verifier: nfs4.Verifier{1}, id: res.ClientID, seq: res.SequenceID}
}

// channel is a channel that asks for little.
var channel = nfs4.ChannelAttrs{
	MaxRequestSize: 64 << 10, MaxResponseSize: 64 << 10, MaxResponseSizeCached: 4096, MaxOperations: 16, MaxRequests: 8,
}

// args returns the arguments of the client's next CREATE_SESSION.
func (c *client) args() nfs4.CreateSessionArgs {
	return nfs4.CreateSessionArgs{
		ClientID: c.id, Sequence: c.seq, Fore: channel, Back: channel, CBProgram: 0x40000000, SecParms: nfs4.SecParms{None: true},
	}
}

// create sends CREATE_SESSION.
func (c *conn) create(a nfs4.CreateSessionArgs) (res nfs4.CreateSessionRes, st nfs4.Status) {
	rep := c.compound(op{nfs4.OpCreateSession, &a, &res})
	return res, rep.status
}

// A session is a session, and a connection to use it over.
type session struct {
	*conn
	client *client
	id     nfs4.SessionID
	fore   nfs4.ChannelAttrs
	seq    []uint32 // the last sequence ID of each slot

	numbers *numbers // of version 4.0, which has neither id nor slots
}

// session makes a session with the given changes to its arguments.
func (c *client) session(change ...func(a *nfs4.CreateSessionArgs)) *session {
	if c.t.Minor == nfs4.Minor0 {
		return &session{conn: c.conn, client: c, numbers: newNumbers()}
	}
	a := c.args()
	for _, f := range change {
		f(&a)
	}
	res, st := c.create(a)
	require.Equal(c.t, nfs4.OK, st, "CREATE_SESSION")
	c.seq++
	return &session{
		conn: c.conn, client: c, id: res.Session, fore: res.Fore, seq: make([]uint32, res.Fore.MaxRequests),
	}
}

// ready sends RECLAIM_COMPLETE.
func (s *session) ready() *session {
	if s.numbers != nil {
		return s
	}
	s.want(nfs4.OK, reclaimCompleteOp(false))
	return s
}

// over returns the session as used over another connection, with the same
// slots.
func (s *session) over(c *conn) *session {
	other := *s
	other.conn = c
	return &other
}

// session returns the scenario's own session, of a client that has nothing to
// reclaim.
func (t *T) session() *session {
	if t.own == nil {
		t.own = t.client().session().ready()
	}
	return t.own
}

// sequenceOp returns SEQUENCE for the next call of a slot.
func (s *session) sequenceOp(slot uint32) op {
	return op{nfs4.OpSequence, &nfs4.SequenceArgs{Session: s.id, Sequence: s.seq[slot] + 1, Slot: slot}, new(nfs4.SequenceRes)}
}

// do makes a COMPOUND in slot 0.
func (s *session) do(ops ...op) *reply {
	if s.numbers != nil {
		return s.doNumbered(ops)
	}
	rep := s.compound(slices.Concat([]op{s.sequenceOp(0)}, ops)...)
	if rep.n > 1 || rep.status == nfs4.OK {
		s.seq[0]++
	}
	return rep
}

// want makes a COMPOUND, which must end with a status at its last operation.
func (s *session) want(st nfs4.Status, ops ...op) *reply { return s.oneOf([]nfs4.Status{st}, ops...) }

// oneOf is want for one of several statuses.
func (s *session) oneOf(st []nfs4.Status, ops ...op) *reply {
	return s.do(ops...).is(s.t, len(ops)+1, st...)
}

// want is session.want in the scenario's own session.
func (t *T) want(st nfs4.Status, ops ...op) *reply { return t.session().want(st, ops...) }

// oneOf is session.oneOf in the scenario's own session.
func (t *T) oneOf(st []nfs4.Status, ops ...op) *reply { return t.session().oneOf(st, ops...) }

// alone makes a COMPOUND of one operation without SEQUENCE.
func (c *conn) alone(want nfs4.Status, o op) *reply {
	rep := c.compound(o)
	assert.Equal(c.t, want, rep.status, "%s alone", o.num)
	return rep
}
