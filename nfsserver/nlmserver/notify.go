package nlmserver

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// Times for notifying hosts of a restart, as Linux does.
const (
	notifyRetryWait = 2 * time.Second // before the second attempt; doubles with each further one
	maxNotifyWait   = 2 * time.Minute // between attempts
	notifyTime      = 15 * time.Minute
	maxNotifying    = 64 // hosts at a time: those that do not respond must not delay the others beyond the grace period
)

// notifyAll sends NOTIFY to Machines until each has answered, or for notifyTime. A Machine that has not
// answered until then is told by the next server.
func (s *Server) notifyAll(list []nfs4state.Machine) {
	end := time.Now().Add(notifyTime)
	for wait := notifyRetryWait; ; wait = min(2*wait, maxNotifyWait) {
		list = s.notifyEachOnce(list)
		if len(list) == 0 {
			return
		}
		if time.Now().Add(wait).After(end) {
			s.log.Warn("no reply to SM_NOTIFY: locks of these hosts are lost", "hosts", len(list))
			return
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// notifyEachOnce sends NOTIFY to each Machine once, and returns those that have not
// replied.
func (s *Server) notifyEachOnce(list []nfs4state.Machine) (rest []nfs4state.Machine) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	places := make(chan struct{}, maxNotifying)
	for _, m := range list {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if s.sendNotify(m) {
				s.state.MarkNotified(m)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			rest = append(rest, m)
		})
	}
	wg.Wait()
	return rest
}

// sendNotify sends NOTIFY to a Machine's host, and reports whether it has replied. It sends the
// address that the Machine has called, and this host's name with and without its domain. The
// address comes first: Linux monitors a server by its address, and resolves any other name first,
// which takes long if no name server responds.
func (s *Server) sendNotify(m nfs4state.Machine) bool {
	ctx, cancel := context.WithTimeout(s.ctx, callTime)
	defer cancel()
	l, err := s.dial(ctx, m, nsm.Program, nsm.Version)
	if err != nil {
		return false
	}
	defer l.Close()
	host, _, _ := strings.Cut(s.name, ".")
	names := slices.Compact([]string{s.name, host})
	if m.Local.IsValid() {
		names = slices.Insert(names, 0, m.Local.Unmap().WithZone("").String())
	}
	for _, name := range names {
		a := nsm.NotifyArgs{Name: []byte(name), State: s.nsmState}
		x := oncrpc.Exchange{Prog: nsm.Program, Vers: nsm.Version, Proc: nsm.ProcNotify, Args: a.AppendTo(nil)}
		if l.Call(ctx, &x) != nil {
			return false
		}
		x.Release()
	}
	return true
}
