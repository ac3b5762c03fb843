package lockserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// How long the server goes on to call GRANTED.
const (
	// grantTime is how long a lock is held for a client that does not answer. It is three
	// times as long as Linux waits before it asks again.
	grantTime = 90 * time.Second

	// grantEvery is the longest time between two calls of GRANTED. The first is a second.
	grantEvery = 10 * time.Second
)

// cookieLen is the length in bytes of our cookies. Linux takes up to 32.
const cookieLen = 8

// A grantEnd is how a grant ends.
type grantEnd uint8

const (
	open      grantEnd = iota
	confirmed          // the client has the lock
	cancelled          // the client does not want it: what the owner had before is locked again
	unlocked           // the client has unlocked the bytes
)

// A grant is the lock of a waiting owner from the moment at which it is the owner's turn until
// the client has answered GRANTED.
type grant struct {
	waits   *nfs4state.Waiting
	session *nfs4state.Session
	args    nfs4state.Lock
	call    nlm4.TestArgs
	vers    uint32
	byMsg   bool // the client asked by LOCK_MSG
	cookie  uint64

	// Server.mu guards these.
	held  bool // the lock is the owner's
	end   grantEnd
	since time.Time // held
	tries int
}

// willing makes an owner wait for a lock that is not free.
func (s *Server) willing(q *request, vers uint32, a *nlm4.LockArgs, args *nfs4state.Lock) {
	call, byMsg, m, session := copyOf(a), q.call.Proc == nlm4.ProcLockMsg, machine(q.call.Peer, a.Lock.Caller), q.session
	later := *args
	later.Owner, later.Handle = bytes.Clone(args.Owner), call.Lock.Handle
	args.Tell = func(w *nfs4state.Waiting) {
		g := &grant{waits: w, session: session, args: later, call: call, vers: vers, byMsg: byMsg}
		g.args.For, g.args.Tell = w, args.Tell
		s.grant(m, g)
	}
}

// grant begins a grant, unless the owner's grant has begun already.
func (s *Server) grant(m nfs4state.Machine, g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.grants[g.waits] != nil {
		return
	}
	s.cookie++
	g.cookie = s.cookie
	s.grants[g.waits] = g
	s.cookies[g.cookie] = g
	s.addLocked(m, &job{do: func(ctx context.Context, l *line) (again time.Duration) { return s.attempt(ctx, l, g) }, giveUp: func() { s.giveUp(g) }})
}

// attempt gets the lock of a grant, if it has not got it yet, and calls GRANTED once. It returns after
// which time to do so again, or 0.
func (s *Server) attempt(ctx context.Context, l *line, g *grant) (again time.Duration) {
	defer s.beginAttempt(g)()
	if !s.holds(g) {
		switch status := s.take(g); status {
		case nfs4.OK:
		case nfs4.ErrDelay, nfs4.ErrServerFault, nfs4.ErrGrace:
			return time.Second // for want of room, or because the storage fails
		default: // somebody else was quicker, or the owner has gone
			s.forget(g)
			return 0
		}
	}
	if s.over(g) {
		return 0
	}
	status, answered, err := s.callGranted(ctx, l, g)
	if answered {
		s.decide(g, status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.end != open {
		return 0
	}
	l.noteLocked(err)
	g.tries++
	return min(time.Second<<min(g.tries-1, 8), grantEvery)
}

// beginAttempt lets calls of the client wait for an attempt, until end.
func (s *Server) beginAttempt(g *grant) (end func()) {
	over := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[g] = over
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.attempts, g)
		close(over)
	}
}

// take locks the bytes for the owner of a grant.
func (s *Server) take(g *grant) nfs4.Status {
	if !g.session.Enter() {
		return nfs4.ErrBadSession
	}
	defer g.session.Leave()
	_, _, status := s.state.Lock(g.session, &g.args)
	if status != nfs4.OK {
		return status
	}
	s.mu.Lock()
	g.held, g.since = true, time.Now()
	end := g.end
	s.mu.Unlock()
	s.undo(g, end)
	return status
}

// holds reports whether the lock of a grant is the owner's.
func (s *Server) holds(g *grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.held
}

// over reports whether a grant has ended, and ends it with its client, or if its time is up.
func (s *Server) over(g *grant) bool {
	if g.session.Ended() {
		s.finish(g, unlocked)
	}
	s.mu.Lock()
	ended, expired := g.end != open, time.Since(g.since) >= grantTime
	s.mu.Unlock()
	if !ended && expired && s.finish(g, cancelled) {
		m, _ := g.session.Machine()
		s.log.Warn("a client does not answer that a lock was granted, so the lock goes to the next one", "client", m.Addr)
	}
	return ended || expired
}

// decide ends a grant by the client's answer, unless that asks to call again.
func (s *Server) decide(g *grant, status nlm4.Status) {
	switch status {
	case nlm4.Granted:
		s.finish(g, confirmed)
	case nlm4.DeniedGrace:
	default:
		s.finish(g, cancelled)
	}
}

