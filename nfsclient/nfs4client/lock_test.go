package nfs4client

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

var (
	all   = Range{End: ToEnd}
	first = Range{Start: 0, End: 9}
	tenth = Range{Start: 10, End: 10}
)

// openBoth opens a file for reading and writing, and creates it if necessary.
func openBoth(t *testing.T, s *Session, name string) *File {
	t.Helper()
	f, err := s.Open(t.Context(), exportRoot(t, s), name, OpenFlags{Read: true, Write: true, Create: true, Mode: 0o666})
	require.NoError(t, err)
	return f
}

// TestLocks locks and unlocks bytes with two Files in one Session, and in two.
func TestLocks(t *testing.T) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			g, ctx := newTestServer(t), t.Context()
			s := connect(g)
			f := openBoth(t, s, "f")
			require.NoError(t, f.Unlock(ctx, all), "nothing was locked")
			require.NoError(t, f.Lock(ctx, all, true))
			require.NoError(t, f.Unlock(ctx, tenth))
			for _, other := range []*File{openBoth(t, s, "f"), openBoth(t, connect(g), "f")} {
				require.NoError(t, f.Lock(ctx, first, true))
				err := other.Lock(ctx, all, false)
				assert.ErrorIs(t, err, nfs4.ErrDenied)
				assert.ErrorIs(t, err, syscall.EAGAIN)
				require.NoError(t, other.Lock(ctx, tenth, true))
				assert.ErrorIs(t, f.Lock(ctx, tenth, false), nfs4.ErrDenied)
				require.NoError(t, f.Lock(ctx, first, false))
				require.NoError(t, other.Lock(ctx, first, false))
				assert.ErrorIs(t, f.Lock(ctx, first, true), nfs4.ErrDenied)
				require.NoError(t, other.Close(ctx), "which unlocks")
				require.NoError(t, f.Lock(ctx, first, true))
			}
			require.NoError(t, f.Close(ctx))
			assert.Zero(t, g.server.Counts().Opens)
		})
	}
}

// TestStateIDOfIO checks the stateids in READ, WRITE and SETATTR: the open's, and from the first
// lock on the locks' (R7530-9.1.4.5-1, R8881-8.2.5-1). CLOSE has the open's.
func TestStateIDOfIO(t *testing.T) {
	g, ctx := newTestServer(t), t.Context()
	rec := g.recordCalls()
	f := openBoth(t, g.newSession(), "f")
	useIO := func() (sent []nfs4.StateID) {
		before := len(rec.allRequests())
		_, err := f.WriteAt(ctx, []byte("data"), 0, nfs4.FileSync)
		require.NoError(t, err)
		_, err = f.ReadAt(ctx, make([]byte, 2), 0)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(ctx, 4))
		for _, q := range rec.allRequests()[before:] {
			sent = append(sent, q.ids...)
		}
		return sent
	}
	open := latestStateID(f.stateID)
	assert.Equal(t, []nfs4.StateID{open, open, open}, useIO())
	require.NoError(t, f.Lock(ctx, first, true))
	lock := latestStateID(f.locks.stateID)
	assert.NotEqual(t, open, lock)
	assert.Equal(t, []nfs4.StateID{lock, lock, lock}, useIO())
	require.NoError(t, f.Unlock(ctx, all))
	assert.Equal(t, []nfs4.StateID{lock, lock, lock}, useIO(), "it is valid until CLOSE")
	require.NoError(t, f.Close(ctx))
	requests := rec.allRequests()
	closed := requests[len(requests)-1].ids
	require.Len(t, closed, 1)
	assert.Equal(t, open, latestStateID(closed[0]))
}

// TestDeny opens a file that others must not open.
func TestDeny(t *testing.T) {
	g, ctx := newTestServer(t), t.Context()
	s, other := g.newSession(), g.newSession()
	f, err := s.Open(ctx, exportRoot(t, s), "f", OpenFlags{Write: true, DenyWrite: true, Create: true, Mode: 0o666})
	require.NoError(t, err)
	_, err = other.Open(ctx, exportRoot(t, other), "f", OpenFlags{Write: true})
	assert.ErrorIs(t, err, nfs4.ErrShareDenied)
	_, err = other.Open(ctx, exportRoot(t, other), "f", OpenFlags{Read: true, DenyWrite: true})
	assert.ErrorIs(t, err, nfs4.ErrShareDenied)
	r, err := other.Open(ctx, exportRoot(t, other), "f", OpenFlags{Read: true})
	require.NoError(t, err)
	require.NoError(t, f.Close(ctx))
	f, err = s.Open(ctx, exportRoot(t, s), "f", OpenFlags{Write: true, DenyRead: true})
	assert.ErrorIs(t, err, nfs4.ErrShareDenied, f)
	require.NoError(t, r.Close(ctx))
}

