package lockserver

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// How hosts are told of a restart: as Linux does.
const (
	tellFirst  = 2 * time.Second // before the second attempt; each further one comes after twice the time
	tellEvery  = 2 * time.Minute // at most
	tellTime   = 15 * time.Minute
	tellAtOnce = 64 // hosts: those that do not answer must not keep the others waiting until grace is over
)

// tell sends NOTIFY to Machines until each has answered, or for tellTime. A Machine that has not
// answered until then is told by the next server.
func (s *Server) tell(list []nfs4state.Machine) {
	end := time.Now().Add(tellTime)
	for wait := tellFirst; ; wait = min(2*wait, tellEvery) {
		list = s.tellOnce(list)
		if len(list) == 0 {
			return
		}
		if time.Now().Add(wait).After(end) {
			s.log.Warn("hosts of clients do not answer that the server has restarted; their locks are lost", "hosts", len(list))
			return
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// tellOnce sends NOTIFY to Machines once, and returns those that have not answered.
func (s *Server) tellOnce(list []nfs4state.Machine) (rest []nfs4state.Machine) {
	var group sync.WaitGroup
	var mu sync.Mutex
	places := make(chan struct{}, tellAtOnce)
	for _, m := range list {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if s.notify(m) {
				s.state.Told(m)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			rest = append(rest, m)
		})
	}
	group.Wait()
	return rest
}

// notify sends NOTIFY to a Machine's host, and reports whether it has answered. It gives the address that the Machine
// has called, and this host's name with and without its domain. The address comes first: Linux monitors a server by its
// address, and looks up any other name first, which takes long if no name server answers.
func (s *Server) notify(m nfs4state.Machine) bool {
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
