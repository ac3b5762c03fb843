package lockserver

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A hostKey names a host of clients, and the address at which they call.
type hostKey struct{ addr, local netip.Addr }

// A host has the calls that are to be made to the lock manager of a client's host. Server.mu guards
// its jobs.
type host struct {
	key  hostKey
	jobs []*job
	more chan struct{} // has a value if there may be another job
}

// A job is a call, which may have to be made several times.
type job struct {
	next time.Time

	// do makes the call, and returns after which time to make it again, or 0.
	do func(ctx context.Context, l *line) (again time.Duration)

	// giveUp ends the job if the host does not answer for long. It may be nil.
	giveUp func()
}

const (
	// callTime is how long a host may take to answer one call, with all that leads to it.
	callTime = 5 * time.Second

	// lingerTime is how long the line to a host is kept for another call.
	lingerTime = 10 * time.Second

	// maxAnswers bounds the jobs of a host that answer calls, and maxHosts the hosts that are called for
	// the sake of answers: over UDP a caller may have any address. A client that gets no answer asks again.
	maxAnswers = 64
	maxHosts   = 256
)

// addLocked adds a job for a Machine's host, behind those that are due. Server.mu is held.
func (s *Server) addLocked(m nfs4state.Machine, j *job) {
	key := hostKey{m.Addr, m.Local}
	h := s.hosts[key]
	if h == nil {
		h = &host{key: key, more: make(chan struct{}, 1)}
		s.hosts[key] = h
		s.running.Go(func() { s.serve(h) })
	}
	j.next = time.Now()
	h.jobs = append(h.jobs, j)
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// answer sends the results of a procedure _MSG to its caller.
func (s *Server) answer(m nfs4state.Machine, vers, proc uint32, args []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[hostKey{m.Addr, m.Local}]
	if s.closed || h == nil && len(s.hosts) >= maxHosts || h != nil && len(h.jobs) >= maxAnswers {
		return
	}
	s.addLocked(m, &job{do: func(ctx context.Context, l *line) time.Duration {
		x := oncrpc.Exchange{Prog: nlm4.Program, Vers: vers, Proc: proc, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, Args: args}
		if l.call(ctx, &x) == nil {
			x.Release()
		}
		return 0
	}})
}

// serve makes the calls to a host, until none is left for a while.
func (s *Server) serve(h *host) {
	l := &line{dial: s.dial, machine: nfs4state.Machine{Addr: h.key.addr, Local: h.key.local}}
	defer l.close()
	wake := time.NewTimer(lingerTime)
	defer wake.Stop()
	idle := false
	for {
		j, wait := s.nextJob(h, idle)
		switch {
		case j != nil:
			idle = false
			s.run(h, l, j)
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
		case <-h.more:
		case <-wake.C:
			idle = wait == lingerTime
		}
	}
}

// nextJob takes the job that is due, or returns how long to wait. If there is none after a wait, the
// host is forgotten, and the time is 0.
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
		return nil, time.Millisecond // the context ends
	}
	first := slices.MinFunc(h.jobs, func(a, b *job) int { return a.next.Compare(b.next) })
	if wait := time.Until(first.next); wait > 0 {
		return nil, min(wait, lingerTime-1)
	}
	i := slices.Index(h.jobs, first)
	h.jobs = slices.Delete(h.jobs, i, i+1)
	return first, 0
}

// run does a job once. If the host has not answered for long, all jobs end.
func (s *Server) run(h *host, l *line, j *job) {
	ctx, cancel := context.WithTimeout(s.ctx, callTime)
	defer cancel()
	again := j.do(ctx, l)
	s.mu.Lock()
	if again > 0 {
		j.next = time.Now().Add(again)
		h.jobs = append(h.jobs, j)
	}
	var gone []*job
	if !l.failing.IsZero() && time.Since(l.failing) >= grantTime {
		gone, h.jobs, l.failing = h.jobs, nil, time.Time{}
	}
	s.mu.Unlock()
	for _, j := range gone {
		if j.giveUp != nil {
			j.giveUp()
		}
	}
}

// A line is the way to the lock manager of a host. One goroutine uses it.
type line struct {
	dial    Dialer
	machine nfs4state.Machine
	open    Line
	vers    uint32

	failing time.Time // since when no call has been answered; zero: the last one was
}

// call makes a call, on a new connection if the last one has failed.
func (l *line) call(ctx context.Context, x *oncrpc.Exchange) error {
	if l.open != nil && l.vers != x.Vers {
		l.close()
	}
	fresh := l.open == nil
	for {
		if l.open == nil {
			open, err := l.dial(ctx, l.machine, x.Prog, x.Vers)
			if err != nil {
				return err
			}
			l.open, l.vers = open, x.Vers
		}
		err := l.open.Call(ctx, x)
		if err == nil || isReply(err) {
			return err
		}
		l.close() // the host may have restarted, and its lock manager have another port
		if fresh {
			return err
		}
		fresh = true
	}
}

// noteLocked notes whether a call was answered.
func (l *line) noteLocked(err error) {
	switch {
	case err == nil || isReply(err):
		l.failing = time.Time{}
	case l.failing.IsZero():
		l.failing = time.Now()
	}
}

func (l *line) close() {
	if l.open != nil {
		l.open.Close()
		l.open = nil
	}
}