// TestLockCuts cuts the connection at many bytes of LOCK and LOCKU, and loses
// the session with it every other time: the lock is acquired, and released
// again.
func TestLockCuts(t *testing.T) {
	g, ctx := newTestServer(t), t.Context()
	s, other := g.newSession(), g.newSession()
	f, rival := openBoth(t, s, "f"), openBoth(t, other, "f")
	conn := func() *brokenConn { // the connection used by s
		require.NoError(t, sendSequence(t, other))
		g.cutConns()
		require.NoError(t, sendSequence(t, s))
		return g.lastConn()
	}
	for n := 0; n < 400; n += 7 {
		lose := func() {
			if n%4 < 2 {
				return
			}
			var c Compound
			c.Add(nfs4.OpDestroySession, &nfs4.SessionArgs{Session: s.Server().Session}, &c.statusRes)
			require.NoError(t, other.doWithoutSequence(ctx, &c))
			c.Reset()
		}
		conn().armAfter(n%2, n)
		require.NoError(t, f.Lock(ctx, first, true), n)
		lose()
		assert.ErrorIs(t, rival.Lock(ctx, all, false), nfs4.ErrDenied, n)
		conn().armAfter(n%2, n)
		require.NoError(t, f.Unlock(ctx, first), n)
		lose()
		require.NoError(t, rival.Lock(ctx, all, true), n)
		require.NoError(t, rival.Unlock(ctx, all), n)
	}
}

// A fakeRestartedServer is a fakeServer that restarts and accepts reclaims, except
// the locks that it refuses.
type fakeRestartedServer struct {
	fakeServer
	refuse nfs4.Status // to locks
	deny   nfs4.Status // to opens
	ops    []string    // since the restart
}

// restartServer makes the fake server lose its clients' state.
func (p *fakeRestartedServer) restartServer() {
	p.setup[nfs4.OpCreateSession] = &nfs4.CreateSessionRes{Status: nfs4.ErrStaleClientID}
	broken := false
	p.setAnswer(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
		if !broken {
			broken = true
			return encodeReply(nfs4.ErrBadSession, encodeFailure(nfs4.OpSequence, nfs4.ErrBadSession))
		}
		return p.serveCall(seq, x)
	})
}

// serveCall replies to calls, each with its own operation after PUTFH.
func (p *fakeRestartedServer) serveCall(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
	q := decodeRequest(x)
	put := encodeResult(nfs4.OpPutFH, &nfs4.StatusRes{})
	id := nfs4.StateID{SeqID: 1, Other: [nfs4.OtherSize]byte{byte(q.lock.Offset) + 1}}
	switch last := q.ops[len(q.ops)-1]; {
	case last == nfs4.OpReclaimComplete:
		p.ops = append(p.ops, "complete")
		return encodeSequenceOK(seq, encodeResult(last, &nfs4.StatusRes{}))
	case last == nfs4.OpGetAttr:
		res := nfs4.GetAttrRes{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrLeaseTime), LeaseTime: 7}}
		return encodeSequenceOK(seq, encodeResult(nfs4.OpPutRootFH, &nfs4.StatusRes{}), encodeResult(last, &res))
	case slices.Contains(q.ops, nfs4.OpOpen):
		p.ops = append(p.ops, fmt.Sprint("open ", q.open.Claim))
		if q.open.Claim == nfs4.ClaimNull {
			return encodeSequenceOK(seq, put, encodeResult(nfs4.OpOpen, &nfs4.OpenRes{}), encodeResult(nfs4.OpGetFH, &nfs4.HandleRes{Object: nfs4.FH("h")}))
		}
		if p.deny != nfs4.OK {
			return encodeSequenced(seq, p.deny, put, encodeFailure(nfs4.OpOpen, p.deny))
		}
		return encodeSequenceOK(seq, put, encodeResult(nfs4.OpOpen, &nfs4.OpenRes{}))
	case last == nfs4.OpLock:
		l := &q.lock
		p.ops = append(p.ops, fmt.Sprintf("lock %d %d-%d reclaim=%t new=%t of %d", l.Type, l.Offset, l.Length, l.Reclaim, l.New, l.StateID.Other[0]))
		if l.Reclaim && p.refuse != nfs4.OK {
			return encodeSequenced(seq, p.refuse, put, encodeResult(last, &nfs4.LockRes{Status: p.refuse}))
		}
		return encodeSequenceOK(seq, put, encodeResult(last, &nfs4.LockRes{StateID: id}))
	case last == nfs4.OpLockU:
		p.ops = append(p.ops, "unlock")
		return encodeSequenceOK(seq, put, encodeResult(last, &nfs4.StateIDRes{StateID: id}))
	case last == nfs4.OpClose:
		p.ops = append(p.ops, "close")
		return encodeSequenceOK(seq, put, encodeResult(last, &nfs4.StateIDRes{}))
	case last == nfs4.OpWrite:
		return encodeSequenced(seq, nfs4.ErrBadStateID, put, encodeFailure(last, nfs4.ErrBadStateID))
	}
	return encodeSequenceOK(seq)
}

