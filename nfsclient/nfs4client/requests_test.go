package nfs4client

import (
	"context"
	"log/slog"
	"slices"
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

// A request is a COMPOUND that a recorder has seen.
type request struct {
	minor    uint32
	cred     rpcmsg.Cred
	seq      nfs4.SequenceArgs // if it is the first operation
	ops      []nfs4.Op
	owner    string // in EXCHANGE_ID
	verifier nfs4.Verifier
	open     nfs4.OpenArgs
	lock     nfs4.LockArgs
	ids      []nfs4.StateID // in READ, WRITE, SETATTR and CLOSE
}

// A callRecorder records calls on connections.
type callRecorder struct {
	mu       sync.Mutex
	requests []request
}

// A fakeRecordedConn is a Conn whose calls a recorder remembers.
type fakeRecordedConn struct {
	Conn
	r *callRecorder
}

// Call records and sends a call (oncrpc.Caller).
func (c *fakeRecordedConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	q := decodeRequest(x)
	c.r.mu.Lock()
	c.r.requests = append(c.r.requests, q)
	c.r.mu.Unlock()
	return c.Conn.Call(ctx, x)
}

// decodeRequest reads the operations that tests look at.
func decodeRequest(x *oncrpc.Exchange) (q request) {
	whole := append(append([]byte(nil), x.Args...), x.Item...)
	r := xdr.NewReader(append(append(whole, make([]byte, xdr.Pad(len(x.Item)))...), x.Tail...))
	var head nfs4.CompoundArgs
	head.Decode(&r)
	q.minor, q.cred = head.Minor, x.Cred
	for range head.N {
		op := nfs4.Op(r.Uint32())
		q.ops = append(q.ops, op)
		var args nfs4.Message
		switch op {
		case nfs4.OpSequence:
			args = &q.seq
		case nfs4.OpOpen:
			args = &q.open
		case nfs4.OpLock:
			args = &q.lock
		case nfs4.OpExchangeID:
			var a nfs4.ExchangeIDArgs
			a.Decode(&r)
			q.owner, q.verifier = string(a.Owner), a.Verifier
			continue
		case nfs4.OpPutFH:
			args = new(nfs4.HandleArgs)
		case nfs4.OpLookup, nfs4.OpRemove:
			args = new(nfs4.NameArgs)
		case nfs4.OpPutRootFH, nfs4.OpGetFH:
			continue
		case nfs4.OpRead:
			args = new(nfs4.ReadArgs)
		case nfs4.OpWrite:
			args = new(nfs4.WriteArgs)
		case nfs4.OpSetAttr:
			args = new(nfs4.SetAttrArgs)
		case nfs4.OpClose:
			args = new(nfs4.CloseArgs)
		case nfs4.OpCreate:
			args = new(nfs4.CreateArgs)
		default:
			return q // nothing follows that a test looks at
		}
		args.Decode(&r)
		switch a := args.(type) {
		case *nfs4.ReadArgs:
			q.ids = append(q.ids, a.StateID)
		case *nfs4.WriteArgs:
			q.ids = append(q.ids, a.StateID)
		case *nfs4.SetAttrArgs:
			q.ids = append(q.ids, a.StateID)
		case *nfs4.CloseArgs:
			q.ids = append(q.ids, a.StateID)
		}
	}
	return q
}

// allRequests returns the requests so far.
func (r *callRecorder) allRequests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// recordCalls returns a recorder for the test server's connections.
func (g *testServer) recordCalls() *callRecorder {
	r := new(callRecorder)
	g.wrapConn = func(c Conn) Conn { return &fakeRecordedConn{c, r} }
	return r
}

// TestRequests checks the form of calls: one minor version (R8881-2.7-2); the
// highest slot in use (R8881-2.10.6.1-7); GETFH after operations that create an
// object (R8881-2.10.6.4-5, R7530-16.16-2); I/O with an open's stateid
// (R8881-8.2.5-1, R8881-9.8-1); CLOSE with its seqid (R8881-9.10-1); no request
// for a delegation (R8881-10.2-2); one credential (R7530-16.28-5); no client ID
// but the session's (R7530-15.2.5-1); and that Close leaves no state on the
// server (R8881-2.4.2-1, R8881-2.10.11.2-1).
func TestRequests(t *testing.T) {
	g := newTestServer(t)
	rec := g.recordCalls()
	s, err := Dial(t.Context(), Config{Dial: g.dialServer, Network: "tcp", Minor: 1, Cred: asRoot})
	require.NoError(t, err)
	h, ctx := exportRoot(t, s), t.Context()
	f, err := s.Open(ctx, h, "f", OpenFlags{Read: true, Write: true, Create: true, Mode: 0o600})
	require.NoError(t, err)
	_, err = f.WriteAt(ctx, []byte("data"), 0, nfs4.FileSync)
	require.NoError(t, err)
	_, err = f.ReadAt(ctx, make([]byte, 4), 0)
	require.Error(t, err, "the end of the file")
	require.NoError(t, f.Truncate(ctx, 2))
	require.NoError(t, f.Lock(ctx, first, true))
	id, _, _ := f.openState()
	require.NoError(t, f.Close(ctx))
	_, err = s.Mkdir(ctx, h, "d", 0o755)
	require.NoError(t, err)
	require.NoError(t, s.Close(ctx))

	var ids, opens, last int
	for i, q := range rec.allRequests() {
		assert.Equal(t, nfs4.Minor1, q.minor)
		assert.Equal(t, asRoot, q.cred)
		assert.Zero(t, q.open.Owner.ClientID)
		assert.Zero(t, q.lock.Owner.ClientID)
		for j, op := range q.ops {
			switch op {
			case nfs4.OpOpen, nfs4.OpCreate:
				require.Greater(t, len(q.ops), j+1)
				assert.Equal(t, nfs4.OpGetFH, q.ops[j+1], op)
			case nfs4.OpDestroySession:
				last = i
			case nfs4.OpDestroyClientID:
				assert.Equal(t, last+1, i)
				last = len(rec.allRequests())
			}
			if op == nfs4.OpOpen {
				opens++
				assert.Equal(t, nfs4.WantNoDeleg, q.open.ShareAccess&nfs4.WantDelegMask)
			}
		}
		if q.ops[0] == nfs4.OpSequence {
			assert.GreaterOrEqual(t, q.seq.HighestSlotID, q.seq.Slot)
			assert.Equal(t, s.Server().Session, q.seq.Session)
		}
		for _, got := range q.ids {
			assert.Equal(t, id.Other, got.Other, q.ops)
			closes := q.ops[len(q.ops)-1] == nfs4.OpClose
			assert.Equal(t, closes, got.SeqID != 0, q.ops)
			ids++
		}
	}
	assert.Equal(t, 4, ids, "WRITE, READ, SETATTR and CLOSE")
	assert.Equal(t, 1, opens)
	assert.Equal(t, len(rec.allRequests()), last, "DESTROY_CLIENTID came")
}

// TestMinorVersions checks that the client sends calls of minor versions 1 and 2, with none of the
// operations that exist in minor version 0 alone, and refuses other versions before it connects.
func TestMinorVersions(t *testing.T) {
	for _, minor := range []uint32{nfs4.Minor1, nfs4.Minor2} {
		g := newTestServer(t)
		rec := g.recordCalls()
		s := g.newSession(func(c *Config) { c.Minor = minor })
		f := openBoth(t, s, "f")
		for op, err := range everyOperation(t.Context(), s, exportRoot(t, s), f) {
			assert.NoError(t, err, op)
		}
		require.NoError(t, f.Close(t.Context()))
		for _, q := range rec.allRequests() {
			assert.Equal(t, minor, q.minor)
		}
		for _, o := range g.server.Operations() {
			assert.NotContains(t, []nfs4.Op{
				nfs4.OpOpenConfirm, nfs4.OpRenew, nfs4.OpSetClientID, nfs4.OpSetClientIDConfirm, nfs4.OpReleaseLockOwner, nfs4.OpDelegPurge,
			}, nfs4.Op(o.Op))
		}
	}
	for _, minor := range []uint32{nfs4.Minor0, 3} {
		_, err := Dial(t.Context(), Config{Network: "tcp", Minor: minor, Dial: func(context.Context) (Conn, error) {
			t.Error("the client has connected")
			return nil, errNoAnswer
		}})
		assert.ErrorContains(t, err, "use 1 or 2")
	}
}

// TestOwner checks that a Session remains one client across server restarts and
// new connections, and that no two Sessions are one client, of one server or of
// two (R8881-2.4-3, R7530-9.1.1-3, R7530-9.1.1-4, R7530-9.1.1-5). Its verifier
// remains too, and is unique (R7530-9.6.1-2).
func TestOwner(t *testing.T) {
	g, another := newTestServer(t), newTestServer(t)
	rec := g.recordCalls()
	another.wrapConn = g.wrapConn
	s := g.newSession()
	g.restartServer()
	require.NoError(t, sendSequence(t, s))
	g.newSession()
	another.newSession()
	var got []request
	for _, q := range rec.allRequests() {
		if q.ops[0] == nfs4.OpExchangeID {
			got = append(got, q)
		}
	}
	require.Len(t, got, 4)
	assert.Equal(t, got[0].owner, got[1].owner, "after a restart")
	assert.Equal(t, got[0].verifier, got[1].verifier)
	owners, verifiers := make(map[string]bool), make(map[nfs4.Verifier]bool)
	for _, q := range got[1:] {
		owners[q.owner], verifiers[q.verifier] = true, true
	}
	assert.Len(t, owners, 3)
	for range 1000 {
		verifiers[newVerifier()] = true
	}
	assert.Len(t, verifiers, 3+1000)
}

// A fakeSlowConn replies late, and counts calls.
type fakeSlowConn struct {
	*fakeServer
	takes time.Duration

	mu    sync.Mutex
	began []time.Time // each call's duration
}

// callCount returns when each call began.
func (c *fakeSlowConn) callCount() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.began)
}

