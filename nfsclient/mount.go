package nfsclient

import (
	"context"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Mount makes the calls of MOUNT version 3 to one server (RFC 1813, Appendix
// I). An error that is not a MountError is an error described at oncrpc.Caller,
// or ErrReply.
type Mount struct {
	caller oncrpc.Caller
	cred   rpcmsg.Cred
	at     string
	conn   io.Closer // nil: the caller owns the connection
}

// NewMount returns a Mount that calls through caller, in the name of cred; nil
// means ProcessCred.
func NewMount(caller oncrpc.Caller, cred *rpcmsg.Cred) *Mount {
	if cred == nil {
		c := ProcessCred()
		cred = &c
	}
	return &Mount{caller: caller, cred: *cred}
}

// At returns the address at which a MountSearch found the MOUNT program.
func (m *Mount) At() string { return m.at }

// Caller returns the oncrpc.Caller that m uses. Other calls of MOUNT may use it
// too.
func (m *Mount) Caller() oncrpc.Caller { return m.caller }

// Close closes the connection that a MountSearch made for m, if any.
func (m *Mount) Close() error {
	if m.conn == nil {
		return nil
	}
	return m.conn.Close()
}

// call makes a call that takes a path, or no arguments if path is nil. The
// results are valid until x.Release.
func (m *Mount) call(ctx context.Context, proc uint32, path *string, maxResults int) (x *oncrpc.Exchange, err error) {
	x = &oncrpc.Exchange{
		Prog: mount3.Program, Vers: mount3.Version, Proc: proc,
		Cred: m.cred, MaxResults: maxResults,
	}
	if path != nil {
		if len(*path) > mount3.PathLen {
			return nil, fmt.Errorf("MOUNT: %w", syscall.ENAMETOOLONG)
		}
		x.Args = xdr.AppendString(nil, *path)
	}
	if err := m.caller.Call(ctx, x); err != nil {
		return nil, fmt.Errorf("MOUNT: %w", err)
	}
	return x, nil
}

// done ends a call whose results have been decoded.
func (m *Mount) done(x *oncrpc.Exchange) error {
	defer x.Release()
	if err := x.Results.Err(); err != nil {
		return fmt.Errorf("MOUNT: %w: %w", ErrReply, err)
	}
	return nil
}

// Null calls NULL, which does nothing, with AUTH_NONE.
func (m *Mount) Null(ctx context.Context) error {
	anyone := Mount{caller: m.caller, cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}}
	x, err := anyone.call(ctx, mount3.ProcNull, nil, 0)
	if err != nil {
		return err
	}
	return m.done(x)
}

// Mnt returns the file handle of an export, or of a directory below it (MNT).
// It fails if the export does not accept the flavour of m's credential.
func (m *Mount) Mnt(ctx context.Context, path string) (nfs3.FH, error) {
	root, flavors, err := m.MntFlavors(ctx, path)
	if err == nil && len(flavors) > 0 && !slices.Contains(flavors, m.cred.Flavor) {
		return nil, &FlavorError{Path: path, Wanted: flavors, Accepted: []uint32{m.cred.Flavor}}
	}
	return root, err
}

// MntFlavors is Mnt for a client that chooses among the export's flavours. They are in
// the server's order (RFC 2623, Section 2.7); a server may list none.
func (m *Mount) MntFlavors(ctx context.Context, path string) (root nfs3.FH, flavors []uint32, err error) {
	x, err := m.call(ctx, mount3.ProcMnt, &path, 4+4+mount3.FHSize+4+4*maxFlavors)
	if err != nil {
		return nil, nil, err
	}
	var res mount3.MntRes
	res.Decode(&x.Results)
	root = slices.Clone(res.Handle)
	if err := m.done(x); err != nil {
		return nil, nil, err
	}
	if res.Status != mount3.OK {
		return nil, nil, &MountError{Path: path, Status: res.Status}
	}
	return root, res.Flavors, nil
}

// Umnt informs the server that path is not used any more (UMNT).
func (m *Mount) Umnt(ctx context.Context, path string) error {
	x, err := m.call(ctx, mount3.ProcUmnt, &path, 0)
	if err != nil {
		return err
	}
	return m.done(x)
}

// An Export is a directory that the server exports.
type Export struct {
	Path    string
	Clients []string // allowed clients, in the server's words; none: all
}

// Exports lists the server's exports (EXPORT).
func (m *Mount) Exports(ctx context.Context) ([]Export, error) {
	x, err := m.call(ctx, mount3.ProcExport, nil, maxMountList)
	if err != nil {
		return nil, err
	}
	var res mount3.ExportRes
	res.Decode(&x.Results)
	var list []Export
	for _, e := range res.Exports {
		out := Export{Path: string(e.Path)}
		for _, g := range e.Groups {
			out.Clients = append(out.Clients, string(g))
		}
		list = append(list, out)
	}
	return list, m.done(x)
}

// A Mounted is a client that the server knows, and a path that the client has
// mounted.
type Mounted struct{ Host, Path string }

// Dump lists the mounts that the server knows (DUMP).
func (m *Mount) Dump(ctx context.Context) ([]Mounted, error) {
	x, err := m.call(ctx, mount3.ProcDump, nil, maxMountList)
	if err != nil {
		return nil, err
	}
	var res mount3.DumpRes
	res.Decode(&x.Results)
	var list []Mounted
	for _, e := range res.Mounts {
		list = append(list, Mounted{Host: string(e.Host), Path: string(e.Path)})
	}
	return list, m.done(x)
}