// lockedFile opens a file on a fakeServer, and locks some bytes.
func lockedFile(t *testing.T, p *fakeRestartedServer) (*Session, *File) {
	p.setup = make(map[nfs4.Op]nfs4.Message)
	s, err := Dial(t.Context(), Config{
		Dial: func(context.Context) (Conn, error) { return p, nil }, Network: "tcp", Minor: 2, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	closeLater(t, s)
	p.setup[nfs4.OpExchangeID] = &fakeForgettingRes{p: &p.fakeServer, ExchangeIDRes: nfs4.ExchangeIDRes{ClientID: 6, SequenceID: 1, Flags: nfs4.ExchangeUseNonPNFS}}
	p.setAnswer(p.serveCall)
	f, err := s.Open(t.Context(), nfs4.FH("d"), "f", OpenFlags{Read: true, Write: true})
	require.NoError(t, err)
	require.NoError(t, f.Lock(t.Context(), first, true))
	require.NoError(t, f.Lock(t.Context(), tenth, false))
	require.NoError(t, f.Lock(t.Context(), Range{Start: 5, End: 9}, false))
	p.ops = nil
	return s, f
}

// TestLockReclaim checks the locks that are reclaimed after a restart: what is
// locked at last, before RECLAIM_COMPLETE. Then the File goes on.
//
// R8881-9.11-1.
func TestLockReclaim(t *testing.T) {
	var p fakeRestartedServer
	s, f := lockedFile(t, &p)
	p.restartServer()
	require.NoError(t, sendSequence(t, s))
	assert.Equal(t, []string{
		"open 1", "lock 2 0-5 reclaim=true new=true of 0", "lock 1 5-6 reclaim=true new=false of 1", "complete",
	}, p.ops)
	p.ops = nil
	require.NoError(t, f.Unlock(t.Context(), first))
	p.restartServer()
	require.NoError(t, f.Lock(t.Context(), first, false))
	assert.Equal(t, []string{
		"unlock", "open 1", "lock 1 10-1 reclaim=true new=true of 0", "complete", "lock 1 0-10 reclaim=false new=false of 1",
	}, p.ops[:5])
}

// TestLockLost checks that a File is lost with its locks, is not kept open on
// the server, and is not reclaimed after another restart (R7530-9.6.3.3-1,
// R7530-9.6.3.4-1).
func TestLockLost(t *testing.T) {
	for _, st := range []nfs4.Status{nfs4.ErrReclaimConflict, nfs4.ErrReclaimBad, nfs4.ErrNoGrace} {
		p := fakeRestartedServer{refuse: st}
		s, f := lockedFile(t, &p)
		p.restartServer()
		_, err := f.WriteAt(t.Context(), []byte("data"), 0, nfs4.Unstable)
		assert.ErrorIs(t, err, ErrLockLost)
		assert.ErrorIs(t, err, st)
		assert.Equal(t, []string{"open 1", "lock 2 0-5 reclaim=true new=true of 0", "close", "complete"}, p.ops)
		assert.ErrorIs(t, f.Lock(t.Context(), first, true), ErrLockLost)
		p.ops = nil
		p.restartServer()
		require.NoError(t, sendSequence(t, s))
		assert.Equal(t, []string{"complete"}, p.ops)
		assert.ErrorIs(t, f.Close(t.Context()), ErrLockLost)
	}
}

// TestWriteAfterRestart restarts the server under WRITEs: none is sent before the locks are
// reclaimed (R7530-9.6-1). If they cannot be reclaimed, none is executed, and the callers learn
// that the locks are lost (R7530-9.8-1).
func TestWriteAfterRestart(t *testing.T) {
	for _, refuse := range []nfs4.Status{nfs4.OK, nfs4.ErrReclaimConflict} {
		t.Run(refuse.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := fakeRestartedServer{refuse: refuse}
				s, f := lockedFile(t, &p)
				const takes = time.Second // per call
				w := &fakeWatchedConn{Conn: &fakeSlowConn{fakeServer: &p.fakeServer, takes: takes}}
				s.redialer.current.Store(&liveConn{Conn: w})
				began := time.Now()
				var mu sync.Mutex
				var complete time.Duration // when RECLAIM_COMPLETE was sent
				writes := make(map[time.Duration]int)
				w.setAnswer(func(x *oncrpc.Exchange) error {
					mu.Lock()
					defer mu.Unlock()
					switch q := decodeRequest(x); q.ops[len(q.ops)-1] {
					case nfs4.OpWrite:
						writes[time.Since(began)]++
					case nfs4.OpReclaimComplete:
						complete = time.Since(began)
					}
					return nil
				})
				lost := s.Server().Session
				p.setup[nfs4.OpCreateSession] = &nfs4.CreateSessionRes{Status: nfs4.ErrStaleClientID}
				p.setAnswer(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
					switch q := decodeRequest(x); {
					case seq.Session == lost:
						return encodeReply(nfs4.ErrBadSession, encodeFailure(nfs4.OpSequence, nfs4.ErrBadSession))
					case refuse == nfs4.OK && slices.Contains(q.ops, nfs4.OpWrite):
						return encodeSequenceOK(seq, encodeResult(nfs4.OpPutFH, &nfs4.StatusRes{}), encodeResult(nfs4.OpWrite, &nfs4.WriteRes{Count: 4}))
					}
					return p.serveCall(seq, x)
				})
				var writers sync.WaitGroup
				for i := range 20 { // from before the loss is known until after the reclaim
					writers.Go(func() {
						time.Sleep(time.Duration(i) * takes * 9 / 10)
						_, err := f.WriteAt(t.Context(), []byte("data"), 0, nfs4.Unstable)
						if refuse == nfs4.OK {
							assert.NoError(t, err)
						} else {
							assert.ErrorIs(t, err, ErrLockLost)
						}
					})
				}
				writers.Wait()
				require.Greater(t, complete, 5*takes)
				for at := range writes {
					assert.True(t, at < takes || at > complete, "a WRITE at %v", at)
				}
				assert.Greater(t, len(writes), 2)
			})
		})
	}
}

