package nlmserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// Times for calls of GRANTED.
const (
	// grantTime is the time for which a lock is held for a client that does not reply. It
	// is three times the interval at which Linux polls.
	grantTime = 90 * time.Second

	// maxGrantInterval is the maximum time between two calls of GRANTED. The first interval is
	// a second.
	maxGrantInterval = 10 * time.Second
)

// cookieLen is the length of our cookies in bytes. Linux accepts up to 32.
const cookieLen = 8

// A grantOutcome says how a grant has ended.
type grantOutcome uint8

const (
	grantOpen      grantOutcome = iota
	grantConfirmed              // the client has the lock
	grantCancelled              // the client does not want the lock: the owner's earlier locks are restored
	grantUnlocked               // the client has unlocked the bytes
)

// A grant is a waiting owner's lock from the owner's turn until the client has replied to
// GRANTED.
type grant struct {
	waiting *nfs4state.Waiting
	machine *nfs4state.MachineRecord
	args    nfs4state.Lock
	call    nlm4.TestArgs
	vers    uint32
	viaMsg  bool // the client used LOCK_MSG
	cookie  uint64

	// Server.mu guards these.
	locked   bool // the owner has the lock
	outcome  grantOutcome
	lockedAt time.Time // held
	attempts int
}

// setGrantCallback sets args.Tell, so that the owner waits for a lock that is
// not free.
func (s *Server) setGrantCallback(q *request, vers uint32, a *nlm4.LockArgs, args *nfs4state.Lock) {
	call, byMsg, m := copyOf(a), q.call.Proc == nlm4.ProcLockMsg, q.machine
	later := *args
	later.Owner, later.Handle = bytes.Clone(args.Owner), call.Lock.Handle
	args.Tell = func(w *nfs4state.Waiting) {
		g := &grant{waiting: w, machine: m, args: later, call: call, vers: vers, viaMsg: byMsg}
		g.args.For, g.args.Tell = w, args.Tell
		s.startGrant(g)
	}
}

// startGrant starts a grant, unless the owner already has one.
func (s *Server) startGrant(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.grants[g.waiting] != nil {
		return
	}
	s.cookie++
	g.cookie = s.cookie
	s.grants[g.waiting] = g
	s.cookies[g.cookie] = g
	s.addGrantLocked(g, 0)
}

// addGrantLocked adds a grant's next attempt to its host's jobs.
func (s *Server) addGrantLocked(g *grant, later time.Duration) {
	j := &job{run: func(ctx context.Context, l *grantLine) (again time.Duration) { return s.attemptGrant(ctx, l, g) }}
	s.addJobLocked(g.machine.Machine, j)
	j.next = j.next.Add(later)
}

// attemptGrant starts to lock the bytes for a grant, unless they are locked, and otherwise calls
// GRANTED once. It returns the time until the next attempt, or 0.
func (s *Server) attemptGrant(ctx context.Context, l *grantLine, g *grant) (again time.Duration) {
	if !s.hasLock(g) {
		return s.startLocking(g)
	}
	defer s.beginAttempt(g)()
	if s.isGrantOver(g) {
		return 0
	}
	status, answered, err := s.callGranted(ctx, l, g)
	if answered {
		s.applyReply(g, status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.outcome != grantOpen {
		return 0
	}
	l.noteReplyLocked(err)
	g.attempts++
	return min(time.Second<<min(g.attempts-1, 8), maxGrantInterval)
}

// beginAttempt registers an attempt that the client's calls wait for, until end
// is called.
func (s *Server) beginAttempt(g *grant) (end func()) {
	done := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[g] = done
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.attempts, g)
		close(done)
	}
}

// maxLockingFiles bounds the files on one storage in which grants are locking bytes, one grant in
// each: the storage may hang, and so may a single file.
const maxLockingFiles = 8

