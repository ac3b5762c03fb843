package nfsserver

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
)

// A Server is the NFS, NFSACL and MOUNT programs over the exports of a realm.
type Server struct {
	realm    *realm.Realm
	mounts   mountList
	requests sync.Pool // of *request
}

// Config configures a Server: the exports, and their common parts.
type Config = realm.Config

// An Export is a file system that clients can mount.
type Export = realm.Export

// New returns a Server with a realm of its own. An error names the invalid
// export.
func New(c Config) (*Server, error) {
	r, err := realm.New(c)
	if err != nil {
		return nil, err
	}
	return Over(r), nil
}

// Over returns a Server for the exports of r, which programs of other versions
// may serve too.
func Over(r *realm.Realm) *Server { return &Server{realm: r} }

// SetExports replaces the exports of the realm (realm.Realm.SetExports).
func (s *Server) SetExports(list []Export) error { return s.realm.SetExports(list) }

// Exports returns the current exports of the realm (realm.Realm.Exports).
func (s *Server) Exports() []Export { return s.realm.Exports() }

// Register registers NFS version 3, NFSACL version 3 and MOUNT version 3 with
// m. If the realm has grants, it also registers the program of delegation
// counters, for the clients that use it. m refuses other versions and programs.
func (s *Server) Register(m *oncrpc.Mux) {
	m.Register(nfs3.Program, nfs3.Version, nfsProgram{s})
	m.Register(nfsacl.Program, nfsacl.Version, aclProgram{s})
	m.Register(mount3.Program, mount3.Version, mountProgram{s})
	if grants := s.realm.Grants(); grants != nil {
		m.Register(delegation.Program, delegation.Version, acquireProgram{s})
		m.Restrict(delegation.Program, grants.Serves)
	}
}