func (c *fakeSlowConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	c.mu.Lock()
	c.began = append(c.began, time.Now())
	c.mu.Unlock()
	time.Sleep(c.takes)
	return c.fakeServer.Call(ctx, x)
}

// newSlowSession creates a Session whose later calls take some time.
func newSlowSession(t *testing.T, takes time.Duration) (*Session, *fakeSlowConn) {
	p := &fakeServer{}
	s := p.newSession(t)
	p.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte { return encodeSequenceOK(seq) })
	c := &fakeSlowConn{fakeServer: p, takes: takes}
	s.redialer.current.Store(&liveConn{Conn: c})
	return s, c
}

// TestIdle checks that a Session without calls renews its lease in time
// (R8881-2.10.11.2-1, R7530-9.5-4), counted from when the call was sent
// (R8881-8.7-1, R7530-9.13-1).
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 90 * time.Second // the fake server's
		s, c := newSlowSession(t, lease/2)
		last := time.Now()
		time.Sleep(10 * lease)
		require.NoError(t, sendSequence(t, s))
		assert.GreaterOrEqual(t, len(c.callCount()), 10)
		for _, now := range c.callCount() {
			assert.Less(t, now.Sub(last), lease)
			last = now
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.Contains(t, c.callCount(), s.startTime.Add(time.Duration(s.lastRenewal.Load())))
	})
}