// TestLockedOpenLost checks that a File with locks is not opened again if the
// open itself cannot be reclaimed.
func TestLockedOpenLost(t *testing.T) {
	p := fakeRestartedServer{deny: nfs4.ErrNoGrace}
	s, f := lockedFile(t, &p)
	p.restartServer()
	require.NoError(t, sendSequence(t, s))
	assert.Equal(t, []string{"open 1", "complete"}, p.ops)
	err := f.Unlock(t.Context(), first)
	assert.ErrorIs(t, err, ErrLockLost)
	assert.ErrorIs(t, err, nfs4.ErrNoGrace)
}

// A brokenReclaimConn is a Conn that closes at a call that reclaims a lock.
type brokenReclaimConn struct {
	*fakeRestartedServer
	cuts int // to come
}

func (l *brokenReclaimConn) Call(ctx context.Context, x *oncrpc.Exchange) error {
	if q := decodeRequest(x); l.cuts > 0 && q.lock.Reclaim {
		l.cuts--
		l.fakeServer.mu.Lock()
		defer l.fakeServer.mu.Unlock()
		l.ops = append(l.ops, "cut")
		answer := l.answer
		l.answer = func(*nfs4.SequenceArgs, *oncrpc.Exchange) []byte {
			l.setup[nfs4.OpCreateSession] = &nfs4.CreateSessionRes{Status: nfs4.ErrStaleClientID}
			l.answer = answer
			return encodeReply(nfs4.ErrBadSession, encodeFailure(nfs4.OpSequence, nfs4.ErrBadSession))
		}
		return oncrpc.ErrClosed
	}
	return l.fakeRestartedServer.Call(ctx, x)
}

// TestRestartDuringReclaim restarts the server again, between EXCHANGE_ID and
// CREATE_SESSION, and then while it reclaims a lock: all is done again.
func TestRestartDuringReclaim(t *testing.T) {
	var p fakeRestartedServer
	s, f := lockedFile(t, &p)
	p.setup[nfs4.OpExchangeID].(*fakeForgettingRes).keeps = 2
	p.restartServer()
	l := &brokenReclaimConn{&p, 1}
	s.redialer.current.Store(&liveConn{Conn: l})
	s.redialer.dial = func(context.Context) (Conn, error) { return l, nil }
	require.NoError(t, sendSequence(t, s))
	again := []string{"open 1", "lock 2 0-5 reclaim=true new=true of 0", "lock 1 5-6 reclaim=true new=false of 1", "complete"}
	assert.Equal(t, append([]string{"open 1", "cut"}, again...), p.ops)
	require.NoError(t, f.Unlock(t.Context(), all))
}