// finish ends a grant, and returns false if it has ended before. The lock is given back if need be.
func (s *Server) finish(g *grant, end grantEnd) bool {
	s.mu.Lock()
	if g.end != open {
		s.mu.Unlock()
		return false
	}
	g.end = end
	s.forgetLocked(g)
	held := g.held
	s.mu.Unlock()
	if held {
		s.undo(g, end)
	} // otherwise take does that
	return true
}

// undo takes the lock of a grant back that has ended, if the client does not have it.
func (s *Server) undo(g *grant, end grantEnd) {
	switch {
	case end != cancelled && end != unlocked || !g.session.Enter():
		return
	case end == cancelled:
		s.state.GiveBack(g.session, &g.args)
	default:
		s.state.Release(g.session, &g.args)
	}
	g.session.Leave()
}

// forget ends a grant that got no lock: the owner waits on, or has gone.
func (s *Server) forget(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.end == open {
		g.end = confirmed
		s.forgetLocked(g)
	}
}

func (s *Server) forgetLocked(g *grant) {
	delete(s.grants, g.waits)
	delete(s.cookies, g.cookie)
}

// giveUp ends a grant whose client's host does not answer. The owner does not wait any more.
func (s *Server) giveUp(g *grant) {
	if s.finish(g, cancelled) && g.session.Enter() {
		s.state.StopWaiting(g.session, &g.args)
		g.session.Leave()
	}
}

// endGrants ends the grants of an owner's lock as a call of the client says, and reports whether any
// was open. A call that unlocks ends those of all bytes that it unlocks. It returns when the attempts
// that are under way are over, or after callTime: if the client asks for the lock again, it must not
// take a call of GRANTED for the answer, nor may the end of an attempt take the new lock back.
func (s *Server) endGrants(q *request, a *nfs4state.Lock, end grantEnd) (found bool) {
	list, attempts := s.grantsOf(q, a, func(g *grant) bool {
		b := &g.args
		return b.Range == a.Range && b.Exclusive == a.Exclusive || end == unlocked && within(b.Range, a.Range)
	})
	for _, g := range list {
		found = s.finish(g, end) || found
	}
	if end != confirmed {
		q.await(attempts)
	}
	return found
}

// endParted ends the grants of locks of which a call is to unlock a part, as the client decides: the
// rest is then locked as the client has it. A client that does not answer has what the owner had before.
func (s *Server) endParted(q *request, a *nfs4state.Lock) {
	list, attempts := s.grantsOf(q, a, func(g *grant) bool {
		b := g.args.Range
		return g.held && b.Start <= a.Range.End && a.Range.Start <= b.End && !within(b, a.Range)
	})
	q.await(attempts)
	for _, g := range list {
		s.finish(g, cancelled)
	}
}

// within reports whether all bytes of r are in s.
func within(r, s locks.Range) bool { return s.Start <= r.Start && r.End <= s.End }

// grantsOf returns the grants of the owner of a call's lock that are meant, and the attempts for such that
// are under way.
func (s *Server) grantsOf(q *request, a *nfs4state.Lock, meant func(*grant) bool) (list []*grant, attempts []chan struct{}) {
	is := func(g *grant) bool {
		return g.session == q.session && g.args.Key == a.Key && bytes.Equal(g.args.Owner, a.Owner) && meant(g)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if is(g) {
			list = append(list, g)
		}
	}
	for g, over := range s.attempts { // also of grants that have ended
		if is(g) {
			attempts = append(attempts, over)
		}
	}
	return list, attempts
}

// await waits for attempts, for callTime at most.
func (q *request) await(attempts []chan struct{}) {
	if len(attempts) == 0 {
		return
	}
	q.reply.StepAside()
	late := time.NewTimer(callTime)
	defer late.Stop()
	for _, over := range attempts {
		select {
		case <-over:
		case <-late.C:
			return
		}
	}
}

// answered takes the answer of a client to GRANTED_MSG.
func (s *Server) answered(from netip.Addr, cookie uint64, status nlm4.Status) {
	s.mu.Lock()
	g := s.cookies[cookie]
	held := g != nil && g.held
	s.mu.Unlock()
	if !held {
		return
	}
	if m, _ := g.session.Machine(); m.Addr == from {
		s.decide(g, status)
	}
}

// callGranted calls GRANTED, or GRANTED_MSG, which the client answers by a call.
func (s *Server) callGranted(ctx context.Context, l *line, g *grant) (status nlm4.Status, answered bool, err error) {
	g.call.Cookie = binary.BigEndian.AppendUint64(nil, g.cookie)
	x := oncrpc.Exchange{
		Prog: nlm4.Program, Vers: g.vers, Proc: nlm4.ProcGranted, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys},
		Args: g.call.AppendTo(nil, g.vers), MaxResults: nlm4.MaxResult(nlm4.ProcGranted),
	}
	if g.byMsg {
		x.Proc, x.MaxResults = nlm4.ProcGrantedMsg, 0
	}
	if err := l.call(ctx, &x); err != nil {
		return 0, false, err
	}
	defer x.Release()
	if g.byMsg {
		return 0, false, nil
	}
	var res nlm4.Res
	res.Decode(&x.Results, g.vers)
	if err := x.Results.Done(); err != nil {
		return 0, false, err
	}
	return res.Status, true, nil
}