// TestOldReplies checks that flags and limits in the reply to a retry are not
// taken for new ones (R8881-2.10.6.1.1-2).
func TestOldReplies(t *testing.T) {
	var p fakeServer
	s := p.newSession(t)
	answer := func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
		res := nfs4.SequenceRes{Session: seq.Session, Sequence: seq.Sequence, Slot: seq.Slot, Flags: nfs4.SeqCBPathDown}
		return encodeReply(nfs4.OK, encodeResult(nfs4.OpSequence, &res))
	}
	p.setAnswer(answer)
	s.redialer.current.Store(&liveConn{Conn: &brokenOnceConn{fakeServer: &p}})
	require.NoError(t, sendSequence(t, s))
	assert.Zero(t, s.Flags(), "of a retry")
	assert.EqualValues(t, 2, s.current.Load().slots.limit)
	require.NoError(t, sendSequence(t, s))
	assert.Equal(t, nfs4.SeqCBPathDown, s.Flags())
	assert.EqualValues(t, 1, s.current.Load().slots.limit)
}

// TestOneCopy checks that a call is not sent again while its connection lasts,
// however long the server takes (R8881-2.9.2-2, R8881-2.10.6.2-1,
// R7530-3.1.1-2).
func TestOneCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newSlowSession(t, time.Second)
		c.takes = 20 * time.Second // less than the lease, or renewals would be seen
		require.NoError(t, sendSequence(t, s))
		assert.Len(t, c.callCount(), 1)
	})
}