// TestLateReplies restarts the server between a reply and the moment when the
// File records it: changes that the reclaim may not have seen are repeated, and
// bytes that others may have locked since are not reclaimed.
func TestLateReplies(t *testing.T) {
	var p fakeRestartedServer
	s, f := lockedFile(t, &p)
	ctx := t.Context()
	// One reply arrives while another call recovers the Session.
	late := func(op nfs4.Op) {
		p.setAnswer(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
			b := p.serveCall(seq, x)
			if slices.Contains(decodeRequest(x).ops, op) {
				p.ops = append(p.ops, "answered")
				broken := s.current.Load()
				p.setup[nfs4.OpCreateSession] = &nfs4.CreateSessionRes{Status: nfs4.ErrStaleClientID}
				p.answer = p.serveCall
				p.mu.Unlock()
				broken.slots.breakSession()
				require.NoError(t, s.recoverFrom(ctx, broken))
				p.mu.Lock()
			}
			return b
		})
	}
	late(nfs4.OpLock)
	require.NoError(t, f.Lock(ctx, all, true))
	assert.Equal(t, []string{
		"lock 2 0-18446744073709551615 reclaim=false new=false of 6", "answered", "open 1",
		"lock 2 0-5 reclaim=true new=true of 0", "lock 1 5-6 reclaim=true new=false of 1", "complete",
		"lock 2 0-18446744073709551615 reclaim=false new=false of 6",
	}, p.ops)
	p.ops = nil
	late(nfs4.OpLockU)
	require.NoError(t, f.Unlock(ctx, all))
	assert.Equal(t, []string{"unlock", "answered", "open 1", "complete"}, p.ops)
	require.NoError(t, f.Lock(ctx, all, true))
	p.ops = nil
	late(nfs4.OpLockU)
	require.NoError(t, f.Unlock(ctx, tenth))
	assert.Equal(t, []string{
		"unlock", "answered", "open 1", "lock 2 0-10 reclaim=true new=true of 0",
		"lock 2 11-18446744073709551615 reclaim=true new=false of 1", "complete", "unlock",
	}, p.ops)
	p.ops = nil
	late(nfs4.OpLock)
	require.NoError(t, f.Lock(ctx, first, false))
	assert.Equal(t, []string{
		"lock 1 0-10 reclaim=false new=false of 1", "answered", "open 1", "lock 1 0-10 reclaim=true new=true of 0",
		"lock 2 11-18446744073709551615 reclaim=true new=false of 1", "complete", "lock 1 0-10 reclaim=false new=false of 12",
	}, p.ops)
	require.NoError(t, f.Unlock(ctx, all))
	p.ops = nil
	late(nfs4.OpOpen)
	g, err := s.Open(ctx, nfs4.FH("d"), "g", OpenFlags{Read: true, DenyWrite: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"open 0", "answered", "open 1", "complete", "open 4"}, p.ops, "of f, then again of g")
	p.ops = nil
	late(nfs4.OpClose)
	require.NoError(t, g.Close(ctx))
	assert.ElementsMatch(t, []string{"close", "answered", "open 1", "open 1", "complete", "close"}, p.ops)
}

// TestChangeRefused restarts the server after changes that it has rejected, and
// after changes with unknown outcome: only the former leave the locks
// unchanged.
func TestChangeRefused(t *testing.T) {
	for _, refused := range []bool{true, false} {
		var p fakeRestartedServer
		s, f := lockedFile(t, &p)
		p.setAnswer(func(seq *nfs4.SequenceArgs, x *oncrpc.Exchange) []byte {
			q := decodeRequest(x)
			if op := q.ops[len(q.ops)-1]; op != nfs4.OpLockU {
				return p.serveCall(seq, x)
			} else if refused {
				return encodeSequenced(seq, nfs4.ErrLockRange, encodeResult(nfs4.OpPutFH, &nfs4.StatusRes{}), encodeFailure(op, nfs4.ErrLockRange))
			}
			return nil
		})
		err := f.Unlock(t.Context(), all)
		want := []string{"open 1", "complete"}
		if refused {
			assert.ErrorIs(t, err, nfs4.ErrLockRange)
			want = []string{"open 1", "lock 2 0-5 reclaim=true new=true of 0", "lock 1 5-6 reclaim=true new=false of 1", "complete"}
		} else {
			assert.ErrorIs(t, err, errNoAnswer)
		}
		p.ops = nil
		p.restartServer()
		require.NoError(t, sendSequence(t, s))
		assert.Equal(t, want, p.ops)
	}
}
