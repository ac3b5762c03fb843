package nlmserver

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A hostKey identifies a clients' host, and the server address that they call.
type hostKey struct{ addr, local netip.Addr }

// A host has the queued calls to the lock manager on a client's host. Server.mu guards its jobs.
type host struct {
	key  hostKey
	jobs []*job
	wake chan struct{} // has a value if there may be another job
}

// A job is a call that may have to be sent several times.
type job struct {
	next time.Time

	// run sends the call, and returns the time until it must be sent again, or
	// 0.
	run func(ctx context.Context, l *grantLine) (again time.Duration)
}

const (
	// callTime is the time that a host has for one call, including the connection.
	callTime = 5 * time.Second

	// lingerTime is the time that a connection to a host is kept for another
	// call.
	lingerTime = 10 * time.Second

	// maxResultJobs bounds a host's jobs that send results, and maxHosts the hosts to which results
	// are sent: UDP source addresses can be forged. A client that gets no results repeats its call.
	maxResultJobs = 64
	maxHosts      = 256
)

// addJobLocked adds a job for a Machine's host, after those that are due. Server.mu is held.
func (s *Server) addJobLocked(m nfs4state.Machine, j *job) {
	key := hostKey{m.Addr, m.Local}
	h := s.hosts[key]
	if h == nil {
		h = &host{key: key, wake: make(chan struct{}, 1)}
		s.hosts[key] = h
		s.running.Go(func() { s.runHost(h) })
	}
	j.next = time.Now()
	h.jobs = append(h.jobs, j)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// sendResults sends the results of a _MSG procedure to its caller.
func (s *Server) sendResults(m nfs4state.Machine, vers, proc uint32, args []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[hostKey{m.Addr, m.Local}]
	if s.closed || h == nil && len(s.hosts) >= maxHosts || h != nil && len(h.jobs) >= maxResultJobs {
		return
	}
	s.addJobLocked(m, &job{run: func(ctx context.Context, l *grantLine) time.Duration {
		x := oncrpc.Exchange{Prog: nlm4.Program, Vers: vers, Proc: proc, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, Args: args}
		if l.callProc(ctx, &x) == nil {
			x.Release()
		}
		return 0
	}})
}

// runHost sends the calls to a host, until there have been none for lingerTime.
func (s *Server) runHost(h *host) {
	l := &grantLine{dial: s.dial, machine: nfs4state.Machine{Addr: h.key.addr, Local: h.key.local}}
	defer l.closeConn()
	wake := time.NewTimer(lingerTime)
	defer wake.Stop()
	idle := false
	for {
		j, wait := s.nextJob(h, idle)
		switch {
		case j != nil:
			idle = false
			s.runJob(h, l, j)
			continue
		case wait == 0:
			return
		}
		wake.Reset(wait)
		idle = false
		select {
		case <-s.ctx.Done():
			s.mu.Lock()
			delete(s.hosts, h.key)
			s.mu.Unlock()
			return
		case <-h.wake:
		case <-wake.C:
			idle = wait == lingerTime
		}
	}
}

// nextJob removes and returns the job that is due, or returns the time to wait. If there is none
// after a wait, it removes the host and returns 0.
func (s *Server) nextJob(h *host, idle bool) (j *job, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(h.jobs) == 0 {
		if idle {
			delete(s.hosts, h.key)
			return nil, 0
		}
		return nil, lingerTime
	}
	if s.closed {
		return nil, time.Millisecond // the context is about to end
	}
	first := slices.MinFunc(h.jobs, func(a, b *job) int { return a.next.Compare(b.next) })
	if wait := time.Until(first.next); wait > 0 {
		return nil, min(wait, lingerTime-1)
	}
	i := slices.Index(h.jobs, first)
	h.jobs = slices.Delete(h.jobs, i, i+1)
	return first, 0
}

// runJob runs a job once. If the host has not responded for grantTime, runJob
// gives it up.
func (s *Server) runJob(h *host, l *grantLine, j *job) {
	ctx, cancel := context.WithTimeout(s.ctx, callTime)
	defer cancel()
	again := j.run(ctx, l)
	s.mu.Lock()
	if again > 0 {
		j.next = time.Now().Add(again)
		h.jobs = append(h.jobs, j)
	}
	silent := !l.failingSince.IsZero() && time.Since(l.failingSince) >= grantTime
	if silent {
		h.jobs, l.failingSince = nil, time.Time{}
	}
	s.mu.Unlock()
	if silent {
		s.giveUpHost(h.key)
	}
}

// giveUpHost ends all grants for a host that does not respond, and removes its owners from
// the queues: each further one would delay the others as long again.
func (s *Server) giveUpHost(key hostKey) {
	s.state.StopWaitingAt(key.addr, key.local)
	var list []*grant
	s.mu.Lock()
	for _, g := range s.grants {
		if g.machine.Addr == key.addr && g.machine.Local == key.local {
			list = append(list, g)
		}
	}
	s.mu.Unlock()
	for _, g := range list {
		s.endGrant(g, grantCancelled)
	}
}

// A grantLine is the connection to a host's lock manager. Only one goroutine
// uses it.
type grantLine struct {
	dial    Dialer
	machine nfs4state.Machine
	conn    Line
	vers    uint32

	failingSince time.Time // since when calls got no reply; zero: the last one did
}

// callProc sends a call, on a new connection if the last one has failed.
func (l *grantLine) callProc(ctx context.Context, x *oncrpc.Exchange) error {
	if l.conn != nil && l.vers != x.Vers {
		l.closeConn()
	}
	fresh := l.conn == nil
	for {
		if l.conn == nil {
			open, err := l.dial(ctx, l.machine, x.Prog, x.Vers)
			if err != nil {
				return err
			}
			l.conn, l.vers = open, x.Vers
		}
		err := l.conn.Call(ctx, x)
		if err == nil || isReply(err) {
			return err
		}
		l.closeConn() // the host may have restarted, with another port for its lock manager
		if fresh {
			return err
		}
		fresh = true
	}
}

// noteReplyLocked records whether a call got a reply.
func (l *grantLine) noteReplyLocked(err error) {
	switch {
	case err == nil || isReply(err):
		l.failingSince = time.Time{}
	case l.failingSince.IsZero():
		l.failingSince = time.Now()
	}
}

func (l *grantLine) closeConn() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}
