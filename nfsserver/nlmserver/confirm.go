package nlmserver

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
)

// maxRestartQueries bounds the hosts that are queried at a time: datagrams can have any source
// address.
const maxRestartQueries = 64

// confirmRestart calls free when a host has confirmed a restart that a datagram reported: its
// source address may be forged. Only one query per host is in flight.
func (s *Server) confirmRestart(p *oncrpc.Peer, key notifyKey, state int32, free func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, asked := s.restartQueries[key]; asked || s.closed || len(s.restartQueries) >= maxRestartQueries {
		return
	}
	s.restartQueries[key] = struct{}{}
	s.running.Go(func() {
		err := s.askRestart(machineOf(p, nil), state)
		s.mu.Lock()
		delete(s.restartQueries, key)
		s.mu.Unlock()
		if err == nil {
			free()
			return
		}
		s.log.Warn("locks of a client are not released: its host does not confirm that it has restarted; if it has, use nfsrdmad clients --expire",
			"client", key.name, "peer", p, "err", err)
	})
}

// isPacket reports whether a call came as a datagram, whose source address may be forged.
func isPacket(p *oncrpc.Peer) bool { return p != nil && p.Network == "udp" }

// hasClient reports whether a host has a client that matches.
func (s *Server) hasClient(p *oncrpc.Peer, match clientMatcher) (has bool) {
	s.state.EndMachines(addrOf(p), func(name string, _ bool, state int32) bool {
		has = has || match(name, state)
		return false
	})
	return has
}

// noState is the state number for FREE_ALL, which hosts without a status monitor send.
// No monitor uses it.
const noState = -1

// errNotRestarted means that the state number of a host's status monitor differs from that
// in the NOTIFY.
var errNotRestarted = errors.New("nlmserver: the status monitor has another state number")

// askRestart requests the state number from a host's status monitor, and compares it with
// that in the NOTIFY. A host that responds but has no monitor has recently started: Linux
// sends NOTIFY earlier, and starts the monitor with the first mount.
func (s *Server) askRestart(m nfs4state.Machine, state int32) error {
	ctx, cancel := context.WithTimeout(s.ctx, callTime)
	defer cancel()
	l, err := s.dial(ctx, m, nsm.Program, nsm.Version)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, rpcbind.ErrNotRegistered) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.Close()
	args := nsm.StatArgs{Name: []byte(s.name)}
	x := oncrpc.Exchange{Prog: nsm.Program, Vers: nsm.Version, Proc: nsm.ProcStat, Args: args.AppendTo(nil), MaxResults: nsm.MaxResult(nsm.ProcStat)}
	if err := l.Call(ctx, &x); err != nil {
		return err
	}
	defer x.Release()
	var res nsm.StatRes
	res.Decode(&x.Results)
	if err := x.Results.Done(); err != nil {
		return err
	}
	if res.State != state || state == noState {
		return errNotRestarted
	}
	return nil
}
