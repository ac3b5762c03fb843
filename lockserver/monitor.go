package lockserver

import (
	"context"
	"net/netip"
	"strings"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A monitor is NSM, version 1. It monitors the clients of this server, and nobody else: it knows when
// this server has restarted, and not when the host has, so it must not do the work of
// rpc.statd for the kernel's lock manager.
type monitor struct{ *Server }

// ServeRPC handles one call.
func (m monitor) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
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
		args = state(m.nsmState)
	case nsm.ProcUnmonAll:
		var a nsm.Asker
		a.Decode(&c.Args)
		args = state(m.nsmState)
	case nsm.ProcSimuCrash:
	case nsm.ProcNotify:
		var a nsm.NotifyArgs
		a.Decode(&c.Args)
		if c.Args.Done() == nil {
			m.notified(addrOf(c.Peer), string(a.Name), a.State)
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

func state(n int32) *nsm.State {
	s := nsm.State(n)
	return &s
}

// notices are the state numbers that hosts have told last: a NOTIFY is sent by several names and again
// and again, and must not free what the host has locked since.
type notices struct {
	mu   sync.Mutex
	last map[noticeKey]int32
}

type noticeKey struct {
	addr netip.Addr
	name string // up to its first dot, in lower case
}

// maxNotices bounds the notices that are remembered.
const maxNotices = 8192

// fresh reports whether a NOTIFY tells something new.
func (n *notices) fresh(key noticeKey, state int32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last, ok := n.last[key]; ok && last == state {
		return false
	}
	if len(n.last) >= maxNotices || n.last == nil {
		n.last = make(map[noticeKey]int32)
	}
	n.last[key] = state
	return true
}

// short returns the name of a host without its domain, to compare it.
func short(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return strings.ToLower(name)
}

// notified frees the locks of a host that has restarted. Its name may be another than that by which it
// locks files, with or without a domain. If only one client has the address, the address is enough.
func (s *Server) notified(from netip.Addr, name string, state int32) {
	if !s.notices.fresh(noticeKey{from, short(name)}, state) {
		return
	}
	names := s.state.MachineNames(from)
	known := false
	for _, n := range names {
		known = known || short(n) == short(name)
	}
	if !known && len(names) != 1 {
		return
	}
	s.state.EndMachines(from, func(n string) bool { return !known || short(n) == short(name) })
}
