package nfsserver

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Server is the NFS and MOUNT programs over a set of exports.
type Server struct {
	exports []*export // in the order of Config
	byID    map[uint32]*export
	seal    *sealer
	payload int // most octets of one READ or WRITE
	log     *slog.Logger

	mounts   mountList
	requests sync.Pool // of *request
}

// New returns a Server of what c says. The error names the export that is
// wrong.
func New(c Config) (*Server, error) {
	payload, err := c.payload()
	if err != nil {
		return nil, err
	}
	s := &Server{byID: make(map[uint32]*export), seal: newSealer(c.Key), payload: payload, log: c.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i := range c.Exports {
		if err := s.add(&c.Exports[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) add(c *Export) error {
	if err := c.check(); err != nil {
		return err
	}
	e := newExport(c)
	for _, other := range s.exports {
		if other.path == e.path {
			return fmt.Errorf("nfsserver: %q is exported twice", e.path)
		}
		if other.id == e.id {
			return fmt.Errorf("nfsserver: exports %q and %q have the same ID %#x: set another", other.path, e.path, e.id)
		}
	}
	s.exports = append(s.exports, e)
	s.byID[e.id] = e
	return nil
}

// Register registers NFS version 3 and MOUNT version 3 with m. Versions and
// programs beside these, NFSACL among them, are left to m to refuse.
func (s *Server) Register(m *oncrpc.Mux) {
	m.Register(nfs3.Program, nfs3.Version, nfsProgram{s})
	m.Register(mount3.Program, mount3.Version, mountProgram{s})
}
