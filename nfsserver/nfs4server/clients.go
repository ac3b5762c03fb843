package nfs4server

import (
	"net/netip"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A ClientInfo is a snapshot of a client, with the addresses of the connections to which its
// sessions are bound, without duplicates.
type ClientInfo struct {
	nfs4state.ClientInfo
	Addrs []netip.AddrPort
}

// Counts returns the number of records that clients hold.
func (s *Server) Counts() nfs4state.Counts { return s.state.Counts() }

// Grace returns the clients from before a restart that may still reclaim their state.
func (s *Server) Grace() nfs4state.Grace { return s.state.Grace() }

// EndGrace ends the grace period: clients that have not reclaimed their state lose it. It
// returns false if that cannot be stored.
func (s *Server) EndGrace() bool { return s.state.EndGrace() }

// Expire removes a client with all its state; see nfs4state.State.Expire.
func (s *Server) Expire(id uint64) nfs4.Status { return s.state.Expire(id) }

// CountClients returns the number of all clients, in constant time.
func (s *Server) CountClients() int { return s.state.CountClients() }

// Clients returns the oldest clients, at most limit, and the number of all clients.
func (s *Server) Clients(limit int) (list []ClientInfo, all int) {
	infos, all := s.state.Clients(limit)
	for _, i := range infos {
		list = append(list, newClientInfo(i))
	}
	return list, all
}

// Client returns a client, or false if there is none with that ID.
func (s *Server) Client(id uint64) (ClientInfo, bool) {
	i, ok := s.state.Client(id)
	return newClientInfo(i), ok
}

func newClientInfo(i nfs4state.ClientInfo) ClientInfo {
	c := ClientInfo{ClientInfo: i}
	if i.Addr.IsValid() {
		c.Addrs = append(c.Addrs, i.Addr)
	}
	for _, session := range i.Sessions {
		for _, conn := range session.Conns {
			if p, ok := conn.(*oncrpc.Peer); ok && p != nil {
				c.Addrs = append(c.Addrs, p.Addr)
			}
		}
	}
	slices.SortFunc(c.Addrs, netip.AddrPort.Compare)
	c.Addrs = slices.Compact(c.Addrs)
	return c
}