// startLocking locks the bytes for a grant in another goroutine, because other grants to the host
// must not wait for the storage. It returns the time until the next attempt, or 0.
func (s *Server) startLocking(g *grant) (again time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || g.outcome != grantOpen {
		return 0
	}
	files := s.lockingFiles[g.args.Storage]
	if _, busy := files[g.args.Key]; busy || len(files) == maxLockingFiles {
		return time.Second
	}
	if files == nil {
		files = make(map[string]struct{})
		s.lockingFiles[g.args.Storage] = files
	}
	files[g.args.Key] = struct{}{}
	s.running.Go(func() { s.runLocking(g) })
	return 0
}

// runLocking locks the bytes for a grant, and adds the next attempt.
func (s *Server) runLocking(g *grant) {
	end := s.beginAttempt(g)
	status := s.lockForGrant(g)
	end()
	s.mu.Lock()
	defer s.mu.Unlock()
	files := s.lockingFiles[g.args.Storage]
	if delete(files, g.args.Key); len(files) == 0 {
		delete(s.lockingFiles, g.args.Storage)
	}
	switch {
	case s.closed || g.outcome != grantOpen:
	case status == nfs4.OK:
		s.addGrantLocked(g, 0)
	case status == nfs4.ErrDelay, status == nfs4.ErrServerFault, status == nfs4.ErrGrace:
		s.addGrantLocked(g, time.Second) // a limit is reached, or the storage fails
	default: // another owner was faster, or the owner was removed
		g.outcome = grantConfirmed
		s.forgetGrantLocked(g)
	}
}

// lockForGrant locks the bytes for a grant's owner.
func (s *Server) lockForGrant(g *grant) nfs4.Status {
	if !g.machine.Enter() {
		return nfs4.ErrBadSession
	}
	defer g.machine.Leave()
	_, status := g.machine.Lock(&g.args)
	if status != nfs4.OK {
		return status
	}
	s.mu.Lock()
	g.locked, g.lockedAt = true, time.Now()
	end := g.outcome
	s.mu.Unlock()
	s.undoLock(g, end)
	return status
}

// hasLock reports whether a grant's bytes are locked.
func (s *Server) hasLock(g *grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.locked
}

// isGrantOver reports whether a grant has ended. It ends the grant if its client was removed or
// grantTime has passed.
func (s *Server) isGrantOver(g *grant) bool {
	if g.machine.Ended() {
		s.endGrant(g, grantUnlocked)
	}
	s.mu.Lock()
	ended, expired := g.outcome != grantOpen, time.Since(g.lockedAt) >= grantTime
	s.mu.Unlock()
	if !ended && expired {
		s.log.Warn("no reply to GRANTED; the lock goes to the next waiting owner", "client", g.machine.Addr)
		s.giveUpHost(hostKey{g.machine.Addr, g.machine.Local})
	}
	return ended || expired
}

// applyReply ends a grant according to the client's reply, unless that requests
// another call.
func (s *Server) applyReply(g *grant, status nlm4.Status) {
	switch status {
	case nlm4.Granted:
		s.endGrant(g, grantConfirmed)
	case nlm4.DeniedGrace:
	default:
		s.endGrant(g, grantCancelled)
	}
}

// endGrant ends a grant, and releases the lock if necessary. It returns false if the grant has
// already ended.
func (s *Server) endGrant(g *grant, end grantOutcome) bool {
	s.mu.Lock()
	if g.outcome != grantOpen {
		s.mu.Unlock()
		return false
	}
	g.outcome = end
	s.forgetGrantLocked(g)
	held := g.locked
	s.mu.Unlock()
	if held {
		s.undoLock(g, end)
	} // otherwise lockForGrant does that
	return true
}

// undoLock releases the lock of an ended grant, unless the client has confirmed it.
func (s *Server) undoLock(g *grant, end grantOutcome) {
	switch {
	case end != grantCancelled && end != grantUnlocked || !g.machine.Enter():
		return
	case end == grantCancelled:
		g.machine.RevertLock(&g.args)
	default:
		g.machine.Unlock(&g.args)
	}
	g.machine.Leave()
}

