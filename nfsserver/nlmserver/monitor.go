package nlmserver

import (
	"context"
	"net/netip"
	"strings"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A statusMonitor serves NSM version 1. It monitors only this server's clients: it knows when this server
// has restarted, but not when the host has, so it must not replace rpc.statd for the kernel's lock
// manager.
type statusMonitor struct{ *Server }

// ServeRPC handles one call.
func (m statusMonitor) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	var args interface{ AppendTo(b []byte) []byte }
	switch c.Proc {
	case nsm.ProcStat:
		var a nsm.StatArgs
		a.Decode(&c.Args)
		args = &nsm.StatRes{Failed: true, State: m.nsmState}
	case nsm.ProcMon:
		var a nsm.MonArgs
		a.Decode(&c.Args)
		args = &nsm.StatRes{Failed: true, State: m.nsmState}
	case nsm.ProcUnmon:
		var a nsm.UnmonArgs
		a.Decode(&c.Args)
		args = stateResult(m.nsmState)
	case nsm.ProcUnmonAll:
		var a nsm.Asker
		a.Decode(&c.Args)
		args = stateResult(m.nsmState)
	case nsm.ProcSimuCrash:
	case nsm.ProcNotify:
		var a nsm.NotifyArgs
		a.Decode(&c.Args)
		if c.Args.Done() == nil && !m.handleNotify(c.Peer, string(a.Name), a.State) {
			return oncrpc.ErrNoAnswer
		}
	default:
		return oncrpc.ErrProcUnavail
	}
	if err := c.Args.Done(); err != nil || args == nil {
		return err
	}
	r.Head = args.AppendTo(r.Head)
	return nil
}

func stateResult(n int32) *nsm.State {
	s := nsm.State(n)
	return &s
}

// notifyStates holds the last state numbers in hosts' NOTIFYs: a NOTIFY is repeated, with several
// names, and must not release what the host has locked since.
type notifyStates struct {
	mu   sync.Mutex
	last map[notifyKey]int32
}

type notifyKey struct {
	addr    netip.Addr
	name    string // up to its first dot, in lower case
	vouched bool   // see isPrivilegedPort: keeps users of the host apart from its superuser
}

// maxNotifyStates bounds the stored state numbers.
const maxNotifyStates = 8192

// isKnown reports whether a NOTIFY's state number is already recorded.
func (n *notifyStates) isKnown(key notifyKey, state int32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, ok := n.last[key]
	return ok && last == state
}

// addNew records a NOTIFY's state number, and reports whether it is new.
func (n *notifyStates) addNew(key notifyKey, state int32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last, ok := n.last[key]; ok && last == state {
		return false
	}
	if len(n.last) >= maxNotifyStates || n.last == nil {
		n.last = make(map[notifyKey]int32)
	}
	n.last[key] = state
	return true
}

// shortName returns a host name without its domain, in lower case for
// comparison.
func shortName(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return strings.ToLower(name)
}

// handleNotify releases the locks of a host that has restarted. Its name may have a domain or not.
// Locks that the host set with the same state number are newer than the restart, or there was no
// restart. It returns false if the host has not yet confirmed the restart: sm-notify repeats its
// NOTIFY until it gets a reply.
func (s *Server) handleNotify(p *oncrpc.Peer, name string, state int32) bool {
	key := notifyKey{addrOf(p), shortName(name), isPrivilegedPort(p)}
	match := func(n string, at int32) bool { return shortName(n) == key.name && at != state }
	free := func() {
		if s.notifyStates.addNew(key, state) {
			s.freeLocks(p, "NOTIFY", match)
		}
	}
	switch {
	case !isPacket(p):
		free()
	case !s.notifyStates.isKnown(key, state) && s.hasClient(p, match):
		s.confirmRestart(p, key, state, free)
		return false
	}
	return true // without a client, the number is not recorded: the host has not confirmed it
}

// A clientMatcher reports whether a client is selected by its name and the state number of its
// first lock (nfs4state.MachineRecord.NoteState).
type clientMatcher func(name string, state int32) bool

// freeLocks removes the clients at the address of a caller that reports their restart. If the
// host's superuser has vouched for their locks, the report must also come from a privileged
// port: otherwise any user of the host could release the locks of running programs.
func (s *Server) freeLocks(p *oncrpc.Peer, by string, match clientMatcher) {
	var freed, kept []string
	s.state.EndMachines(addrOf(p), func(name string, vouched bool, state int32) bool {
		switch {
		case !match(name, state):
			return false
		case vouched && !isPrivilegedPort(p):
			kept = append(kept, name)
			return false
		}
		freed = append(freed, name)
		return true
	})
	for _, name := range freed {
		s.log.Info("released all locks of a client, because its host reports a restart", "client", name, "peer", p, "by", by)
	}
	for _, name := range kept {
		s.log.Warn("locks of a client are not released: the call does not come from a port below 1024, as its locks do; if the host has restarted, use nfsrdmad clients --expire",
			"client", name, "peer", p, "by", by)
	}
}

// reservedPorts is the limit below which only a host's superuser may use ports.
const reservedPorts = 1024

// isPrivilegedPort reports whether a call's source port shows that its host's superuser vouches
// for it.
func isPrivilegedPort(p *oncrpc.Peer) bool { return p == nil || p.Addr.Port() < reservedPorts }
