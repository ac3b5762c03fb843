package nfsserver

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/delegation"
	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Server is the NFS, NFSACL and MOUNT programs over a set of exports.
type Server struct {
	set      atomic.Pointer[exportSet]
	setting  sync.Mutex // held while set is replaced
	names    exports.Names
	groups   func(context.Context, netip.Addr, uint32) ([]uint32, error) // may be nil
	seal     *sealer
	payload  int // greatest number of bytes of one READ or WRITE
	log      *slog.Logger
	grants   *delegserver.Keeper // may be nil
	changing nameLocks
	permits  permits

	mounts   mountList
	requests sync.Pool // of *request
}

// New returns a Server with the configuration c. An error names the invalid
// export.
func New(c Config) (*Server, error) {
	payload, err := c.payload()
	if err != nil {
		return nil, err
	}
	s := &Server{
		seal: newSealer(c.Key), names: c.Names, groups: c.Groups, payload: payload, log: lograte.Logger(c.Log), grants: c.Grants,
	}
	s.changing.init()
	s.permits.init()
	set, err := newExportSet(c.Exports, nil)
	if err != nil {
		return nil, err
	}
	for _, e := range set.list {
		e.setReleased(e.config.Released)
	}
	s.set.Store(set)
	return s, nil
}

// Register registers NFS version 3, NFSACL version 3 and MOUNT version 3 with
// m. With Config.Grants it also registers the program of delegation counters,
// for the clients that use it. m refuses other versions and programs.
func (s *Server) Register(m *oncrpc.Mux) {
	m.Register(nfs3.Program, nfs3.Version, nfsProgram{s})
	m.Register(nfsacl.Program, nfsacl.Version, aclProgram{s})
	m.Register(mount3.Program, mount3.Version, mountProgram{s})
	if s.grants != nil {
		m.Register(delegation.Program, delegation.Version, acquireProgram{s})
		m.Restrict(delegation.Program, s.grants.Serves)
	}
}