// forgetGrantLocked removes an ended grant.
func (s *Server) forgetGrantLocked(g *grant) {
	delete(s.grants, g.waiting)
	delete(s.cookies, g.cookie)
}

// endGrants ends the grants for an owner's lock as a client's call requires, and reports whether
// any was open. A call that unlocks ends the grants for all bytes that it unlocks. endGrants
// returns when the attempts in progress are done, or after callTime: if the client requests the
// lock again, it must not mistake a call of GRANTED for the result, nor may the end of an attempt
// release the new lock.
func (s *Server) endGrants(q *request, a *nfs4state.Lock, end grantOutcome) (found bool) {
	list, attempts := s.grantsOf(q, a, func(g *grant) bool {
		b := &g.args
		return b.Range == a.Range && b.Exclusive == a.Exclusive || end == grantUnlocked && isWithin(b.Range, a.Range)
	})
	for _, g := range list {
		found = s.endGrant(g, end) || found
	}
	if end != grantConfirmed {
		q.awaitAttempts(attempts)
	}
	return found
}

// endSplitGrants ends the grants for locks that a call partly unlocks. It waits for the client's
// reply, which decides whether the rest stays locked. Without a reply, the owner's earlier locks
// are restored.
func (s *Server) endSplitGrants(q *request, a *nfs4state.Lock) {
	list, attempts := s.grantsOf(q, a, func(g *grant) bool {
		b := g.args.Range
		return g.locked && b.Start <= a.Range.End && a.Range.Start <= b.End && !isWithin(b, a.Range)
	})
	q.awaitAttempts(attempts)
	for _, g := range list {
		s.endGrant(g, grantCancelled)
	}
}

// isWithin reports whether all bytes of r are in s.
func isWithin(r, s locks.Range) bool { return s.Start <= r.Start && r.End <= s.End }

// grantsOf returns the grants of a call's lock-owner that meant selects, and the attempts in
// progress for such grants.
func (s *Server) grantsOf(q *request, a *nfs4state.Lock, meant func(*grant) bool) (list []*grant, attempts []chan struct{}) {
	is := func(g *grant) bool {
		return g.machine == q.machine && g.args.Key == a.Key && bytes.Equal(g.args.Owner, a.Owner) && meant(g)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if is(g) {
			list = append(list, g)
		}
	}
	for g, over := range s.attempts { // also for ended grants
		if is(g) {
			attempts = append(attempts, over)
		}
	}
	return list, attempts
}

// awaitAttempts waits for attempts to finish, for at most callTime.
func (q *request) awaitAttempts(attempts []chan struct{}) {
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

// handleGrantedRes handles a client's reply to GRANTED_MSG.
func (s *Server) handleGrantedRes(from netip.Addr, cookie uint64, status nlm4.Status) {
	s.mu.Lock()
	g := s.cookies[cookie]
	held := g != nil && g.locked
	s.mu.Unlock()
	if !held {
		return
	}
	if g.machine.Addr == from {
		s.applyReply(g, status)
	}
}

// callGranted calls GRANTED, or GRANTED_MSG, to which the client replies with a
// call.
func (s *Server) callGranted(ctx context.Context, l *grantLine, g *grant) (status nlm4.Status, answered bool, err error) {
	g.call.Cookie = binary.BigEndian.AppendUint64(nil, g.cookie)
	x := oncrpc.Exchange{
		Prog: nlm4.Program, Vers: g.vers, Proc: nlm4.ProcGranted, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys},
		Args: g.call.AppendTo(nil, g.vers), MaxResults: nlm4.MaxResult(nlm4.ProcGranted),
	}
	if g.viaMsg {
		x.Proc, x.MaxResults = nlm4.ProcGrantedMsg, 0
	}
	if err := l.callProc(ctx, &x); err != nil {
		return 0, false, err
	}
	defer x.Release()
	if g.viaMsg {
		return 0, false, nil
	}
	var res nlm4.Res
	res.Decode(&x.Results, g.vers)
	if err := x.Results.Done(); err != nil {
		return 0, false, err
	}
	return res.Status, true, nil
}
