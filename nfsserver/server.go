package nfsserver

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Server serves the NFS, NFSACL and MOUNT programs for the exports in a Set.
type Server struct {
	exports  *exportset.Set
	mounts   mountList
	requests sync.Pool // contains *request
}

// Config configures a Server: the exports, and what they share.
type Config = exportset.Config

// An Export is a file system that clients can mount.
type Export = exportset.Export

// New returns a Server with its own export set. An error names the invalid export.
func New(c Config) (*Server, error) {
	r, err := exportset.New(c)
	if err != nil {
		return nil, err
	}
	return NewForSet(r), nil
}

// NewForSet returns a Server for the exports in r, which programs of other versions may serve
// too.
func NewForSet(r *exportset.Set) *Server { return &Server{exports: r} }

// Exports returns the current exports (exportset.Set.Exports).
func (s *Server) Exports() []Export { return s.exports.Exports() }

// Register registers NFSv3, NFSACL version 3 and MOUNT version 3 with m. If the export set has
// grants, it also registers the delegation counter program, for the clients that use it. m
// rejects other versions and programs.
func (s *Server) Register(m *oncrpc.Mux) {
	m.Register(nfs3.Program, nfs3.Version, nfsProgram{s})
	m.Register(nfsacl.Program, nfsacl.Version, aclProgram{s})
	m.Register(mount3.Program, mount3.Version, mountProgram{s})
	if grants := s.exports.Grants(); grants != nil {
		m.Register(delegation.Program, delegation.Version, acquireProgram{s})
		m.Restrict(delegation.Program, grants.Serves)
	}
}