// TestGrace checks that a call that the server rejects in its grace period is repeated after pauses
// that grow to some seconds, until the period ends (R7530-9.6.2-6).
func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grace = 80 * time.Second // less than the lease, or renewals would be seen
		s, c := newSlowSession(t, 0)
		began := time.Now()
		put := encodeFailure(nfs4.OpPutFH, nfs4.OK)
		c.setAnswer(func(seq *nfs4.SequenceArgs, _ *oncrpc.Exchange) []byte {
			if time.Since(began) < grace {
				return encodeSequenced(seq, nfs4.ErrGrace, put, encodeFailure(nfs4.OpOpen, nfs4.ErrGrace))
			}
			return encodeSequenceOK(seq, put, encodeResult(nfs4.OpOpen, &nfs4.OpenRes{}), encodeResult(nfs4.OpGetFH, &nfs4.HandleRes{Object: nfs4.FH("h")}))
		})
		_, err := s.Open(t.Context(), nfs4.FH("d"), "f", OpenFlags{Read: true})
		require.NoError(t, err)
		calls := c.callCount()
		for i, pause := 1, firstRetryPause; i < len(calls); i, pause = i+1, min(2*pause, lastRetryPause) {
			assert.Equal(t, pause, calls[i].Sub(calls[i-1]))
		}
		assert.Less(t, len(calls), 50)
		assert.LessOrEqual(t, time.Since(began), grace+lastRetryPause)
	})
}

// TestOtherServer checks that after a restart the lease time is requested again
// (R8881-8.4.2.1-9, R7530-9.6.2-7), and that nothing is reclaimed from a server with another
// scope (R8881-8.4.2.1-10, R8881-2.10.5-6): all open files are lost. A reclaim
// is CLAIM_PREVIOUS (R8881-9.11-1).
func TestOtherServer(t *testing.T) {
	for _, scope := range []string{"", "another"} {
		p := fakeServer{setup: map[nfs4.Op]nfs4.Message{}}
		s, err := Dial(t.Context(), Config{
			Dial: func(context.Context) (Conn, error) { return &p, nil }, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		f := &File{session: s, fh: nfs4.FH("h"), epoch: 1}
		s.files[f] = struct{}{}
		var claims []nfs4.Claim
		broken := false
		p.setAnswer(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
			q := decodeRequest(x)
			switch {
			case !broken:
				broken = true
				p.setup[nfs4.OpCreateSession] = &nfs4.CreateSessionRes{Status: nfs4.ErrStaleClientID}
				return encodeReply(nfs4.ErrBadSession, encodeFailure(nfs4.OpSequence, nfs4.ErrBadSession))
			case slices.Contains(q.ops, nfs4.OpOpen):
				claims = append(claims, q.open.Claim)
				return encodeSequenceOK(seq, encodeResult(nfs4.OpPutFH, &nfs4.StatusRes{}), encodeResult(nfs4.OpOpen, &nfs4.OpenRes{}))
			case slices.Contains(q.ops, nfs4.OpReclaimComplete):
				return encodeSequenceOK(seq, encodeResult(nfs4.OpReclaimComplete, &nfs4.StatusRes{}))
			case slices.Contains(q.ops, nfs4.OpGetAttr):
				res := nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrLeaseTime), LeaseTime: 7}}
				return encodeSequenceOK(seq, encodeResult(nfs4.OpPutRootFH, &nfs4.StatusRes{}), encodeResult(nfs4.OpGetAttr, &res))
			}
			return encodeSequenceOK(seq)
		})
		p.setup[nfs4.OpExchangeID] = &fakeForgettingRes{p: &p, ExchangeIDRes: nfs4.ExchangeIDRes{ClientID: 6, SequenceID: 1, Flags: nfs4.ExchangeUseNonPNFS, Scope: []byte(scope)}}
		require.NoError(t, sendSequence(t, s))
		assert.Equal(t, 7*time.Second, s.Server().Lease)
		_, _, err = f.openState()
		if scope == "" {
			assert.Equal(t, []nfs4.Claim{nfs4.ClaimPrevious}, claims)
			assert.NoError(t, err)
		} else {
			assert.Empty(t, claims)
			assert.Equal(t, ErrOtherServer, err)
			assert.Empty(t, s.files)
		}
		assert.NoError(t, s.Close(t.Context()))
	}
}

// A fakeForgettingRes is EXCHANGE_ID's results, after which the fake server
// creates sessions correctly again.
type fakeForgettingRes struct {
	p *fakeServer
	nfs4.ExchangeIDRes
	keeps int // number of sessions that it rejects before
}

func (f *fakeForgettingRes) AppendTo(b []byte) []byte {
	if f.keeps--; f.keeps < 0 {
		delete(f.p.setup, nfs4.OpCreateSession)
	}
	return f.ExchangeIDRes.AppendTo(b)
}

// sendSequence sends SEQUENCE alone.
func sendSequence(t *testing.T, s *Session) error {
	c := s.getCompound()
	defer s.putCompound(c)
	return s.Do(t.Context(), c)
}
